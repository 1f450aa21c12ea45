//! The supervisor's half of building the tree: every path of the host is opened once, here, and
//! becomes a detached mount that the child only has to hang up.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges. Nothing is mounted
//! on the host: a detached mount is visible to nobody and gone with its descriptor.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{FchmodatFlags, Mode};

use crate::idmap::{HostId, MountOwner};
use crate::kernel;
use crate::plan::TreeStep;
use crate::sys::{self, MountAttributes};

/// One step for the child to replay: every string ready, every host path a descriptor. All paths
/// are relative to the new root.
#[derive(Debug)]
pub enum Replay {
    /// mkdirat(2)
    Directory(CString),
    /// symlinkat(2)
    Symlink {
        /// Where.
        path: CString,
        /// Its text.
        text: CString,
    },
    /// openat(2) and write(2)
    File {
        /// Where.
        path: CString,
        /// What it holds.
        content: Vec<u8>,
    },
    /// move_mount(2) of a detached mount.
    Attach {
        /// The mount.
        mount: OwnedFd,
        /// Where.
        path: CString,
    },
    /// A new file system, made in the jail's own namespaces.
    Mount {
        /// Its type.
        kind: CString,
        /// Its options; an empty value is a flag.
        options: Vec<(CString, CString)>,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
        /// Where.
        path: CString,
    },
    /// Something empty and read-only over what is there, if it is there.
    Mask {
        /// What is covered.
        path: CString,
        /// Whether it is a directory.
        directory: bool,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
    },
    /// overlayfs over the working directory.
    Overlay {
        /// The working directory, read-only, its owner translated.
        lower: OwnedFd,
        /// A tmpfs with `data` and `work` in it.
        upper: OwnedFd,
        /// Where.
        path: CString,
    },
}

/// What could not be made ready, and why.
#[derive(Debug, thiserror::Error)]
#[error("could not {act} {path}{fix}")]
pub struct TreeError {
    act: &'static str,
    path: PathBuf,
    fix: &'static str,
    source: Errno,
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(Errno) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError {
        act,
        path,
        fix: "",
        source,
    }
}

/// The tree made ready, and the writable side of the overlay for reading it afterwards.
#[derive(Debug)]
pub struct Tree {
    /// In the plan's order.
    pub steps: Vec<Replay>,
    /// The caller's directory and what was written over it.
    pub overlay: Option<OverlaySides>,
}

/// Both sides of the overlay, as the supervisor keeps them.
#[derive(Debug)]
pub struct OverlaySides {
    /// The caller's directory.
    pub lower: OwnedFd,
    /// The directory that took the writes.
    pub upper: OwnedFd,
}

/// Turns the plan's steps into something to replay.
pub fn open(steps: &[TreeStep], id: HostId) -> Result<Tree, TreeError> {
    let mut tree = Tree {
        steps: Vec::with_capacity(steps.len()),
        overlay: None,
    };
    for step in steps {
        let replay = match step {
            TreeStep::Overlay { source, path, size } => {
                let (replay, sides) = overlay(source, path, *size, id)?;
                tree.overlay = Some(sides);
                replay
            }
            other => open_one(other, id)?,
        };
        tree.steps.push(replay);
    }
    Ok(tree)
}

fn open_one(step: &TreeStep, id: HostId) -> Result<Replay, TreeError> {
    let mount = |kind: &str, options: &[(&str, String)], path: &Path| Replay::Mount {
        kind: string(kind),
        options: options
            .iter()
            .map(|(name, value)| (string(name), string(value)))
            .collect(),
        attributes: step.attributes(),
        path: relative(path),
    };
    Ok(match step {
        TreeStep::Directory(path) => Replay::Directory(relative(path)),
        TreeStep::Symlink { path, text } => Replay::Symlink {
            path: relative(path),
            text: string(text),
        },
        TreeStep::File { path, content } => Replay::File {
            path: relative(path),
            content: content.clone(),
        },
        TreeStep::Bind {
            source,
            path,
            directory,
            owned,
            ..
        } => {
            let mount = bind(source, *directory, step.attributes(), owned.then_some(id))?;
            Replay::Attach {
                mount,
                path: relative(path),
            }
        }
        TreeStep::Device { path, number } => Replay::Attach {
            mount: device(path, *number, step.attributes())?,
            path: relative(path),
        },
        TreeStep::Tmpfs { path, size } => mount(
            "tmpfs",
            &[("size", size.to_string()), ("mode", "1777".into())],
            path,
        ),
        TreeStep::Proc(path) => mount("proc", &[], path),
        TreeStep::Mask { path, directory } => Replay::Mask {
            path: relative(path),
            directory: *directory,
            attributes: step.attributes(),
        },
        TreeStep::Terminals(path) => {
            let options = [
                ("newinstance", String::new()),
                ("ptmxmode", "0666".into()),
                ("mode", "0620".into()),
            ];
            mount("devpts", &options, path)
        }
        TreeStep::Overlay { source, path, size } => overlay(source, path, *size, id)?.0,
    })
}

fn string(text: impl AsRef<OsStr>) -> CString {
    crate::plan::c_string(text.as_ref())
}

fn relative(path: &Path) -> CString {
    string(path.strip_prefix("/").unwrap_or(path))
}

