//! Exports of runs that a service makes: its caller's process writes them, and nothing is read that its caller could not read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turnkey_tests::{
    Ran, Run, SERVED, Service, binary_for_everybody, eventually, hand_over, scratch,
};

use super::{ATTACK, as_served, talks};
use crate::outputs::without_the_directory;

/// A directory of the caller's.
fn own() -> tempfile::TempDir {
    let place = scratch();
    hand_over(place.path(), SERVED);
    place
}

/// Runs a command by root's own turnkey, in a directory whose files another user may have.
fn by_root(place: &Path, options: &[&str]) {
    let mut command = Command::new(turnkey_tests::binary());
    command.current_dir(place).arg("run").args(options);
    let status = command.args(["--", "true"]).status();
    assert!(status.expect("turnkey can be started").code().is_some());
}

fn skipped(ran: &Ran) -> String {
    ran.at("/export/skipped").to_string()
}

#[test]
fn what_its_caller_cannot_read_is_not_exported() {
    let service = Service::start("");
    let out = own();
    let option = format!("--quiet --export {}/out", out.path().display());
    let run = Run::new().option(&option).served_at(&service.directory());
    let run = run.file("own", "own").file("hidden/file", "secret");
    let place = run.path().to_owned();
    // Makes the files the caller's, which those of root are afterwards.
    let mut command = run.command(&["true"]);
    for (name, mode) in [("secret", 0o600), ("hidden", 0o700)] {
        let path = place.join(name);
        if name == "secret" {
            fs::write(&path, "secret").unwrap();
        }
        std::os::unix::fs::lchown(&path, Some(0), Some(0)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let control = scratch();
    let copy = control.path().join("out");
    by_root(&place, &["--quiet", "--export", &copy.to_string_lossy()]);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    assert_eq!(read(&copy.join("secret")), "secret", "the control: root's");
    assert_eq!(read(&copy.join("hidden/file")), "secret", "the control");
    let started = Instant::now();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ran = run.end(child.unwrap(), started);
    ran.expect_code(125);
    let exported = out.path().join("out");
    ran.expect(read(&exported.join("own")) == "own", "its own file");
    for name in ["secret", "hidden/file"] {
        ran.expect(!exported.join(name).exists(), name);
    }
    for name in ["secret", "hidden"] {
        let told = format!("{{\"path\":\"{name}\",\"reason\":\"could not be read: ");
        ran.expect(skipped(&ran).contains(&told), name);
    }
}

#[test]
fn an_export_is_written_by_its_caller_s_process_and_rights() {
    let service = Service::start("");
    let export = |place: &Path| {
        let option = format!("--quiet --export {}/out", place.display());
        let run = Run::new().option(&option).served_at(&service.directory());
        run.shell("echo x > file; chmod 6755 file")
    };
    let (own, foreign) = (own(), scratch());
    export(own.path()).expect_code(0);
    let file = fs::metadata(own.path().join("out/file")).unwrap();
    assert_eq!((file.uid(), file.gid()), (SERVED, SERVED));
    assert_eq!(file.mode() & 0o7000, 0, "without the bits");
    // Root's directory, which all may enter.
    fs::set_permissions(foreign.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let refused = export(foreign.path());
    refused.expect_code(125);
    assert!(!foreign.path().join("out").exists());
    let copy = foreign.path().join("out").display().to_string();
    by_root(own.path(), &["--quiet", "--export", &copy]);
    assert!(foreign.path().join("out").exists(), "the control: root can");
}

#[test]
fn what_is_turned_meanwhile_leads_an_export_nowhere() {
    let service = Service::start("");
    let (place, victim) = (own(), scratch());
    fs::set_permissions(victim.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let out = place.path().join("out");
    let option = format!("--quiet --export {}", out.display());
    let run = Run::new().option(&option).served_at(&service.directory());
    let program = "echo runs; read go; echo x > file";
    let mut command = run.command(&["sh", "-c", program]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    symlink(victim.path(), &out).unwrap();
    drop(child.stdin.take());
    let ran = run.end(child, Instant::now());
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("symlink"), "the reason");
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
    // The control: root, who follows it, could write there.
    fs::write(out.join("file"), "x").unwrap();
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 1);
}

/// Asks for an export over a connection of its own, to which the other side is `answers`.
fn asks(answers: &str) -> String {
    format!(
        "
own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line = connect()
came = [*usual(), its.fileno()]
words = order('run', '--service', '--no-tty', '--quiet', '--export', 'out', '--', 'sh', '-c', 'echo x > file')
send(line, packet(1, words, came), came)
its.close(); own.settimeout(20)
print('asked', flush=True)
{answers}"
    )
}

/// Has a service answer on its `line`, until that ends, and print the users that it heard.
const ANSWERS: &str = "
line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1); line.settimeout(10)
heard = set()
while True:
    try: data, beside, _, _ = line.recvmsg(9999, 999)
    except ConnectionResetError: break
    if not data: break
    heard |= {struct.unpack('3i', one[2])[1] for one in beside}
    line.send(b'\\x01')
print(sorted(heard))";

/// Somebody else's service, in Python.
struct OtherService(Child);

impl OtherService {
    /// Starts one that gets its line as `accepts` says, and waits until it listens at the path.
    fn start(accepts: &str, at: &Path) -> OtherService {
        let mut other = Command::new("python3");
        other.args(["-c", &format!("{accepts}{ANSWERS}")]).arg(at);
        let other = other
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is here");
        eventually("it listens", || at.exists());
        OtherService(other)
    }

    /// The output of one that has lost its line.
    fn heard(mut self) -> String {
        let mut told = String::new();
        let heard = self.0.stdout.as_mut().expect("a pipe");
        std::io::Read::read_to_string(heard, &mut told).expect("it prints text");
        self.0.wait().expect("it ends");
        told
    }
}

/// Somebody else's service that goes by who sends: it prints whom it hears.
const GOES_BY_WHO_SENDS: &str = "import socket, struct, sys
place = sys.argv[1]
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind(place); server.listen()
server.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
import os; os.chmod(place, 0o777)
print('there', flush=True)
line, _ = server.accept()";

#[test]
fn no_other_user_s_service_hears_root_by_an_export() {
    let service = Service::start("");
    let place = own();
    let to = place.path().join("other");
    let other = OtherService::start(GOES_BY_WHO_SENDS, &to);
    let program = format!(
        "
its = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
while its.connect_ex('{to}'): pass
its.send(b'x')
came = [*usual(), its.fileno()]
words = order('run', '--service', '--no-tty', '--quiet', '--export', 'out', '--', 'true')
print(run(came, words)); its.close()",
        to = to.display()
    );
    assert_eq!(talks(&service, place.path(), &program), "400");
    // The control: it hears the caller, who connected, by its own user.
    assert_eq!(
        other.heard(),
        format!("there\n[{}]\n", turnkey_tests::SERVED)
    );
}

/// The same service, for a connection that somebody passes on to it.
const IS_GIVEN_A_CONNECTION: &str = "import os, socket, struct, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); server.listen()
print('there', flush=True)
line, _ = server.accept()
_, given, _, _ = socket.recv_fds(line, 9, 1)
line = socket.socket(fileno=given[0])";

#[test]
fn who_is_passed_the_connection_of_an_export_hears_its_caller() {
    let service = Service::start("");
    let place = own();
    let to = place.path().join("other");
    let other = OtherService::start(IS_GIVEN_A_CONNECTION, &to);
    let program = format!(
        "
own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
while line.connect_ex('{to}'): pass
socket.send_fds(line, [b'x'], [own.fileno()]); own.close()
came = [*usual(), its.fileno()]
words = order('run', '--service', '--no-tty', '--quiet', '--export', 'out', '--', 'true')
print(run(came, words)); its.close()",
        to = to.display()
    );
    assert_eq!(talks(&service, place.path(), &program), "ended");
    assert_eq!(
        other.heard(),
        format!("there\n[{}]\n", turnkey_tests::SERVED)
    );
}

#[test]
fn answers_of_an_export_that_are_none_end_it_and_not_the_service() {
    let service = Service::start("");
    let place = own();
    let opened = "own.recv(99999); own.send(b'\\x04' + bytes(48)); ";
    for answers in [
        "own.recv(99999); own.send(b'nonsense')",
        "own.recv(99999); own.send(b'\\xff' * 100000)",
        "own.recv(99999); own.close()",
        "own.close()",
        &format!("{opened}own.recv(99999); own.send(b'\\x07')"),
        &format!("{opened}own.recv(99999); own.close()"),
        &format!("{opened}own.recv(99999); own.send(b'\\x05\\x1b[2J')"),
    ] {
        let program = asks(&format!("{answers}\nprint(answer(line))"));
        let told = talks(&service, place.path(), &program);
        assert_eq!(told, "asked\nended", "{answers}");
    }
    let log = service.log();
    let codes = log.iter().filter(|line| line["event"] == "ran");
    let codes: Vec<_> = codes.map(|line| line["exit_code"].clone()).collect();
    assert!(codes.iter().all(|code| *code == 125), "{codes:?}");
    let kinds = [
        "own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)",
        "its = open('/dev/null', 'r+')",
        "its = connect()",
    ];
    for kind in kinds {
        let program = format!(
            "
{kind}
print(run([*usual(), its.fileno()], order('run', '--service', '--no-tty', '--export', 'out', '--', 'true')))"
        );
        assert_eq!(talks(&service, place.path(), &program), "400", "{kind}");
    }
}

#[test]
fn a_caller_that_takes_no_export_holds_its_own_slot_until_it_hangs_up() {
    let service = Service::start("ready = 0\nmax_running_per_user = 1\n");
    let place = own();
    fs::write(place.path().join("service.py"), ATTACK).unwrap();
    let program = format!(
        "import sys; sys.path.insert(0, '.')\nfrom service import *\n{}",
        asks("own.recv(99999); print('open', flush=True); import time; time.sleep(100)")
    );
    let mut command = as_served(&service, "python3", place.path());
    let command = command.args(["-c", &program]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = [0; 11];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut told).unwrap();
    assert_eq!(&told, b"asked\nopen\n");
    let makers = service.makers();
    assert!(!makers.is_empty(), "the control: it waits for its caller");
    let began = Instant::now();
    let root = Run::new().option("--quiet --service");
    let mut command = root.command(&["true"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(command.status().unwrap().success(), "another user's");
    assert!(began.elapsed() < Duration::from_secs(10));
    child.kill().unwrap();
    child.wait().unwrap();
    Service::nothing_is_left(&makers);
    eventually("its slot is free", || service.makers().is_empty());
}

/// The caller's process writes the report, too, and a kill weighs more than that it could not.
#[test]
fn a_report_that_its_caller_cannot_write_hides_no_kill() {
    let service = Service::start("");
    for (last, code) in [("exec cat /etc/shadow", 121), ("exit 0", 125)] {
        let (empty, place) = (own(), own());
        let turnkey = binary_for_everybody(place.path());
        let gone = place.path().join("gone");
        fs::create_dir(&gone).expect("a test can do that");
        hand_over(&gone, SERVED);
        let mut command = as_served(&service, &turnkey.to_string_lossy(), empty.path());
        command.args(["run", "--service"]);
        let (status, told) = without_the_directory(command, &gone, last);
        assert_eq!(status, Some(code), "{last}: {told}");
    }
}
