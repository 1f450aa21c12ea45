//! The watch-list: syscalls that are refused, by seccomp or by the kernel, or that a rule names; and signals
//! to everybody at once or to nobody, which are no matter of rules.
//!
//! What seccomp refuses never reaches entry, but does reach exit: so this looks at exits.

use turnkey_abi::syscalls::{class, on};
use turnkey_abi::{action, kind};

use crate::automaton::{self, Verdict, decide_kind};
use crate::emit::{self, Current};
use crate::maps::program;
use crate::read::{self, JailCell, Scratch};
use crate::verifier::{self, NOTHING, global};

/// The number of kill(2).
const KILL: i32 = 62;
/// The number of unshare(2), which also takes descriptors and the working directory apart.
const UNSHARE: i32 = 272;
const EPERM: i64 = -1;
const ESRCH: i64 = -3;
const EACCES: i64 = -13;
const EINVAL: i64 = -22;
const EMFILE: i64 = -24;
const EFBIG: i64 = -27;
const ENOSPC: i64 = -28;
/// The kernel has no such call, or the filter says so: nothing was done.
pub const ENOSYS: i64 = -38;
const EPROTONOSUPPORT: i64 = -93;
const ESOCKTNOSUPPORT: i64 = -94;
const EAFNOSUPPORT: i64 = -97;

/// Flags of clone(2) that make namespaces.
const CLONE_NEW: u64 = 0x7e02_0000;
/// The flag of clone3(2) that clone(2) does not have.
const CLONE_NEWTIME: u64 = 0x80;

/// True when a filter may have answered so: with `EPERM` what it knows and refuses, with `ENOSYS` what it does not
/// know. Asked first, so that a call that succeeds costs no more for it.
#[inline(always)]
pub fn is_filters_answer(result: i64) -> bool {
    result == EPERM || result == ENOSYS
}

/// True when a call met a limit of which only its result tells: descriptors, the size of a file (`RLIMIT_NOFILE` and
/// `RLIMIT_FSIZE` of setrlimit(2)), and room in a file system.
#[inline(always)]
pub fn meets_limit(result: i64) -> bool {
    result == EMFILE || result == EFBIG || result == ENOSPC
}

/// The rule kind of a syscall of the watch-list, and whether rules may decide on it.
#[derive(Clone, Copy)]
struct Meaning {
    on: u8,
    rules: bool,
}

#[inline(always)]
fn meaning(call: u8, (regs, result): (u64, i64), task: u64) -> Option<Meaning> {
    if read::number(regs) == UNSHARE {
        const NO_NAMESPACE: Meaning = Meaning {
            on: on::NONE,
            rules: false,
        };
        let flags = read::argument(regs, 0).long() & (CLONE_NEW | CLONE_NEWTIME);
        return makes_namespace(flags).or(Some(NO_NAMESPACE));
    }
    if (class::WATCH..class::MAKE).contains(&call) {
        return Some(Meaning {
            on: call - class::WATCH,
            rules: true,
        });
    }
    let first = read::argument(regs, 0).long();
    match call {
        class::CLONE => makes_namespace(first & CLONE_NEW),
        class::CLONE3 => makes_namespace(read::user::<u64>(first).0 & (CLONE_NEW | CLONE_NEWTIME)),
        class::BY_HANDLE => Some(Meaning {
            on: on::OPEN,
            rules: false,
        }),
        class::KILL => Some(Meaning {
            on: on::KILL,
            rules: signals_others(regs, task),
        }),
        // EPERM is the answer for a kind of socket that no hook guards, such as a raw one. A
        // family that the jail does not have is asked for by every resolver: no rule.
        class::SOCKET => Some(Meaning {
            on: on::CONNECT,
            rules: result == EPERM,
        }),
        _ => None,
    }
}

#[inline(always)]
fn makes_namespace(flags: u64) -> Option<Meaning> {
    (flags != 0).then_some(Meaning {
        on: on::NAMESPACE,
        rules: true,
    })
}

