//! The kernel's hooks: which there are, which this kernel has, and the two ways of being asked by them.

use std::os::fd::{BorrowedFd, OwnedFd};

use aya::BtfError;
use aya::programs::{FEntry, Lsm, ProgramError};
use turnkey_abi::column;
use turnkey_abi::syscalls::on;
use turnkey_policy::AttemptKind;

use crate::btf;
use crate::compile::Rules;
use crate::error::{OpenError, explain_program, read_btf, refused};
use crate::load::{Object, program};
use crate::sys;
use crate::tier::Tier;

/// A hook and the program for it.
struct Hook {
    /// The kernel's name, as in `linux/lsm_hook_defs.h`.
    name: &'static str,
    /// The program's name in the object.
    program: &'static str,
    attachment: HookAttachment,
    /// Condition under which the hook has an answer.
    need: Need,
}

/// Ways in which the kernel asks a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HookAttachment {
    /// As a security module, by BPF LSM: it does what the answer says.
    Module,
    /// At the entry of the function that asks the security modules: nobody heeds the answer.
    Entry,
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
    /// A rule speaks of this kind, and calls of others come there too.
    Spoken(AttemptKind),
}

/// A table of hooks that are asked in one way. The program for each is named after it.
macro_rules! hooks {
    ($prefix:literal $attachment:ident: $($name:ident $need:expr,)*) => {
        &[$(Hook {
            name: stringify!($name),
            program: concat!($prefix, stringify!($name)),
            attachment: HookAttachment::$attachment,
            need: $need,
        },)*]
    };
}

/// Columns of the rules about making a file or writing to it, by whatever call.
const MADE: Need = Need::Columns(&[column::WRITE, column::own(on::MKNOD)]);
/// Columns of the rules about modes and owners, of which access control lists are a way to change.
const ACCESS: Need = Need::Columns(&[column::CHMOD, column::own(on::CHOWN)]);
/// Columns of the rules about extended attributes, of which some are access control lists.
const MARKED: Need = Need::Columns(&[column::CHMOD, column::ATTRIBUTE, column::own(on::XATTR)]);
const EMPTIED: Need = Need::Columns(&[column::WRITE, column::own(on::TRUNCATE)]);
const LINKED: Need = Need::Columns(&[column::LINK, column::AWAY, column::WRITE]);
const RENAMED: Need = Need::Columns(&[column::RENAME, column::AWAY, column::WRITE]);
const UNLINKED: Need = Need::Columns(&[column::UNLINK, column::WRITE]);
const REMOVED: Need = Need::Columns(&[column::UNLINK, column::WRITE, column::own(on::RMDIR)]);
const ENTERED: Need = Need::Columns(&[column::WRITE, column::own(on::MKDIR)]);
const POINTED: Need = Need::Columns(&[
    column::WRITE,
    column::AWAY,
    column::READ,
    column::own(on::SYMLINK),
]);
const TIMED: Need = Need::Columns(&[column::ATTRIBUTE, column::own(on::UTIMENS)]);

/// The hooks about names and attributes, which either tier is asked by in a way of its own.
macro_rules! changes {
    ($prefix:literal $attachment:ident) => {
        hooks! {
            $prefix $attachment:
            path_link LINKED,
            path_rename RENAMED,
            path_unlink UNLINKED,
            path_rmdir REMOVED,
            path_chmod ACCESS,
            path_chown ACCESS,
            inode_set_acl ACCESS,
            inode_remove_acl ACCESS,
            inode_setxattr MARKED,
            inode_removexattr MARKED,
            path_truncate EMPTIED,
            file_truncate EMPTIED,
            path_mknod MADE,
            path_mkdir ENTERED,
            path_symlink POINTED,
        }
    };
}

