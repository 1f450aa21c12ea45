//! How a run ended, as the command that watched it saw it: what the verdict is made from.

use std::collections::BTreeMap;

use turnkey_jailer::{Limit, Status};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing ran.
    NotStarted {
        /// Why, for the exit code.
        reason: NotStarted,
        /// Why, for people.
        message: String,
    },
    /// The command ran.
    Ran(Ran),
}

/// Why nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// Turnkey itself failed, or a required layer could not be enforced.
    Setup,
    /// The command is there and cannot be executed.
    NotExecutable,
    /// The command is not there.
    NotFound,
}

/// How a command that ran came to its end. Several can be true at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The command's own end.
    pub status: Status,
    /// The monitor condemned the jail: a rule killed it.
    pub condemned: bool,
    /// The jail was killed because events were lost and `on_loss` is `kill`.
    pub killed_for_loss: bool,
    /// The limit that ended the jail.
    pub limit: Option<Limit>,
    /// The signal by which turnkey itself was asked to end.
    pub interrupted: Option<i32>,
}

/// What the monitor can vouch for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The monitor was there from before the release to the end.
    pub watched: bool,
    /// Lost events, by kind. Kinds without loss may be left out.
    pub lost: BTreeMap<String, u64>,
}

/// What is lost besides events in the ring: records that were no records, and runs of a program
/// that the kernel left out. Records left in the ring have no count; the run was not seen whole.
impl From<turnkey_monitor::Evidence> for Evidence {
    fn from(evidence: turnkey_monitor::Evidence) -> Self {
        let others = [
            ("malformed", evidence.malformed),
            ("missed", evidence.missed),
        ];
        let counts = evidence.lost.named().into_iter().chain(others);
        let lost: BTreeMap<String, u64> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect();
        let watched = evidence.complete || !lost.is_empty();
        Self { watched, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_monitor::ByKind;

    const WHOLE: turnkey_monitor::Evidence = turnkey_monitor::Evidence {
        seen: NONE,
        lost: NONE,
        unreadable: 0,
        unresolved: 0,
        missed: 0,
        malformed: 0,
        complete: true,
    };
    const NONE: ByKind = ByKind {
        exec: 0,
        exec_attempt: 0,
        open: 0,
        network: 0,
        refused: 0,
        fork: 0,
        exit: 0,
    };

    #[test]
    fn whole_evidence_has_no_losses() {
        let evidence = Evidence::from(WHOLE);
        assert!(evidence.watched && evidence.lost.is_empty());
    }

    #[test]
    fn every_kind_of_loss_is_named() {
        let lost = ByKind { open: 3, ..NONE };
        let evidence = Evidence::from(turnkey_monitor::Evidence {
            lost,
            missed: 1,
            malformed: 2,
            complete: false,
            ..WHOLE
        });
        let expected = [("malformed", 2), ("missed", 1), ("open", 3)];
        assert_eq!(
            evidence.lost,
            expected
                .map(|(kind, count)| (kind.to_owned(), count))
                .into()
        );
        assert!(evidence.watched);
    }

    #[test]
    fn records_left_behind_are_a_run_not_seen_whole() {
        let evidence = Evidence::from(turnkey_monitor::Evidence {
            complete: false,
            ..WHOLE
        });
        assert!(!evidence.watched);
    }
}
