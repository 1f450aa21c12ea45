//! Control groups of runs whose processes were killed. Their keepers remove them; the listener does where a keeper was killed as well.

use std::time::{Duration, Instant};

use turnkey_jailer::LeftGroups;

/// The time between two tries: processes in a group take a moment to die.
const REST: Duration = Duration::from_millis(50);
/// The time in which a group is removed, unless the kernel holds a process in it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The remains of runs.
#[derive(Default)]
pub struct Remains(Vec<(LeftGroups, Instant)>);

impl Remains {
    /// Of a process that has ended by a signal.
    pub fn add(&mut self, process: u32) {
        self.0.push((LeftGroups::of_ended(process), Instant::now()));
    }

    /// Removes what can be removed by now.
    pub fn clear(&mut self) {
        self.0
            .retain(|(groups, since)| !groups.remove() && since.elapsed() < PATIENCE);
    }

    /// The time until the next try; nothing when nothing is left.
    pub fn rest(&self) -> Option<Duration> {
        (!self.0.is_empty()).then_some(REST)
    }
}
