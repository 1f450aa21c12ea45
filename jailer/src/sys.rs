//! The syscalls that no library offers without allocating, locking or caching: one thin function each.
//!
//! # Safety
//!
//! This is the only file of the crate with `unsafe`. Everything exported is safe to call: pointers
//! that reach the kernel come from references that live across the call, lengths from the slices
//! they belong to, and descriptors that are returned are owned from that moment on. The functions
//! neither allocate nor lock, so a child made by [`clone3`] in a process with other threads may
//! call them.

#![expect(unsafe_code, reason = "system calls that nix does not wrap")]

mod mount;
mod process;
pub mod scheduling;
mod socket;
pub mod timer;
pub mod trace;

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

use crate::host::kernel;
use crate::process::start_memory::StartMemory;

pub use mount::{MountAttributes, attach, clone_tree, mount_setattr, new_mount};
pub use process::{
    ChildUsage, block_only, death_signal, default_signals, ended, kill, signal, wait,
    wait_for_the_end,
};
pub use socket::{passed, peer_groups, receive_with, send_with};
pub use turnkey_vfork::VforkHelper;

/// The result of every call here.
pub type Result<T> = std::result::Result<T, Errno>;

/// A word for the kernel: every argument of a syscall is one register.
type Word = libc::c_long;

fn word(value: usize) -> Word {
    // Registers have no sign; the pattern of bits is what counts.
    value.cast_signed() as Word
}

fn word_of_bits(value: u64) -> Word {
    value.cast_signed()
}

/// Issues a syscall and turns a negative answer into its errno.
fn call(number: Word, arguments: [Word; 6]) -> Result<Word> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the callers in this file pass pointers made from references that outlive the call,
    // with the lengths of what they point to; see the header.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer < 0 {
        Err(Errno::last())
    } else {
        Ok(answer)
    }
}

fn owned(answer: Word) -> OwnedFd {
    let descriptor = RawFd::try_from(answer).unwrap_or(RawFd::MAX);
    // SAFETY: the kernel has just made this descriptor for this process, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn fd(descriptor: BorrowedFd<'_>) -> Word {
    Word::from(descriptor.as_raw_fd())
}

fn as_word(string: &CStr) -> Word {
    word(string.as_ptr() as usize)
}

const CURRENT_DIRECTORY: Word = libc::AT_FDCWD as Word;

/// The two sides that clone3(2) makes.
pub enum CloneSide {
    /// In the new process.
    Child,
    /// In the old one: the new one's id and a descriptor that stands for it.
    Parent {
        /// In the caller's pid namespace.
        pid: libc::pid_t,
        /// pidfd_open(2)
        pidfd: OwnedFd,
    },
}

/// clone3(2): a process of its own memory in new namespaces, born inside `cgroup`.
///
/// The child runs on a copy of the caller's stack. It must not return from the function that
/// called this: it confines itself and ends in execve(2) or exit.
pub fn clone3(namespaces: u64, cgroup: Option<BorrowedFd<'_>>) -> Result<CloneSide> {
    let mut pidfd: RawFd = -1;
    // SAFETY: `clone_args` is a struct of integers, for which zero is a valid value.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = namespaces | libc::CLONE_PIDFD as u64;
    arguments.pidfd = (&raw mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= kernel::CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or(u64::MAX);
    }
    let size = word(std::mem::size_of::<libc::clone_args>());
    let answer = call(
        libc::SYS_clone3,
        [word((&raw const arguments) as usize), size, 0, 0, 0, 0],
    )?;
    if answer == 0 {
        return Ok(CloneSide::Child);
    }
    let pid = libc::pid_t::try_from(answer).unwrap_or(-1);
    Ok(CloneSide::Parent {
        pid,
        pidfd: owned(Word::from(pidfd)),
    })
}

/// fork without the C library's handlers; `None` in the child.
pub fn fork() -> Result<Option<libc::pid_t>> {
    let answer = call(libc::SYS_clone, [Word::from(libc::SIGCHLD), 0, 0, 0, 0, 0])?;
    Ok((answer != 0).then(|| libc::pid_t::try_from(answer).unwrap_or(-1)))
}

