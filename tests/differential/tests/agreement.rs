//! A short campaign with each change; `cargo xtask fuzz differential` has longer ones.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use turnkey_differential::campaign::{Summary, confirmed};
use turnkey_differential::jail::Bench;
use turnkey_differential::mounts;
use turnkey_expectations::expected;

expected!(
    as_root,
    "run the command, and see the calls of other processes"
);

/// So long run the programs of the same numbers each time, and so long those of numbers that no run had before.
const TIME: Duration = Duration::from_secs(4);

fn bench() -> Bench {
    mounts::see_traces().expect("a test runs as root");
    let turnkey = std::env::var_os("TURNKEY_BIN").map(PathBuf::from);
    let turnkey = turnkey.expect("`cargo xtask test` says where turnkey is");
    Bench::new(&turnkey).expect("the observers can be made")
}

fn assert_agrees(bench: &Bench, summary: &Summary) {
    let mut count = 0;
    for finding in &summary.found {
        count += usize::from(confirmed(bench, finding).expect("programs can be run"));
        eprintln!("{} {:?}: {}", finding.name, finding.way, finding.what);
        eprintln!(
            "{}",
            serde_json::to_string(&finding.program).expect("a program has a text")
        );
    }
    assert_eq!(count, 0, "{summary}");
}

/// Ten seconds, because each program is a jail of its own.
#[test]
fn what_is_told_of_generated_programs_is_what_others_saw() {
    let (bench, mut summary) = (bench(), Summary::default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let fresh = now.expect("it is later than 1970").as_secs() * 1000;
    for from in [1, fresh] {
        let generated = summary.generate(&bench, from, TIME, 1);
        generated.expect("programs can be run");
    }
    assert!(summary.programs >= 4, "{summary}");
    assert_agrees(&bench, &summary);
}

#[test]
fn what_did_not_agree_once_does() {
    let (bench, mut summary) = (bench(), Summary::default());
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    summary.replay(&bench, &seeds).expect("programs can be run");
    assert!(summary.programs >= 4, "{summary}");
    assert_agrees(&bench, &summary);
}
