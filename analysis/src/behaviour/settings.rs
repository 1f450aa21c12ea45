//! File discovery by reading: a program that only shows or copies files, a shell or an interpreter opens settings by which
//! people administer a machine (`/etc/fstab`, `/etc/ssh/sshd_config`), or wants to.
//!
//! The services and tools whose settings they are read them, too, some of which are scripts that packages brought, and no library
//! opens them for another script: see [`super::path_classes`].
//!
//! A file that lies where the system has directories alone, as in `/usr`, is read in the same way: no package put it there, and no
//! program looks for anything of its own there.

use std::path::PathBuf;

use turnkey_policy::{Behaviour, Policy};

use super::act::{ActOutcome, ObservedAct, Operation};
use super::credential::handles_files;
use super::interpreter::is_interpreter;
use super::path_classes::below_any;
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};

/// Directories in which the file hierarchy standard, hier(7), has directories alone.
const WITHOUT_FILES: &[&[u8]] = &[b"/usr", b"/usr/local", b"/usr/share"];

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
        let lone = opened.done() && is_lone(path);
        let settings = state.traits(path).administration && !below_any(path, &self.given);
        if !asks || !settings && !lone {
            return;
        }
        let process = state.process(&act.event.task);
        let process = process.filter(|one| !state.is_tool(one));
        let has_no_use = |exe: &[u8]| handles_files(exe) || is_interpreter(exe);
        if process.is_some_and(|one| has_no_use(&one.exe)) {
            let words: &[u8] = match lone {
                true => b"read what no package of the system put there: ",
                false => b"read settings of the machine: ",
            };
            let step = Step::from_event(act.event, &[words, path]);
            tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
        }
    }
}

/// True for what lies directly in a directory that has directories alone.
fn is_lone(path: &[u8]) -> bool {
    let end = path.iter().rposition(|byte| *byte == b'/');
    end.is_some_and(|end| WITHOUT_FILES.contains(&&path[..end]))
}
