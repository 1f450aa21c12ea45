//! Emits the program that refuses arguments, from the policy's table of them.
//!
//! Classic BPF as seccomp(2) takes it: it names the architecture, finds the syscall, and holds the
//! bits that the kernel reads of each argument against the table. Emitted here because libseccomp
//! cannot say "any value but these" of a part of an argument.

use std::collections::BTreeSet;

use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};
use turnkey_policy::SyscallPolicy;
use turnkey_policy::syscalls::X32_BIT;
use turnkey_policy::syscalls::arguments::{self, ArgumentCondition, ArgumentRefusal, BitTest};

use super::{FilterError, number_of};
use crate::host::kernel::AUDIT_ARCH_X86_64;
use crate::sys::FilterInstruction;

// linux/bpf_common.h
const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
pub(super) const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

// Offsets in `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;

/// The whole program.
pub fn program(policy: &SyscallPolicy) -> Result<Vec<FilterInstruction>, FilterError> {
    let mut program = own_architecture();
    for syscall in spoken_of(policy) {
        let refusals = arguments::refusals(policy).filter(|one| one.syscalls.contains(&syscall));
        let block = refusals_of(refusals)?;
        let number = number_of(syscall)?;
        // A jump over the block can be longer than the 255 that a comparison can skip.
        program.push(if_equal(number, 1, 0));
        program.push(jump(block.len())?);
        program.extend(block);
    }
    program.push(answer(SECCOMP_RET_ALLOW));
    Ok(program)
}

/// Each syscall that a refusal speaks of, once.
fn spoken_of(policy: &SyscallPolicy) -> BTreeSet<&'static str> {
    let all = arguments::refusals(policy).flat_map(|refusal| refusal.syscalls);
    all.copied().collect()
}

/// Kills what comes through another architecture, and leaves the number loaded.
fn own_architecture() -> Vec<FilterInstruction> {
    vec![
        load(ARCHITECTURE),
        if_equal(AUDIT_ARCH_X86_64, 1, 0),
        answer(SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        // -1 is no call: the kernel puts it in the place of one that a tracer skipped.
        if_equal(u32::MAX, 2, 0),
        step(JUMP_IF_GREATER_OR_EQUAL, X32_BIT, 0, 1),
        answer(SECCOMP_RET_KILL_PROCESS),
    ]
}

/// Every refusal of one syscall in turn; what none speaks of passes.
fn refusals_of<'a>(
    refusals: impl Iterator<Item = &'a ArgumentRefusal>,
) -> Result<Vec<FilterInstruction>, FilterError> {
    let mut block = Vec::new();
    for refusal in refusals {
        block.extend(refuse(refusal)?);
    }
    block.push(answer(SECCOMP_RET_ALLOW));
    Ok(block)
}

/// The conditions one after the other, then the error; the first that does not hold leads past it.
fn refuse(refusal: &ArgumentRefusal) -> Result<Vec<FilterInstruction>, FilterError> {
    let mut code = vec![answer(
        SECCOMP_RET_ERRNO | u32::from(refusal.answer.number()),
    )];
    // Backwards, so that what is to be jumped over is known.
    for condition in refusal.when.iter().rev() {
        let mut test = unless(condition, code.len())?;
        test.append(&mut code);
        code = test;
    }
    Ok(code)
}

/// Jumps over the `next` instructions that follow, unless the condition holds.
fn unless(
    condition: &ArgumentCondition,
    next: usize,
) -> Result<Vec<FilterInstruction>, FilterError> {
    let mut code = vec![
        load(ARGUMENTS + 8 * u32::from(condition.argument)),
        step(AND, condition.bits, 0, 0),
    ];
    match condition.test {
        BitTest::Is(values) => {
            code.extend(chain(values, 1)?);
            code.push(jump(next)?);
        }
        BitTest::IsNot(values) => {
            code.extend(chain(values, 1)?);
            code.push(jump(1)?);
            code.push(jump(next)?);
        }
        BitTest::IsSet => {
            code.push(step(JUMP_IF_SET, condition.bits, 1, 0));
            code.push(jump(next)?);
        }
    }
    Ok(code)
}

/// One comparison per value; the first that is equal leads past the chain and `over` more.
fn chain(values: &[u32], over: usize) -> Result<Vec<FilterInstruction>, FilterError> {
    let compare = |(index, value): (usize, &u32)| {
        let rest = values.len() - index - 1;
        let distance = u8::try_from(rest + over).map_err(|_| FilterError::TooLong)?;
        Ok(if_equal(*value, distance, 0))
    };
    values.iter().enumerate().map(compare).collect()
}

pub(super) fn load(offset: u32) -> FilterInstruction {
    step(LOAD, offset, 0, 0)
}

pub(super) fn answer(value: u32) -> FilterInstruction {
    step(RETURN, value, 0, 0)
}

pub(super) fn if_equal(value: u32, then: u8, otherwise: u8) -> FilterInstruction {
    step(JUMP_IF_EQUAL, value, then, otherwise)
}

pub(super) fn jump(distance: usize) -> Result<FilterInstruction, FilterError> {
    let distance = u32::try_from(distance).map_err(|_| FilterError::TooLong)?;
    Ok(step(JUMP, distance, 0, 0))
}

pub(super) fn step(code: u16, k: u32, jt: u8, jf: u8) -> FilterInstruction {
    FilterInstruction { code, jt, jf, k }
}
