//! Ids: the jail's user is nobody on the host, a number that no account and no other jail has.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::wait::WaitStatus;

use crate::ids::served::ServedUser;
use crate::ids::{CallerIds, Extent, NamespaceIds};
use crate::sys;

/// The first id of the range that turnkey uses. systemd's table of ids (UIDS-GIDS) ends the range
/// of containers below it and names nothing in it.
const FIRST: u32 = 0x7000_0000;
const RANGE_MASK: u64 = 0x0fff_ffff;
/// The last numbers of the range: no jail's user has one, and all jails map them.
const FIRST_DEAD: u32 = 0x7fff_0000;
const DEAD_IDS: u32 = 0x1_0000;
/// The numbers of the range that a jail's user can have: not these, and not the one of layers.
const LIVING: u64 = RANGE_MASK - DEAD_IDS as u64;
/// The host's number for the jail's user, in words, for a plan: the group is made by the run.
pub const HOST_ID: &str = "nobody's: 0x70000000 plus the id of the run's group, modulo 0xffeffff";

/// True when this process's user namespace has the ids that only turnkey uses.
pub fn has_every_id() -> bool {
    NamespaceIds::probe() == NamespaceIds::All
}

/// True when a map has every id that a jail can get.
pub fn range_is_within(map: &[Extent]) -> bool {
    let (first, last) = (u64::from(FIRST), u64::from(FIRST) + RANGE_MASK);
    map.iter()
        .any(|(inside, _, count)| *inside <= first && last < inside.saturating_add(*count))
}

/// The jail's user and group outside: numbers of the user namespace that turnkey is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
    /// The jail's user is the caller, to whom the caller's files belong without translation.
    pub is_caller: bool,
    /// The numbers that nobody has are there to be mapped.
    pub has_dead_ids: bool,
}

impl HostId {
    /// For the jail whose v2 group has this id. Living groups have different ids, so living jails
    /// have different users, without a register to keep.
    pub fn for_group(group: u64) -> HostId {
        let offset = u32::try_from(group % LIVING).unwrap_or(0);
        HostId {
            user: FIRST + offset,
            group: FIRST + offset,
            is_caller: false,
            has_dead_ids: true,
        }
    }

    /// For a jail that has no group: by a number that the kernel has counted up, in a half of the range that no
    /// living group's number reaches before 2^27 of them were made.
    pub fn without_group(number: u64) -> HostId {
        let half = (RANGE_MASK >> 1) + 1;
        HostId::for_group(half + number % (LIVING - half))
    }

    /// For the report.
    pub fn in_words(self) -> &'static str {
        if self.is_caller {
            "the caller"
        } else {
            "nobody else"
        }
    }

    /// Of those that the caller's namespace has and nobody uses.
    pub fn of_spare((user, group): (u32, u32)) -> HostId {
        HostId {
            user,
            group,
            is_caller: false,
            has_dead_ids: false,
        }
    }

    /// For a caller without other ids, or one whose files the jail writes.
    pub fn of_caller(own: &CallerIds) -> HostId {
        HostId {
            user: own.user,
            group: own.group,
            is_caller: true,
            has_dead_ids: false,
        }
    }
}

/// Writes the maps of the process `pid`, which is alone in its new user namespace: the jail's user and group, and
/// around them numbers that nobody can take. A call that names one of those fails with `EPERM`, as it does for any
/// user outside of a jail; a number without a mapping would make it `EINVAL`, which hardly any program expects.
pub fn write_maps(pid: libc::pid_t, inside: u32, id: HostId) -> Result<(), Errno> {
    let lines = |outside| match id.has_dead_ids {
        true => around(inside, outside),
        false => line(inside, outside, 1),
    };
    write(pid, &lines(id.user), &lines(id.group))
}

/// The map of an id and of all others that a system has: `DEAD_IDS` in all, but for the one.
fn around(inside: u32, outside: u32) -> String {
    let above = inside + 1;
    let mut lines = line(inside, outside, 1) + &line(above, FIRST_DEAD + above, DEAD_IDS - above);
    if inside > 0 {
        lines += &line(0, FIRST_DEAD, inside);
    }
    lines
}

fn line(inside: u32, outside: u32, count: u32) -> String {
    format!("{inside} {outside} {count}\n")
}

fn write(pid: libc::pid_t, users: &str, groups: &str) -> Result<(), Errno> {
    let process = sys::open_without_symlinks(
        &crate::c_string::c_string(format!("/proc/{pid}").as_ref()),
        libc::O_PATH,
    )?;
    write_file(process.as_fd(), c"uid_map", users)?;
    write_file(process.as_fd(), c"gid_map", groups)
}

