//! A policy and events by hand, for the tests of this module.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use turnkey_facts::{Address, Decision, Event, File, Kind, NetworkAct, Raw, Task};
use turnkey_policy::{
    AttemptKind, EnforcementPolicy, FilesystemPolicy, Glob, HostPath, JailEnvironment,
    JailIdentity, JailLimits, NetworkPolicy, OpenAccess, Policy, Rule, RuleAction, ScratchMount,
    Severity, SyscallPolicy, WorkdirPolicy,
};

use super::Clock;

pub const MIB: u64 = 1 << 20;

/// Index of `credential-file` in [`policy`].
pub const CREDENTIALS: usize = 0;
/// Index of `outbound`.
pub const OUTBOUND: usize = 1;
/// Index of `escape`.
pub const ESCAPE: usize = 2;

/// The start of [`clock`]'s run: nanoseconds since the machine was booted, 1000 s.
const START_NS: u64 = 1_000_000_000_000;

pub fn clock() -> Clock {
    // 2026-01-02T03:04:05Z
    Clock::new(
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045),
        START_NS,
    )
}

pub fn policy() -> Policy {
    Policy {
        name: "untrusted".to_owned(),
        description: "for tests".to_owned(),
        sha256: "5e".repeat(32),
        files: Vec::new(),
        filesystem: filesystem(),
        network: NetworkPolicy::default(),
        limits: JailLimits::default(),
        identity: JailIdentity::default(),
        environment: JailEnvironment::default(),
        syscalls: SyscallPolicy {
            allow: BTreeSet::from([
                "bind", "clone", "connect", "execve", "openat", "sendto", "setuid", "socket",
            ]),
            set_id_files: true,
            host_network: false,
        },
        enforcement: EnforcementPolicy {
            required: BTreeSet::new(),
            ..EnforcementPolicy::default()
        },
        rules: vec![credentials(), outbound(), escape()],
        scan: turnkey_policy::ScanPolicy::default(),
        behaviours: std::collections::BTreeMap::new(),
        accepted: Vec::new(),
    }
}

fn filesystem() -> FilesystemPolicy {
    let read = ["/usr", "/bin", "/lib", "/etc/ld.so.cache"];
    let host = |path: &str| HostPath {
        path: path.into(),
        at: None,
        optional: false,
        list: true,
        why: String::new(),
    };
    FilesystemPolicy {
        root: None,
        root_mode: turnkey_policy::RootMode::ReadOnly,
        toolchain: turnkey_policy::ToolchainMode::None,
        proc: turnkey_policy::ProcView::Common,
        read: read.map(host).to_vec(),
        write: Vec::new(),
        scratch: vec![ScratchMount {
            path: "/tmp".into(),
            size: 64 * MIB,
            why: String::new(),
        }],
        workdir: WorkdirPolicy::default(),
        own_path: turnkey_policy::OwnPath::Known,
        decoys: vec![PathBuf::from("/etc/shadow")],
        names: Vec::new(),
        planted: std::collections::BTreeMap::new(),
    }
}

fn credentials() -> Rule {
    let globs = ["/etc/shadow", "/etc/gshadow", "**/.ssh/id_*"];
    Rule {
        path: globs.map(|glob| Glob::parse(glob).unwrap()).to_vec(),
        access: BTreeSet::from([OpenAccess::Read]),
        severity: Severity::Critical,
        technique: Some("T1003.008".to_owned()),
        why: "no program that we run has business here".to_owned(),
        ..Rule::new("credential-file", [AttemptKind::Open], RuleAction::Kill)
    }
}

fn outbound() -> Rule {
    Rule {
        technique: Some("T1071".to_owned()),
        why: "there is no network".to_owned(),
        ..Rule::new(
            "outbound",
            [AttemptKind::Connect, AttemptKind::Send],
            RuleAction::Deny,
        )
    }
}

fn escape() -> Rule {
    Rule {
        severity: Severity::High,
        why: "a way out of a jail".to_owned(),
        ..Rule::new(
            "escape",
            [
                AttemptKind::Ptrace,
                AttemptKind::Mount,
                AttemptKind::Namespace,
            ],
            RuleAction::Log,
        )
    }
}

/// Events of one jail, numbered and dated as they are made: one every millisecond.
#[derive(Default)]
pub struct Story {
    pub events: Vec<Event>,
    skipped: u64,
}

impl Story {
    /// The command is pid 2 in the jail, 4002 outside.
    pub fn command(argv: &[&str]) -> Self {
        let mut story = Self::default();
        story.push(2, exec(argv));
        story
    }

