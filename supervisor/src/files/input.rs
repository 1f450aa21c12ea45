//! Files that turnkey reads for its caller: profiles, reports, what `import` is given.
//!
//! The way is walked by the rules of [`paths`]; what it leads to is looked at before it is opened. A FIFO that
//! nobody writes is waited for for ever, a device may act when it is opened, and neither is a file that
//! somebody meant: what is no file comes by a descriptor, such as /dev/stdin.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag, fstat};
use turnkey_jailer::paths::{self, LastSymlink, OpenedTarget, PathError};

/// Reads all that `path` holds, or of more than `most` bytes one more, which shows that it is too large.
pub fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same of a file below `directory`: a symlink on the way from there is refused, since whoever made it, and not the
/// caller, would choose what is read.
pub fn read_below(directory: &Path, below: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut handle = paths::open(directory, LastSymlink::Follow).map_err(failed)?;
    for name in below {
        handle = paths::open_in(&handle, name).map_err(failed)?;
    }
    require_file(&handle)?;
    let file = File::from(reopen(&handle, OFlag::O_RDONLY)?);
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file to be read.
///
/// # Errors
/// When it cannot be opened, or is no regular file; a descriptor such as /dev/stdin may be anything.
pub fn open(path: &Path) -> io::Result<File> {
    match paths::target(path).map_err(failed)? {
        OpenedTarget::Inherited(number) => Ok(File::from(paths::inherited(number)?)),
        OpenedTarget::Handle(handle) => {
            require_file(&handle)?;
            reopen(&handle, OFlag::O_RDONLY).map(File::from)
        }
    }
}

fn require_file(handle: &OwnedFd) -> io::Result<()> {
    let kind = SFlag::from_bits_truncate(fstat(handle)?.st_mode) & SFlag::S_IFMT;
    let is = match kind {
        SFlag::S_IFREG => return Ok(()),
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFIFO => "a FIFO, which may never end",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    };
    let fix = "name a file, or hand it in by a descriptor, such as /dev/stdin";
    Err(io::Error::other(format!("it is {is}; {fix}")))
}

/// Opens what a handle stands for, without a look at any name, and without waiting for anybody.
pub fn reopen(handle: &OwnedFd, how: OFlag) -> io::Result<OwnedFd> {
    let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let how = how | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(itself.as_str(), how, Mode::empty())?)
}

/// The kernel's own answer stays one.
pub fn failed(error: PathError) -> io::Error {
    match error {
        PathError::System(errno) => errno.into(),
        other => io::Error::new(io::ErrorKind::PermissionDenied, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let refused = |path: &Path| read(path, 10).unwrap_err().to_string();
        assert!(refused(&fifo).starts_with("it is a FIFO"));
        assert!(refused(Path::new("/dev/zero")).starts_with("it is a device"));
        assert!(refused(directory.path()).starts_with("it is a directory"));
    }

    #[test]
    fn no_more_is_read_than_shows_that_it_is_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [b'x'; 100]).unwrap();
        assert_eq!(read(&path, 10).unwrap().len(), 11);
        assert_eq!(read(&path, 100).unwrap().len(), 100);
    }
}
