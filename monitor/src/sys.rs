//! Where the kernel is spoken to without a safe wrapper: the only unsafe code of this crate.
//!
//! # Safety
//!
//! Three things need it: telling aya that the wire types are plain bytes, making a table of half a
//! megabyte without a copy on the stack, and a child that must act before anything else runs in it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::CStr;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{ForkResult, Pid};

use turnkey_abi::{Jail, Offsets, Table};

/// [`Jail`] as the value of a map.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct JailValue(pub(crate) Jail);

/// [`Table`] as the value of a map.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct TableValue(pub(crate) Table);

/// [`Offsets`] as a global of the object.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OffsetsValue(pub(crate) Offsets);

// SAFETY: integers with spelled-out padding only (their sizes are asserted in turnkey-abi), so
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for JailValue {}
// SAFETY: as above.
unsafe impl aya::Pod for TableValue {}
// SAFETY: as above.
unsafe impl aya::Pod for OffsetsValue {}

/// A table of zeros, made where it stays: half a megabyte does not go over the stack.
pub(crate) fn empty_table() -> Box<Table> {
    let layout = Layout::new::<Table>();
    // SAFETY: `Table` has a size that is not zero.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<Table>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory was allocated with the layout of `Table`, and zeros are one of its values.
    unsafe { Box::from_raw(memory) }
}

/// Views a table as a map's value without moving it.
pub(crate) fn table_value(table: &Table) -> &TableValue {
    // SAFETY: `TableValue` is a transparent wrapper of `Table`.
    unsafe { &*std::ptr::from_ref(table).cast::<TableValue>() }
}

/// How far a canary got, as its exit status. Killed, it has none.
pub(crate) mod canary_status {
    /// It could not enter the cgroup.
    pub(crate) const OUTSIDE: i32 = 10;
    /// It could not make a socket.
    pub(crate) const NO_SOCKET: i32 = 11;
    /// Its connect was not answered with EPERM.
    pub(crate) const CONNECTED: i32 = 12;
    /// It outlived its open.
    pub(crate) const ALIVE: i32 = 13;
}

/// Makes a child that enters the cgroup of `procs` (its `cgroup.procs`, open for writing),
/// connects to `address`, opens `path`, and ends with one of [`canary_status`].
pub(crate) fn spawn_canary(
    procs: BorrowedFd<'_>,
    address: SocketAddrV4,
    path: &CStr,
) -> nix::Result<Pid> {
    // SAFETY: the child calls `canary` alone, which makes system calls and neither allocates nor
    // locks, so it does not matter what other threads were doing.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let status = canary(procs, address, path);
            // SAFETY: ends the process; nothing is run at exit.
            unsafe { libc::_exit(status) }
        }
    }
}

const AF_INET: libc::sa_family_t = 2;
const SOCKADDR_IN_BYTES: libc::socklen_t = 16;

fn canary(procs: BorrowedFd<'_>, address: SocketAddrV4, path: &CStr) -> i32 {
    // SAFETY: a descriptor that the caller keeps open, and one byte of static memory.
    if unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
        return canary_status::OUTSIDE;
    }
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return canary_status::NO_SOCKET;
    }
    let address = libc::sockaddr_in {
        sin_family: AF_INET,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.ip().octets()),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the address is a local value of the size given.
    let connected =
        unsafe { libc::connect(socket, (&raw const address).cast(), SOCKADDR_IN_BYTES) };
    if connected == 0 || Errno::last() != Errno::EPERM {
        return canary_status::CONNECTED;
    }
    // SAFETY: the path ends in a zero; the kernel only reads it.
    unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    canary_status::ALIVE
}
