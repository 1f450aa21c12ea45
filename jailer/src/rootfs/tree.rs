//! A tree that the program can write to, `filesystem.root_mode = "overlay"`: one overlay over the jail's own root, and one
//! over each directory of the host that it shows. All writes land in one memory file system.
//!
//! The owner of a directory of the host appears as the jail's user, who can write then what that owner could. What the jail's
//! user could not read without that, and what is mounted below, is covered by a view without it: nothing
//! more of the host shows than in a tree that is read-only.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::covers;
use super::decoys::PlantedDecoys;
use super::overlay::{self, OverlaySides};
use super::{
    ReplayStep, RootfsError, failed, kept, relative, require_kind, string, translate_owner, view,
};
use crate::ids::idmap::HostId;
use crate::layer::KeptLayer;
use crate::sys;

/// The size of what the root is made of before anything is written: directories, symlinks, a few short files.
const SKELETON: u64 = 4 << 20;
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
        let upper = self.place(lower, kept.as_ref(), root)?;
        into.push(ReplayStep::Place {
            lower: None,
            kept,
            upper,
            path: relative(root),
        });
        Ok(())
    }

    /// A directory of the host.
    pub fn directory(
        &mut self,
        opened: &OwnedFd,
        (source, path): (&Path, &Path),
        layer: Option<&KeptLayer>,
        into: &mut Vec<ReplayStep>,
    ) -> Result<(), RootfsError> {
        require_kind(opened, true).map_err(failed("trust", source))?;
        let lower = view(opened, source, false, covers::CLOSED)?;
        translate_owner(&lower, opened, source, self.id)?;
        let failed = || failed("write over", source);
        let readable = libc::O_RDONLY | libc::O_DIRECTORY;
        let listed = sys::open_beneath(opened.as_fd(), c".", readable, 0).map_err(failed())?;
        let covers = covers::over(listed.as_fd(), source, path)?;
        let kept = kept(layer, path, self.id)?;
        let upper = self.place(listed, kept.as_ref(), path)?;
        into.push(ReplayStep::Place {
            lower: Some(lower),
            kept,
            upper,
            path: relative(path),
        });
        into.extend(covers);
        Ok(())
    }

    /// The names of the two directories for what is written over `lower`, at `path`.
    fn place(
        &mut self,
        lower: OwnedFd,
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
                kept,
                upper,
                decoys: PlantedDecoys::default(),
            },
        });
        Ok(["data", "work"]
            .map(|what| string(format!("{}/{what}{number}", UPPER.to_string_lossy()))))
    }
}
