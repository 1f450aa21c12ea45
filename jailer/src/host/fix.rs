//! The fix for a number that the kernel gives, whatever was asked of it.

use std::io;

use nix::errno::Errno;

pub(crate) const ASK_THE_DOCTOR: &str =
    "`turnkey doctor` tries each layer by itself and says what this host lacks";

/// The number that the kernel gave, for an error that hides it.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// The fix for an errno, wherever it comes from.
pub(crate) fn by_errno(errno: Errno) -> String {
    let fix = match errno {
        Errno::EMFILE => {
            "this process may have no more open files: ulimit -n, or start fewer at once"
        }
        Errno::ENFILE => "this host has too many open files: sysctl fs.file-max",
        Errno::EAGAIN => {
            "no more processes can be made: raise ulimit -u, or pids.max of the group turnkey is in"
        }
        Errno::ENOMEM => "this host, or the group turnkey is in, has no memory left",
        Errno::ENOSPC => {
            "something is full: mounts (sysctl fs.mount-max), groups (cgroup.max.descendants), or the disk"
        }
        Errno::EPERM | Errno::EACCES => {
            "run turnkey as root, and outside of a container that takes rights away; `turnkey doctor` says which"
        }
        Errno::EROFS => "the file system is mounted read-only here: remount it read-write",
        Errno::ENOSYS | Errno::EINVAL | Errno::EOPNOTSUPP => {
            "this kernel lacks it: turnkey needs Linux 5.14 or later; `turnkey doctor` says what this host has"
        }
        _ => ASK_THE_DOCTOR,
    };
    fix.to_owned()
}