/// _exit(2) of the whole process, running nothing.
pub fn exit(status: i32) -> ! {
    // SAFETY: `_exit` takes no pointer and does not return.
    unsafe { libc::_exit(status) }
}

/// Starts a process in this one's memory, beside it: `function` may neither allocate nor lock nor unwind, and makes
/// its system calls by `rustix`.
pub fn start_helper<T: Sync + 'static>(
    flags: i32,
    function: fn(&T) -> !,
    argument: T,
) -> Result<VforkHelper<T>> {
    // SAFETY: those that are started, the keeper, the holder of an id map and who closes what others have queued, wait on a pipe or for a
    // word of memory, remove directories and exit, with nothing but what was made before them.
    unsafe { VforkHelper::start(flags, function, argument) }
}

/// The rules by which [`open_beneath`] follows a path.
#[repr(C)]
#[derive(Clone, Copy)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// openat2(2) with `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS` and `RESOLVE_NO_MAGICLINKS`: what the
/// path names below `directory`, or nothing. `path` may be `.`.
pub fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
    mode: u32,
) -> Result<OwnedFd> {
    open_how(
        fd(directory),
        path,
        flags,
        mode,
        libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    )
}

/// The same with `RESOLVE_NO_XDEV`: what lies on another mount is not there.
pub fn open_on_same_mount(directory: BorrowedFd<'_>, path: &CStr, flags: i32) -> Result<OwnedFd> {
    let resolve = libc::RESOLVE_BENEATH
        | libc::RESOLVE_NO_SYMLINKS
        | libc::RESOLVE_NO_MAGICLINKS
        | libc::RESOLVE_NO_XDEV;
    open_how(fd(directory), path, flags, 0, resolve)
}

/// openat2(2) with `RESOLVE_IN_ROOT` and `RESOLVE_NO_MAGICLINKS`: what the path names for who has
/// `root` as root, symlinks followed.
pub fn open_in_root(root: BorrowedFd<'_>, path: &CStr, flags: i32) -> Result<OwnedFd> {
    let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    open_how(fd(root), path, flags, 0, resolve)
}

/// True when overlayfs has marked this directory of an upper side as hiding what lies below it:
/// fgetxattr(2) of `user.overlay.opaque`.
pub fn is_opaque(directory: BorrowedFd<'_>) -> bool {
    let mut value = [0_u8; 1];
    let name = as_word(c"user.overlay.opaque");
    let place = word(value.as_mut_ptr() as usize);
    let length = call(
        libc::SYS_fgetxattr,
        [fd(directory), name, place, word(value.len()), 0, 0],
    );
    length == Ok(1) && value == *b"y"
}

/// Marks a directory so: fsetxattr(2).
pub fn set_opaque(directory: BorrowedFd<'_>) -> Result<()> {
    let value = b"y";
    let (name, place) = (
        as_word(c"user.overlay.opaque"),
        word(value.as_ptr() as usize),
    );
    let arguments = [fd(directory), name, place, word(value.len()), 0, 0];
    call(libc::SYS_fsetxattr, arguments).map(drop)
}

/// openat2(2) of one name in `directory` as a handle; a symlink is not followed but opened itself.
pub fn open_name(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    open_how(fd(directory), name, flags, 0, libc::RESOLVE_NO_MAGICLINKS)
}

/// openat2(2) of an absolute path without following any symlink on the way.
pub fn open_without_symlinks(path: &CStr, flags: i32) -> Result<OwnedFd> {
    open_how(
        CURRENT_DIRECTORY,
        path,
        flags,
        0,
        libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    )
}

/// openat2(2) of an absolute path, following symlinks as the user meant them.
pub fn open_following(path: &CStr, flags: i32) -> Result<OwnedFd> {
    open_how(
        CURRENT_DIRECTORY,
        path,
        flags,
        0,
        libc::RESOLVE_NO_MAGICLINKS,
    )
}

