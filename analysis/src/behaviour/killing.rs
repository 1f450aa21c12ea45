//! Process killing: a program was started whose purpose is to end processes by name or all at once; or
//! every process was signalled at once, or the jail's init, by kill(2).
//!
//! `kill` with the number of a process is what scripts do with their own children. Nobody in a jail has
//! started its init, and who goes through the list of processes comes to it first.

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};

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

/// Remembers nothing.
#[derive(Debug)]
pub struct Killing;

impl Detector for Killing {
    fn observe(&mut self, act: &ObservedAct<'_>, _: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let what = match &act.what {
            Operation::Executed { file, argv, .. } if ends_others(&file.path, argv) => {
                [b"ran ", &argv.join(&b' ')[..]].concat()
            }
            Operation::Called {
                name: name @ ("kill" | "tkill" | "tgkill"),
                args: [process, signal, _],
                ..
            } if *name != "kill" || word(*signal) != ONLY_ASKS => match word(*process) {
                EVERYBODY => b"signalled every process".to_vec(),
                INIT => b"signalled the jail's init".to_vec(),
                _ => return,
            },
            _ => return,
        };
        let step = Step::from_event(act.event, &[&what]);
        tell(Sighting::new(Behaviour::ProcessKilling, vec![step]));
    }
}

fn ends_others(path: &[u8], argv: &[Vec<u8>]) -> bool {
    let called = argv.first().map_or(path, |name| &name[..]);
    let name = base_name(called);
    let by_name = BY_NAME.iter().any(|one| one.as_bytes() == name);
    let is_own = || argv.iter().skip(1).any(|one| OWN.contains(&&one[..]));
    by_name && !is_own() || name == b"kill" && argv.iter().skip(2).any(|one| one == b"-1")
}

/// The kernel reads a process id as an `int`: the lower half of the register.
fn word(argument: u64) -> i32 {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
