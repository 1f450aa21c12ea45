//! Files that turnkey writes for its caller: the report, the events, a learned profile.
//!
//! The way is walked once, by the rules of [`paths`], and its directory is kept open from then on: whoever turns
//! a name on the way turns nothing. A file that is there is never written to but replaced, by name, in that
//! directory; so is a symlink that leads to no stream. Streams, such as a FIFO, a terminal or /dev/stdout, are
//! written as they are.

mod absent;
mod keep;
mod unwritten;

pub use self::absent::note_absent;
pub use self::unwritten::UnwrittenOutput;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, FcntlArg, OFlag, fcntl};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major, minor};
use nix::unistd::UnlinkatFlags;
use turnkey_jailer::paths::{self, LastSymlink, OpenedTarget, PathError};

use super::input::{failed, reopen};

/// A place to write to, found before anything runs. Nothing is made yet.
#[derive(Debug)]
pub struct CallerOutput {
    path: PathBuf,
    to: OutputTarget,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command has a handful of them")]
enum OutputTarget {
    /// A descriptor that the caller handed in.
    Inherited(OwnedFd),
    /// A stream with a name: a handle.
    Stream(OwnedFd),
    File(OutputName),
}

/// An output that is a file which the command reads.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is {what}, which would be written over; name another file",
    path.display()
)]
pub struct WrittenOver {
    path: PathBuf,
    what: &'static str,
}

/// A name in a directory that stays the same, whatever is done to the names above it.
#[derive(Debug)]
pub struct OutputName {
    directory: OwnedFd,
    name: OsString,
    /// The status of what is there now, when it is a file.
    there: Option<FileStat>,
    /// The path of the file, without any symlink.
    whole: PathBuf,
    /// The file that has the name meanwhile, and with it the name.
    kept: Option<File>,
}

impl CallerOutput {
    /// Finds where `path` leads; `-` is standard output.
    pub fn find(path: &Path) -> io::Result<CallerOutput> {
        let to = if path == Path::new("-") {
            OutputTarget::Inherited(inherited(1)?)
        } else {
            find(path)?
        };
        Ok(CallerOutput {
            path: path.to_owned(),
            to,
        })
    }