#[inline(always)]
fn is_refusal(call: u8, result: i64) -> bool {
    let refused = result == EPERM || result == EACCES || result == ENOSYS;
    let no_such_socket =
        result == EAFNOSUPPORT || result == ESOCKTNOSUPPORT || result == EPROTONOSUPPORT;
    // Nobody can become a user that the jail's namespace does not map.
    let no_such_user = is_setuid(call) && result == EINVAL;
    refused || call == class::SOCKET && no_such_socket || no_such_user
}

/// setuid(2) and its relatives go through when they change nothing, as in every child of make(1):
/// only a refused one is an attempt.
#[inline(always)]
fn is_setuid(call: u8) -> bool {
    call == class::WATCH + on::SETUID
}

/// kill(2) of all that may be signalled. Signal 0 only asks who is there.
#[inline(always)]
fn is_kill_of_all(call: u8, regs: u64) -> bool {
    call == class::KILL
        && read::number(regs) == KILL
        && read::argument(regs, 0).int() == -1
        && signal(regs) != 0
}

/// kill(2) of one process by a number that nobody has, of which a bounded number is told: whoever goes through the numbers tries them all.
#[inline(always)]
fn is_kill_of_nobody(jail: JailCell, call: u8, (regs, result): (u64, i64)) -> bool {
    let is_one = call == class::KILL
        && result == ESRCH
        && read::number(regs) == KILL
        && read::argument(regs, 0).int() > 0
        && signal(regs) != 0;
    if !is_one {
        return false;
    }
    let left = jail.advice_left();
    let before = left.get();
    if before == 0 {
        return false;
    }
    left.set(before - 1);
    true
}

/// The signal that a call of [`class::KILL`] sends.
#[inline(always)]
fn signal(regs: u64) -> i32 {
    const TGKILL: i32 = 234;
    const RT_TGSIGQUEUEINFO: i32 = 297;
    match read::number(regs) {
        TGKILL | RT_TGSIGQUEUEINFO => read::argument(regs, 2).int(),
        _ => read::argument(regs, 1).int(),
    }
}

/// True when a call of [`class::KILL`] sends a signal to others than the calling process, or its thread.
#[inline(always)]
fn signals_others(regs: u64, task: u64) -> bool {
    const PIDFD_SEND_SIGNAL: i32 = 424;
    // The process of a descriptor is taken for another one.
    if read::number(regs) == PIDFD_SEND_SIGNAL {
        return signal(regs) != 0;
    }
    let target = read::argument(regs, 0).int() as u32;
    let (process, thread) = emit::own_numbers(task);
    signal(regs) != 0 && target != process && target != thread
}

/// Tells of a refused syscall, and of one that went through although a rule speaks of it.
#[inline(always)]
pub fn leave(scratch: &mut Scratch, jail: JailCell, call: (u8, i32), result: i64) {
    let (call, nr) = (u32::from(call.0), call.1 as u32);
    global_leave_refused(scratch, jail.memory(), call, nr, result);
}

global!(global_leave_refused(scratch, *jail, call: u32, nr: u32, result: i64) {
    let end = (read::current_registers(), result);
    let _ = leave_inline(scratch, jail, emit::noted(), (call as u8, nr), end);
    NOTHING
});

