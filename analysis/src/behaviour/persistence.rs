//! Persistence: a file was opened for writing, or a name was given to one, that something runs later by
//! itself: see [`super::path_classes::STARTUPS`]. The attempt counts.
//!
//! An installer of Python packages writes `.pth` files, which is its work; and an environment that the
//! run made itself goes with it.

use std::collections::BTreeSet;

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Operation};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};

/// Paths that are told of.
const TOLD: usize = 256;

/// Each path is told of once.
#[derive(Debug, Default)]
pub struct Persistence {
    told: BTreeSet<Vec<u8>>,
}

impl Detector for Persistence {
    fn see(&mut self, act: &ObservedAct<'_>, state: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let path: &[u8] = match &act.what {
            Operation::Opened(opened) if opened.writes => &opened.path,
            Operation::Changed {
                on: AttemptKind::Rename | AttemptKind::Link,
                new: Some(new),
                ..
            } => new,
            _ => return,
        };
        let Some(startup) = state.traits(path).startup else {
            return;
        };
        if path.ends_with(b".pth") && (installs(act, state) || state.made_environment_of(path)) {
            return;
        }
        if self.told.len() < TOLD && self.told.insert(path.to_vec()) {
            let step = Step::of(act.event, &[b"wrote for ", startup.as_bytes(), b": ", path]);
            tell(Sighting::new(Behaviour::Persistence, vec![step]));
        }
    }
}

/// True when an installer of packages acts: by its own name, or as a module of Python.
pub fn installs(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    const INSTALLERS: &[&[u8]] = &[
        b"pip",
        b"pip3",
        b"ensurepip",
        b"venv",
        b"virtualenv",
        b"uv",
        b"poetry",
        b"conda",
        b"npm",
        b"npx",
        b"yarn",
        b"pnpm",
        b"apt",
        b"dpkg",
    ];
    let Some(process) = state.process(&act.event.task) else {
        return false;
    };
    let names = process
        .argv
        .iter()
        .take(4)
        .map(|argument| base_name(argument));
    let names = names.chain(process.script.as_deref().map(base_name));
    let names = names.map(|name| name.strip_suffix(b"-cli.js").unwrap_or(name));
    let mut names = names.chain([base_name(&process.exe)]);
    names.any(|name| INSTALLERS.contains(&name))
}
