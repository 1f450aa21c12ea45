//! Process killing: a program was started whose purpose is to end processes by name or all at once.
//!
//! `kill` with the number of a process is what scripts do with their own children.

use turnkey_policy::Behaviour;

use super::act::{Act, What};
use super::scene::{Scene, base_name};
use super::{Detector, Sighting, Step};

const BY_NAME: &[&str] = &["pkill", "killall", "killall5", "xkill", "skill"];

/// Remembers nothing.
#[derive(Debug)]
pub struct Killing;

impl Detector for Killing {
    fn see(&mut self, act: &Act<'_>, _: &Scene, tell: &mut dyn FnMut(Sighting)) {
        let What::Executed { file, argv, .. } = &act.what else {
            return;
        };
        let called = argv.first().map_or(&file.path[..], |name| &name[..]);
        let name = base_name(called);
        let by_name = BY_NAME.iter().any(|one| one.as_bytes() == name);
        let everything = name == b"kill" && argv.iter().skip(2).any(|one| one == b"-1");
        if by_name || everything {
            let step = Step::of(act.event, &[b"ran ", &argv.join(&b' ')]);
            tell(Sighting::new(Behaviour::ProcessKilling, vec![step]));
        }
    }
}