fn open_how(directory: Word, path: &CStr, flags: i32, mode: u32, resolve: u64) -> Result<OwnedFd> {
    let how = OpenHow {
        flags: u64::from((flags | libc::O_CLOEXEC).cast_unsigned()),
        mode: u64::from(mode),
        resolve,
    };
    let size = word(std::mem::size_of::<OpenHow>());
    call(
        libc::SYS_openat2,
        [
            directory,
            as_word(path),
            word((&raw const how) as usize),
            size,
            0,
            0,
        ],
    )
    .map(owned)
}

/// fcntl(2) `F_DUPFD_CLOEXEC` of a descriptor that is known by its number alone; `EBADF` for one that is closed
/// on exec, and so was opened by this very process.
pub fn duplicate_inherited(number: RawFd) -> Result<OwnedFd> {
    let number = Word::from(number);
    let fcntl = |operation, argument| {
        let arguments = [number, Word::from(operation), argument, 0, 0, 0];
        call(libc::SYS_fcntl, arguments)
    };
    if fcntl(libc::F_GETFD, 0)? & Word::from(libc::FD_CLOEXEC) != 0 {
        return Err(Errno::EBADF);
    }
    fcntl(libc::F_DUPFD_CLOEXEC, 3).map(owned)
}

/// True when execve(2) distrusts what this process was started with: getauxval(3) `AT_SECURE`. It does
/// when the file carries rights that its caller has not, and when a security module says so.
pub fn is_secure_mode() -> bool {
    // SAFETY: `getauxval` takes a number and reads what the kernel put beside the environment.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Sets every user id of this task. The C library's version would wait for threads that a
/// cloned child does not have.
pub fn become_user(id: u32) -> Result<()> {
    let id = Word::from(id);
    call(libc::SYS_setresuid, [id, id, id, 0, 0, 0]).map(drop)
}

/// Sets the effective user id of this thread alone, and no other: the C library's version would
/// change every thread of the process.
pub fn act_as_user(id: u32) -> Result<()> {
    let same = Word::from(-1);
    call(libc::SYS_setresuid, [same, Word::from(id), same, 0, 0, 0]).map(drop)
}

/// Empties the supplementary groups of this task.
pub fn leave_groups() -> Result<()> {
    call(libc::SYS_setgroups, [0, 0, 0, 0, 0, 0]).map(drop)
}

/// Sets every group id of this task.
pub fn become_group(id: u32) -> Result<()> {
    let id = Word::from(id);
    call(libc::SYS_setresgid, [id, id, id, 0, 0, 0]).map(drop)
}

/// prctl(2) with one argument.
pub fn prctl(option: i32, argument: u64) -> Result<i32> {
    let answer = call(
        libc::SYS_prctl,
        [Word::from(option), word_of_bits(argument), 0, 0, 0, 0],
    )?;
    Ok(i32::try_from(answer).unwrap_or(i32::MAX))
}

/// Empties the ambient set: prctl(2) `PR_CAP_AMBIENT_CLEAR_ALL`.
pub fn clear_ambient() -> Result<()> {
    let option = Word::from(libc::PR_CAP_AMBIENT);
    call(
        libc::SYS_prctl,
        [
            option,
            Word::from(libc::PR_CAP_AMBIENT_CLEAR_ALL),
            0,
            0,
            0,
            0,
        ],
    )
    .map(drop)
}

/// The capabilities of a task: two `cap_user_data_t` of capget(2), all bits that the kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySets([u32; 6]);

/// `cap_user_header_t` of capget(2) for this task, with bits for more than 32 capabilities.
const CAPABILITIES_OF_THIS_TASK: [u32; 2] = [0x2008_0522, 0];

/// capget(2) of this task.
pub fn capabilities() -> Result<CapabilitySets> {
    let mut header = CAPABILITIES_OF_THIS_TASK;
    let mut data = CapabilitySets::default();
    let header = word(header.as_mut_ptr() as usize);
    let place = word(data.0.as_mut_ptr() as usize);
    call(libc::SYS_capget, [header, place, 0, 0, 0, 0]).map(|_| data)
}

/// capset(2) of this task: permitted, effective and inheritable.
pub fn set_capabilities(data: CapabilitySets) -> Result<()> {
    let mut header = CAPABILITIES_OF_THIS_TASK;
    let header = word(header.as_mut_ptr() as usize);
    let place = word(data.0.as_ptr() as usize);
    call(libc::SYS_capset, [header, place, 0, 0, 0, 0]).map(drop)
}

/// capset(2): permitted, effective and inheritable become empty.
pub fn drop_capabilities() -> Result<()> {
    set_capabilities(CapabilitySets::default())
}

/// One instruction of a seccomp filter, `struct sock_filter` of linux/filter.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterInstruction {
    /// Operation.
    pub code: u16,
    /// Jump when true.
    pub jt: u8,
    /// Jump when false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

impl FilterInstruction {
    /// As the kernel reads it.
    pub fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.k.to_ne_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }

    /// From what the kernel reads.
    pub fn from_bytes([c0, c1, jt, jf, k0, k1, k2, k3]: [u8; 8]) -> Self {
        Self {
            code: u16::from_ne_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_ne_bytes([k0, k1, k2, k3]),
        }
    }
}

