//! The filter of a jail whose clock is not the host's: it stops a program at each call that tells the time or waits for a time.

use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_TRACE};

use super::FilterError;
use super::arguments::{AND, JUMP_IF_SET};
use super::arguments::{ARGUMENTS, NUMBER, answer, if_equal, jump, load, step};
use crate::shifted_clock::calls::{CALLS, TimeUse};
use crate::sys::FilterInstruction;

/// The bits of futex(2) that say which of its operations is asked for.
const FUTEX_OPERATION: u32 = 0x7f;
/// The operations that wait.
const FUTEX_WAITS: [i32; 5] = [
    libc::FUTEX_WAIT,
    libc::FUTEX_LOCK_PI,
    libc::FUTEX_WAIT_BITSET,
    libc::FUTEX_WAIT_REQUEUE_PI,
    libc::FUTEX_LOCK_PI2,
];

/// The whole program. The kernel takes the strictest answer of all: what another filter kills or refuses is killed or refused.
pub fn program() -> Result<Vec<FilterInstruction>, FilterError> {
    let mut program = vec![load(NUMBER)];
    for timed in CALLS {
        let block = match timed.uses {
            TimeUse::Tells { .. } | TimeUse::Timer(_) => vec![traced()],
            TimeUse::Waits {
                timeout, millis, ..
            } if millis => unless_positive(timeout),
            TimeUse::Waits { timeout, .. } if timed.number == libc::SYS_futex => futex(timeout)?,
            TimeUse::Waits { timeout, .. } => unless_null(timeout),
        };
        program.push(if_equal(number(timed.number), 1, 0));
        program.push(jump(block.len())?);
        program.extend(block);
    }
    // Whoever is not followed would have the host's clock; who follows is asked for at no other call.
    let untraced = libc::CLONE_UNTRACED.cast_unsigned();
    program.extend([
        if_equal(number(libc::SYS_clone), 0, 3),
        load(ARGUMENTS),
        step(JUMP_IF_SET, untraced, 0, 1),
        answer(SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()),
        answer(SECCOMP_RET_ALLOW),
    ]);
    Ok(program)
}

fn number(number: libc::c_long) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn traced() -> FilterInstruction {
    answer(SECCOMP_RET_TRACE)
}

fn low(argument: usize) -> FilterInstruction {
    load(ARGUMENTS + 8 * u32::try_from(argument).unwrap_or_default())
}

fn high(argument: usize) -> FilterInstruction {
    load(ARGUMENTS + 4 + 8 * u32::try_from(argument).unwrap_or_default())
}

/// A number of milliseconds that is none, or for ever, is no time.
fn unless_positive(argument: usize) -> Vec<FilterInstruction> {
    vec![
        low(argument),
        step(JUMP_IF_SET, 1 << 31, 1, 0),
        if_equal(0, 0, 1),
        answer(SECCOMP_RET_ALLOW),
        traced(),
    ]
}

/// Instructions for a call that has no time to wait until.
fn unless_null(argument: usize) -> Vec<FilterInstruction> {
    vec![
        low(argument),
        if_equal(0, 0, 3),
        high(argument),
        if_equal(0, 0, 1),
        answer(SECCOMP_RET_ALLOW),
        traced(),
    ]
}

/// Of its operations only those that wait have a time in that place.
fn futex(timeout: usize) -> Result<Vec<FilterInstruction>, FilterError> {
    let mut block = vec![low(1), step(AND, FUTEX_OPERATION, 0, 0)];
    for (index, operation) in FUTEX_WAITS.iter().enumerate() {
        let rest = FUTEX_WAITS.len() - index;
        let distance = u8::try_from(rest).map_err(|_| FilterError::TooLong)?;
        block.push(if_equal(operation.cast_unsigned(), distance, 0));
    }
    block.push(answer(SECCOMP_RET_ALLOW));
    block.extend(unless_null(timeout));
    Ok(block)
}
