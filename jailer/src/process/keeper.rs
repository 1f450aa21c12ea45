//! The keeper: a process outside the jail that outlives turnkey by a moment, only to clear away.
//!
//! When turnkey is killed with SIGKILL, the kernel ends the jail (its init dies with its
//! supervisor) and its mounts, but a control group is a directory that somebody must remove. The
//! keeper is forked before the groups are made, knows their names, and waits for the pipe that
//! only turnkey holds to close. Runs as: turnkey's user, in the host's namespaces, never more than
//! these few system calls.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::groups::GroupNames;
use crate::sys;

/// How often the keeper tries to remove a group that still has dying processes, and how long it
/// rests in between: ten seconds in all.
const TRIES: u32 = 5000;
const REST: Duration = Duration::from_millis(2);

/// The supervisor's side. Dropping it lets the keeper clear away.
#[derive(Debug)]
pub struct Keeper {
    process: Pid,
    alive: Option<OwnedFd>,
}

impl Keeper {
    /// Starts it. Nothing it is to remove exists yet.
    pub fn start(names: &GroupNames) -> io::Result<Keeper> {
        let (waiting, alive) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let duties = Duties::new(names);
        match sys::fork()? {
            None => keep(&waiting, &duties),
            Some(pid) => Ok(Keeper {
                process: Pid::from_raw(pid),
                alive: Some(alive),
            }),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Closing the pipe is the sign. What is already removed costs the keeper one ENOENT each.
        drop(self.alive.take());
        while waitpid(self.process, None::<WaitPidFlag>) == Err(Errno::EINTR) {}
    }
}

/// Everything the keeper needs, made before the fork: afterwards it may not allocate.
struct Duties {
    kill: CString,
    directories: Vec<CString>,
}

impl Duties {
    fn new(names: &GroupNames) -> Duties {
        let path =
            |path: &std::path::Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        Duties {
            kill: path(&names.unified().join("cgroup.kill")),
            directories: names.directories().map(path).collect(),
        }
    }
}

fn keep(waiting: &OwnedFd, duties: &Duties) -> ! {
    // A Ctrl-C or hang-up of the terminal is meant for turnkey; the keeper must see the end.
    let _ = nix::unistd::setsid();
    // A caller without standard streams may have got the number 0 for it.
    if waiting.as_raw_fd() != 0 && sys::duplicate_onto(waiting.as_fd(), 0, true).is_err() {
        sys::exit(1);
    }
    let _ = sys::close_from(1);
    let mut byte = [0];
    while nix::unistd::read(sys::lend(0), &mut byte) == Err(Errno::EINTR) {}
    clear_away(duties);
    sys::exit(0)
}

fn clear_away(duties: &Duties) {
    kill_all(&duties.kill);
    for directory in &duties.directories {
        for _ in 0..TRIES {
            match remove_directory(directory) {
                Err(Errno::EBUSY) => std::thread::sleep(REST),
                _ => break,
            }
        }
    }
}

fn kill_all(file: &CStr) {
    let opened = nix::fcntl::open(file, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty());
    if let Ok(file) = opened {
        let _ = nix::unistd::write(&file, b"1");
    }
}

fn remove_directory(path: &CStr) -> Result<(), Errno> {
    nix::unistd::unlinkat(
        nix::fcntl::AT_FDCWD,
        path,
        nix::unistd::UnlinkatFlags::RemoveDir,
    )
}
