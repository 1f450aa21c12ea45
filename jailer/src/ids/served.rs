//! The user for whom a privileged process makes a jail, and moments in which it opens files by that user's rights alone.
//!
//! A path that somebody else names is walked as that one would walk it: what is closed to the caller is closed to turnkey, whatever is
//! exchanged on the way, and no look comes before the open that it is for. `setfsuid(2)` is a thread's own, and takes the capabilities
//! that pass over permissions with it; the others stay, by which what is open becomes a mount.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use caps::{CapSet, Capability};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::libc;
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{AccessFlags, Gid, Uid, setfsgid, setfsuid};

use crate::sys::scheduling;

/// A user without privileges. Its supplementary groups are those of the whole process, which sets them before it has a second thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedUser {
    /// The effective user.
    pub user: u32,
    /// The effective group.
    pub group: u32,
    /// The rights that its processes withhold from new files; this one's own files are made under its own umask.
    pub umask: u32,
}

/// The use of a file of the caller's, which its permissions must allow: a handle, `O_PATH`, needs none to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededAccess {
    /// Reading, and search where it is a directory.
    Read,
    /// Writing as well.
    Write,
}

impl ServedUser {
    /// Does something with files as this user. No other thread takes part.
    ///
    /// # Errors
    /// `EPERM` when the kernel does not let this thread be that user.
    pub fn with_rights<T>(self, act: impl FnOnce() -> T) -> Result<T, Errno> {
        let thread = ThreadRights::taken(self)?;
        let done = act();
        drop(thread);
        Ok(done)
    }

    /// Asks the kernel whether this user may use what `opened` stands for.
    ///
    /// # Errors
    /// `EACCES` when not, and what the file system answers else.
    pub fn require(
        self,
        opened: impl AsFd,
        directory: bool,
        needed: NeededAccess,
    ) -> Result<(), Errno> {
        let mut access = AccessFlags::R_OK;
        access.set(AccessFlags::X_OK, directory);
        access.set(AccessFlags::W_OK, needed == NeededAccess::Write);
        // Without AT_EACCESS the kernel would ask for the real user, who is root.
        let flags = AtFlags::AT_EMPTY_PATH | AtFlags::AT_EACCESS;
        self.with_rights(|| nix::unistd::faccessat(opened, c"", access, flags))?
    }
}

/// Gives up, for this process's threads to come too, what root's writes to a caller's file would do that the caller's own do not: leave
/// set-user-ID and set-group-ID bits of the file as they are, and pass over quotas. Call it before there is a second thread.
///
/// # Errors
/// When the kernel does not take a capability.
pub fn write_as_everybody() -> Result<(), caps::errors::CapsError> {
    for capability in [Capability::CAP_FSETID, Capability::CAP_SYS_RESOURCE] {
        // The effective one first: it is never one that is not permitted.
        for set in [CapSet::Effective, CapSet::Permitted] {
            caps::drop(None, set, capability)?;
        }
    }
    Ok(())
}

/// The socket that systemd has bound for this service, sd_listen_fds(3). Call it once, where the environment says that there is one.
///
/// # Errors
/// `EBADF` when there is none.
pub fn passed_socket() -> Result<OwnedFd, Errno> {
    crate::sys::passed()
}

/// The supplementary groups of who connected a Unix socket, unix(7) `SO_PEERGROUPS`: at that moment, whatever it has become since.
///
/// # Errors
/// The errors of getsockopt(2).
pub fn peer_groups(socket: impl AsFd) -> Result<Vec<u32>, Errno> {
    crate::sys::peer_groups(socket.as_fd())
}

