//! The acts of a run, as far as a profile could allow them.
//!
//! A rule is asked about the name that a program used and about the file that the kernel found by it,
//! so both are kept.

use std::collections::{BTreeMap, HashMap};

use turnkey_facts::{Event, File, Kind, NetworkAct, Raw};
use turnkey_policy::{AttemptKind, OpenAccess, WORKSPACE, syscalls};

use super::contacts::RunContacts;
use turnkey_report::{FileAccess, accesses, address_text, escape};

/// Different uses that are kept. Whatever does more is not learned from one run.
const MOST: usize = 1 << 15;

/// The use that is wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileWant {
    /// To read it.
    Read,
    /// To write, make or empty it.
    Write,
    /// To run it.
    Run,
}

impl FileWant {
    /// The attempt of that use, as rules know it.
    pub fn attempt(self) -> (AttemptKind, OpenAccess) {
        match self {
            FileWant::Read => (AttemptKind::Open, OpenAccess::Read),
            FileWant::Write => (AttemptKind::Open, OpenAccess::Write),
            FileWant::Run => (AttemptKind::Exec, OpenAccess::Read),
        }
    }
}

/// A way in which a file was used, or was to be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileUse {
    /// For what.
    pub want: FileWant,
    /// Absolute, or the kernel's own name for what has no path.
    pub path: Vec<u8>,
}

/// The programs that did something, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedBy {
    /// By the program's name, escaped.
    pub programs: BTreeMap<String, u64>,
    /// True when it succeeded at least once.
    pub succeeded: bool,
    /// True when it was asked for as a directory.
    pub directory: bool,
    /// The rule that decided otherwise than by the path.
    pub rule: Option<usize>,
    /// The first run in which it was done, and the last.
    pub runs: (u16, u16),
}

impl UsedBy {
    /// Adds what somebody else did.
    pub fn join(&mut self, other: &UsedBy) {
        for (program, count) in &other.programs {
            *self.programs.entry(program.clone()).or_default() += count;
        }
        self.succeeded |= other.succeeded;
        self.directory |= other.directory;
        self.rule = self.rule.or(other.rule);
        let ((first, last), (others_first, others_last)) = (self.runs, other.runs);
        self.runs = (first.min(others_first), last.max(others_last));
    }

    /// For people: `python3 12 times, sh once`.
    pub fn words(&self) -> String {
        const NAMED: usize = 3;
        let mut ordered: Vec<_> = self.programs.iter().collect();
        ordered.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
        let times = |count: u64| match count {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            count => format!("{count} times"),
        };
        let named = ordered.iter().take(NAMED);
        let mut words: Vec<_> = named
            .map(|(name, count)| format!("{name} {}", times(**count)))
            .collect();
        let rest: u64 = ordered.iter().skip(NAMED).map(|(_, count)| **count).sum();
        if rest > 0 {
            words.push(format!("others {}", times(rest)));
        }
        words.join(", ")
    }
}

/// The uses that a run was seen to make.
#[derive(Debug, Default)]
pub struct SeenUses {
    /// Files.
    pub uses: BTreeMap<FileUse, UsedBy>,
    /// The acts without a path, in words, with the rule that decided on each.
    pub acts: BTreeMap<(Option<usize>, String), UsedBy>,
    /// Uses for which there was no room.
    pub omitted: u64,
    /// Internet addresses.
    pub contacts: RunContacts,
    /// Names of programs, by process.
    programs: HashMap<u32, String>,
    started: bool,
    /// The number of the run that is being seen.
    run: u16,
}

impl SeenUses {
    /// Begins another run: its processes are others, also by the same numbers.
    pub fn begin_run(&mut self) {
        self.run += 1;
        self.programs.clear();
        self.contacts.begin_run();
        self.started = false;
    }

    /// Takes in an event.
    pub fn note_event(&mut self, event: &Event) {
        if matches!(event.kind, Kind::Network { .. } | Kind::Question { .. }) {
            let by = self.by(event);
            if self.contacts.note_contact(event, by) {
                return;
            }
        }
        match &event.kind {
            Kind::Fork { child_pid, .. } => {
                if let Some(program) = self.programs.get(&event.task.pid).cloned() {
                    self.programs.insert(*child_pid, program);
                }
            }
            Kind::Exec {
                file, raw, script, ..
            } => self.executed(event, file, raw.as_deref(), *script),
            Kind::ExecAttempt { raw, errno } if self.started => {
                for path in names(None, raw) {
                    self.add(event, FileWant::Run, path, *errno == 0, false);
                }
            }
            Kind::Open {
                file,
                raw,
                flags,
                errno,
                ..
            } => self.opened(event, file.as_ref(), raw, *flags, *errno),
            Kind::Network {
                act,
                address,
                errno,
                ..
            } => {
                let what = match act {
                    NetworkAct::Connect => "connect to",
                    NetworkAct::Bind => "bind to",
                    NetworkAct::Listen => "listen at",
                    NetworkAct::Send => "send to",
                };
                let what = format!("{what} {}", address_text(address));
                self.add_act(event, what, *errno == 0);
            }
            Kind::Refused { nr, errno, .. } => {
                let name = syscalls::name(*nr);
                let name = name.map_or_else(|| format!("syscall {nr}"), str::to_owned);
                self.add_act(event, format!("call {name}(2)"), *errno == 0);
            }
            Kind::Change {
                on,
                object,
                new,
                call,
                errno,
                ..
            } => {
                let takes = matches!(
                    on,
                    AttemptKind::Unlink | AttemptKind::Rename | AttemptKind::Link
                );
                if takes || call.makes_symlink() {
                    self.named(event, object, *errno == 0);
                }
                if let Some(new) = new.as_ref().filter(|_| takes) {
                    let new = Raw {
                        bytes: new.clone(),
                        ..object.clone()
                    };
                    self.named(event, &new, *errno == 0);
                }
                if event.decision.is_some() {
                    let path = escape(&object.path());
                    self.add_act(event, format!("{on} {path}"), *errno == 0);
                }
            }
            Kind::Map { file, errno, .. } => {
                if event.decision.is_some() {
                    let of = file
                        .as_ref()
                        .map(|file| format!(" of {}", escape(&file.path)));
                    let what = format!("make memory executable{}", of.unwrap_or_default());
                    self.add_act(event, what, *errno == 0);
                }
            }
            Kind::ExecAttempt { .. } | Kind::Question { .. } | Kind::Exit { .. } => {}
        }
    }

