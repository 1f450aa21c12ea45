//! A layer that outlives its run: what a jail wrote, kept on the host, and shown below the writes of the next one.
//!
//! On the host a layer is a directory that only its owner can enter. Its `content` has a directory for each
//! place of a jail that was written to, in the form of a lower side of overlayfs: a character device 0:0
//! stands for a name that is gone. A run never writes to it: its own writes are in memory, bounded, and what is
//! to be kept is made of both, beside the old content, and takes its place at once. So a run that is killed
//! leaves the layer as it was.
//!
//! Runs as: the supervisor, outside of the jail. What is in a layer was chosen by hostile programs: nothing in it is
//! followed, opened but as a file or directory, or found by a path.

mod removal;

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, RenameFlags};
use nix::sys::stat::{Mode, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::rootfs::paths::{self, LastSymlink, PathError};
use crate::sys;
pub(crate) use removal::{names, remove_tree};

/// The lock of a layer, by which it is known as one.
const LOCK: &CStr = c"lock";
const CONTENT: &CStr = c"content";
/// The content that is being made; after that, the old one that is being removed.
const NEXT: &CStr = c"next";
/// The mark of a layer to which a run has added that nobody watched.
const UNWATCHED: &CStr = c"unwatched";
/// Directories in a layer: where a file is linked, a directory is made, and the old one removed, after each run.
pub(crate) const MOST_DIRECTORIES: u64 = 16_384;
/// The user and group of what is in a layer of root's: no account's and no jail's.
pub(crate) const OWNER: u32 = 0x7ffe_ffff;

/// A layer, locked: while this is held, no other run has it.
#[derive(Debug)]
pub struct KeptLayer {
    path: PathBuf,
    /// Without any symlink.
    place: PathBuf,
    directory: OwnedFd,
    content: OwnedFd,
    /// True while nothing was ever kept in it: it goes again with this value.
    is_new: AtomicBool,
    _lock: Flock<OwnedFd>,
    /// After the lock, which lies in the last of them.
    _made: MadeDirectories,
}

/// Directories that were made on the way to a layer, the outermost first. Those that are empty in the end go again.
#[derive(Debug, Default)]
struct MadeDirectories(Vec<(OwnedFd, CString)>);

impl MadeDirectories {
    /// The directory of this name, which is made unless it is there.
    fn make(&mut self, above: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        match mkdirat(above, name, Mode::S_IRWXU) {
            Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(errno),
            Ok(()) => {
                self.0.push((
                    above.try_clone().map_err(|_| Errno::EMFILE)?,
                    name.to_owned(),
                ));
                Ok(())
            }
        }
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for (above, name) in self.0.iter().rev() {
            let _ = unlinkat(above, name.as_c_str(), UnlinkatFlags::RemoveDir);
        }
    }
}

/// The reason why a layer cannot be used. Every message names the fix.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The way to it.
    #[error("could not open the layer {}; name a directory of a disk with --layer DIR", .0.display())]
    Way(PathBuf, #[source] PathError),
    /// A directory with something else in it.
    #[error("{} holds something, and is no layer of turnkey's; name a directory that is empty or not there", .0.display())]
    Other(PathBuf),
    /// A directory of somebody else's, or one that others may enter.
    #[error("{} can be entered or changed by other users; make it its owner's alone: chown and chmod 700", .0.display())]
    Open(PathBuf),
    /// Another run has it.
    #[error("the layer {} is in use by another run; wait for its end, or name another layer", .0.display())]
    Locked(PathBuf),
    /// No such layer.
    #[error("there is no layer {}; `turnkey layers` lists those that there are", .0.display())]
    Missing(PathBuf),
    /// More than the limits allow.
    #[error("the layer {} would hold more {what} than limits.disk has room for, and stays as it was; raise the limit with --disk, or remove the layer", .path.display())]
    TooLarge {
        /// The layer.
        path: PathBuf,
        /// Bytes or files.
        what: &'static str,
    },
    /// Directories, which each run makes anew, whatever the limits are.
    #[error("the layer {} would hold more than {MOST_DIRECTORIES} directories, and stays as it was; let the program leave fewer, or remove the layer", .0.display())]
    TooManyDirectories(PathBuf),
    /// The kernel's answer.
    #[error("could not {act} the layer {}; name a directory of a disk with --layer DIR", .path.display())]
    System {
        /// The act that failed.
        act: &'static str,
        /// The layer.
        path: PathBuf,
        /// The answer.
        source: Errno,
    },
}

impl KeptLayer {
    /// Opens the layer at `path` and locks it; makes it, and the directories above, where nothing is.
    ///
    /// # Errors
    /// When it is somebody else's, in use, or no layer.
    pub fn open(path: &Path) -> Result<KeptLayer, LayerError> {
        let name = path.file_name().unwrap_or_default();
        let name = CString::new(name.as_bytes()).unwrap_or_default();
        let mut made = MadeDirectories::default();
        let above = open_or_make(path.parent().unwrap_or(Path::new("/")), &mut made)
            .map_err(|error| LayerError::Way(path.to_owned(), error))?;
        made.make(&above, &name).map_err(failed("make", path))?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = sys::open_beneath(above.as_fd(), &name, flags, 0);
        let directory = directory.map_err(failed("open", path))?;
        KeptLayer::from_directory(directory, path, made)
    }

    /// The layer that an opened directory is.
    fn from_directory(
        directory: OwnedFd,
        path: &Path,
        made: MadeDirectories,
    ) -> Result<KeptLayer, LayerError> {
        require_own(&directory, path)?;
        let (lock, is_new) = locked(&directory, path)?;
        let failed = |act| failed(act, path);
        // Of a run that was killed while it kept something.
        remove_tree(directory.as_fd(), NEXT).map_err(failed("clear"))?;
        make_empty(&directory, CONTENT).map_err(failed("open"))?;
        let content = directory_in(&directory, CONTENT).map_err(failed("open"))?;
        let place = paths::place_of(&directory).map_err(failed("find"))?;
        Ok(KeptLayer {
            path: path.to_owned(),
            place,
            directory,
            content,
            is_new: AtomicBool::new(is_new),
            _lock: lock,
            _made: made,
        })
    }

    /// The path by which it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of its directory, without any symlink.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The directory of what earlier runs have kept of this place of the jail; `None` for nothing.
    pub(crate) fn kept(&self, place: &Path) -> Result<Option<OwnedFd>, Errno> {
        match directory_in(&self.content, &name_of(place)) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// True when earlier runs have left something in it.
    #[must_use]
    pub fn holds_something(&self) -> bool {
        names(self.content.as_fd()).is_ok_and(|places| !places.is_empty())
    }

    /// True when a run has added to it that nobody watched.
    ///
    /// # Errors
    /// When the mark cannot be looked for.
    pub fn is_unwatched(&self) -> Result<bool, LayerError> {
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        match fstatat(&self.directory, UNWATCHED, flags) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(self.failed("look at")(errno)),
        }
    }

    /// Marks it for all later runs, before what nobody watched is in it.
    pub(crate) fn mark_unwatched(&self) -> Result<(), LayerError> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW;
        let marked = sys::open_beneath(self.directory.as_fd(), UNWATCHED, flags, 0o600);
        marked.map(drop).map_err(self.failed("mark"))
    }

    /// The content as it is.
    pub(crate) fn content(&self) -> &OwnedFd {
        &self.content
    }

    /// An empty directory for the content to come.
    pub(crate) fn next(&self) -> Result<OwnedFd, LayerError> {
        let failed = |act| failed(act, &self.path);
        make_empty(&self.directory, NEXT).map_err(failed("write"))?;
        directory_in(&self.directory, NEXT).map_err(failed("write"))
    }

    /// Puts the content to come in the place of the old one, which goes.
    pub(crate) fn exchange(&self) -> Result<(), LayerError> {
        let (from, to) = (NEXT, CONTENT);
        let exchange = RenameFlags::RENAME_EXCHANGE;
        nix::fcntl::renameat2(&self.directory, from, &self.directory, to, exchange)
            .map_err(self.failed("write"))?;
        self.is_new.store(false, Ordering::Relaxed);
        remove_tree(self.directory.as_fd(), NEXT).map_err(self.failed("clear"))
    }

    /// Gives the content to come up; the next run would see to it as well.
    pub(crate) fn give_up(&self) {
        let _ = remove_tree(self.directory.as_fd(), NEXT);
    }

    /// An error about this layer.
    pub(crate) fn failed(&self, act: &'static str) -> impl FnOnce(Errno) -> LayerError + use<> {
        failed(act, &self.path)
    }

    /// Removes a layer.
    ///
    /// # Errors
    /// When there is none at the path, or it is in use.
    pub fn remove(path: &Path) -> Result<(), LayerError> {
        let name = CString::new(path.file_name().unwrap_or_default().as_bytes());
        let name = name.unwrap_or_default();
        let missing = || LayerError::Missing(path.to_owned());
        let above = paths::open(path.parent().unwrap_or(Path::new("/")), LastSymlink::Follow);
        let above = above.map_err(|_| missing())?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = sys::open_beneath(above.as_fd(), &name, flags, 0);
        let directory = directory.map_err(|_| missing())?;
        // Held until it is gone.
        let layer = KeptLayer::from_directory(directory, path, MadeDirectories::default())?;
        let directory = layer.directory.as_fd();
        let failed = || failed("remove", path);
        // The lock goes last: what cannot be removed whole is a layer still, and can be removed again.
        for name in names(directory).map_err(failed())? {
            if *name != *LOCK {
                remove_tree(directory, &name).map_err(failed())?;
            }
        }
        remove_tree(above.as_fd(), &name).map_err(failed())
    }
}