/// The rights that a process withholds from new files, proc_pid_status(5).
///
/// # Errors
/// When /proc does not tell.
pub fn umask_of(pid: u32) -> std::io::Result<u32> {
    let status = crate::kernel_file::read(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let told = line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
    told.ok_or_else(|| std::io::Error::other("/proc does not tell its umask"))
}

/// True while a process is whole, and acts as this user. Control groups of version 1 forget a first thread that has
/// ended, and a program that is set to another user may have raised what setrlimit(2) bounds.
///
/// # Errors
/// When it is not there any more.
pub fn is_unchanged(pid: u32, user: u32) -> std::io::Result<bool> {
    let status = crate::kernel_file::read(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let mut lines = status.lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let is_whole = field("State:").is_some_and(|state| !state.starts_with(['Z', 'X']));
    let is_same = field("Uid:").is_some_and(|ids| {
        // The effective one, which made the connection.
        let mut ids = ids.split_whitespace();
        ids.nth(1).is_some_and(|id| id.parse() == Ok(user))
    });
    Ok(is_whole && is_same)
}

/// The classes in which a process waits for CPUs and for disks, as far as they are no better than the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingClass {
    policy: Option<i64>,
    io: Option<i64>,
}

impl SchedulingClass {
    /// Reads those of a process.
    ///
    /// # Errors
    /// The errors of sched_getscheduler(2) and ioprio_get(2).
    pub fn read(pid: u32) -> Result<SchedulingClass, Errno> {
        /// `IOPRIO_CLASS_BE` and `IOPRIO_CLASS_IDLE`, above the level.
        const MODEST: [i64; 2] = [2, 3];
        const LEVEL_BITS: i64 = 13;
        let policies = [libc::SCHED_BATCH, libc::SCHED_IDLE].map(i64::from);
        let policy = scheduling::policy(pid)?;
        let io = scheduling::io_priority(pid)?;
        Ok(SchedulingClass {
            policy: Some(policy).filter(|policy| policies.contains(policy)),
            io: Some(io).filter(|io| MODEST.contains(&(io >> LEVEL_BITS))),
        })
    }

    /// Gives them to the calling thread, and to what it starts.
    ///
    /// # Errors
    /// The errors of sched_setscheduler(2) and ioprio_set(2).
    pub fn take(self) -> Result<(), Errno> {
        self.policy.map_or(Ok(()), scheduling::set_policy)?;
        self.io.map_or(Ok(()), scheduling::set_io_priority)
    }
}

/// True when the root directory of a process is this one's. No file system but this process's own is asked: one that
/// the process has mounted may be served by whoever need not answer.
///
/// # Errors
/// When the process is not there any more.
pub fn has_own_root(pid: u32) -> std::io::Result<bool> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let opened = |path: &str| nix::fcntl::open(path, flags, Mode::empty());
    let (own, other) = (opened("/")?, opened(&format!("/proc/{pid}/root"))?);
    if mount_of(&own)? != mount_of(&other)? {
        return Ok(false);
    }
    let [own, other] = [fstat(own)?, fstat(other)?];
    Ok((own.st_dev, own.st_ino) == (other.st_dev, other.st_ino))
}

/// True when an open file lies on a mount that this process sees. What somebody has mounted in a namespace of its own does not, nor does
/// what is the kernel's, such as a pipe. No file system is asked.
///
/// # Errors
/// When /proc does not tell.
pub fn is_on_own_mount(opened: impl AsFd) -> std::io::Result<bool> {
    let id = mount_of(opened)?;
    let mounts = crate::kernel_file::read_bytes("/proc/self/mountinfo")?;
    Ok(has_mount(&mounts, &id))
}

/// True when a mount of this number is in such a list, in which others have names of any bytes.
fn has_mount(mounts: &[u8], id: &str) -> bool {
    let mut lines = mounts.split(|byte| *byte == b'\n');
    lines.any(|line| line.split(|byte| *byte == b' ').next() == Some(id.as_bytes()))
}

/// The number of the mount that an open file lies on, proc_pid_fdinfo(5).
fn mount_of(opened: impl AsFd) -> std::io::Result<String> {
    let number = opened.as_fd().as_raw_fd();
    let told = crate::kernel_file::read(format!("/proc/self/fdinfo/{number}"))?;
    let id = told.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let id = id.ok_or_else(|| std::io::Error::other("/proc does not tell its mount"))?;
    Ok(id.trim().to_owned())
}

/// File systems that hold no files but doors into the kernel, or whose answers come from a process that need not give any.
const NO_STORAGE: [i64; 22] = [
    libc::PROC_SUPER_MAGIC,
    libc::SYSFS_MAGIC,
    libc::CGROUP_SUPER_MAGIC,
    libc::CGROUP2_SUPER_MAGIC,
    libc::BPF_FS_MAGIC,
    libc::NSFS_MAGIC,
    libc::DEVPTS_SUPER_MAGIC,
    libc::DEBUGFS_MAGIC,
    libc::TRACEFS_MAGIC,
    libc::SECURITYFS_MAGIC,
    libc::FUSE_SUPER_MAGIC,
    libc::AUTOFS_SUPER_MAGIC,
    // Of `linux/magic.h` and of ipc/mqueue.c, which the library does not name: message queues, binfmt_misc, configfs, SELinux's, EFI's
    // variables, pstore, secret memory, pidfs, RPC's pipes, dma-buf.
    0x1980_0202,
    0x4249_4e4d,
    0x6265_6570,
    0xf97c_ff8c,
    0xde5e_81e4,
    0x6165_676c,
    0x5345_434d,
    0x5049_4446,
    0x6759_6969,
    0x444d_4142,
];

