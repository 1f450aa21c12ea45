//! How complete the evidence of a run is.

use std::os::fd::{AsFd, AsRawFd};

use aya::Ebpf;
use aya::maps::MapError;
use aya::programs::ProgramError;
use turnkey_abi::{Jail, kind};

/// Why the evidence could not be summed up.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// No jail was watched.
    #[error("no jail was adopted")]
    NotAdopted,
    /// The kernel does not tell the jail's counts.
    #[error("the jail's counts cannot be read")]
    Map(#[from] MapError),
    /// The kernel does not tell about a program.
    #[error("a program's counts cannot be read")]
    Program(#[from] ProgramError),
    /// The kernel does not tell about a program.
    #[error("a program's counts cannot be read")]
    Proc(#[from] std::io::Error),
}

/// A count for each kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByKind {
    /// [`crate::Kind::Exec`]
    pub exec: u64,
    /// [`crate::Kind::ExecAttempt`]
    pub exec_attempt: u64,
    /// [`crate::Kind::Open`]
    pub open: u64,
    /// [`crate::Kind::Network`]
    pub network: u64,
    /// [`crate::Kind::Refused`]
    pub refused: u64,
    /// [`crate::Kind::Fork`]
    pub fork: u64,
    /// [`crate::Kind::Exit`]
    pub exit: u64,
}

impl ByKind {
    fn from_wire(counts: &[u64; kind::SLOTS]) -> Self {
        let of = |kind: u16| counts[usize::from(kind)];
        Self {
            exec: of(kind::EXEC),
            exec_attempt: of(kind::EXEC_ATTEMPT),
            open: of(kind::OPEN),
            network: of(kind::NETWORK),
            refused: of(kind::REFUSED),
            fork: of(kind::FORK),
            exit: of(kind::EXIT),
        }
    }

    /// Each kind's name, as in events and reports, with its count.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); kind::COUNT] {
        [
            ("exec", self.exec),
            ("exec_attempt", self.exec_attempt),
            ("open", self.open),
            ("network", self.network),
            ("refused", self.refused),
            ("fork", self.fork),
            ("exit", self.exit),
        ]
    }

    /// All kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}

/// How complete the evidence of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What happened, whether or not its record arrived.
    pub seen: ByKind,
    /// Records that found the ring full.
    pub lost: ByKind,
    /// Arguments that user memory did not hold when they were looked at.
    pub unreadable: u64,
    /// Files whose path the kernel's structures did not yield.
    pub unresolved: u64,
    /// Runs of a program that the kernel left out because it was running already.
    pub missed: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Nothing was lost, missed or malformed, and everything that was recorded was taken out.
    pub complete: bool,
}

impl Evidence {
    pub(crate) fn new(jail: &Jail, missed: u64, malformed: u64, received: u64) -> Self {
        let (seen, lost) = (ByKind::from_wire(&jail.seen), ByKind::from_wire(&jail.lost));
        let taken = received == seen.total();
        let complete = lost.total() == 0 && missed == 0 && malformed == 0 && taken;
        let (unreadable, unresolved) = (jail.unreadable, jail.unresolved);
        Self {
            seen,
            lost,
            unreadable,
            unresolved,
            missed,
            malformed,
            complete,
        }
    }
}

/// Sums the runs of all programs that the kernel left out.
pub(crate) fn missed(ebpf: &Ebpf) -> Result<u64, FinishError> {
    let mut missed = 0;
    for (_, program) in ebpf.programs() {
        let descriptor = program.fd()?.as_fd().as_raw_fd();
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))?;
        missed += recursion_misses(&info);
    }
    Ok(missed)
}

/// The count in a program's `fdinfo`; kernels before 5.12 do not count.
fn recursion_misses(info: &str) -> u64 {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_read_from_fdinfo() {
        let info = "pos:\t0\nprog_type:\t26\nrecursion_misses:\t3\nverified_insns:\t1\n";
        assert_eq!(recursion_misses(info), 3);
        assert_eq!(recursion_misses("pos:\t0\n"), 0);
    }

    #[test]
    fn one_lost_record_makes_evidence_incomplete() {
        let mut jail = Jail::new(0, 0);
        jail.seen[usize::from(kind::OPEN)] = 5;
        assert!(Evidence::new(&jail, 0, 0, 5).complete);
        assert!(
            !Evidence::new(&jail, 0, 0, 4).complete,
            "one record was not taken out"
        );
        assert!(!Evidence::new(&jail, 1, 0, 5).complete);
        assert!(!Evidence::new(&jail, 0, 1, 5).complete);
        jail.lost[usize::from(kind::OPEN)] = 1;
        let evidence = Evidence::new(&jail, 0, 0, 4);
        assert!(!evidence.complete);
        assert_eq!(
            (
                evidence.seen.open,
                evidence.lost.open,
                evidence.lost.total()
            ),
            (5, 1, 1)
        );
    }
}
