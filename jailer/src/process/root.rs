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
use crate::rootfs::{ReplayStep, SplitPath, UPPER, WritableTree};
use crate::sys::{self, MountAttributes};

/// Takes all steps, below a root that is the working directory of this process.
pub fn build(steps: &[ReplayStep], root: BorrowedFd<'_>) -> Outcome {
    let mut builder = RootAssembler::new(root, root);
    for (index, step) in (0..).zip(steps) {
        builder.replay(step).map_err(|errno| (index, errno))?;
    }
    Ok(())
}

/// The same for a tree that can be written; `stage` is the working directory of this process, and holds nothing of the jail's. The
/// steps before the one for the root itself are taken on what the root is made of, all others on the root that lies over
/// it, which becomes the working directory.
pub fn build_writable(steps: &[ReplayStep], stage: BorrowedFd<'_>, tree: &WritableTree) -> Outcome {
    let whole = |errno| (0, errno);
    let skeleton = hang_on(stage, c".skeleton", &tree.skeleton).map_err(whole)?;
    hang_on(stage, UPPER, &tree.upper).map_err(whole)?;
    let mut root = None;
    let mut builder = RootAssembler {
        mode: 0o644,
        ..RootAssembler::new(skeleton, skeleton)
    };
    let mut rest = (0..).zip(steps);
    for (index, step) in rest.by_ref() {
        if let ReplayStep::Place {
            lower: None,
            kept,
            upper,
            ..
        } = step
        {
            root =
                Some(writable_root(stage, kept.as_ref(), upper).map_err(|errno| (index, errno))?);
            break;
        }
        builder.replay(step).map_err(|errno| (index, errno))?;
    }
    let root = root.ok_or((0, Errno::EINVAL))?;
    let mut builder = RootAssembler {
        stage,
        ..RootAssembler::new(root.as_fd(), skeleton)
    };
    for (index, step) in rest {
        builder.replay(step).map_err(|errno| (index, errno))?;
    }
    nix::unistd::fchdir(&root).map_err(whole)
}

/// Makes a directory of the stage and mounts there.
fn hang_on<'m>(
    stage: BorrowedFd<'_>,
    name: &CStr,
    mount: &'m OwnedFd,
) -> Result<BorrowedFd<'m>, Errno> {
    nix::sys::stat::mkdirat(stage, name, Mode::S_IRWXU)?;
    let place = sys::open_beneath(stage, name, libc::O_PATH, 0)?;
    sys::attach(mount.as_fd(), place.as_fd())?;
    Ok(mount.as_fd())
}

/// The overlay over what the root is made of, on the stage.
fn writable_root(
    stage: BorrowedFd<'_>,
    kept: Option<&OwnedFd>,
    upper: &[CString; 2],
) -> Result<OwnedFd, Errno> {
    let root = layered(stage, kept, [c".skeleton", c".kept:.skeleton"], upper)?;
    hang_on(stage, c".root", &root)?;
    Ok(root)
}

/// An overlay over the lower sides that the first text names, or the second where something was `kept`.
fn layered(
    stage: BorrowedFd<'_>,
    kept: Option<&OwnedFd>,
    [plain, with_kept]: [&CStr; 2],
    upper: &[impl AsRef<CStr>; 2],
) -> Result<OwnedFd, Errno> {
    let Some(kept) = kept else {
        return new_overlay(plain, upper);
    };
    hang_on(stage, c".kept", kept)?;
    let overlay = new_overlay(with_kept, upper)?;
    take_off(stage, c".kept")?;
    Ok(overlay)
}

