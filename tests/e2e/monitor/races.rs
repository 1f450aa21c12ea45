//! Arguments that change between the look at them and their use.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Run, compile, in_the_guest, measured, open_to_all, scratch};

use super::{Attack, events, guard, rule, times};

const RACE: &str = include_str!("../../attacks/race.c");
const WAIT: &str = include_str!("../../attacks/wait.c");

fn racing(sections: &str) -> Run {
    let run = Run::new().compiled("race", RACE);
    let run = run.file("file-a", "a").file("file-b", "b");
    run.profile(sections)
        .option("--cpu 200% --wall 60s --cpu-time 60s")
}

/// How often rows say that the argument was another name than that of the file.
fn mismatched(violations: &[Value]) -> u64 {
    let told = violations
        .iter()
        .filter(|one| one["raw"]["text"].is_string());
    told.filter_map(|one| one["count"].as_u64()).sum()
}

/// What the arguments alone would tell is wrong many times; what is told is what was opened.
#[test]
fn m01_j62_a_hundred_thousand_raced_opens_are_told_exactly() {
    let rounds = if in_the_guest() { 2_000 } else { 100_000 };
    let log = rule("both", "open", "log", "path = \"/workspace/file-?\"");
    let ran = racing(&log).run(&["./race", &rounds.to_string(), "/workspace/file-a", "b"]);
    ran.expect_code(0);
    ran.expect(ran.at("/events/complete") == true, "nothing is lost");
    let counts = ran
        .stdout
        .split_whitespace()
        .map(|count| count.parse().ok());
    let counts: Vec<Option<u64>> = counts.collect();
    let told = ["a", "b"].map(|name| times(&ran, &format!("/workspace/file-{name}"), "allowed"));
    ran.expect(
        counts == [Some(told[0]), Some(told[1]), Some(0)],
        "each under its name",
    );
    ran.expect(told[0] + told[1] == rounds, "and no other");
    let lies = mismatched(ran.violations());
    measured(&format!(
        "raced opens: {told:?}, argument wrong {lies} times"
    ));
    // One CPU has no races.
    ran.expect(
        in_the_guest() || lies > 0,
        "the control: the arguments tell another story",
    );
}

#[test]
fn m01_the_first_raced_open_of_a_secret_kills() {
    let sections = guard("/workspace/file-b");
    let attack = Attack {
        jail: &|| racing(&sections),
        program: &["./race", "until", "/workspace/file-a", "b"],
        mark: "won",
        rule: "guard",
        // A kill that the argument alone decided may land on an open of the other file.
        paths: &["/workspace/file-b", "/workspace/file-a"],
    };
    attack.is_survived();
}

#[test]
fn m02_m03_an_address_rewritten_while_connect_waits_is_told_as_it_was_used() {
    let run = Run::new().compiled("wait", WAIT).with_events();
    let ran = run.option("--network loopback").run(&["./wait", "connect"]);
    ran.expect_code(0);
    let mut words = ran
        .stdout
        .split([' ', ',', '\n'])
        .filter(|word| !word.is_empty());
    let port = words.nth(3).unwrap_or_default().to_owned();
    ran.expect(ran.stdout.starts_with("0 connected"), "it came through");
    ran.expect(
        ran.stdout.ends_with("says 9\n"),
        "the control: the argument says otherwise",
    );
    let told: Vec<&Value> = events(&ran, "connect")
        .map(|event| &event["address"])
        .collect();
    let used = format!("127.0.0.1:{port}");
    ran.expect(told.len() == 2, "two connects");
    ran.expect(
        told.iter().all(|address| **address == used),
        "to where they went",
    );
    let waited = ran.at("/usage/wall_seconds").as_f64().unwrap_or_default();
    ran.expect(waited > 0.3, "the control: the call waited");
}

#[test]
fn m02_a_path_rewritten_while_open_waits_is_judged_as_it_was_used() {
    let prepare = "mkfifo secret && ln -s secret link && : > harmless";
    let open = "exec ./wait open /workspace/link /workspace/harmless";
    let script = format!("{prepare} && {open}");
    let sections = rule(
        "guard",
        "open",
        "kill",
        "path = \"/workspace/secret\"\naccess = \"read\"",
    );
    let attack = Attack {
        jail: &|| Run::new().compiled("wait", WAIT).profile(&sections),
        program: &["/bin/sh", "-c", &script],
        mark: "opened 1",
        rule: "guard",
        paths: &["/workspace/secret"],
    };
    let control = attack.works_and_is_told();
    let rewritten = control.stdout == "opened 1, says /workspace/harmless\n";
    control.expect(rewritten, "the control: the argument says otherwise");
    attack.is_killed();
}

#[test]
fn m02_a_file_that_is_closed_before_it_is_looked_at_is_told_as_unknown() {
    /// The two threads of a run may never have had a CPU each, on a busy machine.
    const RUNS: usize = 10;
    for run in 1..=RUNS {
        let ran = Run::new()
            .file("harmless", "")
            .compiled("gone", include_str!("../../attacks/gone.c"))
            .option("--cpu 200% --mode observe")
            .run(&["./gone", "30000"]);
        ran.expect_code(0);
        let rows = ran.list("/violations").iter();
        let rows: Vec<_> = rows.filter(|row| row["on"] == "open").collect();
        let unknown = rows.iter().all(|row| row["file_unknown"] == true);
        ran.expect(unknown, "and nobody is told that it was a secret");
        if !rows.is_empty() {
            return;
        }
        ran.expect(run < RUNS, "the control: some were closed");
    }
}

/// Jails in which a sibling sends on what another process opens against a rule: SECURITY.md says how often something comes
/// out where there are tracepoints alone. Each jail dies.
fn siblings(runs: usize) {
    let place = scratch();
    let path = |name: &str| place.path().join(name);
    open_to_all(place.path());
    fs::set_permissions(place.path(), Permissions::from_mode(0o777))
        .expect("a test owns its directory");
    fs::write(path(".netrc"), "HIDDEN\n").expect("a test owns its directory");
    let place = place.path().display().to_string();
    let program = format!("{place}/siblings");
    compile(
        Path::new(&program),
        include_str!("../../attacks/siblings.c"),
    );
    for way in ["send", "map", "splice", "copy"] {
        let mut out = 0;
        for _ in 0..runs {
            fs::write(path("copy"), [0; 4096]).expect("a test owns its directory");
            fs::set_permissions(path("copy"), Permissions::from_mode(0o666))
                .expect("a test owns its directory");
            let run = Run::new().option(&format!("--write {place}"));
            let ran = run.run(&[&program, &place, way]);
            ran.expect_code(121);
            let copied = fs::read(path("copy")).expect("a test owns its directory");
            out += usize::from(ran.stdout.contains("HIDDEN") || copied.starts_with(b"HIDDEN"));
        }
        measured(&format!(
            "{way}: {runs} jails died, {out} gave something away"
        ));
    }
}

#[test]
fn a_jail_dies_whatever_a_sibling_takes_meanwhile() {
    siblings(2);
}

expected!(
    ten_thousand_siblings_take_no_jail_from_its_kill: at_night,
    "runs for an hour; `a_jail_dies_whatever_a_sibling_takes_meanwhile` has eight of them"
);

#[test]
fn ten_thousand_siblings_take_no_jail_from_its_kill() {
    siblings(2500);
}
