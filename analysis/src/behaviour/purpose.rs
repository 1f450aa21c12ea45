//! Programs and calls of one purpose, which names what a run is up to whether or not they are here: firewalls and audit (defence
//! impairment), packets, screens, keys and microphones of others (capture), settings of the machine (system change), services
//! that others need (process killing), sweeps of a network (port scan) and guessed passwords (credential access).
//!
//! A program that only answers a question, as `iptables -L` and `ip addr` do, is none of them. One that is not installed is known
//! by the attempt to start it; its words are not known then, so those that have other uses besides do not count.

use std::collections::BTreeSet;

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Operation};
use super::process_state::{ProcessState, base_name};
use super::{Detector, OPENED, Sighting, Step, Verb};

/// Programs that have no other purpose.
const ALWAYS: &[(Behaviour, &[&str])] = &[
    (
        Behaviour::DefenseImpairment,
        &[
            "aa-complain",
            "aa-disable",
            "aa-teardown",
            "arptables",
            "auditctl",
            "ebtables",
            "firewall-cmd",
            "ip6tables",
            "ip6tables-restore",
            "iptables",
            "iptables-restore",
            "nft",
            "setenforce",
            "ufw",
        ],
    ),
    (
        Behaviour::Capture,
        &[
            "arecord",
            "arpspoof",
            "bettercap",
            "driftnet",
            "dsniff",
            "dumpcap",
            "ettercap",
            "evtest",
            "fswebcam",
            "gnome-screenshot",
            "grim",
            "logkeys",
            "maim",
            "ngrep",
            "parecord",
            "pbpaste",
            "screencapture",
            "scrot",
            "showkey",
            "streamer",
            "tcpdump",
            "tshark",
            "wl-paste",
            "xclip",
            "xinput",
            "xsel",
            "xwd",
        ],
    ),
    (
        Behaviour::SystemChange,
        &[
            "chage", "delgroup", "deluser", "gpasswd", "groupadd", "groupdel", "groupmod", "halt",
            "insmod", "kexec", "mkswap", "modprobe", "passwd", "poweroff", "reboot", "rmmod",
            "shutdown", "swapoff", "telinit", "userdel", "wipefs",
        ],
    ),
    (
        Behaviour::PortScan,
        &[
            "arp-scan",
            "hping3",
            "masscan",
            "netdiscover",
            "nmap",
            "unicornscan",
            "zmap",
        ],
    ),
    (
        Behaviour::CredentialAccess,
        &[
            "aircrack-ng",
            "hashcat",
            "hydra",
            "john",
            "medusa",
            "ncrack",
            "unshadow",
        ],
    ),
];

/// Programs of several purposes, with the words that mean this one.
const BY_WORD: &[(Behaviour, &str, &[&str])] = &[
    (
        Behaviour::ProcessKilling,
        "systemctl",
        &["stop", "disable", "mask", "kill"],
    ),
    (Behaviour::ProcessKilling, "service", &["stop"]),
    (Behaviour::ProcessKilling, "rc-service", &["stop"]),
    (
        Behaviour::SystemChange,
        "ip",
        &[
            "add", "append", "change", "del", "delete", "flush", "replace", "set",
        ],
    ),
    (Behaviour::SystemChange, "route", &["add", "del", "delete"]),
    (
        Behaviour::SystemChange,
        "ifconfig",
        &["up", "down", "promisc"],
    ),
    (
        Behaviour::SystemChange,
        "chattr",
        &["+i", "-i", "=i", "+a", "-a", "+ai", "-ai", "+ia", "-ia"],
    ),
    (Behaviour::SystemChange, "date", &["-s", "--set"]),
    (
        Behaviour::SystemChange,
        "hwclock",
        &["-s", "-w", "--hctosys", "--set", "--systohc"],
    ),
    (
        Behaviour::SystemChange,
        "sysctl",
        &["-w", "--write", "-p", "--load", "--system"],
    ),
    (
        Behaviour::SystemChange,
        "timedatectl",
        &["set-time", "set-timezone", "set-ntp", "set-local-rtc"],
    ),
    (
        Behaviour::SystemChange,
        "hostnamectl",
        &["set-hostname", "hostname"],
    ),
    (Behaviour::SystemChange, "init", &["0", "1", "6"]),
];

/// Words with which such a program only answers.
const ANSWERS: &[&str] = &[
    "--help",
    "--list",
    "--list-all",
    "--list-rules",
    "--state",
    "--status",
    "--version",
    "-L",
    "-S",
    "-V",
    "-h",
    "list",
    "status",
    "version",
];

/// Calls that change a setting of the machine, as the kernel's table names them.
const SETTINGS: &[&str] = &[
    "acct",
    "clock_settime",
    "ioperm",
    "iopl",
    "setdomainname",
    "sethostname",
    "settimeofday",
    "swapoff",
    "swapon",
];

