//! The hooks of BPF LSM: asked before the act, about the object that the kernel resolved.
//!
//! They are attached to the whole host and answer for jails only. An answer of 0 lets the act go on
//! to the next module; the kernel has asked the ones in front of `bpf` in its list before.

use aya_ebpf::macros::lsm;
use aya_ebpf::programs::LsmContext;

use turnkey_abi::syscalls::on;

use crate::code::{self, Code};
use crate::emit::Current;
use crate::read::{self, JailCell, Scratch};
use crate::{emit, exec, finish_off, kinds, network, open, peers};

mod changes;

const EPERM: i32 = 1;
const EAFNOSUPPORT: i32 = 97;

/// PTRACE_MODE_ATTACH of linux/ptrace.h; reading in /proc asks too, and is no attempt.
const PTRACE_MODE_ATTACH: u32 = 2;

/// Asks `hook` when the current task is in a jail that is not condemned.
#[inline(always)]
fn ask(hook: impl FnOnce(JailCell, Current) -> bool) -> i32 {
    let Some(jail) = read::current_jail() else {
        return 0;
    };
    if !finish_off(jail) && hook(jail, emit::current()) {
        0
    } else {
        -EPERM
    }
}

/// As [`ask`], for a wall that every jail has, whatever its rules: a group of others has none.
#[inline(always)]
fn ask_wall(hook: impl FnOnce(JailCell, Current) -> bool) -> i32 {
    ask(|jail, who| read::level() != 0 || hook(jail, who))
}

/// As [`ask`], for hooks that need work memory. If there is none left, the answer is no, unless
/// nothing is to be refused at all.
#[inline(always)]
fn ask_with(hook: impl FnOnce(&mut Scratch, JailCell, Current) -> bool) -> i32 {
    ask(|jail, who| {
        let Some(scratch) = emit::claim(jail) else {
            return !jail.strict();
        };
        let passes = hook(scratch, jail, who);
        read::release(scratch, jail);
        passes
    })
}

// int file_open(struct file *file)
#[lsm(hook = "file_open")]
fn lsm_file_open(context: LsmContext) -> i32 {
    let file = context.arg(0);
    ask_with(|scratch, jail, who| open::hook(scratch, jail, who, file))
}

// int file_receive(struct file *file)
#[lsm(hook = "file_receive")]
fn lsm_file_receive(context: LsmContext) -> i32 {
    let file = context.arg(0);
    ask_with(|scratch, jail, who| open::receive(scratch, jail, who, file))
}

// int bprm_check_security(struct linux_binprm *bprm)
#[lsm(hook = "bprm_check_security")]
fn lsm_bprm_check_security(context: LsmContext) -> i32 {
    let binprm = context.arg(0);
    ask_with(|scratch, jail, who| exec::hook(scratch, jail, who, binprm))
}

// int mmap_file(struct file *file, unsigned long reqprot, unsigned long prot, unsigned long flags)
#[lsm(hook = "mmap_file")]
fn lsm_mmap_file(context: LsmContext) -> i32 {
    let (protection, flags) = (context.arg(2), context.arg(3));
    if !code::is_executable(protection) {
        return 0;
    }
    // Anonymous memory has none.
    let file = read::nullable_argument(&context, 0);
    ask_with(|scratch, jail, who| {
        let code = Code::of_mapping(file, protection, flags);
        code::hook(scratch, jail, who, code, code::is_shared(file, flags))
    })
}

// int file_mprotect(struct vm_area_struct *vma, unsigned long reqprot, unsigned long prot)
#[lsm(hook = "file_mprotect")]
fn lsm_file_mprotect(context: LsmContext) -> i32 {
    let (area, protection) = (context.arg(0), context.arg(2));
    if !code::is_executable(protection) {
        return 0;
    }
    ask_with(|scratch, jail, who| {
        let area = read::area(area);
        let code = Code::of_area(area, protection);
        code::hook(scratch, jail, who, code, !code::is_own(area))
    })
}

// int socket_create(int family, int type, int protocol, int kern)
#[lsm(hook = "socket_create")]
fn lsm_socket_create(context: LsmContext) -> i32 {
    let (family, kind): (u32, u32) = (context.arg(0), context.arg(1));
    let (protocol, of_the_kernel): (u32, u32) = (context.arg(2), context.arg(3));
    if of_the_kernel != 0 || network::has_family(family) {
        return 0;
    }
    let arguments = [u64::from(family), u64::from(kind), u64::from(protocol)];
    let answer = ask_wall(|jail, who| {
        if network::asks_for_own_interfaces(jail, (family, protocol)) {
            return true;
        }
        network::refuse_family(jail, who, arguments);
        false
    });
    // What seccomp answers, and a kernel without the family.
    if answer == 0 { 0 } else { -EAFNOSUPPORT }
}

// int socket_listen(struct socket *sock, int backlog)
#[lsm(hook = "socket_listen")]
fn lsm_socket_listen(context: LsmContext) -> i32 {
    let socket = context.arg(0);
    ask(|jail, who| network::listen_hook(jail, who, socket))
}

