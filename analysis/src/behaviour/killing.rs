//! Process killing: a program was started whose purpose is to end processes by name or all at once; or
//! every process was signalled at once, or the jail's init, by kill(2).
//!
//! `kill` with the number of a process is what scripts do with their own children, and some name them: a name that one of the run's own
//! processes has, and none that the caller comes from, means that one, and so does one that the run gives to a program at once: who starts a server
//! anew ends the old one first. Nobody in a jail has
//! started its init, and who goes through the list of processes comes to it first. Several numbers that no process of the run ever had
//! are those of others. So is a list of processes that xargs(1) hands to kill, where the run has no work of its own that it may mean: a
//! script that starts a server finds it again in this way.

use std::collections::BTreeSet;

use turnkey_facts::Kind;
use turnkey_policy::{Behaviour, BehaviourResponse, Policy};

use super::act::{ObservedAct, Operation};
use super::interpreter::is_shell;
use super::process_state::{ObservedProcess, ProcessState, base_name};
use super::{Detector, End, Sighting, Step};

const BY_NAME: &[&str] = &["pkill", "killall", "killall5", "xkill", "skill"];

/// As kill(2) takes it.
const EVERYBODY: i32 = -1;
/// In the jail's own namespace.
const INIT: i32 = 1;
/// A signal that kill(2) does not send: it only asks whether there is such a process.
const ONLY_ASKS: i32 = 0;
/// Options of pkill(1) and killall(1) that mean the caller's own processes, or send no signal.
const OWN: &[&[u8]] = &[
    b"-P",
    b"--parent",
    b"-g",
    b"--pgroup",
    b"-s",
    b"--session",
    b"-0",
    b"-l",
    b"--list",
];

/// Programs that list processes, by what they are told or all.
const LISTERS: &[&[u8]] = &[b"pgrep", b"pidof", b"ps"];
/// Programs that choose among the lines of a list.
const CHOOSERS: &[&[u8]] = &[
    b"awk", b"cat", b"cut", b"egrep", b"gawk", b"grep", b"head", b"mawk", b"sed", b"sort", b"tail",
    b"tr", b"uniq", b"wc", b"xargs",
];

/// Nanoseconds after which what was ended by its name is not about to be started anew.
const RESTART: u64 = 2_000_000_000;
/// Endings by name that wait for that.
const MEANT: usize = 64;
/// Options of pkill(1) and killall(1) whose value is the next word.
const TAKE_VALUES: &[&[u8]] = &[
    b"-u",
    b"-U",
    b"-G",
    b"-t",
    b"-r",
    b"-F",
    b"-y",
    b"-o",
    b"-s",
    b"--euid",
    b"--uid",
    b"--group",
    b"--terminal",
    b"--runstates",
    b"--pidfile",
    b"--signal",
    b"--user",
];

/// Numbers that no process of the run had, and that are one search: a file may keep the number of a process of long ago, or of two.
const STRANGERS: usize = 3;

/// The numbers that were signalled and that no process of the run ever had; told of once.
#[derive(Debug, Default)]
pub struct Killing {
    strangers: BTreeSet<i32>,
    /// True when processes were listed, and the run had no work of its own until then.
    listed: bool,
    /// True when the run had some.
    has_worked: bool,
    /// The start of kill by xargs(1).
    handed: Option<Step>,
    /// Names by which processes were to be ended and none of the run's had, not yet told of.
    meant: Vec<MeantNames>,
    /// The jail is killed for it, so nothing waits.
    kills: bool,
}

/// The names of processes that were to be ended, and may be those of the run's own from before.
#[derive(Debug)]
struct MeantNames {
    names: Vec<Vec<u8>>,
    of_lines: bool,
    step: Step,
    /// `CLOCK_BOOTTIME`, nanoseconds: nothing is started anew after that.
    until: u64,
}

impl Detector for Killing {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let now = act.event.time_ns;
        for meant in self.meant.extract_if(.., |meant| meant.until < now) {
            tell(Sighting::new(Behaviour::ProcessKilling, vec![meant.step]));
        }
        if let Operation::Executed { argv, .. } = &act.what {
            self.hand_over(act, argv, state, tell);
            self.find_meant(act, argv, state);
        }
        let what = match &act.what {
            Operation::Executed { file, argv, .. }
                if ends_others(&file.path, argv) && !means_own(act, argv, state) =>
            {
                let what = [b"ran ", &argv.join(&b' ')[..]].concat();
                let names = names_of(argv);
                if !self.kills && !names.is_empty() && self.meant.len() < MEANT {
                    self.meant.push(MeantNames {
                        names,
                        of_lines: argv.iter().skip(1).any(|word| looks_at_lines(word)),
                        step: Step::from_event(act.event, &[&what]),
                        until: now + RESTART,
                    });
                    return;
                }
                what
            }
            Operation::Called {
                name: name @ ("kill" | "tkill" | "tgkill"),
                args: [process, signal, _],
                ..
            } if *name != "kill" || word(*signal) != ONLY_ASKS => match word(*process) {
                EVERYBODY => came_of(act, b"every process"),
                INIT => came_of(act, b"the jail's init"),
                stranger if self.is_search(stranger, state) => {
                    let whom = format!(
                        "processes by numbers that are none of its own: {STRANGERS} of them"
                    );
                    came_of(act, whom.as_bytes())
                }
                _ => return,
            },
            _ => return,
        };
        let step = Step::from_event(act.event, &[&what]);
        tell(Sighting::new(Behaviour::ProcessKilling, vec![step]));
    }

    fn end(&mut self, _: &End, tell: &mut dyn FnMut(Sighting)) {
        for meant in self.meant.drain(..) {
            tell(Sighting::new(Behaviour::ProcessKilling, vec![meant.step]));
        }
    }
}

