//! Processes made and ended.

use turnkey_abi::syscalls::on;
use turnkey_abi::{Record, action, kind};

use crate::actor;
use crate::automaton::{self, Verdict, decide_kind};
use crate::emit::{self, Current};
use crate::peers;
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
    if !peers::is_neighbour(child) {
        // `CLONE_INTO_CGROUP` of clone3(2): nothing is told of it from here on.
        emit::unseen(jail);
    }
    if is_in_new_namespace(who.task, child) {
        tell_namespace(jail, who);
    }
}

/// True when a process was made in a namespace that its parent is not in, by whichever flags, which are memory of the program.
#[inline(always)]
fn is_in_new_namespace(parent: u64, child: u64) -> bool {
    let namespaces = |task: u64| -> [u64; 2] {
        let credentials: u64 = read::kernel(task + u64::from(offset!(task_real_cred)));
        [
            read::kernel(task + u64::from(offset!(task_nsproxy))),
            read::kernel(credentials + u64::from(offset!(cred_user_ns))),
        ]
    };
    namespaces(parent) != namespaces(child)
}

/// Decides on a clone(2) or clone3(2) that made a namespace, and tells of it where a rule speaks of it.
#[inline(always)]
fn tell_namespace(jail: JailCell, who: Current) {
    let Some(table) = emit::table(jail) else {
        return;
    };
    let role = actor::role(jail);
    let verdict = decide_kind(table, role, on::NAMESPACE);
    if verdict.action < action::LOG {
        return;
    }
    if verdict.kills() {
        automaton::execute(jail, who.thread);
    }
    let regs = read::current_registers();
    let mut record = Record::ZERO;
    emit::begin(&mut record, kind::REFUSED, who);
    record.what = u16::from(on::NAMESPACE);
    record.detail = read::number(regs) as u32;
    record.args = read::arguments(regs);
    emit::finish_value(&mut record, jail, (verdict, role));
}

/// Tells of what a thread has repeated, and of a process's end. A thread's end is none unless it is the last one.
#[inline(always)]
pub fn exited(scratch: &mut Scratch, jail: JailCell, who: Current) {
    let shared: u64 = read::kernel(who.task + u64::from(offset!(task_signal)));
    let alive: u32 = read::kernel(shared + u64::from(offset!(signal_live)));
    if jail.is_marked() {
        read::forget_mark(who.thread);
    }
    // Threads that end at once all find that none is alive: do_exit() of kernel/exit.c counts before the tracepoint.
    if alive != 0 || !is_first_to_tell(jail, who.task) {
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

/// True when no other thread has told the end of the task's process.
#[inline(always)]
fn is_first_to_tell(jail: JailCell, task: u64) -> bool {
    let [start, process] = actor::process_of(task);
    jail.ends(process as u32, start)
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
