//! Defence impairment: a list of what somebody typed is emptied, deleted, overwritten or replaced by something else, or was to be. What a
//! person did on the machine is found there afterwards.
//!
//! A shell, an interpreter or a client that a person talks to writes its own list when it ends. So does git, whose list says what was
//! done in a repository; one that the run made is its own.

use std::collections::BTreeSet;

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Operation};
use super::interpreter::is_interpreter;
use super::process_state::{ObservedProcess, ProcessState, base_name};
use super::{Detector, Sighting, Step, Verb};

/// Paths that are told of.
const TOLD: usize = 64;
const CLEARED: Verb = (
    "cleared what was typed: ",
    "tried to clear what was typed: ",
);

/// Each path is told of once.
#[derive(Debug, Default)]
pub struct Histories {
    told: BTreeSet<Vec<u8>>,
}

impl Detector for Histories {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let paths = match &act.what {
            // Whoever adds a line appends; what else is written may be nothing, as by truncate(1) and shred(1).
            Operation::Opened(opened)
                if opened.writes
                    && (opened.truncates || !opened.appends)
                    && opened.outcome.is_attempt() =>
            {
                [Some(&opened.path), None]
            }
            Operation::Changed {
                on:
                    AttemptKind::Unlink
                    | AttemptKind::Rename
                    | AttemptKind::Link
                    | AttemptKind::Symlink
                    | AttemptKind::Truncate,
                path,
                new,
                outcome,
                ..
            } if outcome.is_attempt() => [Some(path), new.as_ref()],
            _ => return,
        };
        let mut paths = paths.into_iter().flatten();
        // Git's is deleted or moved away: whoever writes to it anew may be git of another name.
        let is_list = |path: &[u8]| {
            let is_gits = repository_of(path).is_some_and(|one| !state.made_directory(one));
            state.traits(path).history || is_gits && matches!(act.what, Operation::Changed { .. })
        };
        let Some(path) = paths.find(|path| is_list(path)) else {
            return;
        };
        // A copy in a directory that the run made is a list of the run's own.
        let above = path.iter().rposition(|byte| *byte == b'/');
        if above.is_some_and(|at| state.made_directory(&path[..at])) {
            return;
        }
        let process = state.process(&act.event.task);
        if process.is_some_and(|process| keeps(process, path)) || self.told.len() >= TOLD {
            return;
        }
        if self.told.insert(path.to_vec()) {
            let step = Step::by_outcome(act, CLEARED, &[path]);
            tell(Sighting::new(Behaviour::DefenseImpairment, vec![step]));
        }
    }
}

/// The directory of git's whose list of all that was done this is: gitrepository-layout(5). Git makes the list with an open that says nothing of
/// whether it was there.
fn repository_of(path: &[u8]) -> Option<&[u8]> {
    let directory = path.strip_suffix(b"/logs/HEAD")?;
    directory.ends_with(b"/.git").then_some(directory)
}

/// True for an interpreter that was given nothing to run: somebody talks to it.
fn is_talked_to(argv: &[Vec<u8>]) -> bool {
    /// Options of shells that take the next word.
    const TAKE: &[&[u8]] = &[b"-O", b"+O", b"-o", b"+o", b"--rcfile", b"--init-file"];
    let mut words = argv.iter().skip(1);
    while let Some(word) = words.next() {
        if TAKE.contains(&&word[..]) {
            words.next();
        } else if brings_text(word) || !word.starts_with(b"-") {
            return false;
        }
    }
    true
}

/// True for an option behind which an interpreter is given its text (`-c`, `-lc`, `-e`, `-pe`, `--eval`), rather than how it is to talk
/// (`-l`, `-i`, `--norc`).
fn brings_text(word: &[u8]) -> bool {
    match word {
        [b'-', b'-', long @ ..] => [&b"eval"[..], b"print", b"command"]
            .iter()
            .any(|one| long.starts_with(one)),
        [b'-', short @ ..] => short.iter().any(|letter| b"ceEpr".contains(letter)),
        _ => false,
    }
}

/// True for an interpreter that a person talks to, and for the client that a list is called by: `psql` of `.psql_history`.
pub fn keeps(process: &ObservedProcess, path: &[u8]) -> bool {
    if repository_of(path).is_some() {
        return base_name(&process.exe).starts_with(b"git");
    }
    if is_interpreter(&process.exe) {
        return process.script.is_none() && is_talked_to(&process.argv);
    }
    let name = base_name(path);
    let name = name.strip_prefix(b".").unwrap_or(name);
    let client = name.split(|byte| *byte == b'_').next().unwrap_or_default();
    !client.is_empty() && base_name(&process.exe).starts_with(client)
}
