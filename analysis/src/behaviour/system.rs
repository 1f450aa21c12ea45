//! System change: a file of the system, or of somebody's home, is made, written, deleted, renamed or given another
//! mode, owner, time or attribute, or was to be.
//!
//! What the profile gives for writing is the program's own. Caches that interpreters keep beside libraries, locks of
//! tools below their own installation, and files that are passing (`/tmp`, `/run`, `/var/cache`) belong to nobody. A
//! file that is not there was not to be changed, except where the place itself is the system's alone, as in `/etc`, and where a program
//! was told to change it that does nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turnkey_facts::Kind;
use turnkey_policy::{AttemptKind, Behaviour, Policy};

use super::act::{ActOutcome, ObservedAct, Opened, Operation};
use super::operands::told_to_change;
use super::path_classes::{HOMES, PASSING, SERVICES, SYSTEM, below_any, is_in, is_in_any};
use super::process_state::{ProcessState, base_name};
use super::{Detector, End, Sighting, Step};

/// An act on a file in words: as done, and as wanted.
type Verb = (&'static str, &'static str);

/// Deleted files below one directory of the root that are all that is in it.
const MANY: usize = 12;
/// Programs that are remembered as asked for; of those beyond them it is told at once.
const ASKED: usize = 64;
/// Processes that are remembered as told to change something, and have not tried yet.
const TOLD: usize = 64;
/// Directories of the root in which something was deleted that are the whole file system.
const EVERYWHERE: usize = 3;

/// Remembers what the profile gives, and where something was deleted.
#[derive(Debug)]
pub struct SystemChange {
    writable: Vec<PathBuf>,
    installed: Vec<PathBuf>,
    /// True when the program may write to the whole tree, whose writes are thrown away.
    has_own_tree: bool,
    /// Deleted files, by the directory of the root that they are in.
    deleted: BTreeMap<Vec<u8>, usize>,
    /// Programs of which somebody asked whether they may be written, and that nobody has started since.
    asked: BTreeMap<Vec<u8>, Step>,
    /// Processes, by their id and start, whose words say that they are to change something, until they try.
    told: BTreeMap<(u32, u64), Step>,
}

