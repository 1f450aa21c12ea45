//! Stories for detectors: events as the kernel's records would have them.

use turnkey_policy::{Behaviour, BehaviourResponse, Policy};

use super::{BehaviourEngine, End, Found};
use turnkey_facts::{Address, Event, File, Kind, NetworkAct, Raw, Task};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// A policy with these lines on top of the profile for programs that nobody trusts.
pub fn policy(lines: &str) -> Policy {
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"story\"\nextends = [\"untrusted\"]\n{lines}"
    );
    let read = |name: &str| match name {
        "/story.toml" => Ok(text.clone()),
        other => Err(format!("no profile {other}")),
    };
    turnkey_policy::load("/story.toml", &read, &turnkey_policy::Overrides::default())
        .expect("a story has a profile")
}

/// Events in their order, and what was found so far.
pub struct Story {
    engine: BehaviourEngine,
    seq: u64,
    now: u64,
    /// True when the jail was to die.
    pub dies: bool,
    /// The name of the tasks that act.
    pub comm: &'static str,
}

impl Story {
    pub fn new() -> Self {
        Self::under(&policy(""))
    }

    pub fn under(policy: &Policy) -> Self {
        Self {
            engine: BehaviourEngine::new(policy),
            seq: 0,
            now: 100 * SECOND,
            dies: false,
            comm: "story",
        }
    }

    /// One event of a process, a millisecond after the last.
    pub fn tell(&mut self, pid: u32, kind: Kind) -> &mut Self {
        self.now += SECOND / 1000;
        let event = Event {
            seq: self.seq,
            time_ns: self.now,
            last_ns: self.now,
            repeated: 0,
            task: Task {
                comm: self.comm.into(),
                ..task(pid)
            },
            kind,
            decision: None,
        };
        self.seq += 1;
        self.dies |= self.engine.take_event(&event);
        self
    }

    pub fn wait(&mut self, seconds: u64) -> &mut Self {
        self.now += seconds * SECOND;
        self
    }

    pub fn exec(&mut self, pid: u32, path: &str, argv: &[&str]) -> &mut Self {
        self.tell(pid, exec(path, None, argv, false))
    }

    pub fn script(&mut self, pid: u32, script: &str) -> &mut Self {
        self.tell(
            pid,
            exec("/usr/bin/bash", Some(script), &["bash", script], false),
        )
    }

    pub fn nameless(&mut self, pid: u32, path: &str) -> &mut Self {
        self.tell(pid, exec(path, None, &["x"], true))
    }

    pub fn fork(&mut self, pid: u32, child: u32) -> &mut Self {
        let kind = Kind::Fork {
            child_pid: child,
            child_jail_pid: child,
            child_start_ns: u64::from(child),
        };
        self.tell(pid, kind)
    }

    pub fn ends(&mut self, pid: u32) -> &mut Self {
        self.tell(pid, Kind::Exit { status: 0 })
    }

    /// Ends as a shell does that finds no such command, or the copy of it that was to become the command.
    pub fn finds_nothing(&mut self, pid: u32) -> &mut Self {
        self.tell(pid, Kind::Exit { status: 127 << 8 })
    }

    /// Asks about a file that is not there: newfstatat(2).
    pub fn looks_for(&mut self, pid: u32, path: &str) -> &mut Self {
        let on = turnkey_policy::AttemptKind::Stat;
        self.calls_on(pid, on, (262, [0; 6]), (path, 2))
    }

    pub fn reads(&mut self, pid: u32, path: &str) -> &mut Self {
        self.tell(pid, opened(path, 0))
    }

    pub fn lists(&mut self, pid: u32, path: &str) -> &mut Self {
        self.tell(pid, opened(path, 0o200_000))
    }

    pub fn writes(&mut self, pid: u32, path: &str) -> &mut Self {
        self.tell(pid, opened(path, 0o1101))
    }

    /// Writes over a file as it stands (`O_WRONLY` and nothing else of open(2)).
    pub fn writes_over(&mut self, pid: u32, path: &str) -> &mut Self {
        self.tell(pid, opened(path, 1))
    }

    /// An open that another layer refused.
    pub fn wants(&mut self, pid: u32, path: &str, flags: u32) -> &mut Self {
        self.wants_answered(pid, path, flags, 2)
    }

    /// An open that was answered with this error.
    pub fn wants_answered(&mut self, pid: u32, path: &str, flags: u32, errno: i32) -> &mut Self {
        let kind = Kind::Open {
            file: None,
            raw: raw(path),
            flags,
            by_handle: false,
            errno,
        };
        self.tell(pid, kind)
    }

