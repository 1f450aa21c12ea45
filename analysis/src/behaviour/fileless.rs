//! Fileless execution: what is executed is a memory file, a deleted file, or lies in shared memory.
//!
//! Executable memory without a file is what every just-in-time compiler makes, and does not count.

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::process_state::ProcessState;
use super::{Detector, EXECUTED, Sighting, Step};

/// Remembers nothing.
#[derive(Debug)]
pub struct Fileless;

impl Detector for Fileless {
    fn observe(&mut self, act: &ObservedAct<'_>, _: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let (path, is_nameless): (&[u8], bool) = match &act.what {
            Operation::Executed { file, script, .. } => {
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
            _ => return,
        };
        if is_nameless || path.starts_with(b"memfd:") || path.starts_with(b"/dev/shm/") {
            let step = Step::by_outcome(act, EXECUTED, &[path, b", which no directory names"]);
            tell(Sighting::new(Behaviour::FilelessExecution, vec![step]));
        }
    }
}

/// A script that is given as a descriptor: `/dev/fd/N`, as fexecve(3) and `AT_EMPTY_PATH` have it.
fn is_descriptor(path: &[u8]) -> bool {
    path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/self/fd/")
}
