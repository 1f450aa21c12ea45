//! The syscall filter, seccomp(2), built with libseccomp from the policy's list of names.
//!
//! There are two programs, because libseccomp cannot say "every value but these" of 32 bits of an
//! argument, and comparing all 64 is a hole (the kernel ignores the upper half, a filter would not):
//!
//! 1. *allow*: what the policy allows passes; what is known and not allowed fails with EPERM; what
//!    is unknown, or must look unknown so that programs fall back, fails with ENOSYS.
//! 2. *refuse*: arguments that are never allowed.
//!
//! The kernel runs both and takes the stricter answer. Both name their architecture, and kill a
//! process that calls through another one (ia32, x32).

use libseccomp::error::SeccompError;
use libseccomp::{ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};
use turnkey_policy::{Syscalls, syscalls};

use crate::sys::Instruction;

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// libseccomp refused.
    #[error("libseccomp could not build the filter: {act}")]
    Library {
        /// What was being done.
        act: String,
        /// Its error.
        source: SeccompError,
    },
    /// A name that is in no table.
    #[error("there is no syscall {0}")]
    Unknown(String),
    /// The emitted bytes could not be taken over.
    #[error("could not take over the filter from libseccomp")]
    Transfer(#[from] std::io::Error),
    /// The emitted bytes are no program.
    #[error("libseccomp emitted {0} bytes, which is not a whole number of instructions")]
    Emitted(usize),
}

/// Flags of clone(2) that make namespaces.
const NAMESPACE_FLAGS: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWTIME,
];

/// Families of socket(2) that are allowed. Any other answers "not supported".
const FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// Values of personality(2) that are allowed: Linux, asking, and what debuggers set to turn the
/// randomisation of addresses off.
const PERSONALITIES: [u64; 3] = [0, 0xffff_ffff, 0x0004_0000];

/// Puts a byte into the terminal's input as if typed; and the console's relatives of it.
const TERMINAL_INJECTION: [u64; 2] = [0x5412, 0x541c];

/// A filter of the program's own could fake what its syscalls answered, and so what the monitor
/// sees at their exit.
const OWN_FILTER: u64 = libc::PR_SET_SECCOMP.cast_unsigned() as u64;

/// The two programs, in the order they are installed.
#[derive(Clone, Debug)]
pub struct Filters {
    /// Names, for the report.
    pub allowed: usize,
    /// Arguments that are never allowed.
    pub refuse: Vec<Instruction>,
    /// Everything else.
    pub allow: Vec<Instruction>,
}

impl Filters {
    /// How many programs a task in the jail has.
    pub const COUNT: u32 = 2;

    /// Builds both.
    pub fn build(policy: &Syscalls) -> Result<Filters, FilterError> {
        Ok(Filters {
            allowed: policy.allow.len(),
            refuse: export(&refuse()?)?,
            allow: export(&allow(policy)?)?,
        })
    }
}

fn library(act: &str) -> impl FnOnce(SeccompError) -> FilterError {
    move |source| FilterError::Library {
        act: act.to_owned(),
        source,
    }
}

/// What is refused by default, with the architecture named (libseccomp adds the native one).
fn context(default: ScmpAction) -> Result<ScmpFilterContext, FilterError> {
    let mut context = ScmpFilterContext::new(default).map_err(library("start"))?;
    context
        .set_act_badarch(ScmpAction::KillProcess)
        .map_err(library("foreign architectures"))?;
    // A binary tree instead of a chain: the common calls do not wait behind the rare ones.
    context.set_ctl_optimize(2).map_err(library("optimize"))?;
    Ok(context)
}

fn allow(policy: &Syscalls) -> Result<ScmpFilterContext, FilterError> {
    let mut context = context(ScmpAction::Errno(libc::ENOSYS))?;
    for name in syscalls::known() {
        let number = number(name)?;
        if policy.allow.contains(name) {
            allow_one(&mut context, name, number)?;
        } else if !syscalls::ABSENT.contains(&name) {
            context
                .add_rule(ScmpAction::Errno(libc::EPERM), number)
                .map_err(library(name))?;
        }
    }
    Ok(context)
}

