//! The supervisor's half of building the tree: every path of the host is opened once, here, and
//! becomes a detached mount that the child only has to hang up.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges. Nothing is mounted
//! on the host: a detached mount is visible to nobody and gone with its descriptor.

mod absent;
pub(crate) mod attributes;
pub(crate) mod changes;
mod covers;
pub(crate) mod decoys;
mod overlay;
pub mod paths;
mod private;
pub mod root;
mod tree;
mod views;

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use turnkey_policy::{ProcView, WORKSPACE};

use crate::host::fix;
use crate::ids::idmap::HostId;
use crate::ids::served::{self, NeededAccess, ServedUser};
use crate::layer::KeptLayer;
use crate::plan::{LandlockGrant, RootfsStep};
use crate::rootfs::decoys::PlantedDecoys;
use crate::rootfs::paths::{LastSymlink, PathError};
use crate::sys;
pub use overlay::OverlaySides;
pub(crate) use overlay::memory;
use tree::TreeOpener;
pub use tree::{UPPER, WritableTree, WrittenPlace};
use views::{bind, device, is_directory, require_kind, translate_owner, view};

/// A memory file system holds one file for so many of its bytes.
const BYTES_PER_FILE: u64 = 4096;
/// But not fewer than this.
const FEWEST_FILES: u64 = 64;

/// One step for the child to replay: every string ready, every host path a descriptor. All paths
/// are relative to the new root.
#[derive(Debug)]
pub enum ReplayStep {
    /// mkdirat(2)
    Directory(SplitPath),
    /// The same, for who knows its names.
    Unlisted(SplitPath),
    /// symlinkat(2)
    Symlink {
        /// The path inside the jail.
        path: SplitPath,
        /// The text of the limit.
        text: CString,
    },
    /// openat(2) and write(2)
    File {
        /// The path inside the jail.
        path: CString,
        /// The content.
        content: Vec<u8>,
    },
    /// The same, with what is in another file then.
    Copy {
        /// The other file.
        from: OwnedFd,
        /// The path inside the jail.
        path: CString,
    },
    /// The same through what is mounted there, over a file that may be there.
    Decoy {
        /// On the way, the outermost first; they may be there.
        directories: Vec<SplitPath>,
        /// The path inside the jail.
        path: CString,
        /// The content.
        content: Vec<u8>,
    },
    /// move_mount(2) of a detached mount.
    Attach {
        /// The mount.
        mount: OwnedFd,
        /// The path inside the jail.
        path: CString,
    },
    /// A new file system, made in the jail's own namespaces.
    Mount {
        /// The file system's type.
        kind: CString,
        /// The options; an empty value is a flag.
        options: Vec<(CString, CString)>,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
        /// The path inside the jail.
        path: CString,
    },
    /// An empty, read-only cover over what is there, if it is there.
    Mask {
        /// The path that is covered.
        path: CString,
        /// True for a directory.
        directory: bool,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
    },
    /// A file of the jail's root over what is there, if it is there.
    Cover {
        /// The file that covers.
        file: CString,
        /// The file that is covered.
        path: CString,
        /// `MOUNT_ATTR_*`.
        attributes: u64,
    },
    /// overlayfs over a part of the tree that the jail's root shows.
    Place {
        /// The directory of the host, read-only, its owner translated; `None` for what the jail's root is made of.
        lower: Option<OwnedFd>,
        /// The names of it that the jail does not have, marked, shown above.
        absent: Option<OwnedFd>,
        /// The directory of what earlier runs have kept of it, shown above both.
        kept: Option<OwnedFd>,
        /// The directory for what is written, and the one that overlayfs itself needs.
        upper: [CString; 2],
        /// The path inside the jail.
        path: CString,
    },
    /// overlayfs over the working directory.
    Overlay {
        /// The working directory, read-only, its owner translated.
        lower: OwnedFd,
        /// The directory of what earlier runs have kept of it, shown above.
        kept: Option<OwnedFd>,
        /// A tmpfs with `data` and `work` in it.
        upper: OwnedFd,
        /// The path inside the jail.
        path: CString,
    },
}

