//! Calls to the kernel without a safe wrapper: with the files of `sys/`, the only unsafe code of this crate.
//!
//! # Safety
//!
//! Six things need it: telling aya that the wire types are plain bytes, making a table of more than a
//! megabyte without a copy on the stack, a child that must act before anything else runs in it, the
//! order in which the kernel lets tasks run, memory that is shared with the kernel, and what aya does not do with
//! programs that are loaded already.

#![expect(unsafe_code, reason = "what aya does not wrap")]

mod bpf;
mod bytes;
mod pages;
mod ring;
mod slot_data;
mod table;

pub(crate) use bpf::{
    AttachPoint, described, group_of_link, link_by_number, link_to, link_verified, load_lookup,
    map_of_sockets, missed_runs, number_of_program, numbers_of_link, pin, pinned,
    program_by_number, programs_of_group, put_socket, takes_entries,
};
pub(crate) use bytes::{VALUE as BYTES_VALUE, map_bytes, mapped_bytes};
pub(crate) use ring::Ring;
pub(crate) use slot_data::SharedSlotData;
pub(crate) use table::{MappedTable, copy_of, map_table};

/// `BPF_F_MMAPABLE` of `linux/bpf.h`: rules are written where the programs read them, and what is not
/// said over again need not be copied.
pub(crate) const MAPPABLE: u32 = 1 << 10;

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::{CStr, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

use turnkey_abi::{Jail, Offsets, Table};

use turnkey_vfork::{ChildFunction, SpawnOptions, Stack, spawn};

/// [`Jail`] as the value of a map.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct JailValue(pub(crate) Jail);

/// [`Offsets`] as a global of the object.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OffsetsValue(pub(crate) Offsets);

// SAFETY: integers with spelled-out padding only (their sizes are asserted in turnkey-abi), so
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for JailValue {}
// SAFETY: as above.
unsafe impl aya::Pod for OffsetsValue {}

/// A table of zeros, made where it stays: more than a megabyte does not go over the stack.
pub(crate) fn empty_table() -> Box<Table> {
    // SAFETY: `Table` is integers throughout, and has a size.
    unsafe { zeroed() }
}

/// # Safety
///
/// `T` must have a size that is not zero, and zeros must be one of its values.
unsafe fn zeroed<T>() -> Box<T> {
    let layout = Layout::new::<T>();
    // SAFETY: the caller's `T` has a size.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory was allocated with the layout of `T`, and zeros are one of its values.
    unsafe { Box::from_raw(memory) }
}

/// Opens the cgroup with this id under a mount of the v2 hierarchy; open_by_handle_at(2). `ESTALE`:
/// there is no such cgroup any more.
pub(crate) fn open_cgroup(hierarchy: BorrowedFd<'_>, id: u64) -> nix::Result<OwnedFd> {
    /// `FILEID_KERNFS` of `linux/exportfs.h`.
    const FILEID_KERNFS: libc::c_int = 0xfe;
    /// `struct file_handle` with an id behind it.
    #[repr(C)]
    struct Handle {
        bytes: libc::c_uint,
        kind: libc::c_int,
        id: u64,
    }
    let handle = Handle {
        bytes: 8,
        kind: FILEID_KERNFS,
        id,
    };
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the handle is as long as it says, and lasts for the call.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            hierarchy.as_raw_fd(),
            &raw const handle,
            flags,
        )
    };
    let opened = Errno::result(opened)?;
    let opened = RawFd::try_from(opened).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

/// Keeps the CPU from every task that is not in a hurry by right, until it is dropped.
pub(crate) struct Hurry(Option<(libc::c_int, libc::sched_param)>);

impl Hurry {
    /// Of this thread; those that it makes meanwhile are not. Without the right to it, nothing
    /// changes.
    pub(crate) fn new() -> Self {
        let mut before = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel fills the parameter, which lasts for the call.
        let (policy, known) = unsafe {
            let policy = libc::sched_getscheduler(0);
            (policy, libc::sched_getparam(0, &raw mut before))
        };
        if policy < 0 || known != 0 {
            return Self(None);
        }
        let first = libc::sched_param { sched_priority: 1 };
        let hurried = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        // SAFETY: the kernel only reads the parameter.
        let changed = unsafe { libc::sched_setscheduler(0, hurried, &raw const first) };
        Self((changed == 0).then_some((policy, before)))
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        if let Some((policy, parameter)) = &self.0 {
            // SAFETY: as in `new`; what was is allowed again.
            unsafe { libc::sched_setscheduler(0, *policy, std::ptr::from_ref(parameter)) };
        }
    }
}