fn allow_one(
    context: &mut ScmpFilterContext,
    name: &str,
    number: ScmpSyscall,
) -> Result<(), FilterError> {
    match name {
        "socket" | "socketpair" => socket_families(context, name, number),
        "personality" => {
            for value in PERSONALITIES {
                add(context, ScmpAction::Allow, name, number, low_half(0, value))?;
            }
            Ok(())
        }
        _ => context
            .add_rule(ScmpAction::Allow, number)
            .map(drop)
            .map_err(library(name)),
    }
}

/// The allowed families pass; all others answer EAFNOSUPPORT, as on a kernel built without them.
/// A value with bits above the lower half that is neither keeps the default answer.
fn socket_families(
    context: &mut ScmpFilterContext,
    name: &str,
    number: ScmpSyscall,
) -> Result<(), FilterError> {
    let refused = ScmpAction::Errno(libc::EAFNOSUPPORT);
    let highest = FAMILIES.into_iter().max().unwrap_or(0).cast_unsigned();
    for family in 0..=highest {
        let allowed = FAMILIES.contains(&family.cast_signed());
        let action = if allowed { ScmpAction::Allow } else { refused };
        add(
            context,
            action,
            name,
            number,
            low_half(0, u64::from(family)),
        )?;
    }
    let above = ScmpArgCompare::new(0, ScmpCompareOp::Greater, u64::from(highest));
    add(context, refused, name, number, above)
}

fn refuse() -> Result<ScmpFilterContext, FilterError> {
    let mut context = context(ScmpAction::Allow)?;
    let refused = ScmpAction::Errno(libc::EPERM);
    for flag in NAMESPACE_FLAGS {
        let bit = u64::from(flag.cast_unsigned());
        let is_set = ScmpArgCompare::new(0, ScmpCompareOp::MaskedEqual(bit), bit);
        add_named(&mut context, refused, "clone", is_set)?;
    }
    for request in TERMINAL_INJECTION {
        add_named(&mut context, refused, "ioctl", low_half(1, request))?;
    }
    add_named(&mut context, refused, "prctl", low_half(0, OWN_FILTER))?;
    Ok(context)
}

/// The lower 32 bits of an argument are `value`; the kernel does not look at the rest.
fn low_half(argument: u32, value: u64) -> ScmpArgCompare {
    ScmpArgCompare::new(argument, ScmpCompareOp::MaskedEqual(0xffff_ffff), value)
}

fn add_named(
    context: &mut ScmpFilterContext,
    action: ScmpAction,
    name: &str,
    condition: ScmpArgCompare,
) -> Result<(), FilterError> {
    add(context, action, name, number(name)?, condition)
}

/// By the policy's own table: libseccomp may be older than the newest syscalls.
fn number(name: &str) -> Result<ScmpSyscall, FilterError> {
    let number = syscalls::number(name).and_then(|number| i32::try_from(number).ok());
    number
        .map(ScmpSyscall::from)
        .ok_or_else(|| FilterError::Unknown(name.to_owned()))
}

fn add(
    context: &mut ScmpFilterContext,
    action: ScmpAction,
    name: &str,
    number: ScmpSyscall,
    condition: ScmpArgCompare,
) -> Result<(), FilterError> {
    context
        .add_rule_conditional(action, number, &[condition])
        .map(drop)
        .map_err(library(name))
}

/// The program's instructions, by way of a memory file: libseccomp before 2.6 exports only to a
/// descriptor.
fn export(context: &ScmpFilterContext) -> Result<Vec<Instruction>, FilterError> {
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

fn decode(bytes: &[u8]) -> Result<Vec<Instruction>, FilterError> {
    const SIZE: usize = std::mem::size_of::<Instruction>();
    if bytes.is_empty() || !bytes.len().is_multiple_of(SIZE) {
        return Err(FilterError::Emitted(bytes.len()));
    }
    let instruction = |raw: &[u8]| Instruction {
        code: u16::from_ne_bytes([raw[0], raw[1]]),
        jt: raw[2],
        jf: raw[3],
        k: u32::from_ne_bytes([raw[4], raw[5], raw[6], raw[7]]),
    };
    Ok(bytes.chunks_exact(SIZE).map(instruction).collect())
}

#[cfg(test)]
#[path = "filter_simulation.rs"]
mod simulation;
