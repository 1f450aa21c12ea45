//! A user whose file system, in namespaces of its own, stops answering: tests/attacks/stalled.c.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

/// The attack; it goes on until it is dropped.
pub struct StallingUser {
    process: Child,
    _place: tempfile::TempDir,
}

impl StallingUser {
    /// Has it done so many times to the socket, by this user. The attack has seen that its file system holds who asks it.
    pub fn start(user: u32, way: &str, socket: &str, times: u32) -> StallingUser {
        StallingUser::start_and(user, (way, socket, times), || {})
    }

    /// The same, and does something when all is queued and before anybody has to close any of it.
    pub fn start_and(
        user: u32,
        (way, socket, times): (&str, &str, u32),
        when_queued: impl FnOnce(),
    ) -> StallingUser {
        let place = crate::scratch();
        crate::open_to_all(place.path());
        let program = place.path().join("stalled");
        crate::compile(&program, include_str!("../attacks/stalled.c"));
        let node = device(place.path());
        crate::hand_over(place.path(), user);
        let mut command = Command::new(program);
        command
            .current_dir(place.path())
            .arg(node)
            .args([way, socket, &times.to_string()])
            .uid(user)
            .gid(user);
        let mut process = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was compiled");
        let output = process.stdout.as_mut().expect("it is a pipe");
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let mut when_queued = Some(when_queued);
        let mut said: Vec<String> = Vec::new();
        for line in lines.take_while(|line| line != "ready") {
            if line == "queued"
                && let Some(act) = when_queued.take()
            {
                act();
            }
            said.push(line);
        }
        let is_control = |line: &String| line.starts_with("the control: ");
        assert!(said.iter().any(is_control), "{said:?}");
        StallingUser {
            process,
            _place: place,
        }
    }
}

/// The device of FUSE as anybody may open it, which udev makes so on most hosts; elsewhere one of the test's own.
fn device(place: &Path) -> PathBuf {
    let usual = Path::new("/dev/fuse");
    let is_open = |known: std::fs::Metadata| known.permissions().mode() & 0o6 == 0o6;
    if usual.metadata().is_ok_and(is_open) {
        return usual.to_owned();
    }
    let node = place.join("fuse");
    let made = mknod(&node, SFlag::S_IFCHR, Mode::empty(), makedev(10, 229));
    made.expect("a test runs as root");
    let everybody = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&node, everybody).expect("a test makes its own files");
    node
}

impl Drop for StallingUser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
