//! A tree that the program can write to, `filesystem.root_mode = "overlay"`: one overlay over the jail's own root, and one
//! over each directory of the host that it shows. All writes land in one memory file system.
//!
//! The owner of a directory of the host appears as the jail's user, who can write then what that owner could. What is its
//! owner's and group's alone is absent; what others may use and not read, and what is mounted below, is covered by a view without
//! the translation: nothing more of the host shows than in a tree that is read-only.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::ffi::{CStr, CString};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::stat::fstat;

use super::absent::{self, AbsentSide};
use super::covers;
use super::decoys::PlantedDecoys;
use super::overlay::{self, OverlaySides};
use super::{
    ReplayStep, RootfsError, SourceOpener, attach, failed, kept, relative, require_kind, string,
    translate_owner, view,
};
use crate::ids::idmap::HostId;
use crate::ids::served::NeededAccess;
use crate::layer::KeptLayer;
use crate::sys;

/// The size of what the root is made of before anything is written: directories, symlinks, short files.
const SKELETON: u64 = 16 << 20;
/// Bytes of the host's files that are copied there, in all; the rest of them are views.
const MOST_COPIED: u64 = 8 << 20;
/// The place of the memory that takes the writes, while the tree is built.
pub const UPPER: &CStr = c".tree";

/// The two memory file systems of a writable tree, detached.
#[derive(Debug)]
pub struct WritableTree {
    /// The names that the jail's root is made of.
    pub skeleton: OwnedFd,
    /// All that is written.
    pub upper: OwnedFd,
}

/// A place of the tree, with what was written over it.
#[derive(Debug)]
pub struct WrittenPlace {
    /// As seen from inside.
    pub path: PathBuf,
    /// The host's side and the written one.
    pub sides: OverlaySides,
}

/// The opener of a writable tree's places.
pub(super) struct TreeOpener {
    id: HostId,
    tree: WritableTree,
    places: Vec<WrittenPlace>,
    /// Bytes of the host's files that can still be copied.
    left: u64,
}

impl TreeOpener {
    /// For at most `size` bytes of writes by this user.
    pub fn new(size: u64, id: HostId) -> Result<TreeOpener, RootfsError> {
        let failed = || failed("make the writable side of", Path::new("/"));
        let made = |size| overlay::memory(size).map_err(failed());
        let (skeleton, upper) = (made(SKELETON)?, made(size)?);
        let (user, group) = (id.user.into(), id.group.into());
        let flags = nix::fcntl::AtFlags::AT_EMPTY_PATH;
        nix::unistd::fchownat(&skeleton, c"", Some(user), Some(group), flags).map_err(failed())?;
        Ok(TreeOpener {
            id,
            tree: WritableTree { skeleton, upper },
            places: Vec::new(),
            left: MOST_COPIED,
        })
    }

    /// The mounts and the places.
    pub fn done(self) -> (WritableTree, Vec<WrittenPlace>) {
        (self.tree, self.places)
    }

    /// The root itself.
    pub fn root(
        &mut self,
        layer: Option<&KeptLayer>,
        into: &mut Vec<ReplayStep>,
    ) -> Result<(), RootfsError> {
        let root = Path::new("/");
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let lower = sys::open_beneath(self.tree.skeleton.as_fd(), c".", flags, 0);
        let lower = lower.map_err(failed("write over", root))?;
        let kept = kept(layer, root, self.id)?;
        let upper = self.place((lower, None), kept.as_ref(), root)?;
        into.push(ReplayStep::Place {
            lower: None,
            absent: None,
            kept,
            upper,
            path: relative(root),
        });
        Ok(())
    }

