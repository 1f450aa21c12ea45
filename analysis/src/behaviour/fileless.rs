//! Fileless execution: what is executed is a memory file, a deleted file, or lies in shared memory.
//!
//! Executable memory without a file is what every just-in-time compiler makes, and does not count.

use std::collections::BTreeSet;

use turnkey_facts::Kind;
use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::interpreter::is_loader;
use super::process_state::ProcessState;
use super::{Detector, EXECUTED, Sighting, Step};

/// Loaders at once that are remembered to have opened nothing yet.
const LOADERS: usize = 4096;

/// Remembers the dynamic loaders that were executed as programs, by process id and start, until each has opened a file: that is the
/// program which it was given, before any library. ld.so(8).
#[derive(Debug, Default)]
pub struct Fileless {
    loaders: BTreeSet<(u32, u64)>,
}

impl Detector for Fileless {
    fn observe(&mut self, act: &ObservedAct<'_>, _: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        if let Some(path) = self.executed(act) {
            let step = Step::by_outcome(act, EXECUTED, &[path, b", which no directory names"]);
            tell(Sighting::new(Behaviour::FilelessExecution, vec![step]));
        }
    }
}

impl Fileless {
    /// The file that the act executes, where no directory that stays names it.
    fn executed<'a>(&mut self, act: &'a ObservedAct<'_>) -> Option<&'a [u8]> {
        let process = (act.event.task.pid, act.event.task.start_ns);
        let (path, is_nameless): (&[u8], bool) = match &act.what {
            Operation::Executed { file, script, .. } => {
                self.loaders.remove(&process);
                if is_loader(&file.path) && self.loaders.len() < LOADERS {
                    self.loaders.insert(process);
                }
                let script = script.as_deref().unwrap_or_default();
                let by_descriptor = is_descriptor(script);
                let path = if by_descriptor {
                    script
                } else {
                    &file.path[..]
                };
                (path, file.unlinked || by_descriptor)
            }
            Operation::Execution(path) => (path, is_descriptor(path)),
            Operation::Opened(opened) if opened.done() && self.loaders.remove(&process) => {
                (&opened.path, is_deleted(act))
            }
            _ => {
                if matches!(act.event.kind, Kind::Exit { .. }) {
                    self.loaders.remove(&process);
                }
                return None;
            }
        };
        let is_in_memory = path.starts_with(b"memfd:") || path.starts_with(b"/dev/shm/");
        (is_nameless || is_in_memory).then_some(path)
    }
}

/// True for an open of a file that no directory has.
fn is_deleted(act: &ObservedAct<'_>) -> bool {
    matches!(&act.event.kind, Kind::Open { file: Some(file), .. } if file.unlinked)
}

/// A script that is given as a descriptor: `/dev/fd/N`, as fexecve(3) and `AT_EMPTY_PATH` have it.
fn is_descriptor(path: &[u8]) -> bool {
    path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/self/fd/")
}
