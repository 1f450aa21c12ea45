//! Decodes the kernel's records to events. Total: any bytes give an event or an error, never a panic.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use turnkey_abi::syscalls::on;
use turnkey_abi::{BY_HANDLE, COMM, PATH, Record, Repeat, act, count, flag, kind};
use turnkey_policy::AttemptKind;

use crate::wire;
use turnkey_facts::{Address, Decision, Event, File, Kind, NamingCall, NetworkAct, Raw, Task};

/// Errors of bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record says it is longer than it is.
    #[error("the record is {actual} bytes long and should have {expected}")]
    Short {
        /// Bytes that the record needs.
        expected: usize,
        /// Bytes that there are.
        actual: usize,
    },
    /// A code that this version does not know.
    #[error("the record's {field} is {value}, which means nothing")]
    Code {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
}

/// Reads a record's texts one after the other.
struct Reader<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let short = DecodeError::Short {
            expected: self.whole - self.rest.len() + length,
            actual: self.whole,
        };
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// The fixed part of a record and its texts.
struct Parts<'a> {
    record: Record,
    raw: &'a [u8],
    path: &'a [u8],
    argv: &'a [u8],
}

fn parts(bytes: &[u8]) -> Result<Parts<'_>, DecodeError> {
    let short = DecodeError::Short {
        expected: size_of::<Record>(),
        actual: bytes.len(),
    };
    let (fixed, rest) = bytes.split_first_chunk().ok_or(short)?;
    let mut reader = Reader {
        rest,
        whole: bytes.len(),
    };
    texts(Record::from_bytes(fixed), &mut reader)
}

fn texts<'a>(record: Record, reader: &mut Reader<'a>) -> Result<Parts<'a>, DecodeError> {
    let raw = reader.take(usize::from(record.raw_len))?;
    let path = reader.take(usize::from(record.path_len))?;
    let argv = reader.take(usize::from(record.argv_len))?;
    Ok(Parts {
        record,
        raw,
        path,
        argv,
    })
}

/// Decodes one record.
///
/// # Errors
/// When the bytes are not a record of this version.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    event(&parts(bytes)?)
}

/// Decodes a thread's repetitions that no record has told of: `None` when there is nothing.
pub(crate) fn untold(slot: &Repeat) -> Option<Result<Event, DecodeError>> {
    // The record itself stands for one.
    let repeated = slot.record.repeated.checked_sub(1)?;
    let record = Record {
        repeated,
        ..slot.record
    };
    let mut reader = Reader {
        rest: &slot.text,
        whole: slot.text.len(),
    };
    Some(texts(record, &mut reader).and_then(|parts| event(&parts)))
}

fn event(parts: &Parts<'_>) -> Result<Event, DecodeError> {
    let record = &parts.record;
    Ok(Event {
        seq: record.seq,
        time_ns: record.time_ns,
        last_ns: record.last_ns.max(record.time_ns),
        repeated: record.repeated,
        task: task(record),
        kind: kind_of(parts)?,
        decision: decision(record)?,
    })
}

/// The index of the number in which the kernel counts events of this kind.
pub(crate) fn count_index(of: &Kind) -> usize {
    let (kind, what) = match of {
        Kind::Exec { .. } => (kind::EXEC, 0),
        Kind::ExecAttempt { .. } => (kind::EXEC_ATTEMPT, 0),
        Kind::Open { .. } => (kind::OPEN, 0),
        Kind::Network { act, .. } => {
            let what = match act {
                NetworkAct::Connect => act::CONNECT,
                NetworkAct::Bind => act::BIND,
                NetworkAct::Listen => act::LISTEN,
                NetworkAct::Send => act::SEND,
            };
            (kind::NETWORK, what)
        }
        Kind::Question { .. } => (kind::QUESTION, 0),
        Kind::Refused { .. } => (kind::REFUSED, 0),
        Kind::Fork { .. } => (kind::FORK, 0),
        Kind::Exit { .. } => (kind::EXIT, 0),
        Kind::Change {
            on: AttemptKind::Stat,
            ..
        } => (kind::LOOK, 0),
        Kind::Change { .. } => (kind::CHANGE, 0),
        Kind::Map { .. } => (kind::MAP, 0),
    };
    count::slot(kind, what)
}

