//! From an event back to a record: the decoder's inverse, written from the description of the
//! record and not from the decoder.

use std::net::SocketAddr;

use turnkey_abi::syscalls::on;
use turnkey_abi::{BY_HANDLE, COMM, Record, act, action, flag, kind};
use turnkey_facts::{Address, Event, File, Kind, NetworkAct, Raw};
use turnkey_monitor::fuzzing::on_code;
use turnkey_policy::{AttemptKind, RuleAction};

/// A record and the texts behind it.
struct Parts {
    record: Record,
    raw: Vec<u8>,
    path: Vec<u8>,
    argv: Vec<u8>,
}

/// The record that tells of this event.
///
/// # Panics
/// When a text is longer than a record can say.
#[must_use]
pub fn encode(event: &Event) -> Vec<u8> {
    let mut comm = [0; COMM];
    comm[..event.task.comm.len()].copy_from_slice(&event.task.comm);
    let (rule, action) = event.decision.map_or((0, action::NONE), |decision| {
        let rule = u16::try_from(decision.rule + 1).expect("it came from 16 bits");
        (rule, action_code(decision.action))
    });
    let mut parts = Parts {
        record: Record {
            seq: event.seq,
            time_ns: event.time_ns,
            last_ns: event.last_ns,
            repeated: event.repeated,
            start_ns: event.task.start_ns,
            pid: event.task.pid,
            tid: event.task.tid,
            jail_pid: event.task.jail_pid,
            uid: event.task.uid,
            parent_pid: event.task.parent_pid,
            rule,
            action,
            comm,
            ..Record::ZERO
        },
        raw: Vec::new(),
        path: Vec::new(),
        argv: Vec::new(),
    };
    let unknown = event.decision.is_some_and(|made| made.actor_unknown);
    parts.flag(flag::ACTOR_UNKNOWN, unknown);
    let is_lost = event.decision.is_some_and(|made| made.file_unknown);
    parts.flag(flag::FILE_UNKNOWN, is_lost);
    parts.fill(&event.kind);
    parts.bytes()
}

impl Parts {
    fn flag(&mut self, bit: u16, set: bool) {
        self.record.flags |= if set { bit } else { 0 };
    }

    fn file(&mut self, file: &File) {
        self.path.clone_from(&file.path);
        self.record.dev = file.dev;
        self.record.inode = file.inode;
        self.flag(flag::FILE, true);
        self.flag(flag::PATH_TRUNCATED, file.truncated);
        self.flag(flag::UNLINKED, file.unlinked);
    }

    fn raw(&mut self, raw: &Raw) {
        self.raw.clone_from(&raw.bytes);
        self.flag(flag::RAW_TRUNCATED, raw.truncated);
        self.flag(flag::RAW_UNREADABLE, raw.unreadable);
        self.flag(flag::BASE, raw.base.is_some());
        if let Some(base) = &raw.base {
            self.path.clone_from(base);
        }
    }

    fn failed(&mut self, kind: u16, errno: i32) {
        self.record.kind = kind;
        self.record.errno = errno.cast_unsigned();
    }

    fn fill(&mut self, of: &Kind) {
        match of {
            Kind::Exec { .. } => self.exec(of),
            Kind::ExecAttempt { raw, errno } => {
                self.failed(kind::EXEC_ATTEMPT, *errno);
                self.raw(raw);
            }
            Kind::Open {
                file,
                raw,
                flags,
                by_handle,
                errno,
            } => {
                self.failed(kind::OPEN, *errno);
                self.record.what = if *by_handle { BY_HANDLE } else { 0 };
                self.raw(raw);
                file.iter().for_each(|file| self.file(file));
                self.record.detail = *flags;
            }
            Kind::Network {
                act,
                address,
                socket_type,
                socket,
                errno,
            } => {
                self.record.args[0] = u64::from(*socket);
                self.failed(kind::NETWORK, *errno);
                self.record.what = act_code(*act);
                self.record.detail = *socket_type;
                self.raw = address_bytes(address);
            }
            Kind::Question {
                address,
                socket_type,
                data,
                truncated,
                unreadable,
                errno,
            } => {
                self.failed(kind::QUESTION, *errno);
                self.record.detail = *socket_type;
                self.raw = address_bytes(address);
                self.path.clone_from(data);
                self.flag(flag::PATH_TRUNCATED, *truncated);
                self.flag(flag::RAW_UNREADABLE, *unreadable);
            }
            Kind::Refused {
                nr,
                on,
                args,
                errno,
            } => {
                self.failed(kind::REFUSED, *errno);
                self.record.detail = *nr;
                self.record.what = u16::from(on.map_or(on::NONE, on_code));
                self.record.args = *args;
            }
            Kind::Change { .. } => self.change(of),
            Kind::Map {
                file,
                writable,
                unknown,
                nr,
                errno,
            } => {
                self.failed(kind::MAP, *errno);
                file.iter().for_each(|file| self.file(file));
                self.flag(flag::WRITABLE, *writable);
                self.flag(flag::FILE_GONE, *unknown);
                self.record.detail = *nr;
            }
            Kind::Fork {
                child_pid,
                child_jail_pid,
                child_start_ns,
            } => {
                let (outer, inner) = (u64::from(*child_pid), u64::from(*child_jail_pid));
                self.record.kind = kind::FORK;
                self.record.args = [outer, inner, *child_start_ns];
            }
            Kind::Exit { status } => self.failed(kind::EXIT, *status),
        }
    }