/// Requires a file system that holds files: statfs(2).
///
/// # Errors
/// `EXDEV` when it holds none.
pub fn require_storage(opened: impl AsFd) -> Result<(), Errno> {
    let kind = nix::sys::statfs::fstatfs(opened)?.filesystem_type().0;
    match NO_STORAGE.into_iter().all(|other| other != kind) {
        true => Ok(()),
        false => Err(Errno::EXDEV),
    }
}

/// The rights to files that a thread had, given back when dropped.
struct ThreadRights {
    user: Uid,
    group: Gid,
}

impl ThreadRights {
    fn taken(caller: ServedUser) -> Result<ThreadRights, Errno> {
        let before = ThreadRights {
            user: file_user(),
            group: setfsgid(Gid::from_raw(caller.group)),
        };
        setfsuid(Uid::from_raw(caller.user));
        // Neither call says that it failed.
        let group = setfsgid(Gid::from_raw(u32::MAX)).as_raw();
        if (file_user().as_raw(), group) == (caller.user, caller.group) {
            Ok(before)
        } else {
            Err(Errno::EPERM)
        }
    }
}

impl Drop for ThreadRights {
    fn drop(&mut self) {
        setfsuid(self.user);
        setfsgid(self.group);
    }
}

/// The user by whose rights this thread opens files: the effective one, but for moments.
pub fn file_user() -> Uid {
    // No user has this number, so nothing changes; setfsuid(2).
    setfsuid(Uid::from_raw(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;
    use turnkey_expectations::expected;

    expected!(
        rights_are_the_caller_s_for_a_moment,
        a_handle_proves_nothing: as_root,
        "act as another user"
    );

    #[test]
    fn a_mount_of_any_name_hides_no_other() {
        let mounts =
            b"22 1 0:21 / /home/ada/\xff\xfe rw - fuse a rw\n31 1 8:1 / / rw - ext4 /dev/a rw\n";
        let has = |id| has_mount(mounts, id);
        assert!(has("22") && has("31"));
        assert!(!has("1") && !has("8"));
    }

    #[test]
    fn what_the_kernel_has_itself_is_on_no_mount_of_this_process() {
        let is_own = |opened: &dyn AsFd| is_on_own_mount(opened.as_fd()).unwrap();
        assert!(is_own(&File::open("/etc/passwd").unwrap()));
        assert!(is_own(&File::open("/").unwrap()));
        assert!(!is_own(&std::io::pipe().unwrap().0));
        assert!(has_own_root(std::process::id()).unwrap());
        assert!(has_own_root(u32::MAX >> 1).is_err());
    }

    const NOBODY: ServedUser = ServedUser {
        user: 65_534,
        group: 65_534,
        umask: 0o022,
    };

    /// A directory for its owner alone, in one for everybody.
    fn closed() -> (tempfile::TempDir, std::path::PathBuf) {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let closed = place.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "").unwrap();
        fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
        (place, closed)
    }

    #[test]
    fn rights_are_the_caller_s_for_a_moment() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (_keep, closed) = closed();
        let open = || File::open(closed.join("file")).map_err(|error| error.kind());
        assert!(open().is_ok(), "the control");
        let inside = NOBODY.with_rights(open).unwrap();
        assert_eq!(inside.unwrap_err(), std::io::ErrorKind::PermissionDenied);
        assert!(open().is_ok(), "and afterwards");
        assert_eq!(file_user(), nix::unistd::geteuid());
        let other = std::thread::spawn(move || NOBODY.with_rights(file_user));
        assert_eq!(other.join().unwrap().unwrap().as_raw(), NOBODY.user);
    }

    #[test]
    fn a_handle_proves_nothing() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (_keep, closed) = closed();
        let handle = |path: &std::path::Path| {
            let flags = nix::fcntl::OFlag::O_PATH;
            nix::fcntl::open(path, flags, nix::sys::stat::Mode::empty()).unwrap()
        };
        // Anybody can have it.
        let had = NOBODY.with_rights(|| handle(&closed)).unwrap();
        let require = |needed| NOBODY.require(&had, true, needed);
        assert_eq!(require(NeededAccess::Read), Err(Errno::EACCES));
        fs::set_permissions(&closed, PermissionsExt::from_mode(0o705)).unwrap();
        assert_eq!(require(NeededAccess::Read), Ok(()));
        assert_eq!(require(NeededAccess::Write), Err(Errno::EACCES));
        fs::set_permissions(&closed, PermissionsExt::from_mode(0o707)).unwrap();
        assert_eq!(require(NeededAccess::Write), Ok(()));
    }
}
