//! The tracepoints that decide once more, by way of perf.
//!
//! Since Linux 7 a task can lose the CPU in the middle of a tracepoint, and the kernel leaves
//! a program out while another task of the CPU is in it (`__bpf_trace_run`). By way of perf
//! (`perf_trace_*`, `trace_call_bpf`) no other task runs there before the program is done. Where these
//! are attached, their namesakes are not, but for that of exec: perf does not know all that is told
//! of one, so this one decides, and its namesake, which runs after it, tells.

use aya_ebpf::programs::TracePointContext;

use crate::maps::program;
use crate::read::{self, perf_program};
use crate::{emit, enter, exec, exited, finish_off, kill_after_program, leave};

/// Offsets of the fields behind `struct trace_entry` in `struct syscall_trace_enter` and its like.
const FIRST: u64 = 8;
const SECOND: u64 = 16;

// raw_syscalls:sys_enter(long id, unsigned long args[6])
perf_program!(perf_sys_enter, |context| {
    kill_after_program(enter(
        context,
        read::current_registers(),
        read::event::<u64>(context, FIRST) as i32,
    ))
});

// raw_syscalls:sys_exit(long id, long ret)
perf_program!(perf_sys_exit, |context| {
    kill_after_program(leave(
        context,
        read::current_registers(),
        read::event(context, SECOND),
    ))
});

// sched:sched_process_exec(__data_loc char[] filename, pid_t pid, pid_t old_pid)
perf_program!(perf_sched_process_exec, |context| kill_after_program(
    judged(context)
));

#[inline(always)]
fn judged(context: &TracePointContext) -> Option<i32> {
    let jail = read::current_jail()?;
    finish_off(jail);
    // Its place in the event is in the lower half, its length in the upper one.
    let place = read::event::<u32>(context, FIRST) & 0xffff;
    let filename = read::event_text(context, place);
    let scratch = emit::scratch(jail, program::JUDGE)?;
    let thread = read::event::<u32>(context, SECOND);
    exec::judge(scratch, jail, emit::current(), (thread, filename));
    None
}

// sched:sched_process_exit(char comm[16], pid_t pid, int prio)
perf_program!(perf_sched_process_exit, |_context| exited().unwrap_or(0));