impl Drop for KeptLayer {
    /// A run that was refused, or did not start, leaves no layer where none was.
    fn drop(&mut self) {
        if self.is_new.load(Ordering::Relaxed) {
            let _ = remove_tree(self.directory.as_fd(), CONTENT);
            let _ = unlinkat(&self.directory, LOCK, UnlinkatFlags::NoRemoveDir);
        }
    }
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(Errno) -> LayerError + use<> {
    let path = path.to_owned();
    move |source| LayerError::System { act, path, source }
}

/// The directory at a path, made for this user alone where nothing is.
fn open_or_make(path: &Path, made: &mut MadeDirectories) -> Result<OwnedFd, PathError> {
    match (paths::open(path, LastSymlink::Follow), path.parent()) {
        (Err(PathError::System(Errno::ENOENT)), Some(above)) => {
            let above = open_or_make(above, made)?;
            let name = path.file_name().unwrap_or_default();
            let name = CString::new(name.as_bytes()).unwrap_or_default();
            made.make(&above, &name)?;
            Ok(directory_in(&above, &name)?)
        }
        (opened, _) => opened,
    }
}

/// Only its owner may enter the directory, and that is this user.
fn require_own(directory: &OwnedFd, path: &Path) -> Result<(), LayerError> {
    let stat = fstat(directory).map_err(failed("look at", path))?;
    let is_own = stat.st_uid == nix::unistd::geteuid().as_raw();
    if !is_own || stat.st_mode & 0o077 != 0 {
        return Err(LayerError::Open(path.to_owned()));
    }
    Ok(())
}

/// Takes the lock; an empty directory becomes a layer by it, and the answer is true.
fn locked(directory: &OwnedFd, path: &Path) -> Result<(Flock<OwnedFd>, bool), LayerError> {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut is_new = false;
    let lock = match sys::open_beneath(directory.as_fd(), LOCK, flags, 0) {
        Ok(lock) => lock,
        Err(Errno::ENOENT) if is_empty(directory).map_err(failed("list", path))? => {
            is_new = true;
            sys::open_beneath(directory.as_fd(), LOCK, flags | libc::O_CREAT, 0o600)
                .map_err(failed("make", path))?
        }
        Err(Errno::ENOENT) => return Err(LayerError::Other(path.to_owned())),
        Err(errno) => return Err(failed("open", path)(errno)),
    };
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock);
    let lock = lock.map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => LayerError::Locked(path.to_owned()),
        errno => failed("lock", path)(errno),
    })?;
    Ok((lock, is_new))
}

fn is_empty(directory: &OwnedFd) -> Result<bool, Errno> {
    Ok(names(directory.as_fd())?.is_empty())
}

/// A directory that is this user's alone, unless it is there.
fn make_empty(above: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match mkdirat(above, name, Mode::S_IRWXU) {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

fn directory_in(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    sys::open_beneath(above.as_fd(), name, flags, 0)
}

/// The name of a place's directory: its path in one word, which no other path has.
pub(crate) fn name_of(place: &Path) -> CString {
    let mut name = Vec::new();
    for byte in place.as_os_str().as_bytes() {
        match byte {
            b'/' => name.extend(b"%2F"),
            b'%' => name.extend(b"%25"),
            byte => name.push(*byte),
        }
    }
    CString::new(name).unwrap_or_default()
}