/// The other hooks by which BPF LSM asks.
const MODULES: &[Hook] = hooks! {
    "lsm_" Module:
    file_open Need::Tier,
    bprm_check_security Need::Tier,
    file_receive Need::Always,
    mmap_file Need::Map,
    file_mprotect Need::Map,
    socket_create Need::Always,
    socket_listen Need::Always,
    unix_stream_connect Need::Always,
    unix_may_send Need::Always,
    task_kill Need::Always,
    ptrace_access_check Need::Spoken(AttemptKind::Ptrace),
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

/// The hooks about names and attributes that are asked at the entry of the kernel's functions, where BPF LSM does not
/// ask.
const ENTRIES: &[Hook] = changes!("entry_" Entry);

/// The same where BPF LSM asks.
const MODULE_CHANGES: &[Hook] = changes!("lsm_" Module);

/// The hooks that are asked so on the tracepoint tier alone.
const EXECUTED: &[Hook] = hooks! {
    "entry_" Entry:
    bprm_check Need::Columns(&[column::EXEC]),
};

/// The hooks that are asked so on either tier: no rule can deny what they decide on.
const TOLD: &[Hook] = hooks! {
    "entry_" Entry:
    inode_setattr TIMED,
};

/// Most hooks that a tier has.
pub(crate) const MOST_HOOKS: u32 = 64;
const _: () = {
    let told = TOLD.len();
    assert!(MODULES.len() + MODULE_CHANGES.len() + told <= MOST_HOOKS as usize);
    assert!(ENTRIES.len() + EXECUTED.len() + told <= MOST_HOOKS as usize);
};

/// Every hook of a tier.
fn hooks_of(tier: Tier) -> impl Iterator<Item = &'static Hook> {
    let own: [&[Hook]; 3] = match tier {
        Tier::Lsm => [MODULES, MODULE_CHANGES, TOLD],
        Tier::Tracepoint => [ENTRIES, EXECUTED, TOLD],
    };
    own.into_iter().flatten()
}

/// The hooks that answer, and those that this kernel does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Attached.
    pub attached: Vec<&'static str>,
    /// Unknown to the kernel, or it lets no program be attached there: what they would guard is left to the other
    /// layers, and on the tracepoint tier to the arguments of the calls.
    pub missing: Vec<&'static str>,
}

impl Hooks {
    /// The hooks that the running kernel could be asked by on the lsm tier, whatever the rules, and those that it
    /// does not have. Nothing is attached.
    ///
    /// # Errors
    /// When the kernel does not describe itself.
    pub fn here() -> Result<KnownHooks, OpenError> {
        let hooks: Vec<_> = hooks_of(Tier::Lsm).collect();
        let functions: Vec<_> = hooks.iter().map(|hook| function(hook)).collect();
        let known = btf::has_functions(&read_btf()?, &functions)?;
        let missing = hooks.iter().zip(&known).filter(|(_, known)| !**known);
        Ok(KnownHooks {
            all: hooks.len(),
            missing: missing.map(|(hook, _)| hook.name).collect(),
        })
    }

    /// True when acts on names are decided on by the kernel's own objects.
    #[must_use]
    pub(crate) fn know_names(&self) -> bool {
        let mut missing = self.missing.iter();
        !self.attached.is_empty() && !missing.any(|hook| hook.starts_with("path_"))
    }

