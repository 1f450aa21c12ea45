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
    /// It outlived what it was to die of.
    pub(crate) const ALIVE: i32 = 13;
    /// Its open of a denied file was not answered with EPERM.
    pub(crate) const OPENED: i32 = 14;
    /// Its exec of a denied program was not answered with EPERM.
    pub(crate) const EXECUTED: i32 = 15;
}

/// What a canary dies of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanaryEnd {
    /// open(2)
    Open,
    /// execve(2)
    Exec,
}

/// What a canary breaks, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// Connected to.
    pub(crate) address: SocketAddrV4,
    /// Opened, and executed, where that can be denied: a file and a program that are there.
    pub(crate) denied: Option<(&'static CStr, &'static CStr)>,
    /// Opened or executed at the end.
    pub(crate) deadly: &'static CStr,
    /// Which of them.
    pub(crate) end: CanaryEnd,
}

/// Makes a child that enters the cgroup of `procs` (its `cgroup.procs`, open for writing), flies,
/// and ends with one of [`canary_status`].
pub(crate) fn spawn_canary(procs: BorrowedFd<'_>, flight: &Flight) -> nix::Result<Pid> {
    // SAFETY: the child calls `canary` alone, which makes system calls and neither allocates nor
    // locks, so it does not matter what other threads were doing.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let status = canary(procs, flight);
            // SAFETY: ends the process; nothing is run at exit.
            unsafe { libc::_exit(status) }
        }
    }
}

const AF_INET: libc::sa_family_t = 2;
const SOCKADDR_IN_BYTES: libc::socklen_t = 16;

fn canary(procs: BorrowedFd<'_>, flight: &Flight) -> i32 {
    // SAFETY: a descriptor that the caller keeps open, and one byte of static memory.
    if unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
        return canary_status::OUTSIDE;
    }
    // SAFETY: no pointers. A program that is started against all rules shall not be heard.
    unsafe { (libc::close(1), libc::close(2)) };
    if flight.end == CanaryEnd::Open {
        if let Err(status) = be_refused(flight) {
            return status;
        }
        open(flight.deadly);
    } else {
        execute(flight.deadly);
    }
    canary_status::ALIVE
}

/// What a hook answers with EPERM.
fn be_refused(flight: &Flight) -> Result<(), i32> {
    let refused = |what: Option<Errno>, status: i32| match what {
        Some(Errno::EPERM) => Ok(()),
        _ => Err(status),
    };
    refused(connect(flight.address)?, canary_status::CONNECTED)?;
    if let Some((file, program)) = flight.denied {
        refused(open(file), canary_status::OPENED)?;
        refused(execute(program), canary_status::EXECUTED)?;
    }
    Ok(())
}

/// How a connect fails.
fn connect(address: SocketAddrV4) -> Result<Option<Errno>, i32> {
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(canary_status::NO_SOCKET);
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
    Ok((connected != 0).then(Errno::last))
}

/// How an open fails.
fn open(path: &CStr) -> Option<Errno> {
    // SAFETY: the path ends in a zero; the kernel only reads it.
    let opened = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    (opened < 0).then(Errno::last)
}

/// How an exec fails.
fn execute(path: &CStr) -> Option<Errno> {
    let arguments = [path.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: both lists end in a null pointer, and every string in a zero.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Some(Errno::last())
}
