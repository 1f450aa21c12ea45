//! The syscall filter, seccomp(2), built with libseccomp from the policy's list of names.
//!
//! There are two programs:
//!
//! 1. *allow* decides on the number of a call: what the policy allows passes; what is known and not
//!    allowed fails with EPERM; what is unknown, or must look unknown so that programs fall back,
//!    fails with ENOSYS. libseccomp builds it.
//! 2. *refuse* decides on the arguments of a call: those that no jail may pass. It is emitted here,
//!    because libseccomp cannot say "every value but these" of 32 bits of an argument, and comparing
//!    all 64 is a hole (the kernel ignores the upper half, a filter would not).
//!
//! The kernel runs both and takes the stricter answer. Both name their architecture, and kill a
//! process that calls through another one (ia32, x32).

mod arguments;
pub(crate) mod clock;

use libseccomp::error::SeccompError;
use libseccomp::{ScmpAction, ScmpFilterContext, ScmpSyscall};
use turnkey_policy::syscalls::FilterAnswer;
use turnkey_policy::{SyscallPolicy, syscalls};

use crate::sys::FilterInstruction;

/// The reason why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// libseccomp refused.
    #[error("libseccomp could not build the filter: {act}")]
    Library {
        /// The operation that failed.
        act: String,
        /// The library's error.
        source: SeccompError,
    },
    /// The memory that libseccomp may need is not to be had.
    #[error("there is no memory to build the syscall filter in")]
    Memory,
    /// A name that is in no table.
    #[error("there is no syscall {0}")]
    Unknown(String),
    /// The emitted bytes could not be taken over.
    #[error("could not take over the filter from libseccomp")]
    Transfer(#[from] std::io::Error),
    /// A jump is longer than an instruction can say.
    #[error("the table of arguments is too long for a filter")]
    TooLong,
    /// The emitted bytes are no program.
    #[error("libseccomp emitted {0} bytes, which is not a whole number of instructions")]
    Emitted(usize),
}

/// The two programs, in the order in which they are installed.
#[derive(Clone, Debug)]
pub struct SeccompFilters {
    /// Names, for the report.
    pub allowed: usize,
    /// Arguments that are never allowed.
    pub refuse: Vec<FilterInstruction>,
    /// The program for all other syscalls.
    pub allow: Vec<FilterInstruction>,
}

impl SeccompFilters {
    /// The number of programs that a task in the jail has.
    pub const COUNT: u32 = 2;

    /// Builds both.
    ///
    /// # Errors
    /// A name that is no syscall's, and what libseccomp refuses.
    pub fn build(policy: &SyscallPolicy) -> Result<SeccompFilters, FilterError> {
        require_memory()?;
        Ok(SeccompFilters {
            allowed: policy.allow.len(),
            refuse: arguments::program(policy)?,
            allow: export(&allow(policy)?)?,
        })
    }

    /// Both as bytes, for who keeps them for other runs: libseccomp takes longer than most of a start.
    pub fn to_bytes(&self) -> Vec<u8> {
        let counts = [self.allowed, self.refuse.len(), self.allow.len()];
        let counts = counts.map(|count| count as u64);
        let counts = counts.iter().flat_map(|count| count.to_ne_bytes());
        let instructions = self.refuse.iter().chain(&self.allow);
        counts
            .chain(instructions.flat_map(|instruction| instruction.to_bytes()))
            .collect()
    }

    /// From [`SeccompFilters::to_bytes`] of the same program on the same machine, which the caller has from nobody
    /// but itself: they are what the jail may do. `None` when they are of another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<SeccompFilters> {
        let (counts, instructions) = bytes.split_first_chunk::<24>()?;
        let count = |at: usize| {
            let bytes = counts.get(at * 8..)?.first_chunk()?;
            usize::try_from(u64::from_ne_bytes(*bytes)).ok()
        };
        let [allowed, refuse, allow] = [count(0)?, count(1)?, count(2)?];
        let mut instructions = decode(instructions).ok()?;
        let is_whole = refuse.checked_add(allow) == Some(instructions.len());
        (is_whole && refuse > 0 && allow > 0).then_some(())?;
        let allow = instructions.split_off(refuse);
        Some(SeccompFilters {
            allowed,
            refuse: instructions,
            allow,
        })
    }
}

/// Refuses to call libseccomp where memory is short: without any, `_blk_free` of its gen_bpf.c follows a pointer that was never
/// set, which ends turnkey by a signal.
fn require_memory() -> Result<(), FilterError> {
    /// More bytes than it was seen to take.
    const ENOUGH: usize = 4 << 20;
    let mut memory = Vec::<u8>::new();
    let reserved = memory.try_reserve_exact(ENOUGH);
    // Not used, and still not to be left out.
    std::hint::black_box(&memory);
    reserved.map_err(|_| FilterError::Memory)
}

fn library(act: &str) -> impl FnOnce(SeccompError) -> FilterError {
    move |source| FilterError::Library {
        act: act.to_owned(),
        source,
    }
}

/// A filter context with its default action and the architecture named (libseccomp adds the native one).
fn context(default: ScmpAction) -> Result<ScmpFilterContext, FilterError> {
    let mut context = ScmpFilterContext::new(default).map_err(library("start"))?;
    context
        .set_act_badarch(ScmpAction::KillProcess)
        .map_err(library("foreign architectures"))?;
    // A binary tree instead of a chain: the common calls do not wait behind the rare ones.
    context.set_ctl_optimize(2).map_err(library("optimize"))?;
    Ok(context)
}

/// One rule per number; what has none gets the default, ENOSYS.
fn allow(policy: &SyscallPolicy) -> Result<ScmpFilterContext, FilterError> {
    let mut context = context(ScmpAction::Errno(libc::ENOSYS))?;
    for name in syscalls::known() {
        let number = number_of(name)?;
        let action = match syscalls::answer(policy, number) {
            FilterAnswer::Allowed => ScmpAction::Allow,
            FilterAnswer::Refused => ScmpAction::Errno(libc::EPERM),
            FilterAnswer::Absent | FilterAnswer::Killed => continue,
        };
        // By number: libseccomp may be older than the newest syscalls.
        let number = ScmpSyscall::from(number.cast_signed());
        context.add_rule(action, number).map_err(library(name))?;
    }
    Ok(context)
}

fn number_of(name: &str) -> Result<u32, FilterError> {
    syscalls::number(name).ok_or_else(|| FilterError::Unknown(name.to_owned()))
}

/// The program's instructions, by way of a memory file: libseccomp before 2.6 exports only to a
/// descriptor.
fn export(context: &ScmpFilterContext) -> Result<Vec<FilterInstruction>, FilterError> {
    use std::io::{Read, Seek};
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    let file = nix::sys::memfd::memfd_create(c"filter", flags).map_err(std::io::Error::from)?;
    let mut file = std::fs::File::from(file);
    context.export_bpf(&file).map_err(library("export"))?;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    decode(&bytes)
}

fn decode(bytes: &[u8]) -> Result<Vec<FilterInstruction>, FilterError> {
    const SIZE: usize = size_of::<FilterInstruction>();
    if bytes.is_empty() || !bytes.len().is_multiple_of(SIZE) {
        return Err(FilterError::Emitted(bytes.len()));
    }
    let instructions = bytes.as_chunks::<SIZE>().0.iter();
    Ok(instructions
        .copied()
        .map(FilterInstruction::from_bytes)
        .collect())
}

#[cfg(test)]
mod audit;
#[cfg(test)]
mod every_call_tests;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
