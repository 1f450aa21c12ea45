//! A terminal for the program, on descriptors that an embedder has. Needs what jails need: root.

#![allow(clippy::disallowed_methods, reason = "a test opens its own files")]

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use turnkey_expectations::expected;
use turnkey_supervisor::{
    RunObserver, RunRequest, SettledPolicy, Strictness, Terminal, enter, run,
};

expected!(as_root, "make jails of root's with a terminal");

struct Quiet;
impl RunObserver for Quiet {}

#[test]
fn it_is_typed_into_and_shows_on_any_descriptors() {
    let entered = enter();
    let (input, mut keys) = std::io::pipe().unwrap();
    let (mut screen, output) = std::io::pipe().unwrap();
    let no_files = |path: &str| Err(format!("{path}: only shipped profiles here"));
    let policy = turnkey_policy::load("untrusted", &no_files, &Default::default()).unwrap();
    let script = "stty -echo; tty; read line; echo got $line >&2";
    let mut request = RunRequest::new(["sh", "-c", script].map(Into::into).to_vec());
    request.terminal = Some(Terminal {
        input: OwnedFd::from(input),
        output: OwnedFd::from(output),
        job: None,
    });
    // Whoever settles it looks at the workspace.
    let workdir = tempfile::tempdir().unwrap();
    request.directory.workdir = Some(workdir.path().to_owned());
    let directory = request.directory.clone();
    let settled = SettledPolicy::new(
        policy,
        &request.command,
        &directory,
        Strictness::Unmonitored,
    );
    let settled = settled.unwrap();
    keys.write_all(b"something\n").unwrap();
    let done = run(request, settled, entered, &mut Quiet).unwrap();
    assert_eq!(done.report.exit_code(), 0, "{:?}", done.report.error);
    assert!(done.report.terminal);
    let mut shown = String::new();
    screen.read_to_string(&mut shown).unwrap();
    assert!(
        shown.ends_with("/dev/pts/0\r\ngot something\r\n"),
        "{shown:?}"
    );
    // Nothing of the run reads on.
    keys.write_all(b"more\n").unwrap_err();
}
