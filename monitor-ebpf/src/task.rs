//! Processes made and ended.

use turnkey_abi::kind;

use crate::actor;
use crate::automaton::Verdict;
use crate::emit::{self, Current};
use crate::read::{self, JailCell, Scratch, offset};
use crate::repeat;
use crate::signal;

/// Tells of a new process. A new thread is none.
#[inline(always)]
pub fn forked(scratch: &mut Scratch, jail: JailCell, who: Current, child: u64) {
    let thread: u32 = read::kernel(child + u64::from(offset!(task_pid)));
    let process: u32 = read::kernel(child + u64::from(offset!(task_tgid)));
    if thread != process {
        return;
    }
    actor::forked(scratch, jail, child);
    emit::begin(&mut scratch.record, kind::FORK, who);
    let start: u64 = read::kernel(child + u64::from(offset!(task_start_boottime)));
    let inner = emit::innermost_id::<false>(child);
    scratch.record.args = [u64::from(process), u64::from(inner), start];
    emit::finish_single(scratch, jail, Verdict::NONE);
}

/// Tells of what a thread has repeated, and of a process's end. A thread's end is none unless it is the last one.
#[inline(always)]
pub fn exited(scratch: &mut Scratch, jail: JailCell, who: Current) {
    let shared: u64 = read::kernel(who.task + u64::from(offset!(task_signal)));
    let alive: u32 = read::kernel(shared + u64::from(offset!(signal_live)));
    if jail.is_marked() {
        read::forget_mark(who.thread);
    }
    if alive != 0 {
        repeat::interrupt(jail, who.thread);
        return;
    }
    actor::exited(jail, who.task);
    emit::begin(&mut scratch.record, kind::EXIT, who);
    let status = status(who.task, shared);
    signal::ended(jail, who.task, status);
    scratch.record.errno = status;
    emit::finish_single(scratch, jail, Verdict::NONE);
}

/// The status that wait(2) will report.
#[inline(always)]
fn status(task: u64, signal: u64) -> u32 {
    const SIGNAL_GROUP_EXIT: u32 = 4;
    let flags: u32 = read::kernel(signal + u64::from(offset!(signal_flags)));
    if flags & SIGNAL_GROUP_EXIT != 0 {
        return read::kernel(signal + u64::from(offset!(signal_group_exit_code)));
    }
    let leader: u64 = read::kernel(task + u64::from(offset!(task_group_leader)));
    read::kernel(leader + u64::from(offset!(task_exit_code)))
}