fn task(record: &Record) -> Task {
    Task {
        pid: record.pid,
        tid: record.tid,
        jail_pid: record.jail_pid,
        uid: record.uid,
        parent_pid: record.parent_pid,
        start_ns: record.start_ns,
        comm: command(&record.comm),
    }
}

/// The text of a `task_struct.comm`.
fn command(comm: &[u8; COMM]) -> Vec<u8> {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(COMM);
    comm[..end].to_vec()
}

/// The name of the process whose program is executed anew.
fn anew(record: &Record) -> Option<Vec<u8>> {
    let [first, second] = [record.args[0], record.args[1]].map(u64::to_ne_bytes);
    let mut comm = [0; COMM];
    let (begin, end) = comm.split_at_mut(first.len());
    begin.copy_from_slice(&first);
    end.copy_from_slice(&second);
    has(record, flag::ANEW).then(|| command(&comm))
}

fn decision(record: &Record) -> Result<Option<Decision>, DecodeError> {
    let Some(rule) = usize::from(record.rule).checked_sub(1) else {
        return Ok(None);
    };
    let unknown = DecodeError::Code {
        field: "action",
        value: record.action.into(),
    };
    let action = wire::action(record.action).ok_or(unknown)?;
    Ok(Some(Decision {
        rule,
        action,
        actor_unknown: has(record, flag::ACTOR_UNKNOWN),
        file_unknown: has(record, flag::FILE_UNKNOWN),
    }))
}

fn kind_of(parts: &Parts<'_>) -> Result<Kind, DecodeError> {
    let record = &parts.record;
    Ok(match record.kind {
        kind::EXEC => exec(parts),
        kind::EXEC_ATTEMPT => Kind::ExecAttempt {
            raw: raw(parts),
            errno: errno(record),
        },
        kind::OPEN => Kind::Open {
            file: has(record, flag::FILE).then(|| file(parts)),
            raw: raw(parts),
            flags: record.detail,
            by_handle: record.what == BY_HANDLE,
            errno: errno(record),
        },
        kind::NETWORK => Kind::Network {
            act: network_act(record)?,
            address: address(parts.raw),
            socket_type: record.detail,
            // The kernel writes no more than 32 bits.
            socket: u32::try_from(record.args[0]).unwrap_or(0),
            errno: errno(record),
        },
        kind::QUESTION => Kind::Question {
            address: address(parts.raw),
            socket_type: record.detail,
            data: parts.path.to_vec(),
            truncated: has(record, flag::PATH_TRUNCATED),
            unreadable: has(record, flag::RAW_UNREADABLE),
            errno: errno(record),
        },
        kind::REFUSED => refused(record)?,
        kind::CHANGE | kind::LOOK => change(parts)?,
        kind::MAP => map(parts),
        kind::FORK => fork(record)?,
        kind::EXIT => Kind::Exit {
            status: errno(record),
        },
        value => {
            return Err(DecodeError::Code {
                field: "kind",
                value: value.into(),
            });
        }
    })
}

fn has(record: &Record, bit: u16) -> bool {
    record.flags & bit != 0
}

fn errno(record: &Record) -> i32 {
    record.errno.cast_signed()
}

fn raw(parts: &Parts<'_>) -> Raw {
    let base = has(&parts.record, flag::BASE).then(|| parts.path.to_vec());
    Raw {
        base,
        bytes: parts.raw.to_vec(),
        truncated: has(&parts.record, flag::RAW_TRUNCATED),
        unreadable: has(&parts.record, flag::RAW_UNREADABLE),
    }
}

