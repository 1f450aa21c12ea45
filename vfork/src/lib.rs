//! A process that shares its maker's memory, as a thread does, and nothing else with it: no page is copied to make
//! it, and none afterwards because both have it.
//!
//! [`spawn`] is the one call by which such a process is made; [`VforkHelper`] owns one that runs beside its maker.
//!
//! # Safety
//!
//! The child has the thread-local storage of the thread that made it, which may go on meanwhile. So a child must
//! neither allocate nor lock nor unwind, and where its maker goes on, it must make its system calls without the C library, which
//! leaves `errno` there: by `rustix`.

#![expect(unsafe_code, reason = "a process in this one's memory")]

mod helper;

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::unistd::Pid;

pub use helper::VforkHelper;

/// The stack of a child. It lies in the memory that both share, and must not be used before the child has ended.
#[repr(align(16))]
pub struct Stack<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Stack<BYTES> {
    /// A stack that nothing is written to: memory that is not touched costs nothing.
    pub const EMPTY: Self = Self([MaybeUninit::uninit(); BYTES]);
}

/// The function that a child runs; its result is the exit status.
pub type ChildFunction = extern "C" fn(*const c_void) -> c_int;

/// The options of a child, for clone3(2).
#[derive(Default)]
pub struct SpawnOptions<'o> {
    /// `CLONE_…` besides `CLONE_VM`.
    pub flags: c_int,
    /// The control group that the child is born into, `CLONE_INTO_CGROUP`: a task that is moved later has to wait
    /// until all CPUs have taken note.
    pub cgroup: Option<BorrowedFd<'o>>,
    /// The place of the child's descriptor, `CLONE_PIDFD`.
    pub pidfd: Option<&'o mut RawFd>,
}

/// Makes a child that runs `function` and no more; clone3(2) with `CLONE_VM`. With `CLONE_VFORK` this thread waits until
/// it has ended, or become another program.
///
/// # Errors
/// Those of clone3(2).
///
/// # Safety
/// `function` must keep to the rules of this [crate](crate#safety), and write nothing but what is its own. `argument` must be what
/// it expects. Without `CLONE_VFORK`, the stack and what `argument` points to must last until the child has ended.
pub unsafe fn spawn<const BYTES: usize>(
    options: SpawnOptions<'_>,
    stack: &mut Stack<BYTES>,
    (function, argument): (ChildFunction, *const c_void),
) -> nix::Result<Pid> {
    /// Of `linux/sched.h`; the C library's headers give it another type.
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: integers, for which zero is a valid value.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    how.flags = u64::from((libc::CLONE_VM | options.flags).cast_unsigned());
    how.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    how.stack = (&raw mut stack.0).addr() as u64;
    how.stack_size = BYTES as u64;
    if let Some(cgroup) = options.cgroup {
        how.flags |= CLONE_INTO_CGROUP;
        how.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
    }
    if let Some(pidfd) = options.pidfd {
        how.flags |= u64::from(libc::CLONE_PIDFD.cast_unsigned());
        how.pidfd = std::ptr::from_mut(pidfd).expose_provenance() as u64;
    }
    let answer: i64;
    // SAFETY: the child comes back from the call with the same registers and an empty stack of its own, aligned as
    // the ABI wants it, and ends without ever looking at this thread's. This thread sees a system call, which
    // changes rax, rcx and r11, and writes the descriptor that `how` points to. `how` lasts until the call is over.
    // What the child takes along has registers by name: of those that the compiler chooses, rbp is one.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r8",
            "call rdx",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit_group,
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") &raw const how,
            in("rsi") size_of::<libc::clone_args>(),
            in("rdx") function,
            in("r8") argument,
            out("rcx") _,
            out("r11") _,
        );
    }
    match i32::try_from(answer) {
        Ok(child) if child > 0 => Ok(Pid::from_raw(child)),
        Ok(error) => Err(Errno::from_raw(-error)),
        Err(_) => Err(Errno::EOVERFLOW),
    }
}
