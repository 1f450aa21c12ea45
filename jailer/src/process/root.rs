//! The jail's own half of building the tree: replays the plan's steps in the new root.
//!
//! Runs as: the jail's first process, with every capability inside its user namespace; nothing here allocates.
//! Most of a start is spent in calls like these, so what one step has opened is used by the next one that wants it.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::stat::Mode;

use crate::host::kernel;
use crate::process::child::Outcome;
use crate::rootfs::{ReplayStep, SplitPath};
use crate::sys::{self, MountAttributes};

/// Takes all steps, below a root that is the working directory of this process.
pub fn build(steps: &[ReplayStep], root: BorrowedFd<'_>) -> Outcome {
    let mut builder = RootAssembler {
        root,
        file: None,
        covers: [None, None],
    };
    for (index, step) in (0..).zip(steps) {
        builder.replay(step).map_err(|errno| (index, errno))?;
    }
    Ok(())
}

struct RootAssembler<'a> {
    root: BorrowedFd<'a>,
    /// The file that was made last, which is most often a place to mount at.
    file: Option<(&'a CStr, OwnedFd)>,
    /// The covers of files and of directories: mounts that are in place, with their attributes.
    covers: [Option<(OwnedFd, u64)>; 2],
}

/// The directory that something is made in.
enum ParentDirectory<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for ParentDirectory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ParentDirectory::Root(root) => *root,
            ParentDirectory::Below(opened) => opened.as_fd(),
        }
    }
}

impl<'a> RootAssembler<'a> {
    fn replay(&mut self, step: &'a ReplayStep) -> Result<(), Errno> {
        match step {
            ReplayStep::Directory(place) => {
                let mode = Mode::from_bits_truncate(0o755);
                nix::sys::stat::mkdirat(self.parent(place)?, place.name.as_c_str(), mode)
            }
            ReplayStep::Symlink { path, text } => {
                nix::unistd::symlinkat(text.as_c_str(), self.parent(path)?, path.name.as_c_str())
            }
            ReplayStep::File { path, content } => self.make_file(path, content),
            ReplayStep::Decoy {
                directories,
                path,
                content,
            } => self.plant(directories, path, content),
            ReplayStep::Attach { mount, path } => self.hang_up(mount, path),
            ReplayStep::Mount {
                kind,
                options,
                attributes,
                path,
            } => {
                let mount = sys::new_mount(kind, options, *attributes)?;
                self.hang_up(&mount, path)
            }
            ReplayStep::Mask {
                path,
                directory,
                attributes,
            } => self.mask(path, *directory, *attributes),
            ReplayStep::Overlay { lower, upper, path } => overlay(lower, upper, self.root, path),
        }
    }

    /// The directory to make something in. A symlink on the way could be one that an untrusted root
    /// brought along, and lead to the host, which is still there.
    fn parent(&self, place: &SplitPath) -> Result<ParentDirectory<'a>, Errno> {
        if place.parent.as_c_str() == c"." {
            return Ok(ParentDirectory::Root(self.root));
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        sys::open_beneath(self.root, &place.parent, flags, 0).map(ParentDirectory::Below)
    }