    /// An open by a handle, of a file with this path as the kernel knows it; without one, and `truncated`, of a file that no directory is
    /// known to hold.
    pub fn opens_by_handle(&mut self, pid: u32, path: &str, truncated: bool) -> &mut Self {
        let file = File {
            truncated,
            ..file(path, false)
        };
        let kind = Kind::Open {
            file: Some(file),
            raw: raw(""),
            flags: 0,
            by_handle: true,
            errno: 0,
        };
        self.tell(pid, kind)
    }

    pub fn deletes(&mut self, pid: u32, path: &str) -> &mut Self {
        self.changes(pid, turnkey_policy::AttemptKind::Unlink, path, None)
    }

    pub fn renames(&mut self, pid: u32, path: &str, new: &str) -> &mut Self {
        self.changes(pid, turnkey_policy::AttemptKind::Rename, path, Some(new))
    }

    /// The same by relative names.
    pub fn renames_in(&mut self, pid: u32, directory: &str, path: &str, new: &str) -> &mut Self {
        let object = turnkey_facts::Raw {
            base: Some(directory.as_bytes().to_vec()),
            ..raw(path)
        };
        let kind = Kind::Change {
            on: turnkey_policy::AttemptKind::Rename,
            object,
            new: Some(new.as_bytes().to_vec()),
            resolved: false,
            call: turnkey_facts::NamingCall::default(),
            errno: 0,
        };
        self.tell(pid, kind)
    }

    /// A change that was answered with this number, as the kernel counts errors; 0 is success.
    pub fn changed(
        &mut self,
        pid: u32,
        on: turnkey_policy::AttemptKind,
        path: &str,
        errno: i32,
    ) -> &mut Self {
        let kind = Kind::Change {
            on,
            object: raw(path),
            new: None,
            resolved: true,
            call: turnkey_facts::NamingCall::default(),
            errno,
        };
        self.tell(pid, kind)
    }

    /// A symlink of this name to `aim`.
    pub fn symlinks(&mut self, pid: u32, name: &str, aim: &str) -> &mut Self {
        const SYMLINK: u32 = 88;
        let kind = Kind::Change {
            on: turnkey_policy::AttemptKind::Open,
            object: raw(name),
            new: Some(aim.as_bytes().to_vec()),
            resolved: true,
            call: turnkey_facts::NamingCall {
                nr: SYMLINK,
                ..turnkey_facts::NamingCall::default()
            },
            errno: 0,
        };
        self.tell(pid, kind)
    }

    /// A call of this number that sets a mode or an owner.
    pub fn sets_mode(
        &mut self,
        pid: u32,
        call: (u32, [u64; 6]),
        path: &str,
        errno: i32,
    ) -> &mut Self {
        self.calls_on(pid, turnkey_policy::AttemptKind::Chmod, call, (path, errno))
    }

    /// A call of this number and kind on a path.
    pub fn calls_on(
        &mut self,
        pid: u32,
        on: turnkey_policy::AttemptKind,
        (nr, args): (u32, [u64; 6]),
        (path, errno): (&str, i32),
    ) -> &mut Self {
        let kind = Kind::Change {
            on,
            object: raw(path),
            new: None,
            resolved: true,
            call: turnkey_facts::NamingCall { nr, args },
            errno,
        };
        self.tell(pid, kind)
    }

    fn changes(
        &mut self,
        pid: u32,
        on: turnkey_policy::AttemptKind,
        path: &str,
        new: Option<&str>,
    ) -> &mut Self {
        let kind = Kind::Change {
            on,
            object: raw(path),
            new: new.map(|new| new.as_bytes().to_vec()),
            resolved: true,
            call: turnkey_facts::NamingCall::default(),
            errno: 0,
        };
        self.tell(pid, kind)
    }

    pub fn connects(&mut self, pid: u32, address: &str) -> &mut Self {
        self.network(pid, address, 0)
    }

    /// Connects a datagram socket to any address, as getaddrinfo(3) does for who is to wait there.
    pub fn orders_any_address(&mut self, pid: u32) -> &mut Self {
        let kind = Kind::Network {
            act: NetworkAct::Connect,
            address: Address::Inet("[::]:8000".parse().expect("an address and a port")),
            socket_type: 2,
            socket: 0,
            errno: 0,
        };
        self.tell(pid, kind)
    }

    /// Waits for connections at a port of its own.
    pub fn serves(&mut self, pid: u32) -> &mut Self {
        let kind = Kind::Network {
            act: NetworkAct::Bind,
            address: Address::Inet("127.0.0.1:0".parse().expect("an address and a port")),
            socket_type: 1,
            socket: 0,
            errno: 0,
        };
        self.tell(pid, kind)
    }

