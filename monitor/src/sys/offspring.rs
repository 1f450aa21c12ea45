//! A process that does one thing and shares this one's memory, as after vfork(2): nothing is copied to make
//! it, and nothing is left of it when it is dead.
#![allow(unsafe_code)]

use std::arch::asm;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// Room to act in. It lies in the memory that both share, and must not be used before the child is dead.
#[repr(align(16))]
pub(super) struct Stack<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Stack<BYTES> {
    /// Nothing is written there: memory that nobody touches costs nothing.
    pub(super) const EMPTY: Self = Self([MaybeUninit::uninit(); BYTES]);
}

/// What a child does; what it answers is its exit status.
pub(super) type Act = extern "C" fn(*const c_void) -> i32;

/// Makes a child that does this and no more; clone3(2) with `CLONE_VM` and `CLONE_VFORK`, and with
/// `CLONE_INTO_CGROUP` where it is to be in a group: whoever is moved later has to wait until all processors
/// have taken note. This thread waits until it has ended, or become another program.
///
/// # Errors
/// Those of clone3(2).
///
/// # Safety
/// `act` must neither allocate nor lock nor unwind, and write nothing but what is its own: it has the thread-local
/// storage of this thread, and other threads go on. `argument` must be what it expects.
pub(super) unsafe fn beget<const BYTES: usize>(
    group: Option<BorrowedFd<'_>>,
    stack: &mut Stack<BYTES>,
    (act, argument): (Act, *const c_void),
) -> nix::Result<Pid> {
    /// Of `linux/sched.h`; the C library's headers give it another type.
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: integers, for which zero is a valid value.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    how.flags = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    how.exit_signal = libc::SIGCHLD as u64;
    how.stack = (&raw mut stack.0).addr() as u64;
    how.stack_size = BYTES as u64;
    if let Some(group) = group {
        how.flags |= CLONE_INTO_CGROUP;
        how.cgroup = u64::from(group.as_raw_fd().unsigned_abs());
    }
    let answer: i64;
    // SAFETY: the child comes back from the call with the same registers and an empty stack of its own, aligned as
    // the ABI wants it, and ends without ever looking at this thread's. This thread sees a system call, which
    // changes rax, rcx and r11. `how` and the stack last until then.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {argument}",
            "call {act}",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            argument = in(reg) argument,
            act = in(reg) act,
            exit = const libc::SYS_exit_group,
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") &raw const how,
            in("rsi") size_of::<libc::clone_args>(),
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
