//! turnkey's BPF programs: tracepoints with BTF, hooks of the control group, and, for kernels that
//! have it, the hooks of BPF LSM.
//!
//! Every program finds its jail by the cgroup of the current task and does nothing for anybody
//! else. Decisions fall here and need no event to arrive anywhere.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod actor;
mod addresses;
mod automaton;
mod change;
mod code;
mod emit;
mod entry;
mod exec;
mod identity;
mod kinds;
mod log;
mod lsm;
mod maps;
mod mounts;
mod network;
mod open;
mod path;
mod peers;
mod perf;
mod question;
mod read;
mod refused;
mod repeat;
mod signal;
mod task;
mod verifier;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::{btf_tracepoint, cgroup_sock, cgroup_sock_addr};
use aya_ebpf::programs::{BtfTracePointContext, SockAddrContext, SockContext};
use turnkey_abi::act;
use turnkey_abi::syscalls::{CLASSES, class, on};

use crate::automaton::Verdict;
use crate::maps::program;
use crate::network::Internet;
use crate::read::JailCell;

/// The class of each syscall, by its number.
static SYSCALL_CLASSES: [u8; turnkey_abi::syscalls::COUNT] = CLASSES;

/// The kind that each syscall has by itself, by its number.
static SYSCALL_KINDS: [u8; turnkey_abi::syscalls::COUNT] = turnkey_abi::syscalls::OWN;

/// The kind that the syscall of this number has by itself, beside the wider one of its class; [`on::NONE`] when it has none.
#[inline(always)]
fn own_kind(nr: i32) -> u8 {
    let kind = SYSCALL_KINDS.get(nr as u32 as usize);
    kind.copied().unwrap_or(on::NONE)
}

/// The class of the syscall of this number; that of a number beyond the table is [`class::UNKNOWN`].
#[inline(always)]
fn class_of_number(nr: i32) -> u8 {
    let class = SYSCALL_CLASSES.get(nr as u32 as usize);
    class.copied().unwrap_or(class::UNKNOWN)
}

/// The class of a syscall; `None` for one that need not be looked at now.
#[inline(always)]
fn interesting(nr: i32) -> Option<u8> {
    let class = class_of_number(nr);
    (class != class::NONE || read::every_call_matters()).then_some(class)
}

/// As [`interesting`], of a syscall that begins: looks are frequent, and asked about when they are over.
#[inline(always)]
fn interesting_start(nr: i32) -> Option<u8> {
    let class = interesting(nr)?;
    (!is_look(class) || read::every_call_matters()).then_some(class)
}

/// True for the classes of calls that ask about a path, and open nothing.
#[inline(always)]
fn is_look(class: u8) -> bool {
    matches!(class, class::LOOK..=class::WATCHES)
}

/// True for the classes of calls that make or empty a file by its name, or change its times and extended attributes.
#[inline(always)]
fn is_making(class: u8) -> bool {
    matches!(class, class::MAKE..=class::TIMESAT)
}

/// As [`interesting`], of a syscall that is over: the filter of a jail may have answered any, and any that writes or
/// opens may have met a limit.
#[inline(always)]
fn interesting_end(nr: i32, result: i64) -> Option<u8> {
    let may_matter = || {
        refused::is_filters_answer(result)
            || refused::meets_limit(result)
            || question::may_be_written(nr, result)
    };
    interesting(nr).or_else(|| may_matter().then_some(class::NONE))
}

/// The class of the syscall that a task's user registers are from.
#[inline(always)]
fn class_of(regs: u64) -> u8 {
    class_of_number(read::number(regs))
}

/// Kills the current task when its jail is condemned.
#[inline(always)]
fn finish_off(jail: JailCell) -> bool {
    let condemned = jail.condemned().get() != 0;
    if condemned {
        read::kill_current();
    }
    condemned
}

/// Kills for what a program itself met, such as a record that is lost, before the task goes on.
#[inline(always)]
fn kill_after_program(_done: Option<i32>) -> i32 {
    if read::every_call_matters()
        && let Some(jail) = read::current_jail()
    {
        finish_off(jail);
    }
    0
}

// sys_enter(struct pt_regs *regs, long id)
#[btf_tracepoint(function = "sys_enter")]
fn sys_enter(context: BtfTracePointContext) -> i32 {
    // The id is the kernel's: an `int` that was made a `long`.
    let id: u64 = context.arg(1);
    let id = id as i32;
    if !read::may_begin(id) && !read::every_call_matters() {
        return 0;
    }
    kill_after_program(enter(&context, context.arg(0), read::number_alike(id)))
}

