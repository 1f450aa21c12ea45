//! A user whose file system, in namespaces of its own, stops answering: tests/attacks/stalled.c.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
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
        let place = crate::scratch();
        crate::open_to_all(place.path());
        let (program, node) = (place.path().join("stalled"), place.path().join("fuse"));
        crate::compile(&program, include_str!("../attacks/stalled.c"));
        // As udev makes it on most hosts.
        let made = mknod(&node, SFlag::S_IFCHR, Mode::empty(), makedev(10, 229));
        made.expect("a test runs as root");
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&node, everybody).expect("a test makes its own files");
        let mut command = Command::new(program);
        command
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
        let said: Vec<_> = lines.take_while(|line| line != "ready").collect();
        let is_control = |line: &String| line.starts_with("the control: ");
        assert!(said.iter().any(is_control), "{said:?}");
        StallingUser {
            process,
            _place: place,
        }
    }
}

impl Drop for StallingUser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