    /// A decoy: what the working directory has at that place is hidden by it, and not followed.
    fn plant(
        &self,
        directories: &[SplitPath],
        path: &CString,
        content: &[u8],
    ) -> Result<(), Errno> {
        for place in directories {
            let made =
                nix::sys::stat::mkdirat(self.parent(place)?, place.name.as_c_str(), Mode::S_IRWXU);
            match made {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        // Nobody reads from a pipe in its place: opening it fails instead of waiting.
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_NONBLOCK;
        write_all(&sys::open_beneath(self.root, path, flags, 0o600)?, content)
    }

    fn make_file(&mut self, path: &'a CString, content: &[u8]) -> Result<(), Errno> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let made = sys::open_beneath(self.root, path, flags, 0o444)?;
        write_all(&made, content)?;
        self.file = Some((path, made));
        Ok(())
    }

    /// Resolves the place once, beneath the new root and without symlinks, and mounts there. A file that has just been
    /// made for it is the place itself.
    fn hang_up(&mut self, mount: &OwnedFd, path: &CString) -> Result<(), Errno> {
        let made = self
            .file
            .take()
            .filter(|(made, _)| *made == path.as_c_str());
        let place = match made {
            Some((_, file)) => file,
            None => sys::open_beneath(self.root, path, libc::O_PATH, 0)?,
        };
        sys::attach(mount.as_fd(), place.as_fd())
    }

    /// Covers a part of /proc. That a kernel has no such part is no failure; anything else is.
    fn mask(&mut self, path: &CString, directory: bool, set: u64) -> Result<(), Errno> {
        let place = match sys::open_beneath(self.root, path, libc::O_PATH, 0) {
            Err(Errno::ENOENT) => return Ok(()),
            opened => opened?,
        };
        let known = &mut self.covers[usize::from(directory)];
        // A copy of a mount has its attributes. It must be one that is in place: older kernels copy no other.
        if let Some((cover, _)) = known.as_ref().filter(|(_, attributes)| *attributes == set) {
            let cover = sys::clone_tree(cover.as_fd(), false)?;
            return sys::attach(cover.as_fd(), place.as_fd());
        }
        let cover = if directory {
            empty_directory(set)
        } else {
            empty_file(self.root, set)
        }?;
        sys::attach(cover.as_fd(), place.as_fd())?;
        *known = Some((cover, set));
        Ok(())
    }
}

fn empty_directory(set: u64) -> Result<OwnedFd, Errno> {
    let options = [(c"size", c"4k"), (c"nr_inodes", c"2"), (c"mode", c"0555")];
    sys::new_mount(c"tmpfs", &options, set)
}

/// A file of our own: the /dev/null that others take can be somebody's symlink.
fn empty_file(root: BorrowedFd<'_>, set: u64) -> Result<OwnedFd, Errno> {
    let empty = sys::open_beneath(root, c".turnkey-empty", libc::O_PATH, 0)?;
    let cover = sys::clone_tree(empty.as_fd(), false)?;
    let attributes = MountAttributes {
        set,
        ..MountAttributes::default()
    };
    sys::mount_setattr(cover.as_fd(), false, &attributes)?;
    Ok(cover)
}

fn write_all(file: &OwnedFd, content: &[u8]) -> Result<(), Errno> {
    let mut rest = content;
    while !rest.is_empty() {
        let written = nix::unistd::write(file, rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

/// overlayfs takes its sides by path, so they hang in the new root while it is mounted, and
/// nowhere afterwards. It is this namespace's own overlay: its marks on the upper side are `user.`
/// attributes.
fn overlay(
    lower: &OwnedFd,
    upper: &OwnedFd,
    root: BorrowedFd<'_>,
    path: &CString,
) -> Result<(), Errno> {
    let stage = [(c".lower", lower), (c".upper", upper)];
    for (name, mount) in stage {
        nix::sys::stat::mkdirat(root, name, Mode::S_IRWXU)?;
        let place = sys::open_beneath(root, name, libc::O_PATH, 0)?;
        sys::attach(mount.as_fd(), place.as_fd())?;
    }
    // The working directory of this process is the new root.
    let options = [
        (c"lowerdir", c".lower"),
        (c"upperdir", c".upper/data"),
        (c"workdir", c".upper/work"),
        (c"userxattr", c""),
        // No file of one side has the number of one of the other.
        (c"xino", c"on"),
    ];
    let mount = sys::new_mount(
        c"overlay",
        &options,
        kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV,
    )?;
    let place = sys::open_beneath(root, path, libc::O_PATH, 0)?;
    sys::attach(mount.as_fd(), place.as_fd())?;
    for (name, _) in stage {
        nix::mount::umount2(name, nix::mount::MntFlags::MNT_DETACH)?;
        nix::unistd::unlinkat(root, name, nix::unistd::UnlinkatFlags::RemoveDir)?;
    }
    Ok(())
}