/// A detached copy of a host path. Recursive, so that what is mounted below it gets the same
/// attributes: a read-only directory with a writable mount inside is not read-only.
fn bind(
    source: &Path,
    directory: bool,
    set: u64,
    owner: Option<HostId>,
) -> Result<OwnedFd, TreeError> {
    let kind = if directory { libc::O_DIRECTORY } else { 0 };
    let opened = sys::open_without_symlinks(&string(source), libc::O_PATH | kind);
    let opened = opened.or_else(|errno| match errno {
        // A directory on the way is a symlink of the host's administrator, such as /lib.
        Errno::ELOOP => {
            sys::open_following(&string(source), libc::O_PATH | libc::O_NOFOLLOW | kind)
        }
        other => Err(other),
    });
    let opened = opened.map_err(failed("open", source))?;
    let mount =
        sys::clone_tree(opened.as_fd(), directory).map_err(failed("take a view of", source))?;
    let attributes = MountAttributes {
        set,
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(mount.as_fd(), directory, &attributes)
        .map_err(failed("restrict the view of", source))?;
    if let Some(id) = owner {
        translate_owner(&mount, &opened, source, id)?;
    }
    Ok(mount)
}

/// Lets the owner of a host directory appear as the jail's user, through an id-mapped mount.
fn translate_owner(
    mount: &OwnedFd,
    source: &OwnedFd,
    path: &Path,
    id: HostId,
) -> Result<(), TreeError> {
    const FIX: &str = ": its file system cannot be id-mapped by this kernel; \
                       use `--workdir-mode none` or a directory on another file system";
    // In a caller's own namespace the kernel refuses the translation, and nothing needs it.
    if id.is_caller {
        return Ok(());
    }
    let translated = || {
        let owner = MountOwner::of(source.as_fd())?;
        let namespace = owner.namespace(id)?;
        let user_namespace =
            u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&namespace)).unwrap_or(0);
        let attributes = MountAttributes {
            set: kernel::MOUNT_ATTR_IDMAP,
            user_namespace,
            ..MountAttributes::default()
        };
        sys::mount_setattr(mount.as_fd(), false, &attributes)
    };
    translated().map_err(|source| TreeError {
        act: "translate the owner of",
        path: path.to_owned(),
        fix: FIX,
        source,
    })
}

/// A device node of the host, after a look that it is what its name says: a symlink or another
/// node in its place would be a door.
fn device(path: &Path, number: (u32, u32), set: u64) -> Result<OwnedFd, TreeError> {
    let opened = sys::open_without_symlinks(&string(path), libc::O_PATH | libc::O_NOFOLLOW);
    let opened = opened.map_err(failed("open the device", path))?;
    let stat = nix::sys::stat::fstat(&opened).map_err(failed("look at the device", path))?;
    let expected = libc::makedev(number.0, number.1);
    if stat.st_mode & libc::S_IFMT != libc::S_IFCHR || stat.st_rdev != expected {
        return Err(failed("trust the device", path)(Errno::ENODEV));
    }
    let mount = sys::clone_tree(opened.as_fd(), false).map_err(failed("take a view of", path))?;
    let attributes = MountAttributes {
        set,
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(mount.as_fd(), false, &attributes)
        .map_err(failed("restrict the view of", path))?;
    Ok(mount)
}

fn overlay(
    source: &Path,
    path: &Path,
    size: u64,
    id: HostId,
) -> Result<(Replay, OverlaySides), TreeError> {
    let host = sys::open_following(&string(source), libc::O_PATH | libc::O_DIRECTORY);
    let host = host.map_err(failed("open the working directory", source))?;
    let lower = sys::clone_tree(host.as_fd(), false).map_err(|errno| TreeError {
        fix: below(errno, id),
        ..failed("take a view of", source)(errno)
    })?;
    let set = kernel::MOUNT_ATTR_RDONLY | kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    let attributes = MountAttributes {
        set,
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    sys::mount_setattr(lower.as_fd(), false, &attributes)
        .map_err(failed("restrict the view of", source))?;
    translate_owner(&lower, &host, source, id)?;
    let (upper, data) =
        upper(size, &host, id).map_err(failed("make the writable side of", source))?;
    let sides = OverlaySides {
        lower: host,
        upper: data,
    };
    Ok((
        Replay::Overlay {
            lower,
            upper,
            path: relative(path),
        },
        sides,
    ))
}

/// What else is mounted below a directory hides something of it, and only root may look behind.
fn below(errno: Errno, id: HostId) -> &'static str {
    if errno == Errno::EINVAL && id.is_caller {
        return ": something else is mounted below it, which only root can leave out; \
                start in another directory, or use `--workdir-mode read-only`";
    }
    ""
}

/// The tmpfs that takes the writes, with the two directories overlayfs wants. Made here and not by
/// the child, so that the supervisor can read it when the jail is gone.
fn upper(size: u64, host: &OwnedFd, id: HostId) -> Result<(OwnedFd, OwnedFd), Errno> {
    let options = [
        (string("size"), string(size.to_string())),
        (string("mode"), string("0755")),
    ];
    let attributes = kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    let upper = sys::new_mount(c"tmpfs", &options, attributes)?;
    // The merged directory shows the mode of its upper side, so that takes the host's.
    let mode = Mode::from_bits_truncate(nix::sys::stat::fstat(host)?.st_mode & 0o1777);
    for name in [c"data", c"work"] {
        nix::sys::stat::mkdirat(&upper, name, Mode::S_IRWXU)?;
        nix::sys::stat::fchmodat(
            &upper,
            name,
            mode | Mode::S_IRWXU,
            FchmodatFlags::FollowSymlink,
        )?;
        let (user, group) = (
            nix::unistd::Uid::from_raw(id.user),
            nix::unistd::Gid::from_raw(id.group),
        );
        nix::unistd::fchownat(
            &upper,
            name,
            Some(user),
            Some(group),
            nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
        )?;
    }
    let data = sys::open_beneath(
        upper.as_fd(),
        c"data",
        libc::O_RDONLY | libc::O_DIRECTORY,
        0,
    )?;
    Ok((upper, data))
}