/// Writes a file of a process's directory in procfs.
pub fn write_file(process: BorrowedFd<'_>, file: &std::ffi::CStr, text: &str) -> Result<(), Errno> {
    require_procfs(process)?;
    let file = sys::open_beneath(process, file, libc::O_WRONLY, 0)?;
    fs::File::from(file)
        .write_all(text.as_bytes())
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

/// Requires procfs at /proc: its answers decide who the jail's user is.
fn require_procfs(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let statistics = nix::sys::statfs::fstatfs(directory)?;
    if statistics.filesystem_type().0 == crate::host::kernel::PROC_SUPER_MAGIC {
        Ok(())
    } else {
        Err(Errno::ENOTSUP)
    }
}

/// The owner of a directory of the host.
#[derive(Clone, Copy, Debug)]
pub struct MountOwner {
    user: u32,
    group: u32,
}

impl MountOwner {
    /// The owner of what `directory` stands for.
    pub fn from_directory(directory: BorrowedFd<'_>) -> Result<MountOwner, Errno> {
        let stat = nix::sys::stat::fstat(directory)?;
        Ok(MountOwner {
            user: stat.st_uid,
            group: stat.st_gid,
        })
    }

    /// A user for whom a jail is made: of its own directory alone, and of no group but its own, since a directory may have a group
    /// that its owner is not in.
    ///
    /// # Errors
    /// `EACCES` when the directory belongs to somebody else.
    pub fn from_served(served: ServedUser, directory: BorrowedFd<'_>) -> Result<MountOwner, Errno> {
        let ServedUser { user, group, .. } = served;
        match nix::sys::stat::fstat(directory)?.st_uid == user {
            true => Ok(MountOwner { user, group }),
            false => Err(Errno::EACCES),
        }
    }

    /// A user namespace whose only content is the translation of this owner to `id`, for
    /// mount_setattr(2). It lives as long as the mount that uses it.
    pub fn namespace(self, id: HostId) -> Result<OwnedFd, Errno> {
        let (waiting, alive) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let holder = sys::start_helper(libc::CLONE_NEWUSER, hold, waiting.as_raw_fd())?;
        let (users, groups) = (line(self.user, id.user, 1), line(self.group, id.group, 1));
        write(holder.pid(), &users, &groups)?;
        let path = format!("/proc/{}/ns/user", holder.pid());
        // A link of procfs to an object without a path; it has to be followed.
        let namespace = nix::fcntl::open(path.as_str(), OFlag::O_CLOEXEC, Mode::empty());
        // First, and by a kill: another thread's child may hold a copy of the pipe for a moment.
        let ended = holder.kill();
        drop(alive);
        match ended {
            // The caller ignores its children.
            Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _)) | Err(Errno::ECHILD) => namespace,
            // The namespace of a process that has crashed can be opened as well, until somebody has waited for it.
            _ => Err(Errno::EOWNERDEAD),
        }
    }
}

/// The holder of the namespace does nothing but be there until its maker has a descriptor, or is gone.
fn hold(waiting: &RawFd) -> ! {
    sys::wait_for_the_end(*waiting, None);
    sys::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_without_a_group_are_in_the_range_and_not_among_those_with_one() {
        let last = u64::from(u32::MAX);
        for number in [0, 1, 0x7ff_ffff, 0x800_0000, last, u64::MAX] {
            let id = HostId::without_group(number);
            assert!((0x7800_0000..0x7fff_0000).contains(&id.user), "{number:x}");
            assert_eq!(id.user, id.group);
        }
        let near = [7, 8].map(|number| HostId::without_group(number).user);
        assert_ne!(near[0], near[1]);
        assert!(HostId::for_group(0x7ff_ffff).user < 0x7800_0000);
    }

    #[test]
    fn ids_stay_in_the_range_that_nobody_else_uses() {
        for group in [0, 1, 0x0fff_ffff, 0x1000_0000, u64::MAX] {
            let HostId { user: id, .. } = HostId::for_group(group);
            assert!(
                (0x7000_0000..0x7fff_0000).contains(&id),
                "{group:#x} gave {id:#x}"
            );
        }
    }

    #[test]
    fn every_id_of_a_system_is_mapped_once_and_the_jails_to_its_own() {
        assert_eq!(
            around(1000, 0x7000_0007),
            "1000 1879048199 1\n1001 2147419113 64535\n0 2147418112 1000\n"
        );
        assert_eq!(
            around(0, 0x7000_0007),
            "0 1879048199 1\n1 2147418113 65535\n"
        );
    }

    #[test]
    fn different_groups_have_different_users() {
        assert_ne!(HostId::for_group(41), HostId::for_group(42));
    }
}
