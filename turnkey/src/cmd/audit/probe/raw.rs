//! Calls that no library wraps, each with arguments that the kernel refuses once it has asked for the right to make it.

#![expect(unsafe_code, reason = "system calls by their number")]

use std::io::Error;

use nix::libc;

use crate::cmd::audit::finding::Finding;

/// Makes a call with these arguments and says how the kernel took it: an error that speaks of a right or of a call that is
/// not there stops, every other answer is open.
pub fn asked(number: libc::c_long, arguments: [usize; 5]) -> Finding {
    let [a, b, c, d, e] = arguments;
    // SAFETY: callers pass numbers and null pointers alone, which the kernel checks.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e) };
    if answer >= 0 {
        close(number, answer);
        return Finding::open("the call is made");
    }
    let error = Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Finding::stopped(error.to_string()),
        _ => Finding::open(format!("refused for its arguments alone: {error}")),
    }
}

/// Closes the descriptor that some calls answer.
fn close(number: libc::c_long, answer: libc::c_long) {
    let descriptors = [
        libc::SYS_userfaultfd,
        libc::SYS_memfd_create,
        libc::SYS_io_uring_setup,
    ];
    if let (true, Ok(descriptor)) = (descriptors.contains(&number), i32::try_from(answer)) {
        // SAFETY: the call has just made it, and nothing else knows it.
        unsafe { libc::close(descriptor) };
    }
}

/// The kernel's log, as far as it can be read: syslog(2), SYSLOG_ACTION_SIZE_UNREAD and a read of a few bytes.
pub fn kernel_log() -> Result<String, Error> {
    const READ_ALL: libc::c_int = 3;
    let mut text = [0_u8; 256];
    let length = libc::c_int::try_from(text.len()).unwrap_or_default();
    // SAFETY: the buffer has the length that is told.
    let read = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast(), length) };
    match usize::try_from(read) {
        Ok(read) => Ok(format!("{read} bytes of it")),
        Err(_) => Err(Error::last_os_error()),
    }
}

/// Runs a program that is in memory alone: fexecve(3) of a descriptor.
pub fn execute(descriptor: &impl std::os::fd::AsRawFd) -> Error {
    let argument = c"true".as_ptr();
    let arguments = [argument, std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: both lists end with a null pointer, and live until the call returns.
    unsafe {
        libc::fexecve(
            descriptor.as_raw_fd(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    Error::last_os_error()
}

/// Memory that can be written and executed at the same time: mmap(2).
pub fn writable_code() -> Result<String, Error> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping that nothing else uses.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: the mapping that was just made.
    unsafe { libc::munmap(mapped, 4096) };
    Ok("a page of it".into())
}

/// Reads memory of another process: process_vm_readv(2) of no bytes, which still asks for the right.
pub fn reads_memory(process: i32) -> Result<String, Error> {
    let mut byte = 0_u8;
    let local = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // An address that holds nothing: EFAULT says that the right was there.
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(8),
        iov_len: 1,
    };
    // SAFETY: the local buffer has the length that is told; the remote one is another process's to check.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    let error = Error::last_os_error();
    match (read, error.raw_os_error()) {
        (0.., _) | (_, Some(libc::EFAULT)) => Ok(format!("of process {process}")),
        _ => Err(error),
    }
}

/// Counts what the kernel does for this process: perf_event_open(2) of a software clock that leaves nothing out.
pub fn counts_events() -> Result<String, Error> {
    /// PERF_TYPE_SOFTWARE, and the size of the first version of `struct perf_event_attr`.
    const SOFTWARE: u32 = 1;
    const SIZE: u32 = 64;
    let mut attributes = [0_u32; 16];
    (attributes[0], attributes[1]) = (SOFTWARE, SIZE);
    let [nobody, nothing] = [-1_i64; 2];
    // SAFETY: the attributes have the size that they tell, and live until the call returns.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            0,
            nobody,
            nothing,
            0,
        )
    };
    match i32::try_from(opened) {
        Ok(descriptor) if descriptor >= 0 => {
            // SAFETY: the call has just made it, and nothing else knows it.
            unsafe { libc::close(descriptor) };
            Ok("the clock of a CPU".into())
        }
        _ => Err(Error::last_os_error()),
    }
}

/// A socket of a family can be made, of any type.
pub fn socket_of(family: libc::c_int) -> bool {
    let types = [
        libc::SOCK_RAW,
        libc::SOCK_DGRAM,
        libc::SOCK_SEQPACKET,
        libc::SOCK_STREAM,
    ];
    types.into_iter().any(|kind| {
        // SAFETY: no pointers.
        let socket = unsafe { libc::socket(family, kind, 0) };
        if socket >= 0 {
            // SAFETY: the call has just made it, and nothing else knows it.
            unsafe { libc::close(socket) };
        }
        socket >= 0
    })
}

/// A raw socket can be made: socket(2).
pub fn raw_socket(family: libc::c_int, protocol: libc::c_int) -> Result<(), Error> {
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(family, libc::SOCK_RAW, protocol) };
    if socket < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nothing else knows it.
    unsafe { libc::close(socket) };
    Ok(())
}

/// The beginning of whatever a descriptor is open on: pread(2).
pub fn read_descriptor(descriptor: libc::c_int) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0_u8; 256];
    // SAFETY: the buffer has the length that is told; a descriptor that is not open is an error.
    let read = unsafe { libc::pread(descriptor, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    bytes.truncate(usize::try_from(read).map_err(|_| Error::last_os_error())?);
    Ok(bytes)
}