/// [`leave`], inlined into its global function.
#[inline(always)]
fn leave_inline(
    scratch: &mut Scratch,
    jail: JailCell,
    who: Current,
    (call, nr): (u8, u32),
    (regs, result): (u64, i64),
) -> Option<()> {
    let is_told = is_refusal(call, result)
        || is_kill_of_all(call, regs)
        || is_kill_of_nobody(jail, call, (regs, result));
    let may_be_rules = call >= class::WATCH && !is_setuid(call) || call == class::KILL;
    if !is_told && !may_be_rules {
        return None;
    }
    let meaning = meaning(call, (regs, result), who.task)?;
    let table = emit::table(jail)?;
    // In a group of others event loops try io_uring, which the runtime's filter refuses, and go on without.
    let is_vain = read::level() != 0 && meaning.on == on::IO_URING && is_told;
    let verdict = if meaning.rules && !is_vain {
        decide_kind(table, scratch.cursor.role, meaning.on)
    } else {
        Verdict::NONE
    };
    if !is_told && verdict.action <= action::ALLOW {
        return None;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    emit::begin(&mut scratch.record, kind::REFUSED, who);
    scratch.record.detail = nr;
    scratch.record.what = u16::from(meaning.on);
    scratch.record.errno = if result < 0 { -result as u32 } else { 0 };
    scratch.record.args = read::arguments(regs);
    emit::conclude(scratch, jail, who, verdict);
    Some(())
}

const BPF: i32 = 321;
/// In a PID namespace other than the first it ends the first process of that, and its caller (`reboot_pid_ns` of kernel/pid_namespace.c).
const REBOOT: i32 = 169;

/// True for a call after which nobody may be left to decide, of a group that others fill: bpf(2), which may take the programs' own maps
/// and rules away, and reboot(2), which may not return. A jail has no such call.
#[inline(always)]
pub fn may_be_the_last((call, nr): (u8, i32)) -> bool {
    call >= class::WATCH && (nr == BPF || nr == REBOOT) && read::level() != 0
}

/// At entry, for calls that [`may_be_the_last`]: kills where a rule does, whatever the call is going to answer.
#[inline(always)]
pub fn enter(scratch: &mut Scratch, jail: JailCell, who: Current, (nr, regs): (u32, u64)) {
    let Some(table) = emit::table(jail) else {
        return;
    };
    let kind_of_call = if nr == BPF as u32 {
        on::BPF
    } else {
        on::MODULE
    };
    let verdict = decide_kind(table, scratch.cursor.role, kind_of_call);
    if verdict.kills() {
        automaton::execute(jail, who.thread);
        emit::begin(&mut scratch.record, kind::REFUSED, who);
        scratch.record.detail = nr;
        scratch.record.what = u16::from(kind_of_call);
        scratch.record.args = read::arguments(regs);
        emit::finish(scratch, jail, verdict);
    }
}

/// True when the filter gave the result. It never lets the call through, so the kernel cannot have.
#[inline(always)]
pub fn by_filter(jail: JailCell, nr: i32, result: i64) -> bool {
    is_filters_answer(verifier::apart(result as u64) as i64) && jail.filters(nr)
}

/// A number that the table of syscalls does not have. It is told when it was answered as one that the
/// kernel does not know either; when it was not, something was done that no program here can speak of: a fault.
#[inline(always)]
pub fn unknown(jail: JailCell, (nr, result): (i32, i64)) {
    // The kernel's own mark for "in no syscall", as on the way back from a signal handler
    // (restore_sigcontext of arch/x86/kernel/signal_64.c). A task that makes a call of it gets ENOSYS, always.
    const IN_NONE: i32 = -1;
    // A call of x32 or of a number above, for which the filter has killed: its registers are put back for a tracer of
    // the dead, and what stands for the result is the number (syscall_rollback in __seccomp_filter of kernel/seccomp.c).
    const X32: u32 = 0x4000_0000;
    let is_put_back = nr as u32 >= X32 && result as i32 == nr;
    if nr == IN_NONE || is_put_back {
        return;
    }
    if result != ENOSYS && result != EPERM {
        return emit::fault(jail);
    }
    if let Some(scratch) = emit::scratch(jail, program::LEAVE) {
        filtered(scratch, jail, nr, result);
    }
}

/// Tells of a syscall that the filter has answered in the kernel's place, or that met a limit, and that no other program
/// tells of.
///
/// Its arguments were not looked at, and without them a loop over it is one event.
#[inline(always)]
pub fn filtered(scratch: &mut Scratch, jail: JailCell, nr: i32, result: i64) {
    global_filtered(scratch, jail.memory(), nr as u32, result);
}

global!(global_filtered(scratch, *jail, nr: u32, result: i64) {
    filtered_inline(scratch, jail, emit::current(), (nr as i32, result));
    NOTHING
});

/// [`filtered`], inlined into its global function.
#[inline(always)]
fn filtered_inline(scratch: &mut Scratch, jail: JailCell, who: Current, (nr, result): (i32, i64)) {
    emit::begin(&mut scratch.record, kind::REFUSED, who);
    scratch.record.detail = nr as u32;
    scratch.record.what = u16::from(on::NONE);
    scratch.record.errno = -result as u32;
    emit::finish(scratch, jail, Verdict::NONE);
}
