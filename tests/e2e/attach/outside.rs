//! What is done to a watched group from outside of it: processes that are moved away, and kills.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use turnkey_tests::{binary, finish};

use super::{Attached, Others, OthersGroup};

fn send(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.expect("kill can be run").success());
}

/// The reason of turnkey's own finding of this name.
fn own_finding<'r>(report: &'r Value, name: &str) -> Option<&'r str> {
    let findings = report["findings"].as_array().expect("a list");
    let mut named = findings
        .iter()
        .filter(|finding| finding["id"] == format!("turnkey:{name}"));
    named.next()?["reason"].as_str()
}

/// When a process that was moved away ends, and when the watch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The group is empty as soon as it has left.
    Left,
    /// It ends, and the group is let go with another process in it.
    EndedBefore,
    /// It outlives the watch of a group in which another process is.
    Outlives,
    /// It does not leave at all.
    Stays,
}

/// Has a process act in a group, leave it for another one by a hand from outside, and act there. Another one ends in the group: where
/// no end is told of at all, the evidence is not whole anyway.
fn left(order: Order) -> (Value, String) {
    let (group, elsewhere) = (OthersGroup::new(), OthersGroup::new());
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let mut others = Others::start(&group.path);
    assert_eq!(Others::start(&group.path).end(), None);
    let is_let_go = matches!(order, Order::EndedBefore | Order::Outlives);
    let stays = is_let_go.then(|| Others::start(&group.path));
    if order != Order::Stays {
        let pid = others.child.id().to_string();
        std::fs::write(elsewhere.path.join("cgroup.procs"), pid).expect("root moves processes");
        assert_ne!(others.ask("read /etc/shadow"), "", "no rule is asked");
    }
    let outlives = (order == Order::Outlives).then_some(&mut others);
    if outlives.is_none() {
        assert_eq!(others.end(), None);
        if is_let_go {
            attached.let_go();
        }
        let (code, report, said) = attached.end();
        assert_eq!(code, 0, "{order:?}: {said}");
        drop(stays);
        return (report, said);
    }
    attached.let_go();
    let (_, report, said) = attached.end();
    assert_eq!(others.end(), None);
    (report, said)
}

#[test]
fn a_process_that_leaves_the_group_leaves_no_report_complete() {
    for order in [Order::Left, Order::EndedBefore, Order::Outlives] {
        let (report, said) = left(order);
        let seen = format!("{order:?}: {}: {said}", report["attached"]);
        assert_eq!(report["attached"]["left"], 1, "{seen}");
        assert_eq!(report["events"]["lost"], serde_json::json!({}), "{seen}");
        assert_eq!(report["events"]["complete"], false, "{seen}");
        assert_eq!(report["verdict"], "inconclusive", "{seen}");
        assert!(said.contains("1 process left the group"), "{seen}");
    }
    let (report, said) = left(Order::Stays);
    assert_eq!(report["attached"]["left"], Value::Null, "{said}");
    assert_eq!(report["verdict"], "clean", "{said}");
}

/// A way in which a group is ended from outside.
#[derive(Clone, Copy, Debug)]
enum End {
    /// `cgroup.kill`
    Group,
    /// kill(2)
    Process,
    /// The guard of another watcher, which was killed.
    Guard,
}

#[test]
fn a_kill_from_outside_of_the_group_leaves_no_report_clean() {
    for end in [End::Group, End::Process, End::Guard] {
        let group = OthersGroup::new();
        let target = ["--cgroup", &*group.name];
        let attached = Attached::to(&target, &[]);
        let mut others = Others::start(&group.path);
        assert_ne!(others.ask("read /etc/hostname"), "");
        let pid = others.child.id();
        let sender = match end {
            End::Group => {
                std::fs::write(group.path.join("cgroup.kill"), "1").expect("root kills");
                std::process::id()
            }
            End::Process => {
                nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid.cast_signed()),
                    nix::sys::signal::SIGKILL,
                )
                .expect("root kills");
                std::process::id()
            }
            End::Guard => {
                let mut other = Attached::to(&target, &["--required"]);
                other.child.kill().expect("it is a child");
                other.child.wait().expect("it is a child");
                0
            }
        };
        // The pipe is closed by its end.
        assert_eq!(others.line(), "", "{end:?}");
        assert_eq!(others.end(), Some(libc::SIGKILL), "{end:?}");
        let (code, report, said) = attached.end();
        assert_eq!((code, &report["status"]), (0, &"ended".into()), "{said}");
        assert_eq!(report["verdict"], "inconclusive", "{end:?}: {said}");
        let reason = own_finding(&report, "outside").expect("it is told");
        let named = format!("ended by SIGKILL, which process {sender} of the host");
        assert!(sender == 0 || reason.contains(&named), "{end:?}: {reason}");
        assert!(reason.contains("from outside of the group"), "{reason}");
    }
}

/// Services and containers are ended so every day.
#[test]
fn another_signal_from_outside_of_the_group_is_no_finding() {
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let mut others = Others::start(&group.path);
    assert_ne!(others.ask("read /etc/hostname"), "");
    send("-TERM", others.child.id());
    assert_eq!(others.line(), "");
    assert_eq!(others.end(), Some(libc::SIGTERM));
    let (_, report, said) = attached.end();
    assert_eq!(own_finding(&report, "outside"), None, "{said}");
    assert_eq!(report["verdict"], "clean", "{said}");
}

#[test]
fn a_report_that_cannot_be_written_hides_no_kill_of_a_group() {
    let group = OthersGroup::new();
    let mut command = Command::new(binary());
    command.args(["attach", "--cgroup", &group.name, "--report", "/dev/full"]);
    let mut watcher = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(watcher.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a pipe can be read");
    assert!(line.starts_with("turnkey: watching "), "{line}");
    let mut others = Others::start(&group.below("below"));
    assert_eq!(others.ask("read /etc/shadow"), "", "it died of it");
    let rest = std::io::read_to_string(said).expect("a pipe can be read");
    let code = finish(watcher).status.code();
    assert_eq!(code, Some(121), "{rest}");
    assert!(rest.contains("could not write the report"), "{rest}");
    assert!(rest.contains("fix: name a file instead"), "{rest}");
    others.end();
}
