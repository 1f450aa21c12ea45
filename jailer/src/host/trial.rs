//! Small attempts at what a jail is made of, each by itself, for whoever wants to know what this
//! host gives this caller. A version number is a promise; an attempt is an answer.
//!
//! Every attempt ends with a process that ends, and leaves nothing. None of them says that a jail
//! can be made: only making one does.
#![expect(clippy::disallowed_methods, reason = "of /proc, which nobody turns")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::host::kernel;
use crate::ids::idmap::{HostId, MountOwner};
use crate::landlock;
use crate::process::namespaces::{self, NamespaceTiming};
use crate::sys::{self, CloneSide, FilterInstruction, MountAttributes};

/// A process in all the namespaces that a jail is born in.
///
/// # Errors
/// The kernel's answer to clone3(2); [`crate::ids::userns`] knows what it means.
pub fn namespaces() -> Result<(), Errno> {
    in_child(all_namespaces(), None, || Ok(()))
}

/// A right that such a process must have inside: setting its host name.
///
/// # Errors
/// The kernel's answer, which on a host that takes such rights away is not about host names.
pub fn rights_inside() -> Result<(), Errno> {
    in_child(all_namespaces(), None, || nix::unistd::sethostname("trial"))
}

/// A procfs of its own, which the kernel gives only to who can see all of the one that is there.
///
/// # Errors
/// The kernel's answer to fsmount(2).
pub fn procfs() -> Result<(), Errno> {
    in_child(all_namespaces(), None, || {
        sys::new_mount::<&std::ffi::CStr>(c"proc", &[], 0).map(drop)
    })
}

/// A process born in a control group.
///
/// # Errors
/// The kernel's answer to clone3(2) with `CLONE_INTO_CGROUP`.
pub fn born_in(group: BorrowedFd<'_>) -> Result<(), Errno> {
    in_child(0, Some(group), || Ok(()))
}

/// A filter of syscalls, which lets everything through.
///
/// # Errors
/// The kernel's answer to seccomp(2).
pub fn seccomp() -> Result<(), Errno> {
    const ALLOW_ALL: [FilterInstruction; 1] = [FilterInstruction {
        code: 0x06, // BPF_RET | BPF_K
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    }];
    in_child(0, None, || {
        sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
        sys::install_filter(&ALLOW_ALL)
    })
}

/// Landlock with all that this kernel offers, and an open that it must refuse.
///
/// # Errors
/// `ENOSYS` without Landlock, `EIO` when it is there and refuses nothing, else the kernel's answer.
pub fn landlock() -> Result<(), Errno> {
    let handled = landlock::handled(landlock::abi()).ok_or(Errno::ENOSYS)?;
    let ruleset = landlock::ruleset(handled).map_err(|_| Errno::ENOTSUP)?;
    in_child(0, None, || {
        sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
        sys::landlock_restrict(ruleset.as_fd())?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        match nix::fcntl::open(c"/", flags, Mode::empty()) {
            Err(Errno::EACCES) => Ok(()),
            Err(other) => Err(other),
            Ok(_) => Err(Errno::EIO),
        }
    })
}

/// An overlay of memory over memory, made without privileges on the host.
///
/// # Errors
/// The kernel's answer to whatever of it failed first.
pub fn overlay() -> Result<(), Errno> {
    let (waiting, mapped) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
    match sys::clone3(u64::from(flags.cast_unsigned()), None)? {
        CloneSide::Child => {
            drop(mapped);
            end_with(until_mapped(&waiting).and_then(|()| overlay_inside()))
        }
        CloneSide::Parent { pid, .. } => {
            let written = map_self(pid).and_then(|()| nix::unistd::write(&mapped, b"m").map(drop));
            drop(mapped);
            let ended = wait(pid);
            written.and(ended)
        }
    }
}

/// The caller as root of the namespace, which every caller may have.
fn map_self(pid: libc::pid_t) -> Result<(), Errno> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let files = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1\n")),
        ("gid_map", format!("0 {group} 1\n")),
    ];
    for (name, text) in files {
        let written = std::fs::write(format!("/proc/{pid}/{name}"), text);
        written.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
    }
    Ok(())
}