    /// A directory of the host; `used` are the places of the jail that must be there.
    pub fn directory(
        &mut self,
        opened: &OwnedFd,
        (source, path): (&Path, &Path),
        (layer, used): (Option<&KeptLayer>, &[PathBuf]),
        into: &mut Vec<ReplayStep>,
    ) -> Result<(), RootfsError> {
        require_kind(opened, true).map_err(failed("trust", source))?;
        let lower = view(opened, source, false, covers::CLOSED)?;
        translate_owner(&lower, opened, source, (self.id, None))?;
        let failed = || failed("write over", source);
        let readable = libc::O_RDONLY | libc::O_DIRECTORY;
        let listed = sys::open_beneath(opened.as_fd(), c".", readable, 0).map_err(failed())?;
        let covers = covers::over(listed.as_fd(), source, path, used)?;
        let absent = absent::side(listed.as_fd(), &covers.absent, self.id).map_err(failed())?;
        let (absent, marks) = absent
            .map(|AbsentSide { mount, opened }| (mount, opened))
            .unzip();
        let kept = kept(layer, path, self.id)?;
        let upper = self.place((listed, marks), kept.as_ref(), path)?;
        into.push(ReplayStep::Place {
            lower: Some(lower),
            absent,
            kept,
            upper,
            path: relative(path),
        });
        into.extend(covers.views);
        Ok(())
    }

    /// The names of the two directories for what is written over `lower`, at `path`.
    fn place(
        &mut self,
        (lower, absent): (OwnedFd, Option<OwnedFd>),
        kept: Option<&OwnedFd>,
        path: &Path,
    ) -> Result<[CString; 2], RootfsError> {
        let kept = overlay::copy_of(kept).map_err(failed("use what was kept of", path))?;
        let number = self.places.len();
        let [data, work] = ["data", "work"].map(|what| string(format!("{what}{number}")));
        let made = overlay::writable_side(&self.tree.upper, (&data, &work), &lower, self.id);
        let upper = made.map_err(failed("make the writable side of", path))?;
        self.places.push(WrittenPlace {
            path: path.to_owned(),
            sides: OverlaySides {
                lower,
                absent,
                kept,
                upper,
                decoys: PlantedDecoys::default(),
            },
        });
        Ok(["data", "work"]
            .map(|what| string(format!("{}/{what}{number}", UPPER.to_string_lossy()))))
    }
}

impl SourceOpener<'_> {
    /// A file of the host: the content of the one that waits at its place, which a program can then replace, or a view where a copy
    /// is not as good.
    pub(super) fn setting(
        &mut self,
        source: &Path,
        path: &Path,
        into: &mut Vec<ReplayStep>,
    ) -> Result<(), RootfsError> {
        let opened = self.open_path(source, NeededAccess::Read)?;
        require_kind(&opened, false).map_err(failed("trust", source))?;
        let place = relative(path);
        let waiting = into.iter_mut().find_map(|step| match step {
            ReplayStep::File { path, content } if *path == place => Some(content),
            _ => None,
        });
        let left = self.tree.as_mut().map(|tree| &mut tree.left);
        if let (Some(waiting), Some(left)) = (waiting, left)
            && let Some((content, size)) = plain_content(&opened, source, *left)
        {
            *left -= size;
            *waiting = content;
            return Ok(());
        }
        let mount = view(&opened, source, false, covers::CLOSED)?;
        into.push(attach(mount, path));
        Ok(())
    }
}

/// The content and size of a file of root's that everybody may read and only root may write, of at most so many bytes.
fn plain_content(opened: &OwnedFd, source: &Path, most: u64) -> Option<(Vec<u8>, u64)> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let readable = sys::open_without_symlinks(&string(source), flags).ok()?;
    let (named, stat) = (fstat(opened).ok()?, fstat(&readable).ok()?);
    let is_the_same = (named.st_dev, named.st_ino) == (stat.st_dev, stat.st_ino);
    let is_plain = stat.st_mode == libc::S_IFREG | 0o644 && stat.st_uid == 0;
    let size = u64::try_from(stat.st_size).ok()?;
    if !is_the_same || !is_plain || size == 0 || size > most {
        return None;
    }
    let mut content = Vec::new();
    let mut file = std::fs::File::from(readable).take(size);
    file.read_to_end(&mut content).ok()?;
    Some((content, size))
}
