//! The content of a file, its holes left out: lseek(2), `SEEK_DATA`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::stat::FileStat;
use nix::unistd::{Whence, ftruncate, lseek};

use turnkey_facts::export::Reason;

/// Copies the data of a file, at most `room` bytes of it, into a new and empty one, which becomes as long. The answer is
/// the bytes of data.
pub fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    stat: &FileStat,
    room: u64,
) -> Result<u64, Reason> {
    let mut made = file(to)?;
    let written = copy_data(from, stat.st_size, room, |source, at, length| {
        piece(source, &mut made, at, length)
    })?;
    ftruncate(to, stat.st_size).map_err(Reason::Unwritable)?;
    Ok(written)
}

/// Has `put` copy each piece of data of a file, at most `room` bytes of it. The answer is the bytes of data.
pub fn copy_data(
    from: BorrowedFd<'_>,
    size: i64,
    room: u64,
    mut put: impl FnMut(&mut File, u64, u64) -> Result<u64, Errno>,
) -> Result<u64, Reason> {
    let mut source = file(from)?;
    let (mut at, mut written) = (0, 0);
    while let Some((start, end)) = next_data(from, at, size)? {
        let length = u64::try_from(end - start).unwrap_or(0);
        if written + length > room {
            return Err(Reason::Size);
        }
        let start = u64::try_from(start).unwrap_or(0);
        written += put(&mut source, start, length).map_err(Reason::Unwritable)?;
        at = end;
    }
    Ok(written)
}

/// Copies one piece to the same place of another file.
pub fn piece(source: &mut File, made: &mut File, at: u64, length: u64) -> Result<u64, Errno> {
    let start = SeekFrom::Start(at);
    let both = source.seek(start).and(made.seek(start));
    let copied = both.and_then(|_| io::copy(&mut source.take(length), made));
    copied.map_err(|error| errno_of(&error))
}

/// The next piece of data from here on; a file system that knows no holes has one.
fn next_data(file: BorrowedFd<'_>, at: i64, size: i64) -> Result<Option<(i64, i64)>, Reason> {
    if at >= size {
        return Ok(None);
    }
    match lseek(file, at, Whence::SeekData) {
        Ok(start) => {
            let end = lseek(file, start, Whence::SeekHole).map_err(Reason::Unreadable)?;
            Ok((start < size).then_some((start, end.min(size))))
        }
        // Nothing but a hole.
        Err(Errno::ENXIO) => Ok(None),
        Err(Errno::EINVAL) => Ok(Some((at, size))),
        Err(errno) => Err(Reason::Unreadable(errno)),
    }
}

fn file(descriptor: BorrowedFd<'_>) -> Result<File, Reason> {
    descriptor
        .try_clone_to_owned()
        .map(File::from)
        .map_err(|error| Reason::Unwritable(errno_of(&error)))
}

/// The number of an error.
pub fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
