//! Signals that processes outside of a jail send to those in it: whoever ends by one did not end by itself.

use turnkey_abi::Outsider;

use crate::emit;
use crate::peers;
use crate::read::{self, JailCell, offset};

/// `TRACE_SIGNAL_IGNORED` of trace/events/signal.h.
const IGNORED: u32 = 1;
/// `si_code` of a signal by kill(2), by sigqueue(3), and by tgkill(2).
const BY_PROCESS: [i32; 3] = [0, -1, -6];

/// True when a process sent the signal, and not the kernel for what happened. `info` is the address of its
/// `struct kernel_siginfo`, or one of two numbers that stand for one. Of SEND_SIG_NOINFO, which is NULL and that of kill(2),
/// zeros are read, and so the code of kill(2); no program can ask for it, as the verifier takes it for a pointer to something.
#[inline(always)]
fn is_by_process(info: u64) -> bool {
    // SEND_SIG_PRIV, as of the kernel.
    const OF_KERNEL: u64 = 1;
    // Behind si_signo and si_errno, where user space finds it as well.
    const CODE: u64 = 8;
    info != OF_KERNEL && BY_PROCESS.contains(&read::kernel::<i32>(info + CODE))
}

/// A signal is sent by the current task to another.
#[inline(always)]
pub fn sent(signal: u32, info: u64, task: u64, outcome: u32) {
    if outcome == IGNORED || !is_by_process(info) {
        return;
    }
    let group = peers::group_of_task(task);
    let Some(jail) = read::jail_of(group) else {
        return;
    };
    if group == read::current_group() {
        return;
    }
    let sender = read::current_task();
    let credentials: u64 = read::kernel(sender + u64::from(offset!(task_real_cred)));
    let (target, _) = emit::own_numbers(task);
    let outsider = Outsider {
        signal,
        pid: read::kernel(sender + u64::from(offset!(task_tgid))),
        uid: read::kernel(credentials + u64::from(offset!(cred_uid))),
        target,
        comm: read::kernel(sender + u64::from(offset!(task_comm))),
    };
    let process: u32 = read::kernel(task + u64::from(offset!(task_tgid)));
    if !read::keep_signal(process, &outsider) {
        emit::fault(jail);
    }
}

/// The current process has ended, with the status that wait(2) will report.
#[inline(always)]
pub fn ended(jail: JailCell, task: u64, status: u32) {
    const SIGKILL: u32 = 9;
    let process: u32 = read::kernel(task + u64::from(offset!(task_tgid)));
    let outsider = read::take_signal(process);
    // A group of others is ended by other signals every day, and the first that is noted stays.
    let counts = read::level() == 0 || outsider.signal == SIGKILL;
    if counts && outsider.signal != 0 && outsider.signal == status & 0x7f {
        jail.note_outsider(outsider);
    }
}
