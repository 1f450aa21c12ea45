//! Discovery: within ten seconds, five different things were asked of the machine, its users and its
//! network, by commands that do nothing else, files that tell it, or listings of its directories.
//!
//! What the C library and interpreters look at by themselves does not count: see
//! [`super::path_classes::TELLING`]. A `configure` script asks fewer: it starts `uname` over and over. Nor does the one
//! word that a script asks for to go by it: `id -u`, `uname -s`, `hostname`, `nproc`.

use std::collections::BTreeMap;

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::path_classes::telling_directory;
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};

/// Different things that make a burst.
const THINGS: usize = 5;

/// Nanoseconds within which they are asked.
const BURST: u64 = 10_000_000_000;

/// Programs that tell of the machine and do nothing else.
const COMMANDS: &[&str] = &[
    "arp",
    "df",
    "dmesg",
    "dmidecode",
    "findmnt",
    "free",
    "getent",
    "groups",
    "hostname",
    "hostnamectl",
    "id",
    "ifconfig",
    "ip",
    "last",
    "lastlog",
    "lsb_release",
    "lsblk",
    "lscpu",
    "lshw",
    "lsmod",
    "lsof",
    "lspci",
    "lsusb",
    "netstat",
    "printenv",
    "ps",
    "pstree",
    "route",
    "ss",
    "sysctl",
    "systemctl",
    "uname",
    "uptime",
    "users",
    "w",
    "who",
    "whoami",
];

/// Commands that scripts run for one word, in order to go by it.
const ASKED_BY_SCRIPTS: &[&[u8]] = &[b"hostname", b"id", b"uname"];

/// The last question about each thing.
#[derive(Debug, Default)]
pub struct Discovery {
    asked: BTreeMap<Vec<u8>, Step>,
}

impl Detector for Discovery {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let Some(thing) = thing(act, state) else {
            return;
        };
        let now = act.event.time_ns;
        let soon = |step: &Step| step.time_ns.is_some_and(|then| then + BURST >= now);
        self.asked.retain(|_, step| soon(step));
        let words: &[u8] = match act.what {
            Operation::Opened(_) => b"looked at ",
            _ => b"ran ",
        };
        let step = Step::from_event(act.event, &[words, &thing]);
        self.asked.insert(thing, step);
        if self.asked.len() >= THINGS {
            let mut steps: Vec<Step> = std::mem::take(&mut self.asked).into_values().collect();
            steps.sort_by_key(|step| step.time_ns);
            tell(Sighting::new(Behaviour::Discovery, steps));
        }
    }
}

/// The thing that an act asks about.
fn thing(act: &ObservedAct<'_>, state: &ProcessState) -> Option<Vec<u8>> {
    match &act.what {
        Operation::Executed { argv, file, .. } => {
            // A program of many names goes by the one it was called by.
            let called = argv.first().map_or(&file.path[..], |name| &name[..]);
            let name = base_name(called);
            let is_one = is_command(name);
            (is_one && !is_of_scripts(name, argv)).then(|| name.to_vec())
        }
        Operation::Execution(path) => {
            let name = base_name(path);
            let is_one = is_command(name);
            // With which words is not known: a search of PATH comes to it again.
            (is_one && !ASKED_BY_SCRIPTS.contains(&name)).then(|| name.to_vec())
        }
        Operation::Opened(opened) => {
            let listing = opened.directory && telling_directory(&opened.path);
            let tells = opened.reads && (listing || state.traits(&opened.path).tells);
            // What such a command reads for its answer is the one question that it is.
            let process = state.process(&act.event.task);
            let answers = process.is_some_and(|one| is_command(base_name(&one.exe)));
            (tells && !answers).then(|| opened.path.to_vec())
        }
        _ => None,
    }
}

/// True for the name of a program that tells of the machine and does nothing else.
pub fn is_command(name: &[u8]) -> bool {
    COMMANDS.iter().any(|one| one.as_bytes() == name)
}

/// True for what scripts ask in order to go by it: one word about the user or the machine.
fn is_of_scripts(name: &[u8], argv: &[Vec<u8>]) -> bool {
    let options: Vec<&[u8]> = argv.iter().skip(1).map(|one| &one[..]).collect();
    let one_word = |letters: &[u8]| {
        options.iter().all(|option| {
            let rest = option.strip_prefix(b"-").unwrap_or_default();
            !rest.is_empty() && rest.iter().all(|letter| letters.contains(letter))
        })
    };
    match name {
        b"id" => !options.is_empty() && one_word(b"ugnr"),
        b"uname" => one_word(b"smrpo") && options.len() <= 1,
        b"hostname" => options.is_empty() || one_word(b"s"),
        _ => false,
    }
}
