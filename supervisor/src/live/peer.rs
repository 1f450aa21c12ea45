//! The other side of a connection: whose it is, and whether it is in a jail.

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};

/// The process on the other side, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process that connected, or that listens.
    pub pid: u32,
    /// The effective user then, in this process's user namespace.
    pub uid: u32,
}

impl Peer {
    /// The peer of a connection; `None` where the kernel does not tell.
    pub fn of(stream: &UnixStream) -> Option<Peer> {
        let peer = getsockopt(stream, sockopt::PeerCredentials).ok()?;
        let pid = u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0)?;
        let uid = peer.uid();
        Some(Peer { pid, uid })
    }

    /// True where it is of this process's own user. In a user namespace where only that user has an id, everybody else is nobody,
    /// the host's root among them.
    pub fn is_own(self) -> bool {
        self.uid == nix::unistd::geteuid().as_raw()
    }

    /// True where it has one process id, so that it is in the same pid namespace: every jail has one of its own, also where
    /// its program runs as the caller and in the host's network.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    pub fn is_outside_of_jails(self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        status.is_ok_and(|status| has_one_pid(&status))
    }

    /// True where it holds the socket that has the inode: a process that has only come by the number of one that is gone
    /// does not.
    pub fn holds(self, inode: u64) -> bool {
        sockets_of(self.pid).any(|held| held == inode)
    }
}

/// The inodes of the sockets that a process holds, each read when it is asked for.
pub fn sockets_of(pid: u32) -> impl Iterator<Item = u64> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let entries = descriptors.into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    })
}

/// The ids in `/proc/PID/status`, proc_pid_status(5): `NSpid` has an id for each pid namespace, from that of /proc down.
fn has_one_pid(status: &str) -> bool {
    let mut lines = status.lines();
    let ids = lines.find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_whitespace().count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_an_id_of_another_namespace_is_inside() {
        assert!(has_one_pid("Name:\tsh\nNSpid:\t77\nNSpgid:\t77\n"));
        assert!(!has_one_pid("Name:\tsh\nNSpid:\t77\t2\nNSpgid:\t77\t2\n"));
        assert!(!has_one_pid("Name:\tsh\n"));
    }

    #[test]
    fn this_process_is_its_own_peer_and_holds_its_sockets() {
        let (one, other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert!(peer.is_own() && peer.is_outside_of_jails());
        let inode = nix::sys::stat::fstat(&other).unwrap().st_ino;
        assert!(peer.holds(inode));
        drop(other);
        assert!(!peer.holds(inode));
    }
}