fn file(parts: &Parts<'_>) -> File {
    File {
        path: parts.path.to_vec(),
        truncated: has(&parts.record, flag::PATH_TRUNCATED),
        unlinked: has(&parts.record, flag::UNLINKED),
        dev: parts.record.dev,
        inode: parts.record.inode,
    }
}

fn exec(parts: &Parts<'_>) -> Kind {
    let mut argv: Vec<Vec<u8>> = parts
        .argv
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect();
    // The zero that ends the last argument begins no further one.
    if argv.last().is_some_and(Vec::is_empty) {
        argv.pop();
    }
    Kind::Exec {
        file: file(parts),
        raw: (parts.raw != parts.path).then(|| parts.raw.to_vec()),
        script: has(&parts.record, flag::SCRIPT),
        argv,
        argv_truncated: has(&parts.record, flag::ARGV_TRUNCATED),
        anew: anew(&parts.record),
    }
}

fn network_act(record: &Record) -> Result<NetworkAct, DecodeError> {
    match record.what {
        act::CONNECT => Ok(NetworkAct::Connect),
        act::BIND => Ok(NetworkAct::Bind),
        act::LISTEN => Ok(NetworkAct::Listen),
        act::SEND => Ok(NetworkAct::Send),
        value => Err(DecodeError::Code {
            field: "act",
            value: value.into(),
        }),
    }
}

/// The rule kind in [`Record::what`].
fn rule_kind(record: &Record) -> Result<AttemptKind, DecodeError> {
    wire::on(record.what).ok_or(DecodeError::Code {
        field: "rule kind",
        value: record.what.into(),
    })
}

/// A look is a record of a kind of its own, and no other's.
fn kind_of_change(record: &Record) -> Result<AttemptKind, DecodeError> {
    let on = rule_kind(record)?;
    if (on == AttemptKind::Stat) != (record.kind == kind::LOOK) {
        return Err(DecodeError::Code {
            field: "rule kind",
            value: record.what.into(),
        });
    }
    Ok(on)
}

/// As errno(3) has it; x86_64 has the number of asm-generic.
const EFAULT: i32 = 14;

/// The other name of a link or a rename, and what a symlink leads to: the programs write a relative one behind its own
/// name and a step back.
fn new_name(parts: &Parts<'_>, on: AttemptKind) -> Option<Vec<u8>> {
    let is_known = !has(&parts.record, flag::RAW_UNREADABLE);
    let name = match on {
        AttemptKind::Link | AttemptKind::Rename => parts.raw,
        AttemptKind::Open if has(&parts.record, flag::OBJECT_UNREADABLE) => {
            // A call that fails for its name never had one, so none stands before the aim.
            match errno(&parts.record) {
                EFAULT if !parts.raw.is_empty() => parts.raw,
                _ => aim_alone(parts.raw)?,
            }
        }
        AttemptKind::Open if !parts.raw.is_empty() => {
            // Another thread can have written another name there since. An absolute aim has none before it.
            let is_relative = !parts.raw.starts_with(b"/");
            let by_length = || parts.raw.get(parts.path.len()..).filter(|_| is_relative);
            let behind = parts.raw.strip_prefix(parts.path).or_else(by_length);
            let aim = behind.and_then(|rest| rest.strip_prefix(b"/../"));
            aim.unwrap_or(parts.raw)
        }
        _ => return None,
    };
    is_known.then(|| name.to_vec())
}

/// The aim of a symlink, of a text with its own name before it, if any, which cannot be read any more; `None` where
/// the text may end in several aims.
fn aim_alone(raw: &[u8]) -> Option<&[u8]> {
    const BACK: &[u8] = b"/../";
    let mut steps = raw
        .windows(BACK.len())
        .enumerate()
        .filter(|(_, part)| *part == BACK);
    match (steps.next(), steps.next()) {
        (None, _) => Some(raw).filter(|raw| !raw.is_empty()),
        (Some((at, _)), None) if !raw.starts_with(b"/") => raw.get(at + BACK.len()..),
        _ => None,
    }
}

