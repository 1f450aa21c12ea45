//! J30: the emitted programs read as an attacker would read them, in the manner of
//! `seccomp-tools audit`: every path through them, not only those that calls were tried on.

use std::collections::BTreeSet;

use turnkey_policy::syscalls::X32_BIT;
use turnkey_policy::{Overrides, SHIPPED, load};

use super::SeccompFilters;
use super::simulation::{ALLOW, KILL_PROCESS};
use crate::host::kernel::AUDIT_ARCH_X86_64;
use crate::sys::FilterInstruction;

/// The value that the accumulator holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AccumulatorValue {
    Nothing,
    Architecture,
    Number,
    Argument,
}

/// The facts that are certain at a place of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KnownState {
    holds: AccumulatorValue,
    /// The architecture is ours.
    ours: bool,
    /// The number is not of x32.
    not_x32: bool,
    /// The number is exactly this one.
    number: Option<u32>,
}

/// An end of a path: the answer and what was certain there.
type End = (u32, KnownState);

const START: KnownState = KnownState {
    holds: AccumulatorValue::Nothing,
    ours: false,
    not_x32: false,
    number: None,
};

/// Every way through the program.
fn ends(program: &[FilterInstruction]) -> BTreeSet<End> {
    let (mut ends, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![(0, START)]);
    while let Some((at, known)) = open.pop() {
        if !seen.insert((at, known)) {
            continue;
        }
        let instruction = program[at];
        if instruction.code == 0x06 {
            ends.insert((instruction.k, known));
        }
        open.extend(steps(instruction, at, known));
    }
    ends
}

/// The successors of an instruction, and the facts that are certain there.
fn steps(instruction: FilterInstruction, at: usize, known: KnownState) -> Vec<(usize, KnownState)> {
    let FilterInstruction { code, jt, jf, k } = instruction;
    let yes = at + 1 + usize::from(jt);
    let no = at + 1 + usize::from(jf);
    match code {
        0x20 => vec![(
            at + 1,
            KnownState {
                holds: loaded(k),
                ..known
            },
        )],
        0x54 => vec![(
            at + 1,
            KnownState {
                holds: AccumulatorValue::Argument,
                ..known
            },
        )],
        0x05 => vec![(at + 1 + usize::try_from(k).unwrap(), known)],
        0x15 => vec![(yes, equal(known, k)), (no, known)],
        0x25 => vec![(yes, known), (no, at_most(known, k))],
        0x35 => vec![(yes, known), (no, at_most(known, k.wrapping_sub(1)))],
        0x45 => vec![(yes, known), (no, known)],
        0x06 => Vec::new(),
        other => panic!("unknown operation {other:#x}"),
    }
}

fn loaded(offset: u32) -> AccumulatorValue {
    match offset {
        0 => AccumulatorValue::Number,
        4 => AccumulatorValue::Architecture,
        _ => AccumulatorValue::Argument,
    }
}

fn equal(known: KnownState, value: u32) -> KnownState {
    match known.holds {
        AccumulatorValue::Architecture => KnownState {
            ours: value == AUDIT_ARCH_X86_64,
            ..known
        },
        AccumulatorValue::Number => KnownState {
            number: Some(value),
            not_x32: known.not_x32 || value & X32_BIT == 0 || value == u32::MAX,
            ..known
        },
        _ => known,
    }
}

fn at_most(known: KnownState, value: u32) -> KnownState {
    let not_x32 = known.not_x32 || known.holds == AccumulatorValue::Number && value < X32_BIT;
    KnownState { not_x32, ..known }
}

fn shipped() -> impl Iterator<Item = (&'static str, SeccompFilters)> {
    let built = |(name, _): &(&'static str, &str)| {
        let no_files = |path: &str| Err(format!("{path} was asked for"));
        let policy = load(name, &no_files, &Overrides::default()).expect("it is shipped");
        (
            *name,
            SeccompFilters::build(&policy.syscalls).expect("they can be built"),
        )
    };
    SHIPPED.iter().map(built)
}

#[test]
fn j30_the_architecture_comes_first() {
    for (name, filters) in shipped() {
        for program in [&filters.allow, &filters.refuse] {
            assert!(
                loaded(program[0].k) == AccumulatorValue::Architecture,
                "{name}"
            );
            for (answer, known) in ends(program) {
                let judged = known.ours && known.not_x32;
                assert!(
                    judged || answer == KILL_PROCESS,
                    "{name}: {answer:#x} unjudged"
                );
            }
        }
    }
}

#[test]
fn j30_nothing_is_allowed_by_default() {
    for (name, filters) in shipped() {
        for (answer, known) in ends(&filters.allow) {
            // Only a comparison with one certain number leads to an allow.
            assert!(answer != ALLOW || known.number.is_some(), "{name}");
        }
    }
}

#[test]
fn j32_j33_nobody_outside_is_asked_to_decide() {
    let allowed = [libc::SECCOMP_RET_ERRNO, ALLOW, KILL_PROCESS];
    for (name, filters) in shipped() {
        for program in [&filters.allow, &filters.refuse] {
            for (answer, _) in ends(program) {
                let action = answer & libc::SECCOMP_RET_ACTION_FULL;
                assert!(allowed.contains(&action), "{name}: {answer:#x}");
                assert_ne!(action, libc::SECCOMP_RET_USER_NOTIF);
            }
        }
    }
}

#[test]
fn j30_the_audit_finds_a_hole() {
    let step = |code, k, jt, jf| FilterInstruction { code, jt, jf, k };
    let answer = |k| step(0x06, k, 0, 0);
    // No look at the architecture; and a default of ALLOW.
    let careless = [
        step(0x20, 0, 0, 0),
        step(0x15, 101, 0, 1),
        answer(KILL_PROCESS),
        answer(ALLOW),
    ];
    let allowed: Vec<KnownState> = ends(&careless)
        .into_iter()
        .filter(|(answer, _)| *answer == ALLOW)
        .map(|(_, known)| known)
        .collect();
    assert!(
        allowed
            .iter()
            .any(|known| !known.ours && !known.not_x32 && known.number.is_none())
    );
}