struct RootAssembler<'a> {
    /// The working directory of this process, where overlayfs finds its sides.
    stage: BorrowedFd<'a>,
    /// The names that the root is made of, which nobody can have written to.
    skeleton: BorrowedFd<'a>,
    root: BorrowedFd<'a>,
    /// The mode of new files.
    mode: u32,
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
    fn new(root: BorrowedFd<'a>, skeleton: BorrowedFd<'a>) -> Self {
        RootAssembler {
            stage: root,
            skeleton,
            root,
            mode: 0o444,
            file: None,
            covers: [None, None],
        }
    }

    fn directory(&mut self, place: &SplitPath, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_bits_truncate(mode);
        nix::sys::stat::mkdirat(self.parent(place)?, place.name.as_c_str(), mode)
    }

    fn replay(&mut self, step: &'a ReplayStep) -> Result<(), Errno> {
        match step {
            ReplayStep::Directory(place) => self.directory(place, 0o755),
            // The jail's user owns it. Where the tree can be written, so can this.
            ReplayStep::Unlisted(place) => self.directory(place, 0o311),
            ReplayStep::Symlink { path, text } => {
                nix::unistd::symlinkat(text.as_c_str(), self.parent(path)?, path.name.as_c_str())
            }
            ReplayStep::File { path, content } => self.make_file(path, content),
            ReplayStep::Copy { from, path } => self.copy(from, path),
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
            ReplayStep::Cover {
                file,
                path,
                attributes,
            } => self.cover(file, path, *attributes),
            ReplayStep::Overlay {
                lower,
                kept,
                upper,
                path,
            } => self.overlay((lower, kept.as_ref()), upper, path),
            ReplayStep::Place { lower: None, .. } => Ok(()),
            ReplayStep::Place {
                lower: Some(lower),
                absent: None,
                kept,
                upper,
                path,
            } => self.over((lower, kept.as_ref()), LOWER, upper, path),
            ReplayStep::Place {
                lower: Some(lower),
                absent: Some(absent),
                kept,
                upper,
                path,
            } => {
                hang_on(self.stage, c".absent", absent)?;
                self.over((lower, kept.as_ref()), LOWER_WITHOUT_ABSENT, upper, path)?;
                take_off(self.stage, c".absent")
            }
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
        let made = sys::open_beneath(self.root, path, flags, self.mode)?;
        write_all(&made, content)?;
        self.file = Some((path, made));
        Ok(())
    }

    fn copy(&self, from: &OwnedFd, path: &CString) -> Result<(), Errno> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let made = sys::open_beneath(self.root, path, flags, self.mode)?;
        let (mut piece, mut at) = ([0; 1024], 0);
        loop {
            let length = nix::sys::uio::pread(from, &mut piece, at)?;
            if length == 0 {
                return Ok(());
            }
            write_all(&made, &piece[..length])?;
            at += i64::try_from(length).unwrap_or(0);
        }
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
            own_file(self.skeleton, c".turnkey-empty", set)
        }?;
        sys::attach(cover.as_fd(), place.as_fd())?;
        *known = Some((cover, set));
        Ok(())
    }

    /// Covers a file by one of the root's own. Where there is none, or a symlink leads to another, nothing is to cover.
    fn cover(&self, file: &CStr, path: &CStr, set: u64) -> Result<(), Errno> {
        let place = match sys::open_beneath(self.root, path, libc::O_PATH, 0) {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(()),
            opened => opened?,
        };
        let cover = own_file(self.skeleton, file, set)?;
        sys::attach(cover.as_fd(), place.as_fd())
    }
}

fn empty_directory(set: u64) -> Result<OwnedFd, Errno> {
    let options = [(c"size", c"4k"), (c"nr_inodes", c"2"), (c"mode", c"0555")];
    sys::new_mount(c"tmpfs", &options, set)
}

/// A cover that is a file of our own: the /dev/null that others take can be somebody's symlink.
fn own_file(root: BorrowedFd<'_>, file: &CStr, set: u64) -> Result<OwnedFd, Errno> {
    let file = sys::open_beneath(root, file, libc::O_PATH, 0)?;
    let cover = sys::clone_tree(file.as_fd(), false)?;
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

/// A new overlay of this namespace's own: its marks on the upper side are `user.` attributes. The paths of its sides are
/// below the working directory.
fn new_overlay(lower: &CStr, [data, work]: &[impl AsRef<CStr>; 2]) -> Result<OwnedFd, Errno> {
    let options = [
        (c"lowerdir", lower),
        (c"upperdir", data.as_ref()),
        (c"workdir", work.as_ref()),
        (c"userxattr", c""),
        // No file of one side has the number of one of the other.
        (c"xino", c"on"),
    ];
    let attributes = kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;
    sys::new_mount(c"overlay", &options, attributes)
}

/// Takes a side of an overlay off the stage again: the overlay has its own.
fn take_off(stage: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    nix::mount::umount2(name, nix::mount::MntFlags::MNT_DETACH)?;
    nix::unistd::unlinkat(stage, name, nix::unistd::UnlinkatFlags::RemoveDir)
}

/// The lower sides over a directory of the host, without and with what was kept.
const LOWER: [&CStr; 2] = [c".lower", c".kept:.lower"];
/// The same where names of the host are absent.
const LOWER_WITHOUT_ABSENT: [&CStr; 2] = [c".absent:.lower", c".kept:.absent:.lower"];

impl RootAssembler<'_> {
    /// overlayfs takes its sides by path, so they hang on the stage while it is mounted, and nowhere afterwards.
    fn overlay(
        &mut self,
        sides: (&OwnedFd, Option<&OwnedFd>),
        upper: &OwnedFd,
        path: &CString,
    ) -> Result<(), Errno> {
        hang_on(self.stage, c".upper", upper)?;
        self.over(sides, LOWER, &[c".upper/data", c".upper/work"], path)?;
        take_off(self.stage, c".upper")
    }

    fn over(
        &mut self,
        (lower, kept): (&OwnedFd, Option<&OwnedFd>),
        sides: [&CStr; 2],
        upper: &[impl AsRef<CStr>; 2],
        path: &CString,
    ) -> Result<(), Errno> {
        hang_on(self.stage, c".lower", lower)?;
        let mount = layered(self.stage, kept, sides, upper)?;
        let place = sys::open_beneath(self.root, path, libc::O_PATH, 0)?;
        sys::attach(mount.as_fd(), place.as_fd())?;
        take_off(self.stage, c".lower")
    }
}