impl SystemChange {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        let files = &policy.filesystem;
        let paths = |all: &[turnkey_policy::HostPath]| -> Vec<PathBuf> {
            all.iter().map(|one| one.place().clone()).collect()
        };
        let mut writable = paths(&files.write);
        writable.extend(files.scratch.iter().map(|one| one.path.clone()));
        // Programs are told of its files by each name that it has.
        writable.extend(files.names.iter().cloned());
        Self {
            writable,
            installed: paths(&files.read),
            has_own_tree: files.root_mode == turnkey_policy::RootMode::Overlay,
            deleted: BTreeMap::new(),
            asked: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// Remembers a program that is told to change what is not the run's own.
    fn note_words(&mut self, act: &ObservedAct<'_>, exe: &[u8], argv: &[Vec<u8>]) {
        let key = (act.event.task.pid, act.event.task.start_ns);
        self.told.remove(&key);
        // The tool refuses the root by itself, and asks the kernel nothing.
        let takes_root = base_name(argv.first().map_or(exe, |name| name)) == b"rm";
        let path = told_to_change(exe, argv)
            .find(|path| self.owner(path).is_some() || takes_root && is_root(path));
        if let Some(path) = path.filter(|_| self.told.len() < TOLD) {
            let words: [&[u8]; 4] = [b"ran ", base_name(exe), b" on ", path];
            self.told.insert(key, Step::from_event(act.event, &words));
        }
    }

    /// The owner of a path, unless it is the program's own or nobody's.
    fn owner(&self, path: &[u8]) -> Option<Owner> {
        let owner = if is_in_any(path, SYSTEM) {
            Owner::System
        } else if is_in_any(path, SERVICES) {
            Owner::Service
        } else if is_in_any(path, HOMES) {
            Owner::Person
        } else {
            return None;
        };
        if self.has_own_tree && owner != Owner::Person {
            return None;
        }
        let is_excepted = below_any(path, &self.writable)
            || is_in_any(path, PASSING)
            || is_cache(path)
            || is_swap(base_name(path));
        (!is_excepted).then_some(owner)
    }

    /// An open for writing, or what makes or empties a file by its name.
    fn written(&self, opened: &Opened<'_>, state: &ProcessState) -> Option<Verb> {
        let owner = self.owner(&opened.path)?;
        // Tools lock and note things beside what they are installed in.
        let is_tools = opened.creates
            && owner == Owner::Person
            && below_any(&opened.path, &self.installed)
            && !is_code(&opened.path);
        let counts = match opened.outcome {
            ActOutcome::Done | ActOutcome::Refused => !is_tools,
            ActOutcome::Absent if opened.creates => {
                // In another's home nothing is there for whoever is to be kept from it.
                let traits = state.traits(&opened.path);
                owner == Owner::System
                    || owner == Owner::Person && !is_tools
                    || traits.tells
                    || traits.startup.is_some()
            }
            ActOutcome::Absent => owner != Owner::Person,
            ActOutcome::Failed => false,
        };
        // What creates a file where there is none empties it as well.
        let is_there = !opened.creates || state.found(&opened.path);
        counts.then_some(if opened.truncates && is_there {
            ("overwrote", "overwrite")
        } else {
            ("wrote", "write")
        })
    }

    /// True for a file that somebody wanted to change, though all that was asked is whether it may be: a setting of the system, what
    /// runs at a start, or code. Of directories programs ask it in order to choose where to put their own.
    fn was_asked_for(&self, path: &[u8], state: &ProcessState) -> bool {
        let counts = is_in(path, "/etc") || is_code(path) || state.traits(path).startup.is_some();
        counts && self.owner(path).is_some()
    }

    /// The place that is gone whole with one file more, in words; `None` when it is not, or was before.
    fn wiped(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let top = path.split(|byte| *byte == b'/').nth(1)?;
        let known = self.deleted.len();
        let count = self.deleted.entry(top.to_vec()).or_default();
        *count += 1;
        let many = *count == MANY && known < EVERYWHERE;
        if many {
            return Some([b"all that is below /", top].concat());
        }
        let everywhere = known + 1 == EVERYWHERE && self.deleted.len() == EVERYWHERE;
        everywhere.then(|| {
            let tops: Vec<Vec<u8>> = self
                .deleted
                .keys()
                .map(|top| [b"/", &top[..]].concat())
                .collect();
            [b"the whole file system: ", &tops.join(&b", "[..])[..]].concat()
        })
    }

    /// True when a change of a name or of attributes is one of what is not the program's own.
    fn changed(&self, path: &[u8], outcome: ActOutcome) -> bool {
        let owner = self.owner(path);
        match outcome {
            ActOutcome::Done | ActOutcome::Refused => owner.is_some(),
            // In another's home nothing is there for whoever is to be kept from it; tools take their own notes away beside what they are
            // installed in.
            ActOutcome::Absent => owner.is_some() && !below_any(path, &self.installed),
            ActOutcome::Failed => false,
        }
    }
}

/// The owner of a file that is not the program's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    System,
    Service,
    Person,
}