impl Killing {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        Self {
            kills: policy.response(Behaviour::ProcessKilling) == BehaviourResponse::Kill,
            ..Self::default()
        }
    }

    /// Forgets the names of what the run starts: one that it ended before, to start it anew.
    fn find_meant(&mut self, act: &ObservedAct<'_>, argv: &[Vec<u8>], state: &ProcessState) {
        let name = argv.first().map_or(&[][..], |name| base_name(name));
        let is_by_name = BY_NAME.iter().any(|one| one.as_bytes() == name);
        if is_by_name || LISTERS.contains(&name) || CHOOSERS.contains(&name) {
            return;
        }
        if let Some(process) = state.process(&act.event.task) {
            for meant in &mut self.meant {
                let of_lines = meant.of_lines;
                meant
                    .names
                    .retain(|name| !is_called(process, of_lines, name));
            }
            self.meant.retain(|meant| !meant.names.is_empty());
        }
    }

    /// Takes in a program: a list of processes that xargs(1) hands to kill, whichever of the two is started first.
    fn hand_over(
        &mut self,
        act: &ObservedAct<'_>,
        argv: &[Vec<u8>],
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let name = argv.first().map_or(&[][..], |name| base_name(name));
        if LISTERS.contains(&name) {
            let is_own = argv.iter().skip(1).any(|one| OWN.contains(&&one[..]));
            self.has_worked |= works(act, state);
            self.listed |= !is_own && !self.has_worked;
        } else if name == b"xargs" && argv.iter().skip(1).any(|one| base_name(one) == b"kill") {
            let step = Step::from_event(act.event, &[b"ran ", &argv.join(&b' ')]);
            self.handed.get_or_insert(step);
        }
        if self.listed
            && let Some(step) = self.handed.take()
        {
            tell(Sighting::new(Behaviour::ProcessKilling, vec![step]));
        }
    }

    /// True when so many numbers were signalled that this is no look for a process of the run's own.
    fn is_search(&mut self, number: i32, state: &ProcessState) -> bool {
        if number <= INIT || self.strangers.len() >= STRANGERS || state.has_had(number) {
            return false;
        }
        self.strangers.insert(number) && self.strangers.len() == STRANGERS
    }
}

/// A signal to somebody, in words.
fn came_of(act: &ObservedAct<'_>, whom: &[u8]) -> Vec<u8> {
    let is_sent = matches!(act.event.kind, Kind::Refused { errno: 0, .. });
    let verb: &[u8] = if is_sent {
        b"signalled "
    } else {
        b"tried to signal "
    };
    [verb, whom].concat()
}

/// True when the run has a process besides the one that acts, those that it comes from, and those that list and choose.
fn works(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let mut others = state.others(&act.event.task);
    others.any(|one| {
        let name = base_name(&one.exe);
        !is_shell(&one.exe) && !LISTERS.contains(&name) && !CHOOSERS.contains(&name)
    })
}

fn ends_others(path: &[u8], argv: &[Vec<u8>]) -> bool {
    let called = argv.first().map_or(path, |name| &name[..]);
    let name = base_name(called);
    let by_name = BY_NAME.iter().any(|one| one.as_bytes() == name);
    let is_own = || argv.iter().skip(1).any(|one| OWN.contains(&&one[..]));
    by_name && !is_own() || name == b"kill" && argv.iter().skip(2).any(|one| one == b"-1")
}

/// True when each name that is given is that of a process of the run, which the caller does not come from: a script's own worker.
fn means_own(act: &ObservedAct<'_>, argv: &[Vec<u8>], state: &ProcessState) -> bool {
    let names = names_of(argv);
    let task = &act.event.task;
    let of_lines = argv.iter().skip(1).any(|word| looks_at_lines(word));
    let is_own = |name: &Vec<u8>| {
        // The one that acts is called by all of them, and its shell may be.
        let mut above = state.ancestry(task).skip(1);
        state.others(task).any(|one| is_called(one, of_lines, name))
            && !above.any(|one| is_called(one, of_lines, name))
    };
    !names.is_empty() && names.iter().all(is_own)
}

/// True when a process is found by this name: by its line, where those are looked at, or else by its program or script.
fn is_called(process: &ObservedProcess, of_lines: bool, name: &[u8]) -> bool {
    let called = match (of_lines, &process.script) {
        (true, _) => process.argv.join(&b' '),
        (false, Some(script)) => base_name(script).to_vec(),
        (false, None) => base_name(&process.exe).to_vec(),
    };
    called.windows(name.len().max(1)).any(|part| part == name)
}

/// The names that pkill(1) or killall(1) are given, which are no values of options.
fn names_of(argv: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut words = argv.iter().skip(1);
    let mut names = Vec::new();
    while let Some(word) = words.next() {
        if TAKE_VALUES.contains(&&word[..]) {
            words.next();
        } else if !word.starts_with(b"-") {
            names.push(plain(word));
        }
    }
    names
}

/// True for an option of pkill(1) by which whole command lines are matched, and not what runs.
fn looks_at_lines(word: &[u8]) -> bool {
    let is_short = word.starts_with(b"-") && !word.starts_with(b"--");
    word == b"--full" || is_short && word.contains(&b'f')
}

/// A pattern without what only a regular expression has, as `[w]orker`, which does not find itself.
fn plain(pattern: &[u8]) -> Vec<u8> {
    let bytes = pattern.iter().copied();
    bytes.filter(|byte| !b"[]^$\\".contains(byte)).collect()
}

/// The kernel reads a process id as an `int`: the lower half of the register.
fn word(argument: u64) -> i32 {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
