//! Execs: the command's own start is free, every later one is matched.

use std::os::unix::fs::PermissionsExt;

use turnkey_facts::Kind;
use turnkey_policy::RuleAction;

use super::harness::{policy, python, rule, run};

type Exec = (Vec<u8>, Option<Vec<u8>>, Vec<Vec<u8>>);

fn execs(kind: &Kind) -> Option<Exec> {
    match kind {
        Kind::Exec {
            file, raw, argv, ..
        } => Some((file.path.clone(), raw.clone(), argv.clone())),
        _ => None,
    }
}

fn attempts(kind: &Kind) -> Option<(Vec<u8>, i32)> {
    match kind {
        Kind::ExecAttempt { raw, errno } => Some((raw.bytes.clone(), *errno)),
        _ => None,
    }
}

fn real(path: &str) -> Vec<u8> {
    let path = std::fs::canonicalize(path).expect("the program is there");
    path.to_str().expect("text").as_bytes().to_vec()
}

#[test]
fn the_command_itself_may_start_under_no_exec() {
    let policy = policy(&rule("no-exec", "exec", "kill", ""));
    let seen = run(&policy, &["/bin/echo", "hello", "world"]);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "hello world\n");
    let (file, raw, argv) = seen
        .kinds(execs)
        .pop()
        .unwrap_or_else(|| panic!("{}", seen.tell()));
    assert_eq!(file, real("/bin/echo"));
    assert_eq!(raw, (file != b"/bin/echo").then(|| b"/bin/echo".to_vec()));
    assert_eq!(
        argv,
        [b"/bin/echo".to_vec(), b"hello".to_vec(), b"world".to_vec()]
    );
    assert_eq!(seen.decisions(), []);
}

#[test]
fn a_second_exec_kills_under_no_exec() {
    let policy = policy(&rule("no-exec", "exec", "kill", ""));
    let seen = run(
        &policy,
        &["/bin/sh", "-c", "/bin/echo survived; echo survived"],
    );
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, RuleAction::Kill)]);
    assert_eq!(seen.kinds(attempts), [(b"/bin/echo".to_vec(), 0)]);
}

#[test]
fn a_symlink_to_a_forbidden_program_is_the_program() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let link = directory.path().join("innocent");
    let echo = String::from_utf8(real("/bin/echo")).expect("text");
    std::os::unix::fs::symlink(&echo, &link).expect("a symlink can be made");
    let policy = policy(&rule("echo", "exec", "kill", &format!("path = [{echo:?}]")));
    let command = format!("{} survived; echo survived", link.display());
    let seen = run(&policy, &["/bin/sh", "-c", &command]);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn a_script_is_told_with_its_interpreter_and_its_name() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let script = directory
        .path()
        .canonicalize()
        .expect("a path")
        .join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("the script can be written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let script = script.to_str().expect("text");
    let seen = run(&policy(""), &[script, "argument"]);
    seen.assert_lived();
    let (file, raw, argv) = seen.kinds(execs).pop().expect("it was started");
    assert_eq!(file, real("/bin/sh"));
    assert_eq!(raw, Some(script.as_bytes().to_vec()));
    assert_eq!(
        argv,
        [
            b"/bin/sh".to_vec(),
            script.as_bytes().to_vec(),
            b"argument".to_vec()
        ]
    );
}

#[test]
fn a_forbidden_script_kills_by_its_own_name() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let top = directory.path().canonicalize().expect("a path");
    let script = top.join("script");
    std::fs::write(&script, "#!/bin/sh\necho survived\n").expect("the script can be written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let policy = policy(&rule(
        "s",
        "exec",
        "kill",
        &format!("path = [\"{}/*\"]", top.display()),
    ));
    let command = format!("cd {}; ./script; echo survived", top.display());
    let seen = run(&policy, &["/bin/sh", "-c", &command]);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn a_failed_exec_is_told_with_its_errno() {
    let seen = run(&policy(""), &["/bin/sh", "-c", "/no/such/program; exit 0"]);
    seen.assert_lived();
    assert_eq!(
        seen.kinds(attempts),
        [(b"/no/such/program".to_vec(), 2)],
        "{}",
        seen.tell()
    );
}

#[test]
fn a_forbidden_exec_that_would_fail_is_an_attempt() {
    let policy = policy(&rule("n", "exec", "kill", "path = [\"/no/such/*\"]"));
    run(&policy, &["/bin/sh", "-c", "/no/such/program; exit 0"]).assert_killed();
}

#[test]
fn a_memory_file_cannot_be_run_where_it_is_forbidden() {
    let policy = policy(&rule("memory", "exec", "kill", "path = [\"memfd:*\"]"));
    let program = "import os\nfd = os.memfd_create('payload', 0)\nos.write(fd, open('/bin/echo', 'rb').read())\nos.execve(fd, ['echo', 'survived'], {})";
    let seen = python(&policy, program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.kinds(attempts), [(b"memfd:payload".to_vec(), 0)]);
    // By its name under /proc, which only the kernel's own file gives away.
    let by_name = program.replace("os.execve(fd,", "os.execve(f'/proc/self/fd/{fd}',");
    let seen = python(&policy, &by_name);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
}

#[test]
fn long_arguments_are_cut_and_say_so() {
    let long = "x".repeat(20_000);
    let seen = run(&policy(""), &["/bin/true", &long]);
    seen.assert_lived();
    let cut = seen.kinds(|kind| match kind {
        Kind::Exec {
            argv_truncated,
            argv,
            ..
        } => Some((*argv_truncated, argv.len())),
        _ => None,
    });
    assert_eq!(cut, [(true, 2)]);
}