/// A name to make in a directory that is there. Split, because the way to the directory is resolved
/// without symlinks, which mkdirat(2) and symlinkat(2) cannot do themselves.
#[derive(Debug)]
pub struct SplitPath {
    /// The directory; a dot for the root.
    pub parent: CString,
    /// The new name.
    pub name: CString,
}

impl SplitPath {
    fn from_absolute(path: &Path) -> SplitPath {
        let parent = path.parent().map(relative);
        let parent = parent.filter(|parent| !parent.is_empty());
        SplitPath {
            parent: parent.unwrap_or(c".".to_owned()),
            name: string(path.file_name().unwrap_or_default()),
        }
    }
}

impl ReplayStep {
    /// The path, as seen from inside.
    pub fn place(&self) -> String {
        let path = match self {
            ReplayStep::Directory(place)
            | ReplayStep::Unlisted(place)
            | ReplayStep::Symlink { path: place, .. } => {
                let (parent, name) = (place.parent.to_string_lossy(), place.name.to_string_lossy());
                return format!("/{parent}/{name}").replacen("/./", "/", 1);
            }
            ReplayStep::File { path, .. }
            | ReplayStep::Copy { path, .. }
            | ReplayStep::Attach { path, .. }
            | ReplayStep::Mount { path, .. }
            | ReplayStep::Mask { path, .. }
            | ReplayStep::Cover { path, .. }
            | ReplayStep::Decoy { path, .. }
            | ReplayStep::Place { path, .. }
            | ReplayStep::Overlay { path, .. } => path,
        };
        format!("/{}", path.to_string_lossy())
    }
}

/// The part that could not be made ready, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("could not {act} {path}{fix}")]
pub struct RootfsError {
    act: &'static str,
    path: PathBuf,
    fix: &'static str,
    source: Errno,
}

impl RootfsError {
    /// The fix; `None` where the message says it.
    pub(crate) fn fix(&self) -> Option<String> {
        match self.source {
            _ if !self.fix.is_empty() => None,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => {
                Some("it has changed since it was looked at: start it again".to_owned())
            }
            Errno::EACCES => Some(
                "the user that turnkey runs as must be able to reach it: change its mode, or leave it out"
                    .to_owned(),
            ),
            errno => Some(fix::by_errno(errno)),
        }
    }
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(Errno) -> RootfsError + use<> {
    let path = path.to_owned();
    move |source| RootfsError {
        act,
        path,
        fix: "",
        source,
    }
}

/// The tree made ready, and the writable side of the overlay for reading it afterwards.
#[derive(Debug)]
pub struct PreparedRootfs {
    /// In the plan's order.
    pub steps: Vec<ReplayStep>,
    /// The caller's directory and what was written over it.
    pub overlay: Option<OverlaySides>,
    /// The mounts that make the rest of the tree writable.
    pub tree: Option<WritableTree>,
    /// The file that [`RootfsStep::Late`] is copied from, still empty.
    pub late: Option<OwnedFd>,
    /// The places of it, and what was written there.
    pub places: Vec<WrittenPlace>,
}

/// Turns the plan's steps into something to replay, for a jail with these grants of Landlock; `served` is the user whose rights
/// every path of the host is opened by, where that is not this process's.
pub fn open(
    steps: &[RootfsStep],
    grants: &[LandlockGrant],
    (id, served): (HostId, Option<ServedUser>),
    layer: Option<&KeptLayer>,
) -> Result<PreparedRootfs, RootfsError> {
    let granted = grants.iter().map(|grant| &*grant.path);
    let mut opener = SourceOpener {
        id,
        served,
        layer,
        folder: None,
        root: None,
        overlay: None,
        tree: None,
        decoys: PlantedDecoys::default(),
        late: None,
        used: steps
            .iter()
            .filter_map(RootfsStep::place)
            .chain(granted)
            .map(Path::to_owned)
            .collect(),
    };
    let mut replays = Vec::with_capacity(steps.len());
    for step in steps {
        opener.replay(step, &mut replays)?;
    }
    let decoys = opener.decoys;
    let overlay = opener.overlay.map(|sides| OverlaySides { decoys, ..sides });
    let (tree, places) = opener.tree.map(TreeOpener::done).unzip();
    Ok(PreparedRootfs {
        late: opener.late,
        steps: replays,
        overlay,
        tree,
        places: places.unwrap_or_default(),
    })
}

/// The opener of a step's sources, with what is needed after it.
struct SourceOpener<'a> {
    id: HostId,
    served: Option<ServedUser>,
    layer: Option<&'a KeptLayer>,
    /// The directory that the last one of the host lay in: most lie beside each other.
    folder: Option<(PathBuf, OwnedFd)>,
    /// The policy's own root: opened once, so that all its entries are those of one directory.
    root: Option<OwnedFd>,
    overlay: Option<OverlaySides>,
    tree: Option<TreeOpener>,
    decoys: PlantedDecoys,
    late: Option<OwnedFd>,
    /// The places that steps and grants need.
    used: Vec<PathBuf>,
}

