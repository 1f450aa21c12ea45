//! The program's terminal, as a runner without turnkey's supervisor has it. Needs what jails need: root, or delegated groups.

#![allow(clippy::disallowed_methods, reason = "a test opens its own files")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use turnkey_expectations::expected;
use turnkey_jailer::{Host, JailCommand, JailNews, Plan, StandardStreams};
use turnkey_policy::Overrides;

expected!(as_root, "make jails of root's with a terminal");

/// The output of a script on its terminal.
fn shown(script: &str) -> String {
    let no_files = |path: &str| Err(format!("{path}: no files"));
    let flags = Overrides::from_flags([("workdir-mode", "none")]).expect("a flag");
    let policy = turnkey_policy::load("untrusted", &no_files, &flags).expect("a shipped profile");
    let command = JailCommand {
        arguments: ["sh", "-c", script].map(Into::into).to_vec(),
        environment: Vec::new(),
        workdir: "/tmp".into(),
        ..JailCommand::default()
    };
    let host = Host::probe(&policy).expect("groups");
    let plan = Plan::new(&policy, &host, command).expect("a plan");
    let prepared = plan.prepare(StandardStreams::Terminal);
    let mut held = prepared
        .and_then(turnkey_jailer::Prepared::spawn)
        .expect("a jail");
    let outer = held.take_terminal().expect("it was asked for");
    let mut running = held.release().expect("it runs");
    while running.news().expect("it speaks the protocol") != JailNews::Gone {}
    read(outer)
}

/// Reads until no process has the other end.
fn read(outer: OwnedFd) -> String {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    // EIO is the end, pty(7).
    while let Ok(length @ 1..) =
        File::from(outer.try_clone().expect("a descriptor")).read(&mut piece)
    {
        bytes.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

#[test]
fn it_has_a_name_inside_controls_the_session_and_is_on_all_streams() {
    let script = "tty; tty <&1; tty <&2; tty </dev/tty; ls -1 /dev/pts; cut -d' ' -f1,5,6,8 /proc/$$/stat; ls -1 /proc/$$/fd";
    let expected = "/dev/pts/0\n/dev/pts/0\n/dev/pts/0\n/dev/tty\n0\nptmx\n2 2 2 ";
    let shown = shown(script);
    let rest = shown.strip_prefix(expected);
    // The group in the foreground is the shell's own, and it has no descriptor but the streams.
    let is_leader = rest.is_some_and(|rest| rest.starts_with("2\n0\n1\n2\n"));
    assert!(is_leader, "{shown}");
}