fn until_mapped(waiting: &OwnedFd) -> Result<(), Errno> {
    let mut byte = [0];
    match nix::unistd::read(waiting, &mut byte)? {
        0 => Err(Errno::EPIPE),
        _ => Ok(()),
    }
}

fn overlay_inside() -> Result<(), Errno> {
    let root = nix::fcntl::open(c"/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let private = MountAttributes {
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(root.as_fd(), true, &private)?;
    let memory = sys::new_mount(c"tmpfs", &[(c"size", c"64k")], 0)?;
    sys::attach(memory.as_fd(), root.as_fd())?;
    nix::unistd::fchdir(&memory)?;
    for name in [c"lower", c"upper", c"work"] {
        nix::sys::stat::mkdirat(memory.as_fd(), name, Mode::S_IRWXU)?;
    }
    let options = [
        (c"lowerdir", c"lower"),
        (c"upperdir", c"upper"),
        (c"workdir", c"work"),
        (c"userxattr", c""),
        (c"xino", c"on"),
    ];
    sys::new_mount(c"overlay", &options, 0).map(drop)
}

/// A view of a directory whose owner appears as another user.
///
/// # Errors
/// `EINVAL` where its file system cannot do that, `EPERM` for a caller without privileges.
pub fn id_mapped(directory: &Path) -> Result<(), Errno> {
    let path = crate::c_string::c_string(directory.as_os_str());
    let opened = sys::open_following(&path, libc::O_PATH | libc::O_DIRECTORY)?;
    let view = sys::clone_tree(opened.as_fd(), false)?;
    let namespace = MountOwner::from_directory(opened.as_fd())?.namespace(HostId::for_group(0))?;
    let attributes = MountAttributes {
        set: kernel::MOUNT_ATTR_IDMAP,
        user_namespace: u64::try_from(namespace.as_raw_fd()).unwrap_or(0),
        ..MountAttributes::default()
    };
    sys::mount_setattr(view.as_fd(), false, &attributes)
}

fn all_namespaces() -> u64 {
    u64::from(namespaces::flags(&namespaces::ALL, NamespaceTiming::AtBirth).cast_unsigned())
}

/// `act` runs in a process of its own, which may be the copy of one with threads: it allocates
/// nothing and locks nothing.
fn in_child(
    namespaces: u64,
    group: Option<BorrowedFd<'_>>,
    act: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    if namespaces == 0 && group.is_none() {
        // Filters of containers hide clone3(2), which says nothing about what is tried here.
        return match sys::fork()? {
            None => end_with(act()),
            Some(pid) => wait(pid),
        };
    }
    match sys::clone3(namespaces, group)? {
        CloneSide::Child => end_with(act()),
        CloneSide::Parent { pid, .. } => wait(pid),
    }
}

fn end_with(outcome: Result<(), Errno>) -> ! {
    sys::exit(outcome.map_or_else(|errno| errno as i32, |()| 0))
}

/// Every errno fits the eight bits of a status.
fn wait(pid: libc::pid_t) -> Result<(), Errno> {
    loop {
        return match waitpid(Pid::from_raw(pid), None) {
            Err(Errno::EINTR) => continue,
            Err(other) => Err(other),
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => Err(Errno::from_raw(errno)),
            Ok(_) => Err(Errno::EINTR),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_child_is_its_errno() {
        assert_eq!(in_child(0, None, || Ok(())), Ok(()));
        assert_eq!(in_child(0, None, || Err(Errno::EXDEV)), Err(Errno::EXDEV));
    }

    #[test]
    fn what_a_child_did_to_itself_stays_with_it() {
        let flags = || std::fs::read_to_string("/proc/self/status").unwrap();
        let of = |text: &str| {
            let lines = text
                .lines()
                .filter(|line| line.starts_with("Seccomp") || line.starts_with("NoNewPrivs"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let before = of(&flags());
        assert_eq!(seccomp(), Ok(()));
        assert_eq!(of(&flags()), before);
    }

    #[test]
    fn landlock_refuses_the_child_and_not_this_process() {
        if landlock::abi() > 0 {
            assert_eq!(landlock(), Ok(()));
        } else {
            assert_eq!(landlock(), Err(Errno::ENOSYS));
        }
        std::fs::read_dir("/").unwrap();
    }
}
