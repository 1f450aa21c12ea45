//! The most that a run can take of what all runs of its user share.

use turnkey_policy::Policy;

/// The most that one run may take, or several together: the claim of a run, the sum of a user's claims, or the most that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunClaim {
    /// Memory and swap, bytes.
    pub memory: u64,
    /// Tasks.
    pub pids: u64,
    /// Room for what is written to file systems of the jail's own, bytes.
    pub disk: u64,
}

/// One part of a claim that is more than is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedPart {
    /// The name of its limit.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

impl RunClaim {
    /// The claim of a run: its limits, which the kernel enforces.
    pub fn from_policy(policy: &Policy) -> RunClaim {
        let scratch = policy.filesystem.scratch.iter().map(|place| place.size);
        RunClaim {
            memory: policy.limits.memory.saturating_add(policy.limits.swap),
            pids: policy.limits.pids.into(),
            disk: scratch.fold(policy.limits.disk, u64::saturating_add),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: RunClaim) -> RunClaim {
        RunClaim {
            memory: self.memory.saturating_add(other.memory),
            pids: self.pids.saturating_add(other.pids),
            disk: self.disk.saturating_add(other.disk),
        }
    }

    /// The first part of it that is more than `most` has.
    pub fn beyond(self, most: RunClaim) -> Option<ClaimedPart> {
        let parts = self.parts().into_iter().zip(most.parts());
        let mut beyond = parts.filter(|(own, most)| own.value > most.value);
        beyond.next().map(|(own, _)| own)
    }

    /// The value of its part of this name.
    pub fn part(self, name: &str) -> u64 {
        let mut parts = self.parts().into_iter();
        let found = parts.find(|part| part.name == name);
        found.map_or(0, |part| part.value)
    }

    /// The parts, by the names of their limits.
    pub fn parts(self) -> [ClaimedPart; 3] {
        let part = |name, value| ClaimedPart { name, value };
        [
            part("memory", self.memory),
            part("pids", self.pids),
            part("disk", self.disk),
        ]
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let parts = self.parts().into_iter();
        parts.flat_map(|part| part.value.to_le_bytes()).collect()
    }

    pub(super) fn decode(body: &[u8]) -> Option<RunClaim> {
        let (numbers, rest) = body.as_chunks();
        let [memory, pids, disk] = <[[u8; 8]; 3]>::try_from(numbers)
            .ok()?
            .map(u64::from_le_bytes);
        rest.is_empty().then_some(RunClaim { memory, pids, disk })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_policy::Overrides;

    const MOST: RunClaim = RunClaim {
        memory: 10,
        pids: 20,
        disk: 30,
    };

    #[test]
    fn a_claim_has_every_limit_that_takes_memory_tasks_or_files() {
        let no_files = |path: &str| Err(path.to_owned());
        let flags = [
            ("memory", "100"),
            ("swap", "3M"),
            ("pids", "7"),
            ("disk", "5M"),
        ];
        let flags = flags
            .into_iter()
            .chain([("scratch", "/x=2M"), ("memory", "4M")]);
        let overrides = Overrides::from_flags(flags).unwrap();
        let policy = turnkey_policy::load("untrusted", &no_files, &overrides).unwrap();
        // /tmp has 64M by the profile, and /var/tmp as much.
        let expected = RunClaim {
            memory: 7 << 20,
            pids: 7,
            disk: 135 << 20,
        };
        assert_eq!(RunClaim::from_policy(&policy), expected);
    }

    #[test]
    fn each_part_by_itself_may_be_too_much() {
        let beyond = |claim: RunClaim| claim.beyond(MOST).map(|part| (part.name, part.value));
        assert_eq!(beyond(MOST), None);
        assert_eq!(
            beyond(RunClaim { memory: 11, ..MOST }),
            Some(("memory", 11))
        );
        assert_eq!(beyond(RunClaim { pids: 21, ..MOST }), Some(("pids", 21)));
        assert_eq!(beyond(RunClaim { disk: 31, ..MOST }), Some(("disk", 31)));
        let all = RunClaim {
            memory: u64::MAX,
            pids: u64::MAX,
            disk: u64::MAX,
        };
        assert_eq!(beyond(all.and(MOST)), Some(("memory", u64::MAX)));
    }
}
