//! The records of an export, and their answers: a kind, numbers of eight bytes, and for some a name or data.
//!
//! Decoding is total: what is not exactly a record is none.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use turnkey_jailer::export::{ExportedPlaces, FileEnd, FileId, FileStamp};

/// Bytes of a record at most.
pub const MOST_RECORD: usize = 48 << 10;
/// Bytes of data in one record at most.
pub const MOST_DATA: usize = 32 << 10;

/// A step of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportRecord {
    /// Begins.
    Open,
    /// Makes a directory and goes into it.
    Enter(CString),
    /// Goes out of it; `stays_empty` is the last.
    Leave(CString, FileStamp, bool),
    /// Begins a file.
    Begin(CString),
    /// Data at a place of it.
    Data(u64, Vec<u8>),
    /// Ends it.
    End(FileEnd),
    /// Removes it.
    Remove(CString),
    /// Gives a file one more name.
    Link(FileId, CString),
    /// Makes a symlink.
    Symlink(CString, OsString, (i64, i64)),
    /// Ends; true when something stayed behind.
    Close(bool),
}

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportAnswer {
    /// The step is done.
    Done,
    /// There is no such file.
    Unknown,
    /// The step failed.
    Failed(Errno),
    /// The export begins, at these places.
    Opened(ExportedPlaces),
    /// The reason why nothing is exported.
    Refused(String),
}

impl ExportRecord {
    /// The bytes of this record.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ExportRecord::Open => bytes(1, &[], &[]),
            ExportRecord::Enter(name) => bytes(2, &[], name.as_bytes()),
            ExportRecord::Leave(name, stamp, stays_empty) => {
                let [rights, seconds, nanoseconds] = numbers(*stamp);
                let numbers = [rights, seconds, nanoseconds, u64::from(*stays_empty)];
                bytes(3, &numbers, name.as_bytes())
            }
            ExportRecord::Begin(name) => bytes(4, &[], name.as_bytes()),
            ExportRecord::Data(at, data) => bytes(5, &[*at], data),
            ExportRecord::End(end) => {
                let [rights, seconds, nanoseconds] = numbers(end.stamp);
                let size = end.size.cast_unsigned();
                let [is_linked, device, inode] = place(end.linked);
                let numbers = [size, rights, seconds, nanoseconds, is_linked, device, inode];
                bytes(6, &numbers, &[])
            }
            ExportRecord::Remove(name) => bytes(7, &[], name.as_bytes()),
            ExportRecord::Link((device, inode), name) => {
                bytes(8, &[*device, *inode], name.as_bytes())
            }
            ExportRecord::Symlink(name, text, (seconds, nanoseconds)) => {
                let changed = [seconds.cast_unsigned(), nanoseconds.cast_unsigned()];
                let both = [name.as_bytes(), b"\0", text.as_bytes()].concat();
                bytes(9, &changed, &both)
            }
            ExportRecord::Close(has_lost) => bytes(10, &[u64::from(*has_lost)], &[]),
        }
    }

    /// The record that these bytes are.
    pub fn decode(bytes: &[u8]) -> Option<ExportRecord> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            1 => rest.is_empty().then_some(ExportRecord::Open)?,
            2 => ExportRecord::Enter(name(rest)?),
            3 => {
                let ([rights, seconds, nanoseconds, stays], rest) = split(rest)?;
                let stamp = stamp([rights, seconds, nanoseconds])?;
                ExportRecord::Leave(name(rest)?, stamp, flag(stays)?)
            }
            4 => ExportRecord::Begin(name(rest)?),
            5 => {
                let ([at], data) = split(rest)?;
                ExportRecord::Data(at, data.to_vec())
            }
            6 => {
                let ([size, rights, seconds, nanoseconds, is_linked, device, inode], rest) =
                    split(rest)?;
                let end = FileEnd {
                    size: size.cast_signed(),
                    stamp: stamp([rights, seconds, nanoseconds])?,
                    linked: found([is_linked, device, inode])?,
                };
                rest.is_empty().then_some(ExportRecord::End(end))?
            }
            7 => ExportRecord::Remove(name(rest)?),
            8 => {
                let ([device, inode], rest) = split(rest)?;
                ExportRecord::Link((device, inode), name(rest)?)
            }
            9 => {
                let ([seconds, nanoseconds], rest) = split(rest)?;
                let end = rest.iter().position(|byte| *byte == 0)?;
                let text = rest.get(end + 1..)?;
                if text.contains(&0) {
                    return None;
                }
                let changed = (seconds.cast_signed(), nanoseconds.cast_signed());
                let text = OsString::from_vec(text.to_vec());
                ExportRecord::Symlink(name(&rest[..end])?, text, changed)
            }
            10 => {
                let ([has_lost], rest) = split(rest)?;
                let close = ExportRecord::Close(flag(has_lost)?);
                rest.is_empty().then_some(close)?
            }
            _ => return None,
        })
    }
}

