//! Completeness of the evidence, from the kernel's counts of a jail and what arrived here.

use turnkey_abi::{Jail, count, kind};
use turnkey_facts::{ByKind, Evidence, Outsider};

use crate::stream::Arrived;

/// The counts of one jail, as the kernel keeps them by slot.
fn by_kind(counts: &[u64; count::SLOTS]) -> ByKind {
    let of = |kind: u16| counts[count::slot(kind, 0)];
    ByKind {
        exec: of(kind::EXEC),
        exec_attempt: of(kind::EXEC_ATTEMPT),
        open: of(kind::OPEN),
        connect: of(kind::NETWORK),
        bind: counts[count::BIND],
        send: counts[count::SEND],
        listen: counts[count::LISTEN],
        refused: of(kind::REFUSED),
        fork: of(kind::FORK),
        exit: of(kind::EXIT),
        change: of(kind::CHANGE),
        look: of(kind::LOOK),
        map: of(kind::MAP),
        question: of(kind::QUESTION),
    }
}

/// Sums up how complete the evidence of a jail is, from the kernel's counts and what arrived here; `has_ended` says that no
/// task of it is left.
pub(crate) fn sum_up(jail: &Jail, missed: u64, arrived: &Arrived, has_ended: bool) -> Evidence {
    let jail = &match has_ended {
        true => *jail,
        false => at_least(jail, arrived),
    };
    let malformed = arrived.malformed;
    let nothing_failed = jail.lost_records == 0 && missed + malformed + jail.faults == 0;
    let seen = by_kind(&jail.seen);
    // Every jail starts a command, and everything in it ends: programs that saw neither were not looking.
    let looked = jail.started != 0 && (seen.exit > 0 || !has_ended);
    let complete =
        looked && nothing_failed && arrived.records == jail.seq && arrived.acts == jail.seen;
    Evidence {
        seen,
        told: by_kind(&arrived.acts),
        lost: by_kind(&jail.lost),
        records: jail.seq,
        lost_records: jail.lost_records,
        faults: jail.faults,
        unreadable: jail.unreadable,
        unresolved: jail.unresolved,
        missed,
        malformed,
        outsider: outsider(&jail.outsider),
        complete,
    }
}

/// The counts of a group that was let go while others of its level are watched: they were read just before, and what
/// happened meanwhile has been told, too.
fn at_least(jail: &Jail, arrived: &Arrived) -> Jail {
    let mut jail = *jail;
    jail.seq = jail.seq.max(arrived.records);
    for (seen, told) in jail.seen.iter_mut().zip(&arrived.acts) {
        *seen = (*seen).max(*told);
    }
    jail
}

/// The process outside of the jail that ended one in it; `None` when no signal did.
fn outsider(noted: &turnkey_abi::Outsider) -> Option<Outsider> {
    let signal = i32::try_from(noted.signal).ok()?;
    (signal != 0).then_some(Outsider {
        signal,
        target: noted.target,
        pid: noted.pid,
        uid: noted.uid,
        comm: noted.comm,
    })
}

/// True when a jail whose policy says so must end for lost evidence. `missed` is asked only then: the kernel is asked
/// for each program.
pub(crate) fn must_end_for_loss(jail: &Jail, missed: impl FnOnce() -> u64) -> bool {
    jail.kill_on_loss != 0 && (jail.lost_records != 0 || missed() != 0)
}

#[cfg(test)]
mod tests {
    use turnkey_abi::act;

    use super::*;

    fn jail() -> (Jail, Arrived) {
        let mut jail = Jail::new(0, 0);
        let mut arrived = Arrived::default();
        (jail.seq, arrived.records) = (5, 5);
        jail.started = 1;
        for (kind, times) in [(kind::OPEN, 7), (kind::EXIT, 1)] {
            jail.seen[count::slot(kind, 0)] = times;
            arrived.acts[count::slot(kind, 0)] = times;
        }
        (jail, arrived)
    }

    #[test]
    fn evidence_is_complete_when_everything_is_accounted_for() {
        let (jail, arrived) = jail();
        assert!(sum_up(&jail, 0, &arrived, true).complete);
    }

    #[test]
    fn anything_missing_makes_evidence_incomplete() {
        let (whole, all) = jail();
        let of = |change: &dyn Fn(&mut Jail, &mut Arrived)| {
            let (mut jail, mut arrived) = (whole, all);
            change(&mut jail, &mut arrived);
            sum_up(&jail, 0, &arrived, true).complete
        };
        assert!(of(&|_, _| ()));
        assert!(!of(&|jail, _| jail.started = 0), "no start was seen");
        assert!(
            !of(&|jail, arrived| {
                jail.seen[count::slot(kind::EXIT, 0)] = 0;
                arrived.acts[count::slot(kind::EXIT, 0)] = 0;
            }),
            "no end was seen"
        );
        assert!(!sum_up(&whole, 1, &all, true).complete, "a run was missed");
        assert!(!of(&|_, arrived| arrived.malformed = 1));
        assert!(
            !of(&|_, arrived| arrived.records -= 1),
            "one was left in a ring"
        );
        assert!(
            !of(&|_, arrived| arrived.acts[2] -= 1),
            "a repetition was left"
        );
        assert!(!of(&|jail, _| jail.lost_records = 1));
        assert!(!of(&|jail, _| jail.faults = 1));
    }

    #[test]
    fn network_acts_are_counted_apart() {
        let mut counts = [0; count::SLOTS];
        for what in [act::CONNECT, act::BIND, act::SEND, act::LISTEN] {
            counts[count::slot(kind::NETWORK, what)] += u64::from(what) + 1;
        }
        let counted = by_kind(&counts);
        assert_eq!((counted.connect, counted.bind, counted.send), (1, 2, 3));
        assert_eq!(counted.listen, 4);
        assert_eq!(counted.total(), 10);
    }

    #[test]
    fn a_lost_record_or_a_missed_run_ends_a_jail_whose_policy_says_so() {
        let (whole, _) = jail();
        let mut strict = whole;
        strict.kill_on_loss = 1;
        assert!(!must_end_for_loss(&strict, || 0), "nothing is lost");
        assert!(must_end_for_loss(&strict, || 1), "a run was left out");
        strict.lost_records = 1;
        assert!(must_end_for_loss(&strict, || 0), "a record found no room");
        let mut lenient = strict;
        lenient.kill_on_loss = 0;
        assert!(!must_end_for_loss(&lenient, || 1), "the policy marks it");
    }
}
