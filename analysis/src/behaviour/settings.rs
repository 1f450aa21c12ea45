//! File discovery by reading: a program that only shows or copies files, a shell or an interpreter opens settings by which
//! people administer a machine (`/etc/fstab`, `/etc/ssh/sshd_config`), or wants to.
//!
//! The services and tools whose settings they are read them, too, and no library opens them for a script: see
//! [`super::path_classes`].

use std::path::PathBuf;

use turnkey_policy::{Behaviour, Policy};

use super::act::{ActOutcome, ObservedAct, Operation};
use super::credential::handles_files;
use super::interpreter::is_interpreter;
use super::path_classes::below_any;
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};

/// The places that the profile names, in which settings are for the program to read.
#[derive(Debug)]
pub struct SystemSettings {
    given: Vec<PathBuf>,
}

impl SystemSettings {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        let files = &policy.filesystem;
        let places = files.read.iter().chain(&files.write);
        Self {
            given: places
                .map(turnkey_policy::HostPath::place)
                .cloned()
                .collect(),
        }
    }
}

impl Detector for SystemSettings {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let Operation::Opened(opened) = &act.what else {
            return;
        };
        let path = &opened.path[..];
        let asks = opened.reads && !opened.directory && opened.outcome != ActOutcome::Failed;
        if !asks || !state.traits(path).administration || below_any(path, &self.given) {
            return;
        }
        let process = state.process(&act.event.task);
        let has_no_use = |exe: &[u8]| handles_files(exe) || is_interpreter(exe);
        if process.is_some_and(|one| has_no_use(&one.exe)) {
            let step = Step::from_event(act.event, &[b"read settings of the machine: ", path]);
            tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
        }
    }
}