impl SourceOpener<'_> {
    fn replay(&mut self, step: &RootfsStep, into: &mut Vec<ReplayStep>) -> Result<(), RootfsError> {
        let set = step.attributes();
        into.push(match step {
            // Directories of the host would be listed with this process's rights.
            RootfsStep::WritableRoot { .. } if self.served.is_some() => {
                return Err(failed("for another user, write over", Path::new("/"))(
                    Errno::EPERM,
                ));
            }
            RootfsStep::WritableRoot { size } => {
                let tree = self.tree.insert(TreeOpener::new(*size, self.id)?);
                return tree.root(self.layer, into);
            }
            RootfsStep::WritableDirectory { source, path } => {
                return self.writable_directory(source, path, into);
            }
            RootfsStep::Setting { source, path } => return self.setting(source, path, into),
            RootfsStep::Directory(path) => ReplayStep::Directory(SplitPath::from_absolute(path)),
            RootfsStep::Unlisted(path) => ReplayStep::Unlisted(SplitPath::from_absolute(path)),
            RootfsStep::Symlink { path, text } => ReplayStep::Symlink {
                path: SplitPath::from_absolute(path),
                text: string(text),
            },
            RootfsStep::File { path, content } => ReplayStep::File {
                path: relative(path),
                content: content.clone(),
            },
            RootfsStep::Late(path) => {
                let (from, late) = late().map_err(failed("make room for", path))?;
                self.late = Some(late);
                let path = relative(path);
                ReplayStep::Copy { from, path }
            }
            RootfsStep::RootEntry {
                root,
                path,
                directory,
            } => attach(self.root_entry(root, path, *directory, set)?, path),
            RootfsStep::Bind {
                source,
                path,
                directory,
                writable,
                owned,
            } => {
                let owner = owned.then_some((self.id, self.served));
                let needed = match writable {
                    true => NeededAccess::Write,
                    false => NeededAccess::Read,
                };
                let opened = self.open_path(source, needed)?;
                attach(bind(&opened, source, *directory, set, owner)?, path)
            }
            RootfsStep::Device { path, number } => attach(device(path, *number, set)?, path),
            RootfsStep::Tmpfs { path, size } => {
                let options = memory_options(*size, "1777");
                fresh("tmpfs", &options, set, path)
            }
            RootfsStep::Proc { path, shows } => fresh("proc", proc_options(*shows), set, path),
            RootfsStep::Mask { path, directory } => ReplayStep::Mask {
                path: relative(path),
                directory: *directory,
                attributes: set,
            },
            RootfsStep::Cover { file, path } => ReplayStep::Cover {
                file: relative(file),
                path: relative(path),
                attributes: set,
            },
            RootfsStep::Terminals(path) => fresh("devpts", &terminal_options(), set, path),
            RootfsStep::Decoy {
                workspace,
                path,
                content,
            } => self.decoy(workspace, path, content),
            RootfsStep::Overlay { source, path, size } => {
                let kept = kept(self.layer, Path::new(WORKSPACE), self.id)?;
                let host = self.open_path(source, NeededAccess::Read)?;
                let whose = (self.id, self.served);
                let (replay, sides) = overlay::workspace((source, host, kept), path, *size, whose)?;
                self.overlay = Some(sides);
                replay
            }
        });
        Ok(())
    }

    fn writable_directory(
        &mut self,
        source: &Path,
        path: &Path,
        into: &mut Vec<ReplayStep>,
    ) -> Result<(), RootfsError> {
        let opened = self.open_path(source, NeededAccess::Read)?;
        let tree = self
            .tree
            .as_mut()
            .ok_or_else(|| failed("write over", path)(Errno::EINVAL))?;
        let layer = (self.layer, &*self.used);
        tree.directory(&opened, (source, path), layer, into)
    }

    /// A decoy, with the directories on the way to it that the workspace may lack.
    fn decoy(&mut self, workspace: &Path, path: &Path, content: &[u8]) -> ReplayStep {
        if let Ok(inside) = path.strip_prefix(workspace) {
            self.decoys.add(inside, content);
        }
        let on_the_way: Vec<_> = path.ancestors().skip(1).collect();
        let is_below = |above: &&Path| above.starts_with(workspace) && *above != workspace;
        let below = on_the_way.into_iter().rev().filter(is_below);
        ReplayStep::Decoy {
            directories: below.map(SplitPath::from_absolute).collect(),
            path: relative(path),
            content: content.to_vec(),
        }
    }

    /// Opens a path by the rights of whom the jail is for, who must be allowed this use of it.
    fn open_path(&mut self, path: &Path, needed: NeededAccess) -> Result<OwnedFd, RootfsError> {
        let Some(served) = self.served else {
            return self.walk(path);
        };
        let opened = served.with_rights(|| self.walk(path));
        let opened = opened.map_err(failed("act as its user for", path))??;
        served::require_storage(&opened).map_err(|source| RootfsError {
            fix: ": it is no file system of files, or one whose server can hold everybody up; copy what is meant elsewhere",
            ..failed("give away for another user", path)(source)
        })?;
        let directory = is_directory(&opened).map_err(failed("open", path))?;
        served
            .require(&opened, directory, needed)
            .map_err(|source| RootfsError {
                fix: ": the caller has no such right itself",
                ..failed("use", path)(source)
            })?;
        Ok(opened)
    }

    /// As [`open_path`]. What lies in the directory of the one before it is opened there: the way is walked once.
    fn walk(&mut self, path: &Path) -> Result<OwnedFd, RootfsError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return open_path(path);
        };
        let known = self.folder.take().filter(|(known, _)| known == folder);
        let walked = match known {
            Some((_, walked)) => walked,
            None => open_by(path, || paths::open(folder, LastSymlink::Follow))?,
        };
        let opened = open_by(path, || paths::open_in(&walked, name));
        self.folder = Some((folder.to_owned(), walked));
        opened
    }

    /// A detached copy of an entry of the policy's own root, whose content nobody vouches for:
    /// found beneath it and without a symlink, or not at all.
    fn root_entry(
        &mut self,
        root: &Path,
        path: &Path,
        directory: bool,
        set: u64,
    ) -> Result<OwnedFd, RootfsError> {
        let root = match self.root.take() {
            Some(opened) => opened,
            None => self.open_path(root, NeededAccess::Read)?,
        };
        let opened = sys::open_beneath(root.as_fd(), &relative(path), libc::O_PATH, 0);
        self.root = Some(root);
        let opened = opened.map_err(failed("open in the profile's root", path))?;
        require_kind(&opened, directory).map_err(failed("trust in the profile's root", path))?;
        view(&opened, path, directory, set)
    }
}