/// Exit statuses of a canary, by how far it got. A killed one has none.
pub(crate) mod canary_status {
    /// The canary could not make a socket.
    pub(crate) const NO_SOCKET: i32 = 11;
    /// The canary outlived the act that was to kill it.
    pub(crate) const ALIVE: i32 = 13;
    /// The canary's open of a denied file was not answered with EPERM.
    pub(crate) const OPENED: i32 = 14;
    /// The canary's exec of a denied program was not answered with EPERM.
    pub(crate) const EXECUTED: i32 = 15;
    /// The canary could not make a process.
    pub(crate) const NO_CHILD: i32 = 16;
    /// Plus an index of [`super::REFUSED`]: that was not answered with EPERM.
    pub(crate) const NOT_REFUSED: i32 = 20;
}

/// Acts that a canary tries before anything else: one for each program of the group.
pub(crate) const REFUSED: [&str; 8] = [
    "connect by IPv4",
    "bind by IPv4",
    "datagram by IPv4",
    "raw socket of IPv4",
    "connect by IPv6",
    "bind by IPv6",
    "datagram by IPv6",
    "raw socket of IPv6",
];

/// Acts that a canary dies of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanaryEnd {
    /// open(2)
    Open,
    /// execve(2)
    Exec,
    /// mmap(2), of memory that is executable and holds no file
    Map,
    /// None: the canary opens a file that is not there, makes a child, and executes what this descriptor holds, which
    /// ends at once.
    Natural(RawFd),
}

/// Paths of a canary are shorter.
pub(crate) const PATH_ROOM: usize = 64;

/// Acts of a canary, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// The port on itself that it tries what [`REFUSED`] names on.
    pub(crate) port: u16,
    /// Opened, and executed, where that can be denied: a file and a program that are there.
    pub(crate) denied: Option<(&'static CStr, &'static CStr)>,
    /// Opened or executed at the end.
    pub(crate) deadly: &'static CStr,
    /// Opened by one that is to live, and not there.
    pub(crate) absent: &'static CStr,
    /// The act that is to kill the canary.
    pub(crate) end: CanaryEnd,
}

/// Makes a child in a cgroup, an open directory of the v2 hierarchy, that flies and ends with one of
/// [`canary_status`], and waits for its end.
pub(crate) fn spawn_canary(cgroup: BorrowedFd<'_>, flight: &Flight) -> nix::Result<Pid> {
    extern "C" fn fly(flight: *const c_void) -> i32 {
        // SAFETY: `spawn_canary` gives it a flight, which lasts until the child is dead.
        canary(unsafe { &*flight.cast::<Flight>() })
    }
    let mut stack = Box::new(Stack::<CANARY_STACK>::EMPTY);
    let child: (ChildFunction, _) = (fly, (&raw const *flight).cast());
    let options = SpawnOptions {
        flags: libc::CLONE_VFORK,
        cgroup: Some(cgroup),
        pidfd: None,
    };
    // SAFETY: `canary` makes system calls on what is on its stack, and does nothing else. This thread waits for its end.
    unsafe { spawn(options, &mut stack, child) }
}

/// Bytes of a canary's stack, and of its child's, which lies on it.
const CANARY_STACK: usize = 64 << 10;
const ITS_CHILDS_STACK: usize = 4 << 10;

const AF_INET: libc::sa_family_t = 2;
const AF_INET6: libc::sa_family_t = 10;
const SOCKADDR_IN_BYTES: libc::socklen_t = 16;
const SOCKADDR_IN6_BYTES: libc::socklen_t = 28;

fn canary(flight: &Flight) -> i32 {
    // SAFETY: no pointers. A program that is started against all rules shall not be heard.
    unsafe { (libc::close(1), libc::close(2)) };
    // The programs see what is in memory when a call begins, and an untouched page is not.
    // One load brings it in; the canary shall not depend on luck.
    std::hint::black_box(
        flight
            .deadly
            .to_bytes_with_nul()
            .iter()
            .fold(0, |all, byte| all ^ byte),
    );
    match flight.end {
        CanaryEnd::Open => {
            if let Err(status) = be_refused(flight) {
                return status;
            }
            open(flight.deadly);
        }
        CanaryEnd::Exec => {
            execute(flight.deadly);
        }
        CanaryEnd::Map => map_code(),
        CanaryEnd::Natural(program) => {
            open(flight.absent);
            if !made_a_child() {
                return canary_status::NO_CHILD;
            }
            execute_descriptor(program);
        }
    }
    canary_status::ALIVE
}

/// Makes memory executable.
fn map_code() {
    const BYTES: usize = 4096;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_EXEC,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: the kernel chooses where, and it is not used.
    unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
}

/// Tries the acts that a hook answers with EPERM.
fn be_refused(flight: &Flight) -> Result<(), i32> {
    let refused = |what: Option<Errno>, status: i32| match what {
        Some(Errno::EPERM) => Ok(()),
        _ => Err(status),
    };
    be_kept_inside(flight.port)?;
    if !made_a_child() {
        return Err(canary_status::NO_CHILD);
    }
    if let Some((file, program)) = flight.denied {
        refused(open(file), canary_status::OPENED)?;
        refused(execute(program), canary_status::EXECUTED)?;
    }
    Ok(())
}