/// seccomp(2) `SECCOMP_SET_MODE_FILTER` for this task. Needs no_new_privs.
pub fn install_filter(program: &[FilterInstruction]) -> Result<()> {
    #[repr(C)]
    struct FilterProgram {
        length: u16,
        instructions: *const FilterInstruction,
    }
    let length = u16::try_from(program.len()).map_err(|_| Errno::E2BIG)?;
    let program = FilterProgram {
        length,
        instructions: program.as_ptr(),
    };
    let mode = Word::from(libc::SECCOMP_SET_MODE_FILTER);
    call(
        libc::SYS_seccomp,
        [mode, 0, word((&raw const program) as usize), 0, 0, 0],
    )
    .map(drop)
}

/// landlock_add_rule(2) for everything beneath `parent`.
pub fn landlock_allow(ruleset: BorrowedFd<'_>, access: u64, parent: BorrowedFd<'_>) -> Result<()> {
    // `struct landlock_path_beneath_attr` of linux/landlock.h, which is packed.
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        parent: i32,
    }
    const PATH_BENEATH: Word = 1;
    let rule = PathBeneath {
        access,
        parent: parent.as_raw_fd(),
    };
    let rule = word((&raw const rule) as usize);
    call(
        libc::SYS_landlock_add_rule,
        [fd(ruleset), PATH_BENEATH, rule, 0, 0, 0],
    )
    .map(drop)
}

/// Overwrites a part of this process's memory that the kernel laid out at its start. Only for the
/// child of a fork, which has memory and no threads of its own.
pub fn overwrite(start: &StartMemory, name: &[u8]) {
    let length = start.end - start.arguments;
    // SAFETY: the kernel put this range on the stack of the process at its start and told of it
    // in /proc/self/stat, which `StartMemory::parse` took in order; the stack's top is never
    // unmapped. No other thread exists in the child that could read the strings.
    let memory = unsafe {
        std::slice::from_raw_parts_mut(
            std::ptr::with_exposed_provenance_mut::<u8>(start.arguments),
            length,
        )
    };
    memory.fill(0);
    let shown = name.len().min(start.environment - start.arguments);
    memory[..shown].copy_from_slice(&name[..shown]);
}

/// The version of landlock_create_ruleset(2)'s ABI, or 0.
pub fn landlock_abi() -> i64 {
    const VERSION: Word = 1;
    call(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0, 0, 0]).unwrap_or(0)
}

/// The errata that Landlock's code on this kernel has mended, one bit each, or 0.
pub fn landlock_errata() -> i64 {
    const ERRATA: Word = 2;
    call(libc::SYS_landlock_create_ruleset, [0, 0, ERRATA, 0, 0, 0]).unwrap_or(0)
}