/// A file in memory, to read from and to write to.
fn late() -> Result<(OwnedFd, OwnedFd), Errno> {
    let file = rustix::fs::memfd_create("late", rustix::fs::MemfdFlags::CLOEXEC);
    let file = file.map_err(|errno| Errno::from_raw(errno.raw_os_error()))?;
    let other = file.try_clone().map_err(|_| Errno::EMFILE)?;
    Ok((file, other))
}

fn attach(mount: OwnedFd, path: &Path) -> ReplayStep {
    ReplayStep::Attach {
        mount,
        path: relative(path),
    }
}

fn fresh(
    kind: &str,
    options: &[(&str, impl AsRef<OsStr>)],
    attributes: u64,
    path: &Path,
) -> ReplayStep {
    let option = |(name, value): &(&str, _)| (string(name), string(value));
    ReplayStep::Mount {
        kind: string(kind),
        options: options.iter().map(option).collect(),
        attributes,
        path: relative(path),
    }
}

/// The number of files that a memory file system of this size may hold.
pub(crate) fn files_of(size: u64) -> u64 {
    (size / BYTES_PER_FILE).max(FEWEST_FILES)
}

/// Bounded in files as well: an empty one takes no block, but memory of the kernel.
fn memory_options(size: u64, mode: &str) -> [(&'static str, String); 3] {
    let files = files_of(size);
    [
        ("size", size.to_string()),
        ("nr_inodes", files.to_string()),
        ("mode", mode.to_owned()),
    ]
}

/// proc(5). `subset=pid` is known since Linux 5.8, and is no remount's business: it is the mount's own.
fn proc_options(shows: ProcView) -> &'static [(&'static str, &'static str)] {
    match shows {
        ProcView::Common => &[],
        ProcView::Processes => &[("subset", "pid")],
    }
}

