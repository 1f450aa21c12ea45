//! The same as `agreement.rs` in the machines that `cargo xtask vm` makes, where BPF LSM is asked first.

use std::path::PathBuf;
use std::time::Duration;

use turnkey_differential::campaign::{Summary, confirmed};
use turnkey_differential::jail::Bench;
use turnkey_differential::mounts;

/// Runs programs from a number on, for a time of the machine's own clock.
fn assert_agrees(from: u64, time: Duration) {
    mounts::see_traces().expect("a test runs as root");
    let turnkey = std::env::var_os("TURNKEY_BIN").map(PathBuf::from);
    let bench = Bench::new(&turnkey.expect("the machine says where turnkey is"));
    let bench = bench.expect("the observers can be made");
    let mut summary = Summary::default();
    let generated = summary.generate(&bench, from, time, 4);
    generated.expect("programs can be run");
    let mut count = 0;
    for finding in &summary.found {
        eprintln!("{} {:?}: {}", finding.name, finding.way, finding.what);
        count += usize::from(confirmed(&bench, finding).expect("programs can be run"));
    }
    let told = summary.to_string();
    told.lines().for_each(|line| eprintln!("told: {line}"));
    assert!(summary.programs >= 4, "{summary}");
    assert_eq!(count, 0, "{summary}");
}

mod by_day {
    use super::*;

    #[test]
    fn what_is_told_is_what_others_saw() {
        assert_agrees(1, Duration::from_secs(10));
    }
}

/// As long as a test of such a machine may take, several times.
mod long {
    use super::*;

    const TIME: Duration = Duration::from_secs(150);

    #[test]
    fn first() {
        assert_agrees(100_000, TIME);
    }

    #[test]
    fn second() {
        assert_agrees(200_000, TIME);
    }

    #[test]
    fn third() {
        assert_agrees(300_000, TIME);
    }

    #[test]
    fn fourth() {
        assert_agrees(400_000, TIME);
    }
}