    /// Takes in an act on a file's name, which counts as written.
    fn named(&mut self, event: &Event, name: &Raw, succeeded: bool) {
        for path in names(None, name) {
            self.add(event, FileWant::Write, path, succeeded, false);
        }
    }

    fn executed(&mut self, event: &Event, file: &File, raw: Option<&[u8]>, script: bool) {
        let name = file.path.rsplit(|byte| *byte == b'/').next();
        let program = escape(name.unwrap_or_default());
        self.programs.insert(event.task.pid, program);
        // No rule is asked about the command itself.
        if !std::mem::replace(&mut self.started, true) {
            return;
        }
        self.add(event, FileWant::Run, file.path.clone(), true, false);
        let Some(raw) = raw else { return };
        let raw = Raw {
            base: None,
            bytes: raw.to_vec(),
            truncated: false,
            unreadable: false,
        };
        for path in names((!script).then_some(file), &raw) {
            // The script is asked about by the file that its name leads to as well.
            if script
                && [&b"/bin/"[..], b"/sbin/"]
                    .iter()
                    .any(|top| path.starts_with(top))
            {
                let real = [b"/usr", path.as_slice()].concat();
                self.add(event, FileWant::Run, real, true, false);
            }
            self.add(event, FileWant::Run, path, true, false);
        }
    }

    fn opened(&mut self, event: &Event, file: Option<&File>, raw: &Raw, flags: u32, errno: i32) {
        let directory = flags & libc::O_DIRECTORY.cast_unsigned() != 0
            && flags & libc::O_TMPFILE.cast_unsigned() != libc::O_TMPFILE.cast_unsigned();
        let file = file.filter(|file| !file.path.is_empty() && !file.truncated);
        let paths = names(file, raw).into_iter();
        let paths: Vec<_> = paths.chain(file.map(|file| file.path.clone())).collect();
        for access in accesses(flags) {
            let want = match access {
                FileAccess::Read => FileWant::Read,
                FileAccess::Write => FileWant::Write,
                // An open is for nothing else.
                _ => continue,
            };
            for (index, path) in paths.iter().enumerate() {
                // One act, also when it has two names.
                if !paths[..index].contains(path) {
                    self.add(event, want, path.clone(), errno == 0, directory);
                }
            }
        }
    }

    fn add(
        &mut self,
        event: &Event,
        want: FileWant,
        path: Vec<u8>,
        succeeded: bool,
        directory: bool,
    ) {
        let by = UsedBy {
            succeeded,
            directory,
            ..self.by(event)
        };
        let wanted = FileUse { want, path };
        let uses = self.uses.len();
        match self.uses.get_mut(&wanted) {
            Some(known) => known.join(&by),
            None if uses < MOST => {
                self.uses.insert(wanted, by);
            }
            None => self.omitted += 1,
        }
    }

    fn add_act(&mut self, event: &Event, what: String, succeeded: bool) {
        let by = UsedBy {
            succeeded,
            ..self.by(event)
        };
        let key = (by.rule, what);
        let acts = self.acts.len();
        match self.acts.get_mut(&key) {
            Some(known) => known.join(&by),
            None if acts < MOST => {
                self.acts.insert(key, by);
            }
            None => self.omitted += 1,
        }
    }

    fn by(&self, event: &Event) -> UsedBy {
        let known = self.programs.get(&event.task.pid).cloned();
        let program = known.unwrap_or_else(|| escape(&event.task.comm));
        UsedBy {
            programs: [(program, 1 + event.repeated)].into(),
            succeeded: false,
            directory: false,
            rule: event.decision.map(|decision| decision.rule),
            runs: (self.run, self.run),
        }
    }
}

/// The paths that an argument may stand for when no symlink is on the way: none when it says no more
/// than the file that was found.
///
/// The kernel tells where a relative one starts only when nothing was found. Otherwise the file's
/// own path ends in it, or there was a symlink; then the workspace is the likely start.
fn names(found: Option<&File>, raw: &Raw) -> Vec<Vec<u8>> {
    if raw.unreadable || raw.truncated || raw.bytes.is_empty() {
        return Vec::new();
    }
    let path = raw.path();
    if path.starts_with(b"/") {
        return vec![path];
    }
    let from_workspace = Raw {
        base: Some(WORKSPACE.as_bytes().to_vec()),
        ..raw.clone()
    };
    let whole = from_workspace.path();
    let up = raw.bytes.starts_with(b"..");
    let tail = whole.strip_prefix(WORKSPACE.as_bytes()).unwrap_or(&whole);
    match found {
        Some(file) if !up && file.path.ends_with(tail) => Vec::new(),
        _ => vec![whole],
    }
}
