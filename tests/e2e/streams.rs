//! What a jail can do to the streams that its caller shares with others.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, Flock, FlockArg, OFlag, fcntl};
use nix::libc;
use turnkey_expectations::expected;
use turnkey_tests::{NOBODY, Run, finish};

expected!(
    not_on[ORDINARY_6_12],
    "standard input is handed over by the command, before the jail begins"
);

/// Everything that a descriptor of it can set on an open file description, or on the file behind it.
const CHANGES: &str = r"
import fcntl, os
def attempt(act):
    try: act(); return 1
    except OSError: return 0
done = [attempt(act) for act in [
    lambda: fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND | fcntl.FASYNC),
    lambda: fcntl.fcntl(0, 10, 12),        # F_SETSIG
    lambda: fcntl.fcntl(0, 1024, 0),       # F_SETLEASE
    lambda: fcntl.fcntl(0, 1031, 4096),    # F_SETPIPE_SZ
    lambda: fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB),
    lambda: os.lseek(0, 0, 0),
    lambda: os.write(os.open('/proc/self/fd/0', os.O_WRONLY | os.O_NONBLOCK), b'planted'),
]]
os._exit(sum(done[:2]))";

/// What is left behind on a description.
#[derive(Debug, PartialEq, Eq)]
struct State {
    flags: i32,
    pipe_size: Option<i32>,
    offset: Option<u64>,
    is_locked: bool,
}

fn state(stream: &File) -> State {
    let again = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", stream.as_raw_fd()));
    let lock = |file| Flock::lock(file, FlockArg::LockExclusiveNonblock);
    State {
        flags: fcntl(stream, FcntlArg::F_GETFL).expect("a stream can be made and asked"),
        pipe_size: fcntl(stream, FcntlArg::F_GETPIPE_SZ).ok(),
        offset: (&mut &*stream).stream_position().ok(),
        // A socket has no second description.
        is_locked: again.is_ok_and(|file| lock(file).is_err()),
    }
}

/// F_GETSIG, by the language that the attack is written in: without it the test would be unsafe.
fn signal_of(stream: &File) -> String {
    let mut asked = Command::new("python3");
    asked.args(["-c", "import fcntl; print(fcntl.fcntl(0, 11))"]);
    let asked = asked
        .stdin(stream.try_clone().expect("a stream can be made and asked"))
        .output()
        .expect("a stream can be made and asked");
    String::from_utf8(asked.stdout).expect("a stream can be made and asked")
}

/// Something to be a standard input, with whoever keeps it open.
fn kinds() -> Vec<(&'static str, File, Option<OwnedFd>)> {
    let mut file = tempfile::NamedTempFile::new().expect("a stream can be made and asked");
    file.write_all(b"one\ntwo\nthree\n")
        .expect("a stream can be made and asked");
    nix::unistd::chown(file.path(), Some(NOBODY.into()), None)
        .expect("a stream can be made and asked");
    let mut regular = File::open(file.path()).expect("a stream can be made and asked");
    regular
        .seek(SeekFrom::Start(4))
        .expect("a stream can be made and asked");
    let mut both = OpenOptions::new();
    let both = both.read(true).write(true);
    let (reading, writing) =
        nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a stream can be made and asked");
    let (socket, peer) =
        std::os::unix::net::UnixStream::pair().expect("a stream can be made and asked");
    let pty = nix::pty::openpty(None, None).expect("a stream can be made and asked");
    vec![
        ("file", regular, None),
        (
            "file to write",
            both.open(file.path())
                .expect("a stream can be made and asked"),
            None,
        ),
        ("pipe", reading.into(), Some(writing)),
        (
            "null",
            File::open("/dev/null").expect("a stream can be made and asked"),
            None,
        ),
        (
            "null to write",
            both.open("/dev/null")
                .expect("a stream can be made and asked"),
            None,
        ),
        ("socket", OwnedFd::from(socket).into(), Some(peer.into())),
        ("terminal", pty.slave.into(), Some(pty.master)),
    ]
}

/// Fourteen runs of Python, and what it is asked for: about four seconds.
#[test]
fn j69_the_callers_input_comes_back_as_it_was() {
    for rootless in [false, true] {
        for (kind, stream, _other) in kinds() {
            let before = state(&stream);
            let run = if rootless {
                Run::rootless()
            } else {
                Run::new().option("--unmonitored")
            };
            let run = run.option("--quiet");
            let mut command = run.command(&["python3", "-c", CHANGES]);
            let output = finish(command.stdin(stream.try_clone().unwrap()).spawn().unwrap());
            assert_eq!(output.status.code(), Some(2), "{kind}: it did what it can");
            let mut after = state(&stream);
            if kind.starts_with("null") {
                // The null device is everybody's: another jail may lock it at any moment, and none keeps it so.
                turnkey_tests::eventually("nobody has locked it", || !state(&stream).is_locked);
                after.is_locked = before.is_locked;
            }
            if kind == "file to write" {
                // What is passed on has been read, by turnkey.
                assert_eq!(after.offset, Some(14));
                after.offset = before.offset;
            }
            assert_eq!(after, before, "{kind}, rootless {rootless}");
            assert_eq!(signal_of(&stream), "0\n", "{kind}, rootless {rootless}");
        }
    }
}