/// Actions of syslog(2) that clear what was told: `SYSLOG_ACTION_READ_CLEAR` and `SYSLOG_ACTION_CLEAR`.
const CLEARS: &[u64] = &[4, 5];

/// The rights of others than the owner and the group, by inode(7).
const OTHERS: u32 = 0o007;
const GAVE_AWAY: Verb = (
    "gave everybody a right to a secret: ",
    "tried to give everybody a right to a secret: ",
);

/// Devices that show what a person does, by the beginning of their path.
const DEVICES: &[&[u8]] = &[
    b"/dev/console",
    b"/dev/fb",
    b"/dev/input/",
    // Of a machine's own screens; the process's own terminal is /dev/tty.
    b"/dev/tty0",
    b"/dev/tty1",
    b"/dev/tty2",
    b"/dev/tty3",
    b"/dev/tty4",
    b"/dev/tty5",
    b"/dev/tty6",
    b"/dev/tty7",
    b"/dev/tty8",
    b"/dev/tty9",
    b"/dev/uinput",
    b"/dev/vcs",
    b"/dev/video",
];

/// The beginnings of names that tasks of the kernel have, and no file can: what acts under one has given it to itself, by prctl(2).
const OF_THE_KERNEL: &[&str] = &[
    "[",
    "cpuhp/",
    "idle_inject/",
    "irq/",
    "jbd2/",
    "ksoftirqd/",
    "kworker/",
    "migration/",
    "rcuc/",
    "rcuop/",
];

/// The names of other tasks of the kernel, which a file could have: of some a number follows.
const TASKS_OF_THE_KERNEL: &[&str] = &[
    "kauditd",
    "kblockd",
    "kcompactd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "ksmd",
    "kswapd",
    "kthreadd",
    "oom_reaper",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_preempt",
    "rcu_sched",
    "watchdogd",
    "writeback",
];

/// Programs that every machine runs, and who looks at a list of processes looks past.
const OF_SERVICES: &[&str] = &[
    "agetty",
    "cron",
    "crond",
    "dbus-daemon",
    "dockerd",
    "init",
    "rsyslogd",
    "sshd",
    "systemd",
];
/// The beginning of the names of others.
const OF_SYSTEMD: &str = "systemd-";
/// The bytes of a task's name that the kernel keeps: `TASK_COMM_LEN` less the end.
const COMM: usize = 15;

/// Programs that were told of: each once, as a search of PATH comes to it again.
#[derive(Debug, Default)]
pub struct Purposes {
    told: BTreeSet<&'static str>,
}

impl Detector for Purposes {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let comm = &act.event.task.comm;
        let kernel = name_of_the_kernel(comm).map(|name| (name, "of the kernel"));
        let other = || name_of_another(act, state);
        // A thread beside the first may be called as its work is.
        let is_first = act.event.task.tid == act.event.task.pid;
        if let Some((name, whose)) = kernel.or_else(other).filter(|_| is_first)
            && self.told.insert(name)
        {
            let words: [&[u8]; 3] = [comm, b" is how it calls itself, as if ", whose.as_bytes()];
            let step = Step::from_event(act.event, &words);
            tell(Sighting::new(Behaviour::DefenseImpairment, vec![step]));
        }
        let (behaviour, step) = match &act.what {
            Operation::Executed { file, argv, .. } => {
                let called = argv.first().map_or(&file.path[..], |name| &name[..]);
                let words = argv.get(1..).unwrap_or_default();
                let (behaviour, how): (_, &[u8]) = match purpose(base_name(called), words) {
                    Some(behaviour) => (behaviour, b"ran "),
                    None if is_of_the_kernel(called) || is_of_the_kernel(&file.path) => {
                        (Behaviour::DefenseImpairment, b"ran as if of the kernel: ")
                    }
                    None => return,
                };
                let words: [&[u8]; 2] = [how, &argv.join(&b' ')];
                (behaviour, Step::from_event(act.event, &words))
            }
            Operation::Execution(path) => match always(base_name(path)) {
                Some((behaviour, name)) if self.told.insert(name) => (
                    behaviour,
                    Step::from_event(act.event, &[b"wanted to run ", path]),
                ),
                _ => return,
            },
            Operation::Called { name, .. } if SETTINGS.contains(name) => (
                Behaviour::SystemChange,
                Step::from_event(act.event, &[b"called ", name.as_bytes()]),
            ),
            Operation::Called {
                name: "syslog",
                args: [action, ..],
                ..
            } if CLEARS.contains(action) => (
                Behaviour::DefenseImpairment,
                Step::from_event(act.event, &[b"wanted to clear the kernel's log"]),
            ),
            Operation::Changed {
                path,
                mode: Some(mode),
                outcome,
                ..
            } if mode & OTHERS != 0
                && outcome.is_attempt()
                && state.traits(path).secret.is_some() =>
            {
                let step = Step::by_outcome(act, GAVE_AWAY, &[path]);
                (Behaviour::DefenseImpairment, step)
            }
            Operation::Called {
                name: "socket",
                on: Some(AttemptKind::Connect),
                args: [family, kind, protocol],
            } if takes_packets(*family, *kind, *protocol) => (
                Behaviour::Capture,
                Step::from_event(
                    act.event,
                    &[b"asked for a socket that takes packets of others"],
                ),
            ),
            Operation::Opened(opened)
                if opened.reads && DEVICES.iter().any(|one| opened.path.starts_with(one)) =>
            {
                (
                    Behaviour::Capture,
                    Step::by_outcome(act, OPENED, &[&opened.path]),
                )
            }
            _ => return,
        };
        tell(Sighting::new(behaviour, vec![step]));
    }
}

