//! The caller on the other side of a connection, and whether it is one that is served.
//!
//! Served is who lives where the service does: in its user, process, network, mount and cgroup namespaces and under its root. Whoever
//! does not would get more by a run than it has itself, a network above all, or would name other files than the service finds.

use std::fs::Metadata;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use turnkey_jailer::{ServedUser, served};

/// The range of jails' users, and of layers: nobody there is served.
const JAILS: std::ops::RangeInclusive<u32> = 0x7000_0000..=0x7fff_ffff;
/// The number of users that a namespace does not have, if nobody has changed it.
const OVERFLOW: u32 = 65_534;
/// The namespaces, as they are called in /proc/PID/ns.
const NAMESPACES: [&str; 5] = ["user", "pid", "net", "mnt", "cgroup"];

/// A caller who is served, as it was when it connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPeer {
    /// The process.
    pub pid: u32,
    /// The user and group whose rights count.
    pub user: ServedUser,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

/// The reason why a caller is not served.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A user that no person is.
    #[error("user {0} is that of a jail, or nobody's")]
    User(u32),
    /// Another namespace or root directory, and the user.
    #[error("the caller has another {0} than the service, so its files or its network are others")]
    Elsewhere(&'static str, u32),
    /// The process is not any more what it was when it connected, so its limits and groups are another's, or nobody's.
    #[error("the process that connected runs as another user now, or its first thread has ended")]
    Changed,
    /// The process is not there any more.
    #[error("the caller has gone")]
    Gone,
    /// The kernel does not tell enough.
    #[error("this kernel does not tell who calls (SO_PEERPIDFD, Linux 6.5)")]
    Unknown(#[source] Errno),
}

impl PeerError {
    /// The user that is not served, where that is the reason.
    pub fn user(&self) -> Option<u32> {
        match self {
            PeerError::User(user) | PeerError::Elsewhere(_, user) => Some(*user),
            _ => None,
        }
    }
}

impl ServedPeer {
    /// Requires a kernel that tells who is at the other end of a socket.
    ///
    /// # Errors
    /// When this one does not.
    pub fn require_kernel() -> Result<(), PeerError> {
        let pair = UnixStream::pair().map_err(|_| PeerError::Gone)?;
        let told = getsockopt(&pair.0, sockopt::PeerPidfd).map(drop);
        told.map_err(PeerError::Unknown)
    }

    /// The caller on the other side of a connected Unix socket, by what the kernel itself has of it: no file system of the caller's is asked,
    /// so nobody keeps who asks. Its root is [looked at](Self::require_root) by a process that may be kept.
    ///
    /// # Errors
    /// When it is not one that is served.
    pub fn from_socket(socket: &impl AsFd) -> Result<ServedPeer, PeerError> {
        let told = getsockopt(socket, sockopt::PeerCredentials).map_err(PeerError::Unknown)?;
        let process = process_of(socket)?;
        let groups = served::peer_groups(socket).map_err(PeerError::Unknown)?;
        let user = told.uid();
        if JAILS.contains(&user) || user == OVERFLOW {
            return Err(PeerError::User(user));
        }
        let pid = u32::try_from(told.pid())
            .ok()
            .filter(|pid| *pid != 0)
            .ok_or(PeerError::Elsewhere("process namespace", user))?;
        require_here(pid, user)?;
        let umask = served::umask_of(pid).map_err(|_| PeerError::Gone)?;
        // After the looks: as long as it lives, nobody else has its number.
        require_alive(&process)?;
        let group = told.gid();
        Ok(ServedPeer {
            pid,
            user: ServedUser { user, group, umask },
            groups,
        })
    }

    /// Requires that the caller's root directory is this process's.
    ///
    /// # Errors
    /// [`PeerError::Elsewhere`] when it is not, [`PeerError::Gone`] when it cannot be looked at any more.
    pub fn require_root(&self, socket: &impl AsFd) -> Result<(), PeerError> {
        let process = process_of(socket)?;
        let is_own = served::has_own_root(self.pid).map_err(|_| PeerError::Gone)?;
        require_alive(&process)?;
        match is_own {
            true => Ok(()),
            false => Err(PeerError::Elsewhere("root directory", self.user.user)),
        }
    }

    /// Looks at the caller's process by its number. Afterwards it is certain that it was the one that connected.
    ///
    /// # Errors
    /// [`PeerError::Gone`] when it cannot be looked at any more, [`PeerError::Changed`] when it is not what it was.
    pub fn look_at<T, E>(
        &self,
        socket: &impl AsFd,
        look: impl FnOnce(u32) -> Result<T, E>,
    ) -> Result<Result<T, E>, PeerError> {
        let process = process_of(socket)?;
        let seen = look(self.pid);
        // What was looked at is the caller's own, if it is so now: a thread that has ended stays so.
        match served::is_unchanged(self.pid, self.user.user) {
            Ok(true) => {}
            Ok(false) => return Err(PeerError::Changed),
            Err(_) => return Err(PeerError::Gone),
        }
        require_alive(&process)?;
        Ok(seen)
    }
}

fn process_of(socket: &impl AsFd) -> Result<OwnedFd, PeerError> {
    getsockopt(socket, sockopt::PeerPidfd).map_err(|errno| match errno {
        // It connected and is gone; no other process is taken for it.
        Errno::ESRCH | Errno::EINVAL => PeerError::Gone,
        errno => PeerError::Unknown(errno),
    })
}

fn require_here(pid: u32, user: u32) -> Result<(), PeerError> {
    for name in NAMESPACES {
        if look(format!("/proc/{pid}/ns/{name}"))? != look(format!("/proc/self/ns/{name}"))? {
            let other = match name {
                "user" => "user namespace",
                "pid" => "process namespace",
                "net" => "network namespace",
                "mnt" => "mount namespace",
                _ => "cgroup namespace",
            };
            return Err(PeerError::Elsewhere(other, user));
        }
    }
    Ok(())
}

/// Device and number of the namespace that a link of /proc leads to.
fn look(path: String) -> Result<(u64, u64), PeerError> {
    let identity = |found: Metadata| (found.dev(), found.ino());
    std::fs::metadata(path)
        .map(identity)
        .map_err(|_| PeerError::Gone)
}

/// A descriptor of a process is readable from its end on.
fn require_alive(process: &OwnedFd) -> Result<(), PeerError> {
    let mut looked = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    match poll(&mut looked, PollTimeout::ZERO) {
        Ok(0) => Ok(()),
        _ => Err(PeerError::Gone),
    }
}