/// As slow as Python is to start, fourteen times.
#[test]
fn j69_the_control_without_a_jail_all_of_it_stays() {
    for (kind, stream, _other) in kinds() {
        let before = state(&stream);
        let mut command = Command::new("python3");
        let command = command.args(["-c", CHANGES]);
        let status = command.stdin(stream.try_clone().unwrap()).status().unwrap();
        assert_eq!(status.code(), Some(2));
        let after = state(&stream);
        assert_ne!(after.flags, before.flags, "{kind}");
        assert_eq!(signal_of(&stream), "12\n", "{kind}");
        assert_eq!(after.pipe_size == before.pipe_size, kind != "pipe");
        assert!(after.is_locked || kind == "socket", "{kind}: {after:?}");
        assert!(kind != "file" || after.offset == Some(0));
    }
}

#[test]
fn j69_nobody_writes_into_the_callers_pipe() {
    for rootless in [false, true] {
        let (reading, writing) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
        // As if the caller without privileges had made it.
        nix::unistd::fchown(&reading, rootless.then_some(NOBODY.into()), None).unwrap();
        let run = if rootless {
            Run::rootless()
        } else {
            Run::new().option("--unmonitored")
        };
        let mut command = run.command(&["python3", "-c", CHANGES]);
        let child = command.stdin(reading.try_clone().unwrap()).spawn().unwrap();
        assert_eq!(finish(child).status.code(), Some(2));
        drop((writing, command));
        let mut left = String::new();
        File::from(reading).read_to_string(&mut left).unwrap();
        assert_eq!(left, "", "rootless {rootless}");
    }
}

#[test]
fn a_shell_reads_on_where_its_command_stopped() {
    let run = Run::new()
        .option("--unmonitored --quiet")
        .file("lines", "1\n2\n3\n4\n");
    let head = run.command(&["/usr/bin/head", "-n", "1"]);
    let none = run.command(&["/bin/echo", "ran"]);
    let script = "exec < lines; read first; \"$@\"; read third; echo $first $third; cat";
    for (command, expected) in [(head, "2\n1 3\n4\n"), (none, "ran\n1 2\n3\n4\n")] {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "sh"]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(run.path());
        let output = finish(shell.stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

#[test]
fn a_pipe_feeds_one_run_after_the_other() {
    let run = Run::new().option("--unmonitored --quiet");
    let command = run.command(&["/bin/echo", "got"]);
    let mut shell = Command::new("/bin/sh");
    let script = "printf '1\\n2\\n3\\n' | while read line; do \"$@\" $line; done";
    shell.args(["-c", script, "sh"]).arg(command.get_program());
    shell.args(command.get_args()).current_dir(run.path());
    let output = finish(shell.stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "got 1\ngot 2\ngot 3\n"
    );
}

/// Runs a shell line in which `T` is turnkey with these arguments behind it.
fn line(run: &Run, line: &str, command: &[&str]) -> std::process::Output {
    let command = run.command(command);
    let mut shell = Command::new("/bin/sh");
    let line = line.replace('T', "\"$@\"");
    shell.args(["-c", &line, "sh"]).arg(command.get_program());
    shell.args(command.get_args()).current_dir(run.path());
    let child = shell.stdout(Stdio::piped()).spawn();
    finish(child.expect("a shell can be started"))
}

/// `yes | head` ends without turnkey, too: by SIGPIPE.
#[test]
fn a_program_learns_that_nobody_reads_on() {
    let run = Run::new().option("--unmonitored --quiet --wall 20s");
    let status = "{ T; echo $? >&2; } 2>status | head -n 1; cat status";
    let jailed = line(&run, status, &["/usr/bin/yes"]);
    assert_eq!(String::from_utf8_lossy(&jailed.stdout), "y\n141\n");
    // A slow one as well, which would end by the clock.
    let slow = "while :; do echo x || exit 3; sleep 0.05; done";
    let jailed = line(&run, status, &["/bin/sh", "-c", slow]);
    assert_eq!(String::from_utf8_lossy(&jailed.stdout), "x\n141\n");
}

#[test]
fn output_that_finds_no_room_is_a_failure() {
    let run = Run::new().option("--unmonitored --quiet");
    let full = line(&run, "T > /dev/full; echo $?", &["/bin/echo", "x"]);
    assert_eq!(String::from_utf8_lossy(&full.stdout), "125\n");
    let whole = line(&run, "T > /dev/null; echo $?", &["/bin/echo", "x"]);
    assert_eq!(String::from_utf8_lossy(&whole.stdout), "0\n", "the control");
}

/// The caller's end does not wait, and is read late.
#[test]
fn output_waits_for_a_reader_whose_pipe_does_not() {
    let script = "import os, subprocess, sys, time
read, write = os.pipe()
os.set_blocking(write, False)
child = subprocess.Popen(sys.argv[1:], stdout=write, stdin=subprocess.DEVNULL)
os.close(write)
time.sleep(0.3)
got = 0
while piece := os.read(read, 1 << 20): got += len(piece)
print(got, child.wait())";
    let run = Run::new().option("--unmonitored --quiet --output 20M");
    let command = run.command(&["/usr/bin/head", "-c", "3000000", "/dev/zero"]);
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(command.get_program());
    python.args(command.get_args()).current_dir(run.path());
    let output = finish(python.stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3000000 0\n");
}