/// Tries the acts that the programs of the group answer with EPERM.
fn be_kept_inside(port: u16) -> Result<(), i32> {
    let v4 = libc::sockaddr_in {
        sin_family: AF_INET,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: libc::INADDR_LOOPBACK.to_be(),
        },
        sin_zero: [0; 8],
    };
    let v6 = libc::sockaddr_in6 {
        sin6_family: AF_INET6,
        sin6_port: port.to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr {
            s6_addr: std::net::Ipv6Addr::LOCALHOST.octets(),
        },
        sin6_scope_id: 0,
    };
    let v4 = ((&raw const v4).cast(), SOCKADDR_IN_BYTES);
    let v6 = ((&raw const v6).cast(), SOCKADDR_IN6_BYTES);
    for (first, family, address) in [(0, AF_INET, v4), (4, AF_INET6, v6)] {
        match went_through(family, address) {
            Some(Through::Act(index)) => return Err(canary_status::NOT_REFUSED + first + index),
            Some(Through::NoSocket) => return Err(canary_status::NO_SOCKET),
            None => {}
        }
    }
    Ok(())
}

/// Makes a process that ends at once, and waits for its end.
fn made_a_child() -> bool {
    extern "C" fn end(_: *const c_void) -> i32 {
        0
    }
    let mut stack = Stack::<ITS_CHILDS_STACK>::EMPTY;
    let options = SpawnOptions {
        flags: libc::CLONE_VFORK,
        ..SpawnOptions::default()
    };
    // SAFETY: it does nothing at all. This thread waits for its end.
    let child = unsafe { spawn(options, &mut stack, (end, std::ptr::null())) };
    child.is_ok_and(|child| {
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(child.as_raw(), std::ptr::null_mut(), 0) == child.as_raw() }
    })
}

/// Failures of a canary's acts on one family, when they were not all refused.
enum Through {
    /// The index of the act that was not.
    Act(i32),
    /// There was nothing to act with.
    NoSocket,
}

/// `address` points to an address of a family, of this many bytes.
fn went_through(
    of: libc::sa_family_t,
    (address, size): (*const libc::sockaddr, libc::socklen_t),
) -> Option<Through> {
    let of = libc::c_int::from(of);
    // SAFETY: no pointers.
    let socket = |kind, protocol| unsafe { libc::socket(of, kind | libc::SOCK_CLOEXEC, protocol) };
    let stream = socket(libc::SOCK_STREAM, 0);
    if stream < 0 && of == libc::AF_INET6 && Errno::last() == Errno::EAFNOSUPPORT {
        // This kernel has no IPv6, and so has the jail.
        return None;
    }
    let datagram = socket(libc::SOCK_DGRAM, 0);
    if stream < 0 || datagram < 0 {
        return Some(Through::NoSocket);
    }
    let refused = |answer: isize| answer < 0 && Errno::last() == Errno::EPERM;
    // SAFETY: the address is a value of the size given, which the kernel only reads.
    if !refused(unsafe { libc::connect(stream, address, size) } as isize) {
        return Some(Through::Act(0));
    }
    // SAFETY: as above.
    if !refused(unsafe { libc::bind(stream, address, size) } as isize) {
        return Some(Through::Act(1));
    }
    // SAFETY: as above, and one byte of static memory.
    if !refused(unsafe { libc::sendto(datagram, c"x".as_ptr().cast(), 1, 0, address, size) }) {
        return Some(Through::Act(2));
    }
    let raw = socket(libc::SOCK_RAW, libc::IPPROTO_UDP);
    (!refused(raw as isize)).then_some(Through::Act(3))
}

/// Opens a file; the error, if it fails.
fn open(path: &CStr) -> Option<Errno> {
    // On the stack: an untouched page of the program is not there for a look at the
    // argument, and the first look is to be proved, too.
    let mut near = [0_u8; PATH_ROOM];
    for (byte, of) in near.iter_mut().zip(path.to_bytes()) {
        *byte = *of;
    }
    let near = std::hint::black_box(&near);
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // Not by the library's open(2), which notes in this thread's memory that it can be cancelled: a thread that dies in
    // the call does not take that back.
    // SAFETY: the path ends in a zero, as it is shorter than its place; the kernel only reads it.
    let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, near.as_ptr(), flags) };
    (opened < 0).then(Errno::last)
}

/// Executes a program; the error, as it returns only when it fails.
fn execute(path: &CStr) -> Option<Errno> {
    let arguments = [path.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: both lists end in a null pointer, and every string in a zero.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    Some(Errno::last())
}

/// Executes what a descriptor holds; returns only when that fails.
fn execute_descriptor(program: RawFd) {
    let none = [std::ptr::null::<libc::c_char>()];
    let (empty, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
    // SAFETY: both lists end in a null pointer, and the path in a zero.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program,
            empty,
            none.as_ptr(),
            none.as_ptr(),
            flags,
        )
    };
}
