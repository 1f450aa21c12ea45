//! What a caller without privileges meets where something stands in the way: a message with the
//! fix, and nothing made.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use turnkey_tests::{NOBODY, Run};

/// The same run by nobody, in a mount namespace that `script` prepares as root.
fn prepared(run: &Run, script: &str, program: &[&str]) -> Output {
    let inside = run.command(program);
    let script =
        format!(r#"{script} && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" "$@""#);
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path())
        .output();
    output.expect("unshare is part of every system")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_covered_proc_is_told_with_the_fix() {
    let run = Run::rootless();
    let output = prepared(&run, "mount --bind /dev/null /proc/version", &["true"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(
        said(&output).contains("systempaths=unconfined"),
        "{}",
        said(&output)
    );
    // The control: the same way in, with nothing covered.
    let run = Run::rootless();
    let output = prepared(&run, "true", &["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_mount_below_the_workspace_is_told_with_the_fix() {
    let run = Run::rootless();
    std::fs::create_dir(run.path().join("below")).unwrap();
    let output = prepared(&run, "mount -t tmpfs none below", &["true"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(
        said(&output).contains("--workdir-mode read-only"),
        "{}",
        said(&output)
    );
    let run = Run::rootless().option("--workdir-mode read-only");
    std::fs::create_dir(run.path().join("below")).unwrap();
    let script = "mount -t tmpfs none below && echo x > below/file";
    let program = ["/bin/sh", "-c", "cat below/file; echo y > below/file"];
    let output = prepared(&run, script, &program);
    assert_eq!(output.stdout, b"x\n", "the fix helps: {}", said(&output));
    assert!(
        said(&output).contains("Read-only file system"),
        "{}",
        said(&output)
    );
}

/// In a user namespace of nobody's own, in which so many others may be made.
fn where_namespaces_may_be(most: &str, run: &Run, inside: &Command) -> Output {
    let script = r#"
echo $1 > /proc/sys/user/max_user_namespaces && shift &&
exec setpriv --ambient-caps -all --inh-caps -all "$@""#;
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-current-user", "--keep-caps"])
        .args(["sh", "-c", script, "sh", most])
        .arg(inside.get_program())
        .args(inside.get_args())
        .current_dir(run.path());
    let output = command.uid(NOBODY).gid(NOBODY).output();
    output.expect("unshare is part of every system")
}

/// `explain` shows what a run would do, and a run would not start.
#[test]
fn a_plan_that_is_not_the_callers_is_said_to_be_another_ones() {
    let run = Run::rootless();
    let explain = |most: &str| {
        let mut inside = Command::new(run.command(&["true"]).get_program());
        inside.args(["explain", "--unmonitored", "--", "true"]);
        where_namespaces_may_be(most, &run, &inside)
    };
    let output = explain("100");
    assert_eq!(output.status.code(), Some(0), "control: {}", said(&output));
    let of_its_own = "turnkey: nobody watches such a run: its rules are not asked\n";
    assert_eq!(said(&output), of_its_own, "the control: no other's");
    let output = explain("0");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("a run by this caller would not start"),
        "{told}"
    );
    assert!(
        told.contains("sysctl -w user.max_user_namespaces"),
        "with the fix: {told}"
    );
}

#[test]
fn j60_a_caller_who_may_have_no_namespace_is_told_the_switch() {
    let start = |most: &str| {
        let run = Run::rootless();
        let inside = run.command(&["true"]);
        where_namespaces_may_be(most, &run, &inside)
    };
    let output = start("100");
    assert_eq!(output.status.code(), Some(0), "control: {}", said(&output));
    let output = start("0");
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    let told = said(&output);
    assert!(told.contains("user.max_user_namespaces is 0"), "{told}");
    assert!(
        told.contains("sysctl -w user.max_user_namespaces"),
        "{told}"
    );
}
