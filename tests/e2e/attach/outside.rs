//! What is done to a watched group from outside of it: kills and other signals.

use std::process::Command;

use serde_json::Value;

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
