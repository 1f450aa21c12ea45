//! Room for the descriptors of a run: the monitor takes a hundred, each connection two, each listener one.

use std::os::unix::net::UnixDatagram;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The number of a descriptor beyond those that most runs need.
const BEYOND: i32 = 255;

/// Raises the limit of open files as far as this process may. The programs in jails have limits of their own.
pub fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Refused, there is as much room as before; who needs more is told when it runs out.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Raises the limit of open files, and has the kernel make its table of them for this process as large as a run needs. Call it before there
/// is a second thread: the table of several grows only after an RCU grace period, milliseconds each time (`expand_fdtable()` in the
/// kernel's `fs/file.c`).
pub fn make_room() {
    raise_limit();
    // A limit that is lower has no larger table either.
    if let Ok(any) = UnixDatagram::unbound() {
        let _ = rustix::io::fcntl_dupfd_cloexec(any, BEYOND);
    }
}
