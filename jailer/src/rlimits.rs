//! The limits of each process, setrlimit(2), as data.

use nix::sys::resource::Resource;
use turnkey_policy::Limits;

/// One limit; soft and hard are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// `RLIMIT_…`
    pub(crate) resource: Resource,
    /// Its line in `/proc/self/limits`.
    pub name: &'static str,
    /// As setrlimit(2) takes it.
    pub value: u64,
    /// What it is for.
    pub why: &'static str,
}

/// The limits of every process in the jail, in the order they are set.
pub(crate) fn plan(limits: &Limits) -> Vec<ResourceLimit> {
    let one = |resource, name, value, why| ResourceLimit {
        resource,
        name,
        value,
        why,
    };
    vec![
        one(
            Resource::RLIMIT_NOFILE,
            "Max open files",
            u64::from(limits.open_files),
            "descriptors of one process",
        ),
        one(
            Resource::RLIMIT_FSIZE,
            "Max file size",
            limits.file_size,
            "bytes of one file",
        ),
        // do_coredump() in fs/coredump.c: a limit of 0 would still start the host's crash handler.
        one(
            Resource::RLIMIT_CORE,
            "Max core file size",
            1,
            "1 byte is the kernel's sign for no core, not even through a pipe",
        ),
    ]
}
