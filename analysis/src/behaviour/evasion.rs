//! Evasion: a program deleted its own file or script, or had it deleted; or two different files were looked at that tell a
//! jail or a virtual machine; or the run waited, doing nothing, serving nobody and calling nobody, until the clock ended it.
//!
//! A file that says something else and bears the time from before is made to look untouched, and a name of dots and blanks, or with a character that nobody sees, is made to be
//! looked past: both are defence impairment.
//!
//! A look at one such file is what a library does that counts CPUs. A script that is overwritten so that nobody can read it again is
//! defence impairment.

use std::collections::BTreeMap;

use turnkey_policy::{AttemptKind, Behaviour};

use super::accounts::is_installed;
use super::act::{ActOutcome, ObservedAct, Operation};
use super::interpreter::is_interpreter;
use super::mass::shreds;
use super::process_state::{ObservedProcess, ProcessState};
use super::{Detector, End, Sighting, Step, Verb};

const SHREDDED: Verb = (
    "shredded the script that it is: ",
    "tried to shred the script that it is: ",
);

const LOOKED_PAST: Verb = (
    "made a name that is looked past: ",
    "tried to make a name that is looked past: ",
);

/// Characters of a name that nobody sees, and that turn the direction of those behind them: Unicode's, in UTF-8.
const UNSEEN: &[char] = &[
    '\u{200b}', '\u{2060}', '\u{feff}', '\u{202a}', '\u{202b}', '\u{202d}', '\u{202e}', '\u{2066}',
    '\u{2067}', '\u{2068}',
];

/// Different files that make a search.
const PROBES: usize = 2;

/// The files that were looked at.
#[derive(Debug, Default)]
pub struct Evasion {
    probes: BTreeMap<Vec<u8>, Step>,
    told: bool,
    /// True when a name was told of that is looked past.
    told_of_name: bool,
    /// True when a process waits for connections, or for somebody that it called: it does something by waiting.
    talks: bool,
    /// True when the times of a file were set, or another attribute.
    sets_times: bool,
}

impl Detector for Evasion {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        if !self.told_of_name
            && let Some(path) = made(act).filter(|path| is_looked_past(path))
        {
            self.told_of_name = true;
            let step = Step::by_outcome(act, LOOKED_PAST, &[path]);
            tell(Sighting::new(Behaviour::DefenseImpairment, vec![step]));
        }
        match &act.what {
            Operation::Served | Operation::Spoke { .. } | Operation::Asked(_) => self.talks = true,
            Operation::Changed {
                on: AttemptKind::Attribute | AttemptKind::Utimens,
                ..
            } => self.sets_times = true,
            Operation::Changed {
                on: AttemptKind::Unlink,
                path,
                outcome: ActOutcome::Done,
                ..
            } if is_own(act, path, state) => {
                let step = Step::from_event(act.event, &[b"deleted itself: ", path]);
                tell(Sighting::new(Behaviour::Evasion, vec![step]));
            }
            Operation::Opened(opened)
                if opened.writes
                    && opened.outcome.is_attempt()
                    && shreds(act, state)
                    && is_own(act, &opened.path, state) =>
            {
                let step = Step::by_outcome(act, SHREDDED, &[&opened.path]);
                tell(Sighting::new(Behaviour::DefenseImpairment, vec![step]));
            }
            Operation::Opened(opened)
                if !self.told
                    && state.traits(&opened.path).probes
                    && !lists_processes(act, &opened.path, state) =>
            {
                let step = Step::from_event(
                    act.event,
                    &[b"looked for a jail or a virtual machine in ", &opened.path],
                );
                self.probes.entry(opened.path.to_vec()).or_insert(step);
                if self.probes.len() >= PROBES {
                    self.told = true;
                    let steps = std::mem::take(&mut self.probes).into_values().collect();
                    tell(Sighting::new(Behaviour::Evasion, steps));
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        // A page that is stored to in memory may leave the time of the file as it was.
        let backdated = end.backdated.first().filter(|_| self.sets_times);
        if let Some(first) = backdated {
            let more = match end.backdated.len() - 1 {
                0 => String::new(),
                others => format!(" and of {others} more"),
            };
            let what = format!(
                "changed what is in {first}{more}, and put back when that was changed last"
            );
            tell(Sighting::new(
                Behaviour::DefenseImpairment,
                vec![Step::of_run(what)],
            ));
        }
        if let Some(idle) = end.idle.as_ref().filter(|_| !self.talks) {
            tell(Sighting::new(
                Behaviour::Evasion,
                vec![Step::of_run(idle.clone())],
            ));
        }
    }
}

/// The path of a file, a directory or a name that was made, or was to be.
fn made<'e>(act: &'e ObservedAct<'_>) -> Option<&'e [u8]> {
    match &act.what {
        Operation::Opened(opened) if opened.creates && opened.outcome.is_attempt() => {
            Some(&opened.path)
        }
        Operation::Changed {
            new: Some(new),
            outcome,
            ..
        } if outcome.is_attempt() => Some(new),
        _ => None,
    }
}

/// True when a part of the path begins with a dot and is dots and blanks alone, as `...`, or has a character that nobody sees.
fn is_looked_past(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| {
        let is_dots = name.starts_with(b".")
            && !matches!(name, b"." | b"..")
            && name
                .iter()
                .all(|byte| *byte == b'.' || byte.is_ascii_whitespace());
        is_dots || String::from_utf8_lossy(name).contains(UNSEEN)
    })
}

/// True for the file or script that the process which acts runs, or one that it comes from.
fn is_own(act: &ObservedAct<'_>, path: &[u8], state: &ProcessState) -> bool {
    let mut line = state.ancestry(&act.event.task);
    line.any(|process| {
        process.exe == *path || process.script.as_deref() == Some(path) || runs(process, path)
    })
}

/// True for an installed program that looks at each process, the first among them, as ps(1) and pgrep(1) do.
fn lists_processes(act: &ObservedAct<'_>, path: &[u8], state: &ProcessState) -> bool {
    let process = state.process(&act.event.task);
    let is_program =
        |process: &ObservedProcess| is_installed(&process.exe) && !is_interpreter(&process.exe);
    path.starts_with(b"/proc/1/")
        && process.is_some_and(|one| one.lists_processes && is_program(one))
}

/// True when an interpreter was started with this file: `python3 name`, the first argument that is
/// no option. To other programs such an argument is something to work on: `rm name`.
fn runs(process: &ObservedProcess, path: &[u8]) -> bool {
    if !is_interpreter(&process.exe) {
        return false;
    }
    let words = process.argv.iter().skip(1);
    let mut names = words.filter(|argument| argument.first() != Some(&b'-'));
    names.next().is_some_and(|name| {
        let name = name.strip_prefix(b"./").unwrap_or(name);
        let workspace = [turnkey_policy::WORKSPACE.as_bytes(), b"/", name].concat();
        name == path || workspace == path
    })
}