fn change(parts: &Parts<'_>) -> Result<Kind, DecodeError> {
    let record = &parts.record;
    let on = kind_of_change(record)?;
    let resolved = has(record, flag::FILE);
    let [second, third, fifth] = record.args;
    Ok(Kind::Change {
        on,
        object: Raw {
            base: has(record, flag::BASE).then(|| parts.argv.to_vec()),
            bytes: parts.path.to_vec(),
            // An argument that fills its room is cut, as far as anybody knows.
            truncated: has(record, flag::PATH_TRUNCATED)
                || !resolved && parts.path.len() == PATH - 1,
            unreadable: has(record, flag::OBJECT_UNREADABLE) || resolved && parts.path.is_empty(),
        },
        new: new_name(parts, on),
        resolved,
        call: NamingCall {
            nr: record.detail,
            args: [0, second, third, 0, fifth, 0],
        },
        errno: errno(record),
    })
}

fn map(parts: &Parts<'_>) -> Kind {
    let record = &parts.record;
    Kind::Map {
        file: has(record, flag::FILE).then(|| file(parts)),
        writable: has(record, flag::WRITABLE),
        unknown: has(record, flag::FILE_GONE),
        nr: record.detail,
        errno: errno(record),
    }
}

fn refused(record: &Record) -> Result<Kind, DecodeError> {
    let on = match record.what {
        what if what == u16::from(on::NONE) => None,
        _ => Some(rule_kind(record)?),
    };
    Ok(Kind::Refused {
        nr: record.detail,
        on,
        args: record.args,
        errno: errno(record),
    })
}

fn fork(record: &Record) -> Result<Kind, DecodeError> {
    let [child_pid, child_jail_pid, child_start_ns] = record.args;
    let word = |value: u64| {
        u32::try_from(value).map_err(|_| DecodeError::Code {
            field: "process id",
            value,
        })
    };
    Ok(Kind::Fork {
        child_pid: word(child_pid)?,
        child_jail_pid: word(child_jail_pid)?,
        child_start_ns,
    })
}

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// A `struct sockaddr` of any family and length.
fn address(bytes: &[u8]) -> Address {
    if bytes.is_empty() {
        return Address::Unreadable;
    }
    let Some((family, rest)) = bytes.split_first_chunk() else {
        return Address::Other {
            family: 0,
            bytes: bytes.to_vec(),
        };
    };
    let family = u16::from_ne_bytes(*family);
    let known = match family {
        AF_UNIX => Some(unix_address(rest)),
        AF_INET => internet_v4(rest),
        AF_INET6 => internet_v6(rest),
        _ => None,
    };
    known.unwrap_or_else(|| Address::Other {
        family,
        bytes: rest.to_vec(),
    })
}

/// `sun_path`: empty or with a leading zero it is no path.
fn unix_address(rest: &[u8]) -> Address {
    match rest.split_first() {
        Some((0, name)) => Address::UnixAbstract(name.to_vec()),
        _ => {
            let end = rest
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(rest.len());
            Address::UnixPath(rest[..end].to_vec())
        }
    }
}

fn internet_v4(rest: &[u8]) -> Option<Address> {
    let (port, rest) = rest.split_first_chunk()?;
    let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
    let address = SocketAddrV4::new(ip, u16::from_be_bytes(*port));
    Some(Address::Inet(SocketAddr::V4(address)))
}

fn internet_v6(rest: &[u8]) -> Option<Address> {
    let (port, rest) = rest.split_first_chunk()?;
    let (flow, rest) = rest.split_first_chunk()?;
    let (ip, rest) = rest.split_first_chunk::<16>()?;
    let scope = rest
        .first_chunk()
        .map_or(0, |scope| u32::from_ne_bytes(*scope));
    let (port, flow) = (u16::from_be_bytes(*port), u32::from_be_bytes(*flow));
    Some(Address::Inet(SocketAddr::V6(SocketAddrV6::new(
        Ipv6Addr::from(*ip),
        port,
        flow,
        scope,
    ))))
}