// int unix_stream_connect(struct sock *sock, struct sock *other, struct sock *newsk)
#[lsm(hook = "unix_stream_connect")]
fn lsm_unix_stream_connect(context: LsmContext) -> i32 {
    let other = context.arg(1);
    ask_wall(|_, _| peers::is_ours(other))
}

// int unix_may_send(struct socket *sock, struct socket *other)
#[lsm(hook = "unix_may_send")]
fn lsm_unix_may_send(context: LsmContext) -> i32 {
    let other = context.arg(1);
    ask_wall(|_, _| peers::is_ours(peers::sock_of(other)))
}

// int task_kill(struct task_struct *p, struct kernel_siginfo *info, int sig, const struct cred *cred)
#[lsm(hook = "task_kill")]
fn lsm_task_kill(context: LsmContext) -> i32 {
    let target = context.arg(0);
    ask_wall(|_, _| peers::is_neighbour(target))
}

// int ptrace_access_check(struct task_struct *child, unsigned int mode)
#[lsm(hook = "ptrace_access_check")]
fn lsm_ptrace_access_check(context: LsmContext) -> i32 {
    let mode: u32 = context.arg(1);
    ask(|jail, who| mode & PTRACE_MODE_ATTACH == 0 || kinds::hook(jail, who, on::PTRACE))
}

// int ptrace_traceme(struct task_struct *parent)
#[lsm(hook = "ptrace_traceme")]
fn lsm_ptrace_traceme(_context: LsmContext) -> i32 {
    ask(|jail, who| kinds::hook(jail, who, on::PTRACE))
}

// int task_fix_setuid(struct cred *new, const struct cred *old, int flags)
#[lsm(hook = "task_fix_setuid")]
fn lsm_task_fix_setuid(context: LsmContext) -> i32 {
    let (new, old) = (context.arg(0), context.arg(1));
    ask(|jail, who| !kinds::changes_user(new, old) || kinds::hook(jail, who, on::SETUID))
}

// int task_fix_setgid(struct cred *new, const struct cred *old, int flags)
#[lsm(hook = "task_fix_setgid")]
fn lsm_task_fix_setgid(context: LsmContext) -> i32 {
    let (new, old) = (context.arg(0), context.arg(1));
    ask(|jail, who| !kinds::changes_user(new, old) || kinds::hook(jail, who, on::SETUID))
}

// int capset(struct cred *new, const struct cred *old, …)
#[lsm(hook = "capset")]
fn lsm_capset(context: LsmContext) -> i32 {
    let (new, old) = (context.arg(0), context.arg(1));
    ask(|jail, who| !kinds::gains_capability(new, old) || kinds::hook(jail, who, on::SETUID))
}

/// A hook that means one kind of attempt, whatever its arguments.
macro_rules! kind_hook {
    ($name:ident, $hook:literal, $on:expr) => {
        // int hook(…): each stands where the macro is used, and none of its arguments is looked at.
        #[lsm(hook = $hook)]
        fn $name(_context: LsmContext) -> i32 {
            ask(|jail, who| kinds::hook(jail, who, $on))
        }
    };
}

// int sb_mount(const char *dev_name, const struct path *path, …)
kind_hook!(lsm_sb_mount, "sb_mount", on::MOUNT);
// int sb_umount(struct vfsmount *mnt, int flags)
kind_hook!(lsm_sb_umount, "sb_umount", on::MOUNT);
// int sb_pivotroot(const struct path *old_path, const struct path *new_path)
kind_hook!(lsm_sb_pivotroot, "sb_pivotroot", on::MOUNT);
// int move_mount(const struct path *from_path, const struct path *to_path)
kind_hook!(lsm_move_mount, "move_mount", on::MOUNT);
// int userns_create(const struct cred *cred)
kind_hook!(lsm_userns_create, "userns_create", on::NAMESPACE);
// int bpf(int cmd, union bpf_attr *attr, unsigned int size)
kind_hook!(lsm_bpf, "bpf", on::BPF);
// int perf_event_open(struct perf_event_attr *attr, int type)
kind_hook!(lsm_perf_event_open, "perf_event_open", on::BPF);
// int kernel_read_file(struct file *file, enum kernel_read_file_id id, bool contents)
kind_hook!(lsm_kernel_read_file, "kernel_read_file", on::MODULE);
// int kernel_load_data(enum kernel_load_data_id id, bool contents)
kind_hook!(lsm_kernel_load_data, "kernel_load_data", on::MODULE);
// int key_alloc(struct key *key, const struct cred *cred, unsigned long flags)
kind_hook!(lsm_key_alloc, "key_alloc", on::KEYRING);
// int key_permission(key_ref_t key_ref, const struct cred *cred, enum key_need_perm need_perm)
kind_hook!(lsm_key_permission, "key_permission", on::KEYRING);
// int uring_sqpoll(void)
kind_hook!(lsm_uring_sqpoll, "uring_sqpoll", on::IO_URING);
// int uring_cmd(struct io_uring_cmd *ioucmd)
kind_hook!(lsm_uring_cmd, "uring_cmd", on::IO_URING);
// int uring_override_creds(const struct cred *new)
kind_hook!(
    lsm_uring_override_creds,
    "uring_override_creds",
    on::IO_URING
);
// int uring_allowed(void)
kind_hook!(lsm_uring_allowed, "uring_allowed", on::IO_URING);
