//! The hooks of BPF LSM: which there are, which this kernel has.

use std::path::Path;

use aya::BtfError;
use aya::programs::links::FdLink;
use aya::programs::{Lsm, ProgramError};
use turnkey_abi::column;
use turnkey_policy::AttemptKind;

use crate::btf;
use crate::compile::Rules;
use crate::load::Object;
use crate::load::program;
use crate::open::{OpenError, explain_program, pin_failed, read_btf};

/// A hook and the program for it.
struct Hook {
    /// The kernel's name, as in `linux/lsm_hook_defs.h`.
    name: &'static str,
    /// The program's name in the object.
    program: &'static str,
    /// Condition under which the hook has an answer.
    need: Need,
}

/// Conditions under which a hook has an answer to give. A hook that could only ever say yes is left out: it would cost
/// the whole host.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// Without it there is no such tier.
    Tier,
    /// In every jail, whatever the rules.
    Always,
    /// Some rule speaks of one of these columns of the paths.
    Columns(&'static [u32]),
    /// Some rule speaks of memory that is made executable.
    Map,
    /// A rule refuses this kind, and the filter lets calls of it come so far.
    Kind(AttemptKind),
}

/// A table of hooks. The program for each is named after it.
macro_rules! hooks {
    ($($name:ident $need:expr,)*) => {
        &[$(Hook {
            name: stringify!($name),
            program: concat!("lsm_", stringify!($name)),
            need: $need,
        },)*]
    };
}

/// Every hook that the object has a program for.
const HOOKS: &[Hook] = hooks! {
    file_open Need::Tier,
    bprm_check_security Need::Tier,
    file_receive Need::Always,
    path_link Need::Columns(&[column::LINK, column::AWAY]),
    path_rename Need::Columns(&[column::RENAME, column::AWAY]),
    path_unlink Need::Columns(&[column::UNLINK, column::WRITE]),
    path_rmdir Need::Columns(&[column::UNLINK]),
    path_chmod Need::Columns(&[column::CHMOD]),
    path_chown Need::Columns(&[column::CHMOD]),
    inode_set_acl Need::Columns(&[column::CHMOD]),
    inode_remove_acl Need::Columns(&[column::CHMOD]),
    inode_setxattr Need::Columns(&[column::CHMOD]),
    inode_removexattr Need::Columns(&[column::CHMOD]),
    path_truncate Need::Columns(&[column::WRITE]),
    path_mknod Need::Columns(&[column::WRITE]),
    path_mkdir Need::Columns(&[column::WRITE]),
    path_symlink Need::Columns(&[column::WRITE]),
    mmap_file Need::Map,
    file_mprotect Need::Map,
    socket_create Need::Always,
    socket_listen Need::Always,
    unix_stream_connect Need::Always,
    unix_may_send Need::Always,
    task_kill Need::Always,
    ptrace_access_check Need::Kind(AttemptKind::Ptrace),
    ptrace_traceme Need::Kind(AttemptKind::Ptrace),
    task_fix_setuid Need::Kind(AttemptKind::Setuid),
    task_fix_setgid Need::Kind(AttemptKind::Setuid),
    capset Need::Kind(AttemptKind::Setuid),
    sb_mount Need::Kind(AttemptKind::Mount),
    sb_umount Need::Kind(AttemptKind::Mount),
    sb_pivotroot Need::Kind(AttemptKind::Mount),
    move_mount Need::Kind(AttemptKind::Mount),
    userns_create Need::Kind(AttemptKind::Namespace),
    bpf Need::Kind(AttemptKind::Bpf),
    perf_event_open Need::Kind(AttemptKind::Bpf),
    kernel_read_file Need::Kind(AttemptKind::Module),
    kernel_load_data Need::Kind(AttemptKind::Module),
    key_alloc Need::Kind(AttemptKind::Keyring),
    key_permission Need::Kind(AttemptKind::Keyring),
    uring_sqpoll Need::Kind(AttemptKind::IoUring),
    uring_cmd Need::Kind(AttemptKind::IoUring),
    uring_override_creds Need::Kind(AttemptKind::IoUring),
    uring_allowed Need::Kind(AttemptKind::IoUring),
};