    /// The lack of hooks on a tier, for people; `None` when all that the rules need are there.
    #[must_use]
    pub fn lack(&self, tier: Tier) -> Option<String> {
        match (tier, &*self.attached, &*self.missing) {
            (_, _, []) => None,
            (Tier::Tracepoint, [], _) => Some(String::from(
                "acts on names and attributes of files are known by their arguments alone, as this kernel lets no \
                 program be attached to its functions: a path through a symlink from before the run, or through /proc, \
                 hides the file",
            )),
            (_, _, missing) => Some(format!("this kernel does not have {}", missing.join(", "))),
        }
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
    match hook.attachment {
        HookAttachment::Module => format!("bpf_lsm_{}", hook.name),
        HookAttachment::Entry => format!("security_{}", hook.name),
    }
}

/// Loads a program for each hook of the tier that is wanted, and hands each to `attach`. The others are missing.
fn each(
    object: &mut Object,
    tier: Tier,
    wanted: impl Fn(&Hook) -> bool,
    mut attach: impl FnMut(&mut Object, &'static Hook) -> Result<(), OpenError>,
) -> Result<Hooks, OpenError> {
    let mut hooks = Hooks::default();
    for hook in hooks_of(tier).filter(|hook| wanted(hook)) {
        let is_possible = hook.attachment == HookAttachment::Module || object.takes_entries;
        if is_possible && load(object, hook)? {
            attach(object, hook)?;
            hooks.attached.push(hook.name);
        } else {
            hooks.missing.push(hook.name);
        }
    }
    Ok(hooks)
}

/// Loads and attaches a program for each hook that the rules need and the kernel has.
pub(crate) fn attach(object: &mut Object, rules: &Rules) -> Result<Hooks, OpenError> {
    let wanted = |hook: &Hook| rules.need(hook.need);
    each(object, rules.tier, wanted, |object, hook| {
        let ebpf = &mut object.ebpf;
        let attached = match hook.attachment {
            HookAttachment::Module => program::<Lsm>(ebpf, hook.program)?.attach().map(drop),
            HookAttachment::Entry => program::<FEntry>(ebpf, hook.program)?.attach().map(drop),
        };
        attached.map_err(|source| explain_program(hook.program, source))
    })
}

/// Loads a program for each hook of a tier that the kernel has. The programs' names.
pub(crate) fn load_all(object: &mut Object, tier: Tier) -> Result<Vec<&'static str>, OpenError> {
    let mut loaded = Vec::new();
    each(
        object,
        tier,
        |_| true,
        |_, hook| {
            loaded.push(hook.program);
            Ok(())
        },
    )?;
    Ok(loaded)
}

/// The names of the programs for the hooks of a tier, in an order that stays.
pub(crate) fn programs(tier: Tier) -> impl Iterator<Item = &'static str> {
    hooks_of(tier).map(|hook| hook.program)
}

/// The names of the programs that rules need, whether the kernel has the hooks or not.
pub(crate) fn programs_for(rules: &Rules) -> Vec<&'static str> {
    let needed = hooks_of(rules.tier).filter(|hook| rules.need(hook.need));
    needed.map(|hook| hook.program).collect()
}

/// Has the hook that a program was verified for ask it, as long as the link is open.
pub(crate) fn link(name: &'static str, program: BorrowedFd<'_>) -> Result<OwnedFd, OpenError> {
    let link = sys::link_verified(program);
    link.map_err(|errno| explain_program(name, refused("bpf_raw_tracepoint_open", errno)))
}

/// The programs that the rules need, of those at hooks that are attached for all.
pub(crate) fn needed(rules: &Rules, asked: &[String]) -> Hooks {
    let needed = hooks_of(rules.tier).filter(|hook| rules.need(hook.need));
    let is_asked = |hook: &&Hook| asked.iter().any(|asked| asked == hook.program);
    let (attached, missing): (Vec<_>, Vec<_>) = needed.partition(is_asked);
    let names = |hooks: Vec<&'static Hook>| hooks.iter().map(|hook| hook.name).collect();
    Hooks {
        attached: names(attached),
        missing: names(missing),
    }
}

/// Loads the program for a hook; `false` when the kernel does not have that hook, and the tier can do without.
fn load(object: &mut Object, hook: &Hook) -> Result<bool, OpenError> {
    let Object { ebpf, btf, .. } = object;
    let loaded = match hook.attachment {
        HookAttachment::Module => program::<Lsm>(ebpf, hook.program)?.load(hook.name, btf),
        HookAttachment::Entry => program::<FEntry>(ebpf, hook.program)?.load(&function(hook), btf),
    };
    match loaded {
        Ok(()) => Ok(true),
        Err(error) if is_unknown(&error) && !matches!(hook.need, Need::Tier) => Ok(false),
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
