//! A caller whose root directory is not that of its mount namespace, chroot(2).
//!
//! The kernel gives nobody there a user namespace, not even root: `create_user_ns()` in kernel/user_namespace.c.
//! Where root is in one, as in the tree of a distribution that is tried out or repaired, the same tree becomes the root of a
//! mount namespace of turnkey's own. Nothing more can be reached from it, and nothing that happens there shows elsewhere.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use rustix::fs::{StatxFlags, statx};

use crate::sys::{self, MountAttributes};

/// Makes the root directory of this process the root of a mount namespace of its own, unless it is that of its
/// namespace already. Takes a process with one thread, `CAP_SYS_ADMIN` and `CAP_SYS_CHROOT`; whoever lacks them
/// stays where it is, as does whoever meets a failure: whether namespaces can be made is then tried and told as ever.
pub(crate) fn leave() {
    let Ok(place) = ChrootPlace::here() else {
        return;
    };
    if move_root(&place).is_err() {
        place.back();
    }
}

/// The place where this process was.
struct ChrootPlace {
    root: OwnedFd,
    directory: OwnedFd,
}

impl ChrootPlace {
    fn here() -> Result<ChrootPlace, Errno> {
        Ok(ChrootPlace {
            root: open(c"/")?,
            directory: open(c".")?,
        })
    }

    /// Harmless where nothing has changed. It was there a moment ago, and is held open.
    fn back(&self) {
        let entered = nix::unistd::fchdir(&self.root).and_then(|()| nix::unistd::chroot(c"."));
        let _ = entered.and_then(|()| nix::unistd::fchdir(&self.directory));
    }
}

fn move_root(place: &ChrootPlace) -> Result<(), Errno> {
    let path = nix::unistd::getcwd()?;
    let namespace = nix::fcntl::open(c"/proc/self/ns/mnt", OFlag::O_CLOEXEC, Mode::empty())?;
    // Into the namespace that it is in already: that takes it to the namespace's root.
    setns(&namespace, CloneFlags::CLONE_NEWNS)?;
    if identity(&open(c"/")?)? == identity(&place.root)? {
        return nix::unistd::fchdir(&place.directory);
    }
    // The copy is made of mounts of the old namespace, and hung up in the new one.
    let tree = sys::clone_tree(place.root.as_fd(), true)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    let top = open(c"/")?;
    let private = MountAttributes {
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(top.as_fd(), true, &private)?;
    sys::attach(tree.as_fd(), top.as_fd())?;
    nix::unistd::fchdir(&tree)?;
    nix::unistd::chroot(c".")?;
    // A directory that has no name in here is none to start in; who is at the root is told so.
    let _ = nix::unistd::chdir(&path);
    Ok(())
}

fn open(path: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    nix::fcntl::openat(AT_FDCWD, path, flags, Mode::empty())
}

/// The mount, the device and the file.
fn identity(directory: &OwnedFd) -> Result<(u64, u32, u32, u64), Errno> {
    let flags =
        rustix::fs::AtFlags::from_bits_retain(AtFlags::AT_EMPTY_PATH.bits().cast_unsigned());
    let found = statx(directory, c"", flags, StatxFlags::MNT_ID | StatxFlags::INO);
    let found = found.map_err(|error| Errno::from_raw(error.raw_os_error()))?;
    Ok((
        found.stx_mnt_id,
        found.stx_dev_major,
        found.stx_dev_minor,
        found.stx_ino,
    ))
}