/// landlock_restrict_self(2). Needs no_new_privs.
pub fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<()> {
    call(
        libc::SYS_landlock_restrict_self,
        [fd(ruleset), 0, 0, 0, 0, 0],
    )
    .map(drop)
}

/// A syscall number that no kernel has, to see what the filter answers to the unknown.
pub const UNKNOWN_SYSCALL: i64 = 9999;

/// Issues [`UNKNOWN_SYSCALL`].
pub fn unknown_syscall() -> Result<()> {
    call(UNKNOWN_SYSCALL, [0; 6]).map(drop)
}

/// ioctl_ns(2): the user who owns a user namespace, as this task's own namespace numbers users.
pub fn owner_of(namespace: BorrowedFd<'_>) -> Result<u32> {
    // `_IO(NSIO, 0x4)` of linux/nsfs.h.
    const NS_GET_OWNER_UID: Word = 0xb704;
    let mut owner = u32::MAX;
    let place = word((&raw mut owner) as usize);
    call(
        libc::SYS_ioctl,
        [fd(namespace), NS_GET_OWNER_UID, place, 0, 0, 0],
    )
    .map(|_| owner)
}

/// Asks for a new user namespace, which the filter must refuse.
pub fn unshare_user() -> Result<()> {
    call(
        libc::SYS_unshare,
        [Word::from(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0],
    )
    .map(drop)
}

/// close_range(2) from `first` on.
pub fn close_from(first: u32) -> Result<()> {
    call(
        libc::SYS_close_range,
        [Word::from(first), Word::from(u32::MAX), 0, 0, 0, 0],
    )
    .map(drop)
}

/// dup3(2) onto a number chosen by the caller; the new descriptor is not closed on drop.
pub fn duplicate_onto(
    descriptor: BorrowedFd<'_>,
    number: RawFd,
    close_on_exec: bool,
) -> Result<()> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    call(
        libc::SYS_dup3,
        [
            fd(descriptor),
            Word::from(number),
            Word::from(flags),
            0,
            0,
            0,
        ],
    )
    .map(drop)
}

/// fcntl(2) `F_DUPFD_CLOEXEC`: a copy numbered `lowest` or higher.
pub fn duplicate_above(descriptor: BorrowedFd<'_>, lowest: RawFd) -> Result<OwnedFd> {
    let command = Word::from(libc::F_DUPFD_CLOEXEC);
    call(
        libc::SYS_fcntl,
        [fd(descriptor), command, Word::from(lowest), 0, 0, 0],
    )
    .map(owned)
}

/// The descriptor with this number, lent. For the numbers that a child has just given out itself.
pub fn lend(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: called by the child only with numbers that it placed with `duplicate_onto` and
    // never closes; a wrong one would give EBADF, not memory errors.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// execve(2). Returns only when it failed.
pub fn execute(
    path: &CStr,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> Errno {
    debug_assert!(arguments.last().is_some_and(|last| last.is_null()));
    debug_assert!(environment.last().is_some_and(|last| last.is_null()));
    let arguments = word(arguments.as_ptr() as usize);
    let environment = word(environment.as_ptr() as usize);
    match call(
        libc::SYS_execve,
        [as_word(path), arguments, environment, 0, 0, 0],
    ) {
        Ok(_) => Errno::UnknownErrno,
        Err(errno) => errno,
    }
}

/// Brings the loopback interface of the current network namespace up.
pub fn loopback_up() -> Result<()> {
    let kind = Word::from(libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    let socket = call(
        libc::SYS_socket,
        [Word::from(libc::AF_INET), kind, 0, 0, 0, 0],
    )
    .map(owned)?;
    // SAFETY: `ifreq` is a struct of integers and a union of them, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed();
    }
    let up = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(up).unwrap_or(0);
    let request = word((&raw const request) as usize);
    call(
        libc::SYS_ioctl,
        [
            fd(socket.as_fd()),
            libc::SIOCSIFFLAGS as Word,
            request,
            0,
            0,
            0,
        ],
    )
    .map(drop)
}
