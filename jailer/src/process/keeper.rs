//! The keeper: a process outside the jail that outlives turnkey by a moment, only to clear away.
//!
//! When turnkey is killed with SIGKILL, the kernel ends the jail (its init dies with its
//! supervisor) and its mounts, but a control group is a directory that somebody must remove. The
//! keeper is started before the groups are made, knows their names, and waits for the pipe that
//! only turnkey holds to close. Runs as: turnkey's user, in the host's namespaces and in turnkey's
//! memory, never more than these few system calls.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::fcntl::OFlag;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::Timespec;

use crate::groups::GroupNames;
use crate::sys::{self, VforkHelper};

/// The number of times that the keeper tries to remove a group that still has dying processes, and the time it
/// rests in between: ten seconds in all.
const TRIES: u32 = 5000;
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// The supervisor's side. Dropping it lets the keeper clear away.
#[derive(Debug)]
pub struct Keeper {
    process: VforkHelper<CleanupSpec>,
    alive: Option<OwnedFd>,
}

impl Keeper {
    /// Starts it. Nothing it is to remove exists yet. `outlived`, which is none of the first three descriptors, stays open until all is
    /// removed.
    pub fn start(names: &GroupNames, outlived: Option<BorrowedFd<'_>>) -> io::Result<Keeper> {
        let (waiting, alive) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let outlived = outlived.map(|descriptor| descriptor.as_raw_fd());
        let duties = CleanupSpec::new(names, waiting.as_raw_fd(), outlived);
        Ok(Keeper {
            process: sys::start_helper(0, keep, duties)?,
            alive: Some(alive),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Closing the pipe is the sign. What is already removed costs the keeper one ENOENT each.
        drop(self.alive.take());
        self.process.wait();
    }
}

/// The spec of the keeper, made before it is: it may not allocate.
struct CleanupSpec {
    /// The keeper's end of the pipe.
    waiting: RawFd,
    /// A descriptor that it has to its end.
    outlived: Option<RawFd>,
    kill: CString,
    directories: Vec<CString>,
}

impl CleanupSpec {
    fn new(names: &GroupNames, waiting: RawFd, outlived: Option<RawFd>) -> CleanupSpec {
        let path =
            |path: &std::path::Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        CleanupSpec {
            waiting,
            outlived,
            kill: path(&names.unified().join("cgroup.kill")),
            directories: names.directories().map(path).collect(),
        }
    }
}

fn keep(duties: &CleanupSpec) -> ! {
    // A Ctrl-C or hang-up of the terminal is meant for turnkey; the keeper must see the end.
    let _ = rustix::process::setsid();
    sys::wait_for_the_end(duties.waiting, duties.outlived);
    clear_away(duties);
    sys::exit(0)
}

fn clear_away(duties: &CleanupSpec) {
    kill_all(&duties.kill);
    for directory in &duties.directories {
        for _ in 0..TRIES {
            match rustix::fs::rmdir(directory.as_c_str()) {
                Err(Errno::BUSY) => {
                    let _ = rustix::thread::nanosleep(&REST);
                }
                _ => break,
            }
        }
    }
}

fn kill_all(file: &CStr) {
    if let Ok(file) = rustix::fs::open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        // Closed by the end, which is near: the C library's close(2) is not for a vfork helper.
        let _ = rustix::io::write(&*ManuallyDrop::new(file), b"1");
    }
}