    fn exec(&mut self, of: &Kind) {
        let Kind::Exec {
            file,
            raw,
            script,
            argv,
            argv_truncated,
            anew,
        } = of
        else {
            return;
        };
        self.record.kind = kind::EXEC;
        self.file(file);
        self.raw = raw.as_ref().unwrap_or(&file.path).clone();
        let ended = argv.iter().flat_map(|one| [one.as_slice(), b"\0"]);
        self.argv = ended.collect::<Vec<_>>().concat();
        self.flag(flag::ARGV_TRUNCATED, *argv_truncated);
        self.flag(flag::SCRIPT, *script);
        self.flag(flag::ANEW, anew.is_some());
        let mut comm = anew.clone().unwrap_or_default();
        comm.resize(COMM, 0);
        let words = comm
            .chunks_exact(8)
            .map(|word| word.try_into().map(u64::from_ne_bytes));
        for (arg, word) in self.record.args.iter_mut().zip(words) {
            *arg = word.unwrap_or_default();
        }
    }

    fn change(&mut self, of: &Kind) {
        let Kind::Change {
            on,
            object,
            new,
            resolved,
            call,
            errno,
        } = of
        else {
            return;
        };
        self.record.detail = call.nr;
        self.record.args = [call.args[1], call.args[2], call.args[4]];
        let is_look = *on == AttemptKind::Stat;
        self.failed(if is_look { kind::LOOK } else { kind::CHANGE }, *errno);
        self.record.what = u16::from(on_code(*on));
        self.path.clone_from(&object.bytes);
        self.flag(flag::PATH_TRUNCATED, object.truncated);
        self.flag(flag::OBJECT_UNREADABLE, object.unreadable);
        self.flag(flag::BASE, object.base.is_some());
        self.flag(flag::FILE, *resolved);
        self.argv = object.base.clone().unwrap_or_default();
        self.raw = new.clone().unwrap_or_default();
    }

    fn bytes(&self) -> Vec<u8> {
        let length =
            |text: &[u8]| u16::try_from(text.len()).expect("records hold no more than that");
        let record = Record {
            raw_len: length(&self.raw),
            path_len: length(&self.path),
            argv_len: length(&self.argv),
            ..self.record
        };
        [&record.to_bytes()[..], &self.raw, &self.path, &self.argv].concat()
    }
}

/// A `struct sockaddr`.
fn address_bytes(address: &Address) -> Vec<u8> {
    const AF_UNIX: u16 = 1;
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let (family, rest) = match address {
        Address::UnixPath(path) => (AF_UNIX, path.clone()),
        Address::UnixAbstract(name) => (AF_UNIX, [b"\0", name.as_slice()].concat()),
        Address::Inet(SocketAddr::V4(address)) => {
            let port = address.port().to_be_bytes();
            (AF_INET, [port.as_slice(), &address.ip().octets()].concat())
        }
        Address::Inet(SocketAddr::V6(address)) => {
            let port = address.port().to_be_bytes();
            let flow = address.flowinfo().to_be_bytes();
            let scope = address.scope_id().to_ne_bytes();
            let ip = address.ip().octets();
            (AF_INET6, [port.as_slice(), &flow, &ip, &scope].concat())
        }
        Address::Other { family, bytes } => (*family, bytes.clone()),
        Address::Unreadable => return Vec::new(),
    };
    [family.to_ne_bytes().as_slice(), &rest].concat()
}

fn act_code(of: NetworkAct) -> u16 {
    match of {
        NetworkAct::Connect => act::CONNECT,
        NetworkAct::Bind => act::BIND,
        NetworkAct::Send => act::SEND,
        NetworkAct::Listen => act::LISTEN,
    }
}

fn action_code(of: RuleAction) -> u16 {
    match of {
        RuleAction::Allow => action::ALLOW,
        RuleAction::Log => action::LOG,
        RuleAction::Deny => action::DENY,
        RuleAction::Kill => action::KILL,
    }
}
