//! ptrace(2): the calls of who follows the processes of a jail from outside.

use nix::errno::Errno;

use super::{Result, Word, call, word};

/// `PTRACE_EVENT_EXEC` of linux/ptrace.h: a process has become another program.
pub const EVENT_EXEC: i32 = libc::PTRACE_EVENT_EXEC;
/// `PTRACE_EVENT_SECCOMP`: a filter has answered `SECCOMP_RET_TRACE`.
pub const EVENT_SECCOMP: i32 = libc::PTRACE_EVENT_SECCOMP;
/// The events of a task that starts another one.
pub const STARTS: [i32; 3] = [
    libc::PTRACE_EVENT_FORK,
    libc::PTRACE_EVENT_VFORK,
    libc::PTRACE_EVENT_CLONE,
];
/// `PTRACE_EVENT_STOP`: a new task's first stop, or one by a signal that stops.
pub const EVENT_STOP: i32 = libc::PTRACE_EVENT_STOP;
/// The signal of a stop at the end of a call, with `PTRACE_O_TRACESYSGOOD`.
pub const AT_CALL: i32 = libc::SIGTRAP | 0x80;

/// The registers of a stopped task, `struct user_regs_struct`, by their names in sys/reg.h.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers([u64; 27]);

/// The registers that hold the arguments of a call, in order: rdi, rsi, rdx, r10, r8, r9.
const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
const RAX: usize = 10;
const ORIG_RAX: usize = 15;
const RIP: usize = 16;
const RSP: usize = 19;
/// Bytes of the instruction `syscall`.
const INSTRUCTION: u64 = 2;

impl Registers {
    /// The number of the call.
    pub fn call(&self) -> u64 {
        self.0[ORIG_RAX]
    }

    /// The arguments of the call.
    pub fn arguments(&self) -> [u64; 6] {
        ARGUMENTS.map(|register| self.0[register])
    }

    /// Puts other arguments in their place.
    pub fn set_arguments(&mut self, arguments: [u64; 6]) {
        for (register, argument) in ARGUMENTS.into_iter().zip(arguments) {
            self.0[register] = argument;
        }
    }

    /// The address of the next instruction.
    pub fn next(&self) -> u64 {
        self.0[RIP]
    }

    /// The stack pointer.
    pub fn stack(&self) -> u64 {
        self.0[RSP]
    }

    /// The answer of a call that has ended.
    pub fn answer(&self) -> i64 {
        self.0[RAX].cast_signed()
    }

    /// Puts another answer in its place.
    pub fn set_answer(&mut self, answer: i64) {
        self.0[RAX] = answer.cast_unsigned();
    }

    /// Has the kernel make no call at all, and this the answer.
    pub fn skip(&mut self, answer: i64) {
        self.0[ORIG_RAX] = u64::MAX;
        self.set_answer(answer);
    }

    /// Ends a call that was to be made once more, at the instruction behind it, as broken off by a signal.
    pub fn interrupt(&mut self, next: u64) {
        self.0[RIP] = next;
        self.set_answer(-i64::from(libc::EINTR));
    }

    /// Has a call that has ended be made once more.
    pub fn again(&mut self) {
        self.0[RIP] -= INSTRUCTION;
        self.0[RAX] = self.0[ORIG_RAX];
    }
}

/// Begins to follow a process, and whatever it starts. It is killed when the thread that calls this ends.
pub fn seize(pid: libc::pid_t) -> Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACESECCOMP;
    trace(libc::PTRACE_SEIZE, pid, Word::from(options))
}

/// Lets a stopped task go on, with this signal or 0.
pub fn go_on(pid: libc::pid_t, signal: i32) -> Result<()> {
    trace(libc::PTRACE_CONT, pid, Word::from(signal))
}

/// The same, to the end of the call in which it stands.
pub fn to_the_end_of_the_call(pid: libc::pid_t) -> Result<()> {
    trace(libc::PTRACE_SYSCALL, pid, 0)
}

/// Leaves a task stopped by a signal as it is, until another signal has it go on.
pub fn leave_stopped(pid: libc::pid_t) -> Result<()> {
    trace(libc::PTRACE_LISTEN, pid, 0)
}

/// The number that comes with an event: of `EVENT_EXEC` the task that became another program, of one of [`STARTS`] the new
/// task.
pub fn event_number(pid: libc::pid_t) -> Result<u64> {
    let mut number = 0_u64;
    trace(
        libc::PTRACE_GETEVENTMSG,
        pid,
        word((&raw mut number) as usize),
    )?;
    Ok(number)
}

/// The registers of a stopped task.
pub fn registers(pid: libc::pid_t) -> Result<Registers> {
    let mut registers = Registers::default();
    let place = word((&raw mut registers) as usize);
    trace(libc::PTRACE_GETREGS, pid, place)?;
    Ok(registers)
}

/// Changes the registers of a stopped task.
pub fn set_registers(pid: libc::pid_t, registers: &Registers) -> Result<()> {
    let place = word((&raw const *registers) as usize);
    trace(libc::PTRACE_SETREGS, pid, place)
}

/// Waits for any task that this thread follows, and for no child of the process: its number and the status of wait(2).
pub fn wait_for_followed() -> Result<(libc::pid_t, i32)> {
    wait(0)
}

/// The same without waiting; `None` when no task has stopped.
pub fn stopped_already() -> Result<Option<(libc::pid_t, i32)>> {
    wait(libc::WNOHANG).map(|(task, status)| (task != 0).then_some((task, status)))
}

fn wait(options: i32) -> Result<(libc::pid_t, i32)> {
    let mut status = 0_i32;
    let place = word((&raw mut status) as usize);
    let options = Word::from(libc::__WALL | libc::__WNOTHREAD | options);
    loop {
        match call(libc::SYS_wait4, [-1, place, options, 0, 0, 0]) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(pid) => return Ok((libc::pid_t::try_from(pid).unwrap_or(-1), status)),
        }
    }
}

fn trace(request: libc::c_uint, pid: libc::pid_t, data: Word) -> Result<()> {
    let arguments = [Word::from(request), Word::from(pid), 0, data, 0, 0];
    call(libc::SYS_ptrace, arguments).map(drop)
}