    pub fn listens(&mut self, pid: u32, address: &str) -> &mut Self {
        let kind = Kind::Network {
            act: NetworkAct::Listen,
            address: Address::Inet(address.parse().expect("an address and a port")),
            socket_type: 1,
            socket: 0,
            errno: 0,
        };
        self.tell(pid, kind)
    }

    /// A connection that is refused.
    pub fn knocks(&mut self, pid: u32, address: &str) -> &mut Self {
        self.network(pid, address, 111)
    }

    fn network(&mut self, pid: u32, address: &str, errno: i32) -> &mut Self {
        let kind = Kind::Network {
            act: NetworkAct::Connect,
            address: Address::Inet(address.parse().expect("an address and a port")),
            socket_type: 1,
            socket: 0,
            errno,
        };
        self.tell(pid, kind)
    }

    pub fn connects_to_path(&mut self, pid: u32, path: &str) -> &mut Self {
        let kind = Kind::Network {
            act: NetworkAct::Connect,
            address: Address::UnixPath(path.as_bytes().to_vec()),
            socket_type: 1,
            socket: 0,
            errno: 2,
        };
        self.tell(pid, kind)
    }

    /// A question for this name, as a resolver sends it.
    pub fn asks(&mut self, pid: u32, name: &str) -> &mut Self {
        let mut data = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            data.push(u8::try_from(label.len()).expect("a label is short"));
            data.extend(label.bytes());
        }
        data.extend([0, 0, 1, 0, 1]);
        let kind = Kind::Question {
            address: Address::Inet("127.0.0.53:53".parse().expect("an address")),
            socket_type: 2,
            data,
            truncated: false,
            unreadable: false,
            errno: 0,
        };
        self.tell(pid, kind)
    }

    pub fn calls(&mut self, pid: u32, name: &str, args: [u64; 3]) -> &mut Self {
        let syscall = turnkey_abi::syscalls::SYSCALLS
            .iter()
            .find(|syscall| syscall.name == name)
            .expect("a call that is looked at");
        let on = on_of(name);
        let kind = Kind::Refused {
            nr: u32::from(syscall.nr),
            on,
            args,
            errno: 1,
        };
        self.tell(pid, kind)
    }

    /// The behaviours found, by name and count.
    pub fn found(self) -> Vec<(Behaviour, u64)> {
        self.ended(&End::default())
            .into_iter()
            .map(|found| (found.behaviour, found.count))
            .collect()
    }

    /// Bytes that it takes to write down all that is remembered.
    pub fn weight(&self) -> usize {
        format!("{:?}", self.engine).len()
    }

    pub fn ended(self, end: &End) -> Vec<Found> {
        self.engine.finish(end)
    }
}

fn on_of(name: &str) -> Option<turnkey_policy::AttemptKind> {
    use turnkey_policy::AttemptKind;
    match name {
        "mount" => Some(AttemptKind::Mount),
        "ptrace" => Some(AttemptKind::Ptrace),
        "bpf" => Some(AttemptKind::Bpf),
        "init_module" => Some(AttemptKind::Module),
        "setuid" | "capset" => Some(AttemptKind::Setuid),
        "unshare" => Some(AttemptKind::Namespace),
        "io_uring_setup" => Some(AttemptKind::IoUring),
        _ => None,
    }
}

/// A response to a behaviour as a profile says it.
pub fn response(behaviour: Behaviour, response: BehaviourResponse) -> Policy {
    policy(&format!("[behaviour]\n{behaviour} = \"{response}\"\n"))
}

fn task(pid: u32) -> Task {
    Task {
        pid,
        tid: pid,
        jail_pid: pid,
        uid: 1000,
        parent_pid: 1,
        start_ns: u64::from(pid),
        comm: b"story".to_vec(),
    }
}

pub fn raw(path: &str) -> Raw {
    Raw {
        base: None,
        bytes: path.as_bytes().to_vec(),
        truncated: false,
        unreadable: false,
    }
}

fn file(path: &str, unlinked: bool) -> File {
    File {
        path: path.as_bytes().to_vec(),
        truncated: false,
        unlinked,
        dev: 1,
        inode: 2,
    }
}

fn opened(path: &str, flags: u32) -> Kind {
    Kind::Open {
        file: Some(file(path, false)),
        raw: raw(path),
        flags,
        by_handle: false,
        errno: 0,
    }
}

fn exec(path: &str, script: Option<&str>, argv: &[&str], unlinked: bool) -> Kind {
    Kind::Exec {
        file: file(path, unlinked),
        raw: script.map(|script| script.as_bytes().to_vec()),
        script: script.is_some(),
        argv: argv.iter().map(|one| one.as_bytes().to_vec()).collect(),
        argv_truncated: false,
        anew: None,
    }
}