#[inline(always)]
fn enter(context: &impl EbpfContext, regs: u64, nr: i32) -> Option<i32> {
    let call = interesting_start(nr)?;
    let jail = read::current_jail()?;
    log::line!(
        context,
        "enters {}, condemned {}",
        nr,
        jail.condemned().get()
    );
    if finish_off(jail) {
        return None;
    }
    if read::is_unlike(nr) {
        return None;
    }
    jail.note_call(nr);
    match call {
        class::OPEN..=class::OPENAT2 => {
            open::enter(
                emit::scratch(jail, program::ENTER)?,
                jail,
                emit::current(),
                call,
                regs,
            );
        }
        class::SYMLINK | class::SYMLINKAT => change::note_aim(jail, regs),
        class::MMAP..=class::SHMAT if code::is_asked(call, read::current_task(), regs) => {
            code::enter(
                emit::scratch(jail, program::ENTER)?,
                jail,
                emit::current(),
                call,
                regs,
            );
        }
        class::EXECVE | class::EXECVEAT => {
            exec::enter(
                emit::scratch(jail, program::ENTER)?,
                jail,
                emit::current(),
                call,
                regs,
            );
        }
        call if refused::may_be_the_last((call, nr)) => {
            refused::enter(
                emit::scratch(jail, program::ENTER)?,
                jail,
                emit::current(),
                (nr as u32, regs),
            );
        }
        _ => {}
    }
    None
}

// sys_exit(struct pt_regs *regs, long ret)
#[btf_tracepoint(function = "sys_exit")]
#[inline(always)]
fn sys_exit(context: BtfTracePointContext) -> i32 {
    kill_after_program(leave(&context, context.arg(0), context.arg(1)))
}

#[inline(always)]
fn leave(context: &impl EbpfContext, regs: u64, result: i64) -> Option<i32> {
    let nr = read::number(regs);
    let call = interesting_end(nr, result)?;
    let jail = read::current_jail()?;
    log::line!(context, "leaves {} with {}", nr, result);
    let condemned = finish_off(jail);
    if read::is_unlike(nr) {
        if result != refused::ENOSYS {
            emit::unseen(jail);
        }
        return None;
    }
    if call == class::UNKNOWN {
        refused::unknown(jail, (nr, result));
        return None;
    }
    if network::is_refused_urgent(nr, call, (regs, result)) {
        let scratch = emit::scratch(jail, program::LEAVE)?;
        refused::filtered(scratch, jail, nr, result);
        return None;
    }
    // Memory is mapped all day.
    let is_unasked = match call {
        class::NONE => true,
        class::MMAP..=class::SHMAT => !code::is_asked(call, read::current_task(), regs),
        class::LOOK..=class::WATCHES => !jail.asks_of_looks(),
        _ => false,
    };
    let by_filter = refused::by_filter(jail, nr, result);
    let is_quiet = is_look(call) || is_making(call);
    // A truncation by descriptor is told where a rule is about the file, a socket where it is refused; of a limit they
    // tell by themselves.
    let tells_of_limits = matches!(call, class::NONE | class::FTRUNCATE | class::SOCKET);
    let meets_limit = tells_of_limits && refused::meets_limit(result);
    if meets_limit || by_filter && (is_unasked || is_quiet || network::is_aimless(call, regs)) {
        let scratch = emit::scratch(jail, program::LEAVE)?;
        refused::filtered(scratch, jail, nr, result);
        return None;
    }
    if question::may_be_written(nr, result) {
        let scratch = emit::scratch(jail, program::LEAVE)?;
        question::written(scratch, jail, nr);
        return None;
    }
    if is_unasked {
        return None;
    }
    let who = emit::current();
    let scratch = emit::scratch(jail, program::LEAVE)?;
    scratch.cursor.marked = 0;
    if jail.is_marked() {
        let mark = read::take_mark(who.thread, nr);
        if mark.is_told() {
            return None;
        }
        scratch.cursor.marked = mark.rest();
    }
    emit::note(scratch);
    // What this thread was condemned for was told when it happened.
    let told = condemned && jail.condemned_thread().get() == who.thread;
    match call {
        class::OPEN..=class::OPENAT2 | class::BY_HANDLE if !told && open::is_told(call, result) => {
            open::leave(scratch, jail, call, result);
        }
        class::EXECVE | class::EXECVEAT if !told => {
            exec::leave(scratch, jail, call, result);
        }
        class::CONNECT..=class::SENDMSG if network::sends_nothing(nr, regs) => {}
        class::CONNECT..=class::SENDMSG => {
            if !read::is_address_told(scratch) {
                scratch.cursor.lost = 0;
                let mut verdict = Verdict::NONE;
                if call == class::BIND && !jail.has_hooks() {
                    verdict = network::decide_bound(scratch, jail);
                }
                network::leave(scratch, jail, call, result, verdict);
            }
            question::leave(scratch, jail, call, result);
        }
        // Where no filter refuses it, a device is made like a file.
        class::MAKE..=class::MAKEAT if change::makes_device(regs) && result < 0 => {
            let call = class::WATCH + on::NONE;
            refused::leave(scratch, jail, (call, nr), result);
        }
        class::LOOK if change::has_entered(nr, result) && !told => {
            change::entered(scratch, jail, nr);
        }
        class::LINK..=class::FCHMOD
        | class::LOOK..=class::WATCHES
        | class::MAKE..=class::TIMESAT
            if !told =>
        {
            change::leave(scratch, jail, call, (regs, result));
        }
        class::MMAP..=class::SHMAT if !told => {
            code::leave(scratch, jail, call, result);
        }
        class::LINK..=class::FCHMOD | class::MMAP..=class::SHMAT => {}
        class::LOOK..=class::WATCHES | class::MAKE..=class::TIMESAT => {}
        class::LISTEN if !told => network::listened(scratch, jail, result),
        class::LISTEN => {}
        call if told && refused::may_be_the_last((call, nr)) => {}
        class::SOCKET.. => {
            refused::leave(scratch, jail, (call, nr), result);
        }
        _ => {}
    }
    emit::tell_due(scratch, jail);
    None
}

