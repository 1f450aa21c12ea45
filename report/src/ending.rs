//! The end of a run, as the command that watched it saw it: what the verdict is made from.

use std::collections::BTreeMap;

use turnkey_facts::{Limit, Outsider, Status};

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No command ran.
    NotStarted {
        /// The reason, for the exit code.
        reason: NotStarted,
        /// The reason, for people.
        message: String,
    },
    /// The command ran.
    Ran(RunEnding),
    /// A control group that others fill was watched, and no command was started.
    Attached(AttachmentEnding),
}

impl Ending {
    /// True when the monitor condemned what it watched, for a rule or a behaviour.
    pub fn condemned(&self) -> bool {
        match self {
            Self::NotStarted { .. } => false,
            Self::Ran(ran) => ran.condemned,
            Self::Attached(attached) => attached.condemned,
        }
    }

    /// True when all was killed because events were lost and `on_loss` is `kill`.
    pub fn killed_for_loss(&self) -> bool {
        match self {
            Self::NotStarted { .. } => false,
            Self::Ran(ran) => ran.killed_for_loss,
            Self::Attached(attached) => attached.killed_for_loss,
        }
    }
}

/// The end of an attachment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachmentEnding {
    /// The monitor condemned the group: a rule killed it, or a behaviour that the policy has it die of.
    pub condemned: bool,
    /// The group was killed because events were lost and `on_loss` is `kill`.
    pub killed_for_loss: bool,
    /// The attachment has only begun: the report is for whoever finds no other.
    pub watching: bool,
    /// Processes were left when turnkey let the group go.
    pub let_go: bool,
    /// The number of processes that were there before turnkey: it is not known what they had done.
    pub found: u64,
    /// The number of processes that left the group: it is not known what they did there.
    pub left: u64,
}

/// The reason why nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// Turnkey itself failed, or a required layer could not be enforced.
    Setup,
    /// The command is there and cannot be executed.
    NotExecutable,
    /// The command is not there.
    NotFound,
}

/// The end of a command that ran. Several causes can be true at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnding {
    /// The command's own end.
    pub status: Status,
    /// The monitor condemned the jail: a rule killed it, or a behaviour that the policy has it die of.
    pub condemned: bool,
    /// The jail was killed because events were lost and `on_loss` is `kill`.
    pub killed_for_loss: bool,
    /// The limit that ended the jail.
    pub limit: Option<Limit>,
    /// The signal by which turnkey itself was asked to end.
    pub interrupted: Option<i32>,
}

/// The evidence that the monitor can vouch for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The monitor was there from before the release to the end.
    pub watched: bool,
    /// The number of losses by name. A name without loss may be left out.
    pub lost: BTreeMap<String, u64>,
    /// The count of numbers that the kernel gave to events; where it is not known, no event came
    /// after the last one there is.
    pub records: Option<u64>,
    /// The process outside of the jail that ended one in it by a signal.
    pub outsider: Option<Outsider>,
}

/// Besides events that did not fit the rings there are records that were no records, runs of a
/// program that the kernel left out, programs that could not do their work, and what was counted
/// and yet is in no event.
impl From<turnkey_facts::Evidence> for Evidence {
    fn from(evidence: turnkey_facts::Evidence) -> Self {
        let others = [
            ("malformed", evidence.malformed),
            ("missed", evidence.missed),
            ("faults", evidence.faults),
        ];
        let counts = evidence.lost.named().into_iter().chain(others);
        let mut lost: BTreeMap<String, u64> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect();
        if !evidence.complete && lost.is_empty() {
            lost.insert("unaccounted".to_owned(), unaccounted(&evidence).max(1));
        }
        Self {
            watched: true,
            lost,
            records: Some(evidence.records),
            outsider: evidence.outsider,
        }
    }
}

/// The number of acts that were counted, and are neither in an event nor known to be lost.
fn unaccounted(evidence: &turnkey_facts::Evidence) -> u64 {
    let known = evidence.told.total() + evidence.lost.total();
    evidence.seen.total().saturating_sub(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_facts::ByKind;

    const NONE: ByKind = ByKind {
        exec: 0,
        exec_attempt: 0,
        open: 0,
        connect: 0,
        bind: 0,
        send: 0,
        listen: 0,
        refused: 0,
        fork: 0,
        exit: 0,
        change: 0,
        look: 0,
        map: 0,
        question: 0,
    };

    fn whole() -> turnkey_facts::Evidence {
        turnkey_facts::Evidence {
            complete: true,
            ..turnkey_facts::Evidence::default()
        }
    }

    #[test]
    fn whole_evidence_has_no_losses() {
        let evidence = Evidence::from(whole());
        assert!(evidence.watched && evidence.lost.is_empty());
    }

    #[test]
    fn every_kind_of_loss_is_named() {
        let evidence = Evidence::from(turnkey_facts::Evidence {
            lost: ByKind { open: 3, ..NONE },
            missed: 1,
            malformed: 2,
            faults: 4,
            complete: false,
            ..whole()
        });
        let expected = [("faults", 4), ("malformed", 2), ("missed", 1), ("open", 3)];
        assert_eq!(
            evidence.lost,
            expected
                .map(|(kind, count)| (kind.to_owned(), count))
                .into()
        );
        assert!(evidence.watched);
    }

    #[test]
    fn what_is_in_no_event_is_unaccounted_for() {
        let evidence = Evidence::from(turnkey_facts::Evidence {
            seen: ByKind { open: 3, ..NONE },
            told: ByKind { open: 1, ..NONE },
            complete: false,
            ..whole()
        });
        assert_eq!(evidence.lost, [("unaccounted".to_owned(), 2)].into());
    }
}