/// The purpose of a program that has no other.
fn always(name: &[u8]) -> Option<(Behaviour, &'static str)> {
    let mut classes = ALWAYS.iter();
    classes.find_map(|(behaviour, names)| {
        let known = names.iter().find(|known| known.as_bytes() == name)?;
        Some((*behaviour, *known))
    })
}

/// The purpose of a program that was started with these words.
fn purpose(name: &[u8], words: &[Vec<u8>]) -> Option<Behaviour> {
    let has = |all: &[&str]| {
        let mut words = words.iter();
        words.any(|word| all.iter().any(|one| one.as_bytes() == &word[..]))
    };
    if let Some((behaviour, _)) = always(name) {
        return (!has(ANSWERS)).then_some(behaviour);
    }
    let mut rows = BY_WORD.iter();
    let (behaviour, ..) = rows.find(|(_, known, all)| {
        known.as_bytes() == name && (has(all) || (*known == "sysctl" && assigns(words)))
    })?;
    Some(*behaviour)
}

/// True for a name as ps(1) writes those of the kernel's threads: `[kworker/0:1]`. `[` alone is test(1).
fn is_of_the_kernel(name: &[u8]) -> bool {
    let named = |name: &[u8]| name.len() > 2 && name.starts_with(b"[") && name.ends_with(b"]");
    named(name) || named(base_name(name))
}

/// The beginning of a task's own name that those of the kernel's have: `[` is test(1), which has nothing behind it.
fn name_of_the_kernel(comm: &[u8]) -> Option<&'static str> {
    let mut names = OF_THE_KERNEL.iter();
    let is_begun = |name: &&&str| comm.starts_with(name.as_bytes()) && comm.len() > name.len();
    names.find(is_begun).copied()
}

/// The name of a service of every machine, or of a task of the kernel, that a task has and neither its program nor its script: it has given
/// it to itself, by prctl(2). With whose name it is.
fn name_of_another(
    act: &ObservedAct<'_>,
    state: &ProcessState,
) -> Option<(&'static str, &'static str)> {
    let comm = &act.event.task.comm;
    let mut services = OF_SERVICES.iter();
    let mut tasks = TASKS_OF_THE_KERNEL.iter();
    let is_task = |name: &&&str| {
        let number = comm.strip_prefix(name.as_bytes());
        number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
    };
    let named = if comm.starts_with(OF_SYSTEMD.as_bytes()) {
        (OF_SYSTEMD, "a service of the system")
    } else if let Some(name) = services.find(|name| name.as_bytes() == comm) {
        (*name, "a service of the system")
    } else {
        (*tasks.find(is_task)?, "of the kernel")
    };
    let process = state.process(&act.event.task)?;
    let has_it = |path: &[u8]| {
        let name = base_name(path);
        name.starts_with(comm) && (name.len() == comm.len() || comm.len() == COMM)
    };
    let called = process.argv.first().map(|name| &name[..]);
    let mut names = [Some(&process.exe[..]), process.script.as_deref(), called].into_iter();
    let is_its = names.any(|name| name.is_some_and(has_it));
    (!is_its).then_some(named)
}

/// True for `sysctl kernel.x=1`, which needs no `-w`.
fn assigns(words: &[Vec<u8>]) -> bool {
    words.iter().any(|word| word.contains(&b'='))
}

/// True for a packet(7) socket, and a raw(7) one of another protocol than ICMP, which ping(8) uses.
fn takes_packets(family: u64, kind: u64, protocol: u64) -> bool {
    const AF_INET: u64 = 2;
    const AF_INET6: u64 = 10;
    const AF_PACKET: u64 = 17;
    const SOCK_RAW: u64 = 3;
    const KIND: u64 = 0xf;
    const ICMP: [u64; 2] = [1, 58];
    match family {
        AF_PACKET => true,
        AF_INET | AF_INET6 => kind & KIND == SOCK_RAW && !ICMP.contains(&protocol),
        _ => false,
    }
}
