//! A service that starts when somebody calls, on a socket that systemd has bound.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use turnkey_expectations::expected;
use turnkey_tests::{Run, SERVED, binary, eventually, open_to_all, outside, scratch};

expected!(not_on[ORDINARY_6_12], "it has no systemd-socket-activate");

/// The process, first that which waits for somebody to call.
struct Activated(Child);

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = kill(self.pid(), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Activated {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }

    /// The program of the process.
    fn program(&self) -> PathBuf {
        std::fs::read_link(format!("/proc/{}/exe", self.pid())).expect("it is there")
    }
}

/// A service for `directory` behind the socket in `place`, as systemd starts it: by its program for trying that.
fn activated(place: &Path, directory: &Path) -> Activated {
    let config = place.join("serve.toml");
    std::fs::write(&config, format!("group = \"{SERVED}\"\n"))
        .expect("a test writes its own files");
    std::fs::create_dir_all(place.join("run")).expect("a test makes its own directories");
    let socket = socket(place);
    let mut command = Command::new("systemd-socket-activate");
    command
        .arg("--seqpacket")
        .arg("--listen")
        .arg(&socket)
        .arg(binary());
    command
        .arg("serve")
        .arg("--config")
        .arg(config)
        .arg("--socket-dir")
        .arg(directory);
    let child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("systemd is there");
    eventually("it is bound", || socket.exists());
    // As SocketGroup= and SocketMode= have it.
    std::os::unix::fs::chown(&socket, None, Some(SERVED)).expect("a test runs as root");
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o660))
        .expect("a test runs as root");
    Activated(child)
}

fn socket(place: &Path) -> PathBuf {
    place.join("run/turnkey.fd.sock")
}

#[test]
fn a_service_starts_when_somebody_calls_and_serves_on_the_socket_of_systemd() {
    let place = scratch();
    open_to_all(place.path());
    let directory = place.path().join("run");
    let mut service = activated(place.path(), &directory);
    assert!(
        service.program().ends_with("systemd-socket-activate"),
        "the control: nobody has called"
    );
    let before = std::fs::metadata(socket(place.path())).unwrap();
    for _ in 0..2 {
        let run = Run::new().option("--quiet").served_at(&directory);
        run.shell("exit 7").expect_code(7);
    }
    assert_eq!(service.program(), binary().canonicalize().unwrap());
    let after = std::fs::metadata(socket(place.path())).unwrap();
    assert_eq!(before.ino(), after.ino(), "it is the same socket");
    // Those who make runs have no part in it.
    let own = format!("serve-run --service {}", service.pid());
    let (_, makers) = outside("pgrep", &["-f", &own]);
    let listening = std::fs::read_to_string("/proc/net/unix").unwrap();
    let path = socket(place.path()).display().to_string();
    let line = listening
        .lines()
        .find(|line| line.ends_with(&path))
        .unwrap();
    let inode = line.split_whitespace().nth(6).unwrap();
    let has_it = |pid: &str| {
        let (_, links) = outside("ls", &["-l", &format!("/proc/{pid}/fd")]);
        links.contains(&format!("socket:[{inode}]"))
    };
    assert!(
        has_it(&service.pid().to_string()),
        "the control: the service has it"
    );
    assert!(
        makers.lines().count() > 0 && !makers.lines().any(has_it),
        "{makers}"
    );
    kill(service.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(service.0.wait().unwrap().code(), Some(0));
    assert!(socket(place.path()).exists(), "it is systemd's");
}

#[test]
fn a_socket_of_another_directory_is_not_served() {
    let place = scratch();
    open_to_all(place.path());
    let mut service = activated(place.path(), &place.path().join("other"));
    let run = Run::new()
        .option("--quiet")
        .served_at(&place.path().join("run"));
    run.shell("exit 7").expect_code(125);
    let mut told = String::new();
    service
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert_eq!(service.0.wait().unwrap().code(), Some(125), "{told}");
    let named = place.path().join("other/turnkey.fd.sock");
    assert!(
        told.contains(&format!("ListenSequentialPacket={}", named.display())),
        "{told}"
    );
}