/// The hooks that answer, and those that this kernel does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Attached.
    pub attached: Vec<&'static str>,
    /// Unknown to the kernel: what they would guard is left to the other layers.
    pub missing: Vec<&'static str>,
}

impl Hooks {
    /// The hooks that the running kernel could be asked by, whatever the rules, and those that it
    /// does not have. Nothing is attached.
    ///
    /// # Errors
    /// When the kernel does not describe itself.
    pub fn here() -> Result<KnownHooks, OpenError> {
        let functions: Vec<_> = HOOKS.iter().map(function).collect();
        let known = btf::has_functions(&read_btf()?, &functions)?;
        let missing = HOOKS.iter().zip(&known).filter(|(_, known)| !**known);
        Ok(KnownHooks {
            all: HOOKS.len(),
            missing: missing.map(|(hook, _)| hook.name).collect(),
        })
    }
}

/// Hooks of the monitor's programs that the kernel has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHooks {
    /// Number of hooks that there are programs for.
    pub all: usize,
    /// Names of the hooks that the kernel does not have.
    pub missing: Vec<&'static str>,
}

/// The kernel's function that a program for the hook is attached to.
fn function(hook: &Hook) -> String {
    format!("bpf_lsm_{}", hook.name)
}

/// Loads and attaches a program for each hook that the rules need and the kernel has.
pub(crate) fn attach(object: &mut Object, rules: &Rules) -> Result<Hooks, OpenError> {
    let mut hooks = Hooks::default();
    for hook in HOOKS.iter().filter(|hook| rules.need(hook.need)) {
        match load(object, hook)? {
            Some(program) => {
                program
                    .attach()
                    .map_err(|source| explain_program(hook.program, source))?;
                hooks.attached.push(hook.name);
            }
            None => hooks.missing.push(hook.name),
        }
    }
    Ok(hooks)
}

/// Loads and attaches a program for each hook that the kernel has, until the links are taken out of
/// this directory. The programs' names.
pub(crate) fn attach_all_in(
    object: &mut Object,
    links: &Path,
) -> Result<Vec<&'static str>, OpenError> {
    let mut attached = Vec::new();
    for hook in HOOKS {
        let Some(program) = load(object, hook)? else {
            continue;
        };
        let link = program
            .attach()
            .and_then(|id| program.take_link(id))
            .map_err(|source| explain_program(hook.program, source))?;
        let path = links.join(hook.program);
        FdLink::from(link).pin(&path).map_err(pin_failed(&path))?;
        attached.push(hook.program);
    }
    Ok(attached)
}

/// Of the hooks that are asked, those that the rules need.
pub(crate) fn needed(rules: &Rules, asked: &[String]) -> Hooks {
    let needed = HOOKS.iter().filter(|hook| rules.need(hook.need));
    let (attached, missing): (Vec<_>, Vec<_>) = needed
        .map(|hook| hook.name)
        .partition(|name| asked.iter().any(|asked| asked == name));
    Hooks { attached, missing }
}

/// Loads the program for a hook; `None` when the kernel does not have that hook, and the tier can do
/// without.
fn load<'a>(object: &'a mut Object, hook: &Hook) -> Result<Option<&'a mut Lsm>, OpenError> {
    let program: &mut Lsm = program(&mut object.ebpf, hook.program)?;
    match program.load(hook.name, &object.btf) {
        Ok(()) => Ok(Some(program)),
        Err(error) if is_unknown(&error) && !matches!(hook.need, Need::Tier) => Ok(None),
        Err(error) => Err(explain_program(hook.program, error)),
    }
}

/// True when the kernel does not have the function that a program for the hook is attached to.
fn is_unknown(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::Btf(BtfError::UnknownBtfTypeName { .. })
    )
}