    /// As [`Self::find`], for a command that reads these files, each with what it is.
    pub fn find_beside(
        path: &Path,
        inputs: &[(&'static str, &Path)],
    ) -> anyhow::Result<CallerOutput> {
        let found = Self::find(path)?;
        found.require_none_of(inputs)?;
        Ok(found)
    }

    /// Refuses an output that is one of these files, each with what it is, by whatever name.
    pub(crate) fn require_none_of(&self, inputs: &[(&'static str, &Path)]) -> anyhow::Result<()> {
        let Some(own) = self
            .stat()?
            .filter(|own| self.place().is_some() && !is_sink(own))
        else {
            return Ok(());
        };
        for (what, input) in inputs {
            let is_same = nix::sys::stat::stat(*input)
                .is_ok_and(|input| (input.st_dev, input.st_ino) == (own.st_dev, own.st_ino));
            if is_same {
                let path = self.path.clone();
                return Err(WrittenOver { path, what }.into());
            }
        }
        Ok(())
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path where the file will be, without any symlink; `None` for a stream.
    pub fn place(&self) -> Option<&Path> {
        match &self.to {
            OutputTarget::File(place) => Some(&place.whole),
            _ => None,
        }
    }

    /// True when a file of this name is there already.
    pub fn is_there(&self) -> bool {
        matches!(
            &self.to,
            OutputTarget::File(OutputName { there: Some(_), .. })
        )
    }

    /// The status of what is there now: of a file that is replaced, the old one.
    pub fn stat(&self) -> io::Result<Option<FileStat>> {
        match &self.to {
            OutputTarget::Inherited(stream) | OutputTarget::Stream(stream) => {
                Ok(Some(fstat(stream)?))
            }
            OutputTarget::File(place) => Ok(place.there),
        }
    }

    /// Makes sure that it can be written, as far as that can be known.
    pub fn open(self) -> io::Result<OpenOutput> {
        match self.to {
            OutputTarget::Inherited(stream) => Ok(OpenOutput::Stream(File::from(stream))),
            OutputTarget::Stream(handle) => Ok(OpenOutput::Stream(open_stream(&handle)?)),
            OutputTarget::File(place) => {
                let unnamed = place.unnamed()?;
                Ok(OpenOutput::File(unnamed, place))
            }
        }
    }
}

impl CallerOutput {
    /// Opens it to write at its end. A file that is there stays, as far as it is the caller's or root's own, and has no other name.
    pub fn append(self) -> io::Result<AppendedOutput> {
        let (file, name) = match self.to {
            OutputTarget::Inherited(stream) => (File::from(stream), None),
            OutputTarget::Stream(handle) => (open_stream(&handle)?, None),
            OutputTarget::File(place) => (place.append()?, Some(place)),
        };
        Ok(AppendedOutput { file, name })
    }
}

/// An output that is written to at its end, by whatever has its name.
#[derive(Debug)]
pub struct AppendedOutput {
    file: File,
    /// The name of a file.
    name: Option<OutputName>,
}

impl AppendedOutput {
    /// The file that has the name: where somebody has moved it away, as rotation does, the one in its place, which is made where there is
    /// none. As long as that is not to be had, the old one, unless it has no name at all any more.
    pub fn current(&mut self) -> io::Result<&mut File> {
        let moved = self.name.as_ref().filter(|name| !name.is_of(&self.file));
        if let Some(name) = moved {
            match name.append() {
                Ok(file) => self.file = file,
                Err(error) if fstat(&self.file)?.st_nlink == 0 => return Err(error),
                Err(_) => {}
            }
        }
        Ok(&mut self.file)
    }
}

const MODE: Mode = Mode::from_bits_truncate(0o644);

/// An output that can be written. A file has no name until it is published, so that even a killed turnkey leaves
/// no half of one.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command has a handful of them")]
pub enum OpenOutput {
    /// Written as it is.
    Stream(File),
    /// Unnamed, and the name to be.
    File(File, OutputName),
}

impl OpenOutput {
    /// Writes all of it and, for a file, gives it its name.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            OpenOutput::Stream(mut stream) => stream.write_all(bytes),
            OpenOutput::File(mut file, place) => {
                file.write_all(bytes)?;
                place.publish(&file)
            }
        }
    }

    /// The same; the error names what could not be written, and where to.
    pub fn write_as(self, what: &'static str, bytes: &[u8]) -> Result<(), UnwrittenOutput> {
        let place = match &self {
            OpenOutput::Stream(_) => None,
            OpenOutput::File(_, name) => Some(name.whole.clone()),
        };
        self.write(bytes).map_err(|source| UnwrittenOutput {
            what,
            place,
            source,
        })
    }

    /// The same for a file that is new: one that is there by now stays.
    pub fn write_new(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            OpenOutput::File(mut file, place) => {
                file.write_all(bytes)?;
                Ok(place.link(&file, &place.name)?)
            }
            stream @ OpenOutput::Stream(_) => stream.write(bytes),
        }
    }

    /// Gives the name to other content until [`OpenOutput::write`] replaces it, or for good when that never comes; `false` when
    /// another process keeps the name in this way. A stream, which nothing can be taken back from, gets none.
    pub fn write_meanwhile(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let OpenOutput::File(_, place) = self else {
            return Ok(true);
        };
        let mut file = place.unnamed()?;
        file.write_all(bytes)?;
        keep::lock(&file)?;
        if place.kept.is_some() {
            place.publish(&file)?;
        } else if !place.take(&file)? {
            return Ok(false);
        }
        place.kept = Some(file);
        Ok(true)
    }

    /// To be written bit by bit, and read meanwhile: a file has its name at once, which no other process gives to another one as long as it
    /// is open; `None` when another process keeps the name in this way.
    pub fn start_unless_kept(&self) -> io::Result<Option<File>> {
        let (OpenOutput::Stream(file) | OpenOutput::File(file, _)) = self;
        if let OpenOutput::File(file, place) = self {
            keep::lock(file)?;
            if !place.take(file)? {
                return Ok(None);
            }
        }
        Ok(Some(file.try_clone()?))
    }
}

impl OutputName {
    /// A file without a name, in the directory where its name will be.
    fn unnamed(&self) -> io::Result<File> {
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        // What is the caller's own keeps its rights.
        let own = |stat: &FileStat| stat.st_uid == nix::unistd::geteuid().as_raw();
        let mode = self.there.filter(own).map(|stat| stat.st_mode & 0o777);
        let unnamed = nix::fcntl::openat(&self.directory, ".", flags, MODE).map_err(no_unnamed)?;
        if let Some(mode) = mode {
            nix::sys::stat::fchmod(&unnamed, Mode::from_bits_truncate(mode))?;
        }
        Ok(File::from(unnamed))
    }

    /// True while the name is that of a file.
    fn is_of(&self, file: &File) -> bool {
        let flag = AtFlags::AT_SYMLINK_NOFOLLOW;
        let named = nix::sys::stat::fstatat(&self.directory, self.name.as_os_str(), flag);
        let pair = named.ok().zip(fstat(file).ok());
        pair.is_some_and(|(named, file)| (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino))
    }

    fn append(&self) -> io::Result<File> {
        let flags = OFlag::O_WRONLY
            | OFlag::O_APPEND
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        let file = nix::fcntl::openat(&self.directory, self.name.as_os_str(), flags, MODE);
        let file = file.map_err(is_link)?;
        let stat = fstat(&file)?;
        let why = match kind(&stat) {
            OutputKind::File if !paths::is_trusted(stat.st_uid) => {
                "it is a file of another user; name another one"
            }
            OutputKind::File if stat.st_nlink != 1 => {
                "this file has another name as well; name another one"
            }
            OutputKind::File => return Ok(File::from(file)),
            _ => "it is no file any more",
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// linkat(2) does not replace, so what was there is replaced by way of a name of our own.
    fn publish(&self, file: &File) -> io::Result<()> {
        match self.link(file, &self.name) {
            Err(Errno::EEXIST) => {}
            other => return Ok(other?),
        }
        let beside = OsString::from(format!(".turnkey-{}", std::process::id()));
        let directory = &self.directory;
        self.link(file, &beside)?;
        let renamed = nix::fcntl::renameat(
            directory,
            beside.as_os_str(),
            directory,
            self.name.as_os_str(),
        );
        renamed.inspect_err(|_| {
            // The error of the rename is the one to tell.
            let flag = UnlinkatFlags::NoRemoveDir;
            let _ = nix::unistd::unlinkat(directory, beside.as_os_str(), flag);
        })?;
        Ok(())
    }

    /// open(2), O_TMPFILE: a link of /proc/self/fd names the file.
    fn link(&self, file: &File, name: &OsStr) -> Result<(), Errno> {
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        let follow = AtFlags::AT_SYMLINK_FOLLOW;
        nix::unistd::linkat(AT_FDCWD, unnamed.as_str(), &self.directory, name, follow)
    }
}

fn find(path: &Path) -> io::Result<OutputTarget> {
    let name = path
        .file_name()
        .ok_or(io::Error::from(io::ErrorKind::IsADirectory))?;
    let above = match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    let directory = paths::open(above, LastSymlink::Follow).map_err(failed)?;
    let there = match paths::open_in(&directory, name) {
        Err(PathError::System(Errno::ENOENT)) => None,
        Err(PathError::System(Errno::ELOOP)) => match behind_link(&directory, name)? {
            Some(stream) => return Ok(stream),
            None => None,
        },
        other => {
            let handle = other.map_err(failed)?;
            let stat = fstat(&handle)?;
            match kind(&stat) {
                OutputKind::File => Some(stat),
                _ => return stream(handle, &stat),
            }
        }
    };
    Ok(OutputTarget::File(OutputName {
        whole: paths::place_of(&directory)?.join(name),
        name: name.to_owned(),
        directory,
        there,
        kept: None,
    }))
}

/// The stream that a symlink at the end leads to, when the link is to be trusted. `None` for a link to be
/// replaced: one of a stranger, and one to a file.
fn behind_link(directory: &OwnedFd, name: &OsStr) -> io::Result<Option<OutputTarget>> {
    match paths::target_in(directory, name) {
        Err(PathError::Foreign | PathError::Movable | PathError::System(Errno::ENOENT)) => Ok(None),
        Err(error) => Err(failed(error)),
        Ok(OpenedTarget::Inherited(number)) => {
            inherited(number).map(OutputTarget::Inherited).map(Some)
        }
        Ok(OpenedTarget::Handle(handle)) => {
            let stat = fstat(&handle)?;
            match kind(&stat) {
                OutputKind::File => Ok(None),
                _ => stream(handle, &stat).map(Some),
            }
        }
    }
}

enum OutputKind {
    File,
    Directory,
    Stream,
    Foreign,
    Other,
}

/// The kind of target. A device may act on what is written, or on being opened: none but a terminal and those
/// that swallow everything may be written to.
fn kind(stat: &FileStat) -> OutputKind {
    let device = (major(stat.st_rdev), minor(stat.st_rdev));
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => OutputKind::File,
        SFlag::S_IFDIR => OutputKind::Directory,
        SFlag::S_IFIFO if is_fifo_of_caller_or_root(stat) => OutputKind::Stream,
        SFlag::S_IFIFO => OutputKind::Foreign,
        SFlag::S_IFCHR if is_sink(stat) || is_terminal(device) => OutputKind::Stream,
        _ => OutputKind::Other,
    }
}

fn is_fifo_of_caller_or_root(stat: &FileStat) -> bool {
    stat.st_uid == 0 || stat.st_uid == nix::unistd::geteuid().as_raw()
}

/// /dev/null, /dev/full
pub fn is_sink(stat: &FileStat) -> bool {
    let device = (major(stat.st_rdev), minor(stat.st_rdev));
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFCHR
        && matches!(device, (1, 3 | 7))
}

/// admin-guide/devices.txt of the kernel: consoles and serial lines, /dev/tty, pseudo-terminals.
fn is_terminal(device: (u64, u64)) -> bool {
    matches!(device, (4 | 136..=143, _) | (5, 0 | 1))
}

/// A stream is written as it is, and waited for.
fn open_stream(handle: &OwnedFd) -> io::Result<File> {
    let stream = reopen(handle, OFlag::O_WRONLY).map_err(unread)?;
    fcntl(&stream, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(File::from(stream))
}

fn stream(handle: OwnedFd, stat: &FileStat) -> io::Result<OutputTarget> {
    let why = match kind(stat) {
        OutputKind::Stream => return Ok(OutputTarget::Stream(handle)),
        OutputKind::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        OutputKind::Foreign => "it is a FIFO of another user; remove it",
        _ => "it is a device or a socket; name a file, a FIFO or a terminal",
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// The descriptor that the caller has opened, which is theirs to choose but for disks.
fn inherited(number: i32) -> io::Result<OwnedFd> {
    absent::require_there(number)?;
    let stream = paths::inherited(number)?;
    let kind = SFlag::from_bits_truncate(fstat(&stream)?.st_mode) & SFlag::S_IFMT;
    let flags = OFlag::from_bits_truncate(fcntl(&stream, FcntlArg::F_GETFL)?);
    let is_written = flags & OFlag::O_ACCMODE != OFlag::O_RDONLY && !flags.contains(OFlag::O_PATH);
    if kind == SFlag::S_IFBLK || kind == SFlag::S_IFDIR || !is_written {
        let why = format!("descriptor {number} is a disk or a directory, or not open for writing");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(stream)
}

/// open(2), `O_NOFOLLOW`: by a link, somebody else could choose the file.
fn is_link(errno: Errno) -> io::Error {
    match errno {
        Errno::ELOOP => io::Error::other("it is a symlink; name the file itself that it leads to"),
        other => other.into(),
    }
}

/// open(2): what a file system that knows no `O_TMPFILE` answers.
fn no_unnamed(errno: Errno) -> io::Error {
    match errno {
        Errno::EOPNOTSUPP => io::Error::other(
            "this file system makes no files without a name; name a file on another, or an open descriptor",
        ),
        other => other.into(),
    }
}

/// open(2) of a FIFO for writing without waiting.
fn unread(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(nix::libc::ENXIO) => {
            io::Error::other("nobody reads this FIFO; start its reader first")
        }
        _ => error,
    }
}

#[cfg(test)]
#[path = "output/tests.rs"]
mod tests;