impl ExportAnswer {
    /// The bytes of this answer.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ExportAnswer::Done => bytes(1, &[], &[]),
            ExportAnswer::Unknown => bytes(2, &[], &[]),
            ExportAnswer::Failed(errno) => {
                bytes(3, &[u64::from((*errno as i32).cast_unsigned())], &[])
            }
            ExportAnswer::Opened([to, around]) => {
                bytes(4, &[place(*to), place(*around)].concat(), &[])
            }
            ExportAnswer::Refused(text) => {
                let most = text.floor_char_boundary(MOST_DATA);
                bytes(5, &[], &text.as_bytes()[..most])
            }
        }
    }

    /// The answer that these bytes are.
    pub fn decode(bytes: &[u8]) -> Option<ExportAnswer> {
        let (kind, rest) = bytes.split_first()?;
        let alone = |answer| rest.is_empty().then_some(answer);
        match kind {
            1 => alone(ExportAnswer::Done),
            2 => alone(ExportAnswer::Unknown),
            3 => {
                let ([number], rest) = split(rest)?;
                let errno = Errno::from_raw(i32::try_from(number).ok()?);
                rest.is_empty().then_some(ExportAnswer::Failed(errno))
            }
            4 => {
                let ([a, b, c, d, e, f], rest) = split(rest)?;
                let places = [found([a, b, c])?, found([d, e, f])?];
                rest.is_empty().then_some(ExportAnswer::Opened(places))
            }
            5 => {
                let text = String::from_utf8(rest.to_vec()).ok()?;
                Some(ExportAnswer::Refused(text))
            }
            _ => None,
        }
    }
}

fn bytes(kind: u8, numbers: &[u64], rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    for number in numbers {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(rest);
    bytes
}

/// So many numbers, and what is behind them.
fn split<const COUNT: usize>(bytes: &[u8]) -> Option<([u64; COUNT], &[u8])> {
    let (head, rest) = bytes.split_at_checked(COUNT * 8)?;
    let (head, _) = head.as_chunks::<8>();
    let mut numbers = [0; COUNT];
    for (number, bytes) in numbers.iter_mut().zip(head) {
        *number = u64::from_le_bytes(*bytes);
    }
    Some((numbers, rest))
}

fn flag(number: u64) -> Option<bool> {
    (number < 2).then_some(number == 1)
}

fn numbers(stamp: FileStamp) -> [u64; 3] {
    let (seconds, nanoseconds) = stamp.changed;
    let changed = [seconds.cast_unsigned(), nanoseconds.cast_unsigned()];
    [u64::from(stamp.rights), changed[0], changed[1]]
}

fn stamp([rights, seconds, nanoseconds]: [u64; 3]) -> Option<FileStamp> {
    Some(FileStamp {
        rights: u32::try_from(rights)
            .ok()
            .filter(|rights| *rights <= 0o777)?,
        changed: (seconds.cast_signed(), nanoseconds.cast_signed()),
    })
}

fn place(known: Option<FileId>) -> [u64; 3] {
    let (device, inode) = known.unwrap_or_default();
    [u64::from(known.is_some()), device, inode]
}

fn found([is_known, device, inode]: [u64; 3]) -> Option<Option<FileId>> {
    match (flag(is_known)?, device, inode) {
        (true, ..) => Some(Some((device, inode))),
        (false, 0, 0) => Some(None),
        _ => None,
    }
}

/// A name that is one: of an entry, and of none above.
fn name(bytes: &[u8]) -> Option<CString> {
    let is_other = matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/');
    (!is_other).then(|| CString::new(bytes).ok()).flatten()
}