/// Terminals of one jail. The kernel has 4096 for all, of which the host keeps a quarter for itself.
const TERMINALS: u32 = 64;

fn terminal_options() -> [(&'static str, String); 4] {
    [
        ("newinstance", String::new()),
        ("max", TERMINALS.to_string()),
        ("ptmxmode", "0666".into()),
        ("mode", "0620".into()),
    ]
}

fn string(text: impl AsRef<OsStr>) -> CString {
    crate::c_string::c_string(text.as_ref())
}

fn relative(path: &Path) -> CString {
    string(path.strip_prefix("/").unwrap_or(path))
}

/// The path as its user meant it: see [`paths`].
fn open_path(path: &Path) -> Result<OwnedFd, RootfsError> {
    open_by(path, || paths::open(path, LastSymlink::Refuse))
}

fn open_by(
    path: &Path,
    open: impl FnOnce() -> Result<OwnedFd, PathError>,
) -> Result<OwnedFd, RootfsError> {
    const FIX: &str = ": a symlink on the way belongs to another user; \
                       name the place it leads to, if that is meant";
    const MOVABLE: &str = ": a symlink on the way lies in a directory that other users may write; \
                           name the place it leads to, if that is meant";
    open().map_err(|error| {
        let (fix, source) = match error {
            PathError::Foreign => (FIX, Errno::ELOOP),
            PathError::Movable => (MOVABLE, Errno::ELOOP),
            PathError::System(errno) => ("", errno),
        };
        RootfsError {
            act: "open",
            path: path.to_owned(),
            fix,
            source,
        }
    })
}

/// A view of what a layer has of this place, its owner translated.
fn kept(
    layer: Option<&KeptLayer>,
    path: &Path,
    id: HostId,
) -> Result<Option<OwnedFd>, RootfsError> {
    const FIX: &str = ": the layer's file system cannot be id-mapped by this kernel; \
                       name a directory on another one with --layer DIR";
    let kept = layer.map(|layer| layer.kept(path)).transpose();
    let Some(kept) = kept
        .map_err(failed("open what was kept of", path))?
        .flatten()
    else {
        return Ok(None);
    };
    let mount = view(&kept, path, false, covers::CLOSED)?;
    translate_owner(&mount, &kept, path, (id, None))
        .map_err(|error| RootfsError { fix: FIX, ..error })?;
    Ok(Some(mount))
}
