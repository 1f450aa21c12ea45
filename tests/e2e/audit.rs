//! `turnkey audit`: what it says of a sandbox is what the outside sees.

use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{binary, finish, network_of_its_own, scratch};

/// Probes that go to a bait, with an effect or a secret that nobody can mistake.
const BAITS: [&str; 17] = [
    "abstract-socket",
    "datagrams",
    "descriptor",
    "environment",
    "private-file",
    "home",
    "host-loopback",
    "left-behind",
    "reads-environment",
    "sees-processes",
    "shared-memory",
    "signals",
    "socket-file",
    "temporary-files",
    "writes-here",
    "writes-to-home",
    "writes-to-tmp",
];

struct Audit {
    code: i32,
    page: Value,
    text: String,
    said: String,
}

/// Audits from an empty directory, with an empty home and an empty folder for temporary files. All are empty again afterwards.
fn audit(arguments: &[&str]) -> Audit {
    let here = scratch();
    let mut command = Command::new(binary());
    command
        .arg("audit")
        .args(arguments)
        .current_dir(here.path());
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ended = finish(child.expect("the command is there"));
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let left: Vec<_> = std::fs::read_dir(here.path())
        .expect("it is there")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    Audit {
        code: ended.status.code().unwrap_or(-1),
        page: serde_json::from_str(&text).unwrap_or_default(),
        text,
        said: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

fn outcome<'a>(sandbox: &'a Value, probe: &str) -> &'a str {
    sandbox["findings"][probe]["outcome"]
        .as_str()
        .unwrap_or("absent")
}

/// `turnkey run` as a sandbox that ends nothing: the walls alone hold.
fn walls() -> String {
    let program = binary();
    let program = program.display();
    format!("{program} run --quiet --mode observe --read {program} --")
}

#[test]
fn what_is_open_outside_is_held_by_the_walls_of_a_jail() {
    network_of_its_own();
    let audit = audit(&["--json", "--here", "--in", &walls()]);
    assert_eq!(audit.code, 0, "{}{}", audit.text, audit.said);
    let [outside, inside] = [0, 1].map(|at| &audit.page["sandboxes"][at]);
    for probe in BAITS {
        assert_eq!(
            outcome(outside, probe),
            "open",
            "the control: {probe}: {outside:#}"
        );
        assert_eq!(outcome(inside, probe), "stopped", "{probe}: {inside:#}");
    }
    for probe in [
        "root",
        "capabilities",
        "mount",
        "device",
        "memory",
        "processes",
    ] {
        assert_eq!(
            outcome(outside, probe),
            "open",
            "the control: {probe}: {outside:#}"
        );
        assert_eq!(outcome(inside, probe), "stopped", "{probe}: {inside:#}");
    }
    // A jail runs programs: an audit that finds everything held has not looked.
    assert_eq!(outcome(inside, "shell"), "open", "{inside:#}");
    assert_eq!(inside["runs"], 1);
}

#[test]
fn an_audit_leaves_neither_shared_memory_nor_a_process_behind() {
    network_of_its_own();
    let none: Option<&str> = None;
    mount(
        Some("tmpfs"),
        "/dev/shm",
        Some("tmpfs"),
        MsFlags::empty(),
        none,
    )
    .expect("a test has mounts of its own");
    audit(&["--json"]);
    assert_eq!(
        std::fs::read_dir("/dev/shm").expect("it is there").count(),
        0
    );
    let (_, processes) = turnkey_tests::outside("ps", &["-eo", "ppid,args"]);
    let own = format!("{} ", std::process::id());
    let left = processes
        .lines()
        .filter(|line| line.trim_start().starts_with(&own));
    let left: Vec<_> = left.filter(|line| line.contains("turnkey-audit")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A sandbox that ends the run at the probe of this name, whatever it is.
fn ends_at(probe: &str) -> String {
    format!(
        "fed() {{ \"$@\" | while read -r line; do echo \"$line\"; \
         case $line in *begun*\\\"{probe}\\\"*) echo it was not allowed >&2; break;; esac; done; }}; fed"
    )
}

#[test]
fn a_probe_that_ends_the_run_is_told_and_the_rest_is_tried_again() {
    network_of_its_own();
    let audit = audit(&["--json", "--in", &ends_at("shell")]);
    let sandbox = &audit.page["sandboxes"][0];
    assert_eq!(sandbox["runs"], 2, "{sandbox:#}");
    assert_eq!(outcome(sandbox, "shell"), "ended");
    let fact = sandbox["findings"]["shell"]["fact"].as_str();
    assert!(
        fact.is_some_and(|fact| fact.starts_with("the run was ended")),
        "{fact:?}"
    );
    // What comes after it, and what came before.
    assert_eq!(outcome(sandbox, "written-program"), "open", "{sandbox:#}");
    assert_eq!(outcome(sandbox, "temporary-files"), "open", "{sandbox:#}");
}

#[test]
fn a_sandbox_that_does_not_run_the_probe_is_no_good_one() {
    network_of_its_own();
    let none = audit(&["--in", "echo 'no such \x1b]0;thing\x07' >&2; false"]);
    assert_eq!(none.code, 125, "{}", none.text);
    assert!(none.text.contains("not measured: no such"), "{}", none.text);
    assert!(!none.text.contains('\x1b'), "{:?}", none.text);
    assert!(!none.text.contains("held"), "{}", none.text);

    let one = audit(&["--json", "--here", "--in", "false"]);
    assert_eq!(one.code, 1);
    let failed = &one.page["sandboxes"][1]["failed"];
    assert!(
        failed
            .as_str()
            .is_some_and(|failed| failed.contains("did not run")),
        "{failed}"
    );
}

#[test]
fn the_place_of_the_probe_can_be_named() {
    network_of_its_own();
    let placed = audit(&["--json", "--in", "env -i A=1 {probe}"]);
    let sandbox = &placed.page["sandboxes"][0];
    assert_eq!(outcome(sandbox, "environment"), "stopped", "{sandbox:#}");
    assert_eq!(outcome(sandbox, "descriptor"), "open", "{sandbox:#}");
}

expected!(
    a_shipped_profile_holds_every_bait: at_night,
    "a run for each probe that a rule ends; `what_is_open_outside_is_held` has the walls by day"
);
#[test]
fn a_shipped_profile_holds_every_bait() {
    network_of_its_own();
    let audit = audit(&["--json", "--profile", "untrusted", "--profile", "sealed"]);
    for sandbox in audit.page["sandboxes"].as_array().expect("a list") {
        for probe in BAITS {
            let found = outcome(sandbox, probe);
            assert!(
                ["stopped", "ended"].contains(&found),
                "{probe}: {sandbox:#}"
            );
        }
        assert!(
            sandbox["runs"].as_u64().is_some_and(|runs| runs > 3),
            "{sandbox:#}"
        );
    }
}