impl Detector for SystemChange {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let (verb, path, outcome) = match &act.what {
            Operation::MayNotWrite(path) if self.was_asked_for(path, state) => {
                let step = Step::from_event(
                    act.event,
                    &[b"asked whether it may write ", path, b", which it may not"],
                );
                if is_program(path) && self.asked.len() < ASKED {
                    self.asked.entry(path.to_vec()).or_insert(step);
                } else {
                    tell(Sighting::new(Behaviour::SystemChange, vec![step]));
                }
                return;
            }
            Operation::Executed { file, argv, .. } => {
                self.asked.remove(&*file.path);
                if let Some(name) = argv.first() {
                    self.asked.remove(name);
                }
                self.note_words(act, &file.path, argv);
                return;
            }
            _ if matches!(act.event.kind, Kind::Exit { .. }) => {
                let key = (act.event.task.pid, act.event.task.start_ns);
                if let Some(step) = self.told.remove(&key) {
                    tell(Sighting::new(Behaviour::SystemChange, vec![step]));
                }
                return;
            }
            Operation::Opened(opened) if opened.writes => match self.written(opened, state) {
                Some(verb) => (verb, &opened.path, opened.outcome),
                None => return,
            },
            Operation::Changed {
                on,
                path,
                new,
                outcome,
                ..
            } => {
                let verb = match on {
                    AttemptKind::Link => ("put a link at", "put a link at"),
                    AttemptKind::Rename => ("renamed", "rename"),
                    AttemptKind::Unlink => ("deleted", "delete"),
                    AttemptKind::Chmod => (
                        "changed the mode or owner of",
                        "change the mode or owner of",
                    ),
                    AttemptKind::Attribute => (
                        "changed the times or attributes of",
                        "change the times or attributes of",
                    ),
                    _ => return,
                };
                // A link leaves the file as it is, and is at its new name.
                let named = match (on, new) {
                    (AttemptKind::Link, Some(new)) => {
                        Some(new).filter(|new| self.changed(new, *outcome))
                    }
                    (_, Some(new)) if !self.changed(path, *outcome) => {
                        Some(new).filter(|new| self.changed(new, *outcome))
                    }
                    _ => Some(path).filter(|path| self.changed(path, *outcome)),
                };
                match named {
                    Some(path) => (verb, path, *outcome),
                    None => return,
                }
            }
            _ => return,
        };
        let (past, infinitive) = verb;
        let (tried, verb) = match outcome {
            ActOutcome::Done => ("", past),
            _ => ("tried to ", infinitive),
        };
        let step = Step::from_event(act.event, &[tried.as_bytes(), verb.as_bytes(), b" ", path]);
        self.told
            .remove(&(act.event.task.pid, act.event.task.start_ns));
        tell(Sighting::new(Behaviour::SystemChange, vec![step]));
        let wiped = (infinitive == "delete").then(|| self.wiped(path)).flatten();
        if let Some(what) = wiped {
            let verb = match outcome {
                ActOutcome::Done => past,
                _ => "tried to delete",
            };
            let step = Step::from_event(act.event, &[verb.as_bytes(), b" ", &what]);
            tell(Sighting::new(Behaviour::MassChange, vec![step]));
        }
    }

    /// Tells of the programs that were asked for and not started: whoever starts one had asked what it is. And of what was to be changed by
    /// processes whose end was not seen.
    fn end(&mut self, _end: &End, tell: &mut dyn FnMut(Sighting)) {
        let told = std::mem::take(&mut self.told).into_values();
        for step in std::mem::take(&mut self.asked).into_values().chain(told) {
            tell(Sighting::new(Behaviour::SystemChange, vec![step]));
        }
    }
}

/// True for the root, however it is written.
fn is_root(path: &[u8]) -> bool {
    path.iter().all(|byte| matches!(byte, b'/' | b'.'))
}

/// Endings of files that hold code, which no tool keeps beside what it is installed in.
const CODE: &[&[u8]] = &[
    b".class", b".cjs", b".jar", b".js", b".mjs", b".php", b".pl", b".pm", b".pth", b".py", b".rb",
    b".so", b".ts",
];

/// True for code of an installation: by its ending, also where another one says that it is in the making, or as one of its programs.
fn is_code(path: &[u8]) -> bool {
    let is_code = |path: &[u8]| CODE.iter().any(|ending| path.ends_with(ending));
    let last = path.iter().rposition(|byte| *byte == b'.');
    is_program(path) || is_code(path) || last.is_some_and(|last| is_code(&path[..last]))
}

/// True for what lies in a directory of programs.
fn is_program(path: &[u8]) -> bool {
    let directory = path.rsplit(|byte| *byte == b'/').nth(1);
    directory == Some(b"bin")
}

/// True for the file that vim and nano make beside each one that they show, of which it has the name.
fn is_swap(name: &[u8]) -> bool {
    let ends = [b".swp", b".swo", b".swx"];
    name.starts_with(b".") && ends.iter().any(|end| name.ends_with(*end))
}

/// True for a file that a program keeps for its next start, beside what it came from.
fn is_cache(path: &[u8]) -> bool {
    let mut directories = path.split(|byte| *byte == b'/');
    let name = base_name(path);
    directories.any(|one| one == b"__pycache__" || one == b".cache" || one == b"cache")
        || name.windows(4).any(|part| part == b".pyc")
        || name.ends_with(b".pickle")
}