    /// Loses the next `count` events.
    pub fn lose(&mut self, count: u64) {
        self.skipped += count;
    }

    pub fn push(&mut self, pid: u32, kind: Kind) {
        self.add(pid, kind, None);
    }

    pub fn decided(&mut self, pid: u32, kind: Kind, rule: usize, action: RuleAction) {
        let decision = Decision {
            rule,
            action,
            actor_unknown: false,
            file_unknown: false,
        };
        self.add(pid, kind, Some(decision));
    }

    /// The kernel did not know to which file the last of them was done.
    pub fn about_no_known_file(&mut self) {
        let last = self.events.last_mut();
        if let Some(decision) = last.and_then(|event| event.decision.as_mut()) {
            decision.file_unknown = true;
        }
    }

    /// The kernel did not know who did the last of them.
    pub fn by_nobody_known(&mut self) {
        let last = self.events.last_mut();
        if let Some(decision) = last.and_then(|event| event.decision.as_mut()) {
            decision.actor_unknown = true;
        }
    }

    fn add(&mut self, pid: u32, kind: Kind, decision: Option<Decision>) {
        let seq = self.events.len() as u64 + self.skipped;
        let time_ns = START_NS + (seq + 1) * 1_000_000;
        self.events.push(Event {
            seq,
            time_ns,
            last_ns: time_ns,
            repeated: 0,
            task: task(pid),
            kind,
            decision,
        });
    }
}

pub fn task(pid: u32) -> Task {
    let comm = if pid == 2 { "python3" } else { "sh" };
    Task {
        pid: 4000 + pid,
        tid: 4000 + pid,
        jail_pid: pid,
        uid: 0x7000_03e8,
        parent_pid: if pid == 2 { 4001 } else { 4002 },
        start_ns: START_NS + u64::from(pid),
        comm: comm.as_bytes().to_vec(),
    }
}

pub fn file(path: &str) -> File {
    // Device 0:38.
    File {
        path: path.into(),
        truncated: false,
        unlinked: false,
        dev: 38,
        inode: 1000 + path.len() as u64,
    }
}

pub fn raw(bytes: impl AsRef<[u8]>) -> Raw {
    Raw {
        base: None,
        bytes: bytes.as_ref().to_vec(),
        truncated: false,
        unreadable: false,
    }
}

pub fn exec(argv: &[&str]) -> Kind {
    let argv_bytes = argv
        .iter()
        .map(|argument| argument.as_bytes().to_vec())
        .collect();
    let path = format!("/usr/bin/{}", argv[0]);
    Kind::Exec {
        file: file(&path),
        raw: None,
        script: false,
        argv: argv_bytes,
        argv_truncated: false,
        anew: None,
    }
}

/// An open for reading that succeeded.
pub fn opened(path: &str) -> Kind {
    Kind::Open {
        file: Some(file(path)),
        raw: raw(path),
        flags: 0,
        by_handle: false,
        errno: 0,
    }
}

/// An open that failed.
pub fn open_failed(path: impl AsRef<[u8]>, flags: i32, errno: i32) -> Kind {
    Kind::Open {
        file: None,
        raw: raw(path),
        flags: flags.cast_unsigned(),
        by_handle: false,
        errno,
    }
}

pub fn connect(address: &str, errno: i32) -> Kind {
    Kind::Network {
        act: NetworkAct::Connect,
        address: Address::Inet(address.parse().unwrap()),
        socket_type: libc::SOCK_STREAM.cast_unsigned(),
        socket: 0,
        errno,
    }
}

/// One question to a name server, in a message of its own.
pub fn question(address: &str, asked: &[u8], errno: i32) -> Kind {
    let head = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0";
    Kind::Question {
        address: Address::Inet(address.parse().unwrap()),
        socket_type: libc::SOCK_DGRAM.cast_unsigned(),
        data: [head.as_slice(), asked].concat(),
        truncated: false,
        unreadable: false,
        errno,
    }
}

pub fn refused(name: &str, on: AttemptKind) -> Kind {
    let nr = turnkey_policy::syscalls::number(name).unwrap();
    Kind::Refused {
        nr,
        on: Some(on),
        args: [16, 2, 0],
        errno: libc::EPERM,
    }
}

pub fn fork(pid: u32) -> Kind {
    Kind::Fork {
        child_pid: 4000 + pid,
        child_jail_pid: pid,
        child_start_ns: START_NS + u64::from(pid),
    }
}
