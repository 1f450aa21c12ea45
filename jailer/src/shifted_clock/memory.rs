//! The memory of a stopped task, as its own instructions reach it: process_vm_readv(2).

use std::io::{IoSlice, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

fn there(address: u64, length: usize) -> RemoteIoVec {
    RemoteIoVec {
        base: usize::try_from(address).unwrap_or(usize::MAX),
        len: length,
    }
}

/// Reads all of it, or fails as a system call that is given such an address does.
pub fn read(task: libc::pid_t, address: u64, into: &mut [u8]) -> Result<(), Errno> {
    let there = [there(address, into.len())];
    let length = into.len();
    let read = process_vm_readv(Pid::from_raw(task), &mut [IoSliceMut::new(into)], &there)?;
    (read == length).then_some(()).ok_or(Errno::EFAULT)
}

/// Writes all of it.
pub fn write(task: libc::pid_t, address: u64, from: &[u8]) -> Result<(), Errno> {
    let there = [there(address, from.len())];
    let written = process_vm_writev(Pid::from_raw(task), &[IoSlice::new(from)], &there)?;
    (written == from.len()).then_some(()).ok_or(Errno::EFAULT)
}

/// A word.
pub fn word(task: libc::pid_t, address: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    read(task, address, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Hides the kernel's page of clocks from a program that is about to begin: `AT_SYSINFO_EHDR` on its stack, getauxval(3),
/// becomes an entry to be ignored. The C library and Go's then make system calls.
pub fn hide_clocks(task: libc::pid_t, stack: u64) -> Result<(), Errno> {
    let arguments = word(task, stack)?;
    // The number, the arguments and their end, then the environment and its end.
    let mut at = stack
        .wrapping_add(8)
        .wrapping_add(arguments.saturating_add(1).saturating_mul(8));
    while word(task, at)? != 0 {
        at = at.wrapping_add(8);
    }
    at = at.wrapping_add(8);
    loop {
        match word(task, at)? {
            libc::AT_NULL => return Ok(()),
            libc::AT_SYSINFO_EHDR => write(task, at, &libc::AT_IGNORE.to_ne_bytes())?,
            _ => {}
        }
        at = at.wrapping_add(16);
    }
}
