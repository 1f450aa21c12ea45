//! `turnkey attach --detach`: it returns when the group is watched, or nothing is.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use turnkey_tests::{binary, eventually, finish, scratch};

use super::{Others, OthersGroup};

/// The output of the one in the foreground, when it has returned and nobody holds its pipes any more.
fn detached(group: &str, report: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(["attach", "--detach", "--cgroup", group]);
    command.args(options).arg("--report").arg(report);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    finish(child.expect("turnkey can be started"))
}

#[test]
fn who_detaches_returns_when_the_group_is_watched_and_says_so_unless_it_is_to_be_quiet() {
    for options in [&["--quiet"][..], &["--quiet", "--required"], &[]] {
        let (group, directory) = (OthersGroup::new(), scratch());
        let report = directory.path().join("report.json");
        let mut others = Others::start(&group.path);
        let Output { status, stderr, .. } = detached(&group.name, &report, options);
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(said.is_empty(), !options.is_empty(), "{said}");
        assert_eq!(
            said.starts_with("turnkey: watching "),
            options.is_empty(),
            "{said}"
        );
        assert_eq!(others.ask("read /etc/shadow"), "", "it is watched by then");
        assert_eq!(others.end(), Some(libc::SIGKILL));
        eventually("the watcher has told the end", || {
            std::fs::read_to_string(&report).is_ok_and(|text| text.contains("killed_by_policy"))
        });
    }
}

#[test]
fn who_detaches_and_fails_says_why_and_answers_with_the_status() {
    let directory = scratch();
    let report = directory.path().join("report.json");
    let Output { status, stderr, .. } = detached("/there-is-no-such", &report, &["--quiet"]);
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(125), "{said}");
    assert!(said.contains("there is no group"), "{said}");
}

#[test]
fn who_detaches_is_told_that_standard_output_stays_behind() {
    let (group, directory) = (OthersGroup::new(), scratch());
    let report = directory.path().join("report.json");
    let report = report.to_str().expect("a name");
    for outputs in [
        &["--report", "-"][..],
        &["--report", report, "--events", "-"],
    ] {
        let mut command = Command::new(binary());
        command.args(["attach", "--detach", "--cgroup", &group.name]);
        command.args(outputs);
        let refused = command.output().expect("turnkey can be run");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(125), "{said}");
        assert!(said.contains("name a file"), "{said}");
    }
}

/// The process of a watcher that is in the background, as `turnkey top` has it.
fn listed(group: &str) -> Option<u64> {
    let top = Command::new(binary()).args(["top", "--json"]).output();
    let page = top.expect("turnkey can be run").stdout;
    let page: serde_json::Value = serde_json::from_slice(&page).expect("a page is JSON");
    let mut runs = page["runs"].as_array()?.iter();
    runs.find(|run| run["group"] == group)?["pid"].as_u64()
}

#[test]
fn one_in_the_background_is_found_by_its_process_and_ended_by_a_signal() {
    let (group, directory) = (OthersGroup::new(), scratch());
    let report = directory.path().join("report.json");
    let mut others = Others::start(&group.path);
    let Output { stderr, .. } = detached(&group.name, &report, &["--required"]);
    let said = String::from_utf8_lossy(&stderr);
    let (_, said) = said.split_once("; kill ").expect("it says how it is ended");
    let pid = said.trim_end().strip_suffix(" lets it go");
    let pid: u64 = pid.and_then(|pid| pid.parse().ok()).expect("a process");
    let mut seen = None;
    eventually("it answers those who look", || {
        seen = listed(&group.name);
        seen.is_some()
    });
    assert_eq!(seen, Some(pid));

    let sent = Command::new("kill").arg(pid.to_string()).status();
    assert!(sent.expect("kill can be run").success());
    eventually("its report is that of the end", || {
        std::fs::read_to_string(&report).is_ok_and(|text| text.contains("\"status\": \"detached\""))
    });
    assert_ne!(others.ask("read /etc/shadow"), "", "no rule is left");
    assert_eq!(others.end(), None);
    assert_eq!(listed(&group.name), None);
}