// sched_process_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec(context: BtfTracePointContext) -> i32 {
    kill_after_program(replaced(context.arg(1), context.arg(2)))
}

#[inline(always)]
fn replaced(thread: u32, binprm: u64) -> Option<i32> {
    let jail = read::current_jail()?;
    finish_off(jail);
    exec::replaced(
        emit::scratch(jail, program::EXEC)?,
        jail,
        emit::current(),
        (thread, binprm),
    );
    None
}

// sched_process_fork(struct task_struct *parent, struct task_struct *child)
#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork(context: BtfTracePointContext) -> i32 {
    forked(context.arg(1)).unwrap_or(0)
}

#[inline(always)]
fn forked(child: u64) -> Option<i32> {
    let jail = read::current_jail()?;
    finish_off(jail);
    task::forked(
        emit::scratch(jail, program::FORK)?,
        jail,
        emit::current(),
        child,
    );
    None
}

// sched_process_exit(struct task_struct *p)
#[btf_tracepoint(function = "sched_process_exit")]
fn sched_process_exit(_context: BtfTracePointContext) -> i32 {
    exited().unwrap_or(0)
}

#[inline(always)]
fn exited() -> Option<i32> {
    let jail = read::current_jail()?;
    task::exited(emit::scratch(jail, program::EXIT)?, jail, emit::current());
    None
}

// signal_generate(int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result)
#[btf_tracepoint(function = "signal_generate")]
fn signal_generate(context: BtfTracePointContext) -> i32 {
    let (number, outcome): (u32, u32) = (context.arg(0), context.arg(4));
    signal::sent(number, context.arg(1), context.arg(2), outcome);
    0
}

// int BPF_CGROUP_RUN_PROG_INET4_CONNECT(sk, uaddr): before the protocol's connect
#[cgroup_sock_addr(connect4)]
fn connect4(context: SockAddrContext) -> i32 {
    network::hook(
        act::CONNECT,
        Internet::v4(read::socket_address4(context.sock_addr)),
        context.sock_addr,
    )
}

// int BPF_CGROUP_RUN_PROG_INET6_CONNECT(sk, uaddr): before the protocol's connect
#[cgroup_sock_addr(connect6)]
fn connect6(context: SockAddrContext) -> i32 {
    network::hook(
        act::CONNECT,
        Internet::v6(read::socket_address6(context.sock_addr)),
        context.sock_addr,
    )
}

// int BPF_CGROUP_RUN_PROG_INET4_BIND_LOCK(sk, uaddr): before the address is taken
#[cgroup_sock_addr(bind4)]
fn bind4(context: SockAddrContext) -> i32 {
    network::hook(
        act::BIND,
        Internet::v4(read::socket_address4(context.sock_addr)),
        context.sock_addr,
    )
}

// int BPF_CGROUP_RUN_PROG_INET6_BIND_LOCK(sk, uaddr): before the address is taken
#[cgroup_sock_addr(bind6)]
fn bind6(context: SockAddrContext) -> i32 {
    network::hook(
        act::BIND,
        Internet::v6(read::socket_address6(context.sock_addr)),
        context.sock_addr,
    )
}

// int BPF_CGROUP_RUN_PROG_UDP4_SENDMSG_LOCK(sk, uaddr): a datagram with an address
#[cgroup_sock_addr(sendmsg4)]
fn sendmsg4(context: SockAddrContext) -> i32 {
    network::hook(
        act::SEND,
        Internet::v4(read::socket_address4(context.sock_addr)),
        context.sock_addr,
    )
}

// int BPF_CGROUP_RUN_PROG_UDP6_SENDMSG_LOCK(sk, uaddr): a datagram with an address
#[cgroup_sock_addr(sendmsg6)]
fn sendmsg6(context: SockAddrContext) -> i32 {
    network::hook(
        act::SEND,
        Internet::v6(read::socket_address6(context.sock_addr)),
        context.sock_addr,
    )
}

// int BPF_CGROUP_RUN_PROG_INET_SOCK(sk): an internet socket is made
#[cgroup_sock(sock_create)]
fn sock_create(context: SockContext) -> i32 {
    network::create(context.sock)
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
