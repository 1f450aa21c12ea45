//! The hooks about names and attributes of files, which have a program on either tier.
//!
//! On one BPF LSM asks, and heeds the answer. On the other, where the kernel has trampolines, the same is asked at the
//! entry of the function by which the kernel asks its security modules: nobody heeds the answer there, so the end of
//! the call kills for what was found here.

use aya_ebpf::macros::{fentry, lsm};
use aya_ebpf::programs::{FEntryContext, LsmContext};

use turnkey_abi::column;
use turnkey_abi::syscalls::{class, on};

use super::ask_with;
use crate::change::{Act, Link, column_of, hook, make_hook};
use crate::class_of;
use crate::exec;
use crate::mounts;
use crate::path::{self, Place};
use crate::read;

/// Arguments of a hook, whichever way it is asked.
trait Asked {
    /// The argument of this index.
    fn word(&self, index: usize) -> u64;
}

impl Asked for LsmContext {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.arg(index)
    }
}

impl Asked for FEntryContext {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.arg(index)
    }
}

/// Makes the two programs of a hook, of which the answer is a function of its arguments.
macro_rules! on_both_tiers {
    ($answer:ident, $hook:literal, $lsm:ident, $function:literal, $entry:ident) => {
        // int hook(…): the prototype stands above the function that answers.
        #[lsm(hook = $hook)]
        fn $lsm(context: LsmContext) -> i32 {
            $answer(&context)
        }

        // int security_hook(…): the same arguments.
        #[fentry(function = $function)]
        fn $entry(context: FEntryContext) -> i32 {
            let _ = $answer(&context);
            0
        }
    };
}

/// Asks about a change of names or attributes.
#[inline(always)]
fn ask_change(on: u8, object: Place, new: Option<Place>) -> i32 {
    ask_about(&Act {
        on,
        own: column_of(on),
        object,
        new,
        exchange: false,
    })
}

/// Asks about a change that has a kind by itself.
#[inline(always)]
fn ask_own(on: u8, own: u8, object: Place) -> i32 {
    ask_about(&Act {
        on,
        own: column::own(own),
        object,
        new: None,
        exchange: false,
    })
}

#[inline(always)]
fn ask_about(act: &Act) -> i32 {
    ask_with(|scratch, jail, who| hook(scratch, jail, who, act))
}

/// Asks about making or emptying what is at a place, by a call of a kind.
#[inline(always)]
fn ask_write(place: Place, own: u8) -> i32 {
    let own = column::own(own);
    ask_with(|scratch, jail, who| make_hook(scratch, jail, who, (place, None, own)))
}

// int path_link(struct dentry *old_dentry, const struct path *new_dir, struct dentry *new_dentry)
#[inline(always)]
fn path_link(asked: &impl Asked) -> i32 {
    // Both are on one mount, or the kernel would not have come here.
    let (directory, object, new) = (asked.word(1), asked.word(0), asked.word(2));
    let new = Place::entry(directory, new);
    ask_change(on::LINK, Place::entry(directory, object), Some(new))
}

// int path_rename(const struct path *old_dir, struct dentry *old, const struct path *new_dir, struct dentry *new, …)
#[inline(always)]
fn path_rename(asked: &impl Asked) -> i32 {
    // `unsigned int flags` is the last one: RENAME_EXCHANGE.
    const EXCHANGE: u32 = 2;
    let flags = asked.word(4) as u32;
    ask_about(&Act {
        on: on::RENAME,
        own: column_of(on::RENAME),
        object: Place::entry(asked.word(0), asked.word(1)),
        new: Some(Place::entry(asked.word(2), asked.word(3))),
        exchange: flags & EXCHANGE != 0,
    })
}

// int path_unlink(const struct path *dir, struct dentry *dentry)
#[inline(always)]
fn path_unlink(asked: &impl Asked) -> i32 {
    let object = Place::entry(asked.word(0), asked.word(1));
    ask_change(on::UNLINK, object, None)
}

// int path_rmdir(const struct path *dir, struct dentry *dentry)
#[inline(always)]
fn path_rmdir(asked: &impl Asked) -> i32 {
    let object = Place::entry(asked.word(0), asked.word(1));
    ask_own(on::UNLINK, on::RMDIR, object)
}

// int path_chmod(const struct path *path, umode_t mode)
#[inline(always)]
fn path_chmod(asked: &impl Asked) -> i32 {
    ask_change(on::CHMOD, Place::at(asked.word(0)), None)
}

// int path_chown(const struct path *path, kuid_t uid, kgid_t gid)
#[inline(always)]
fn path_chown(asked: &impl Asked) -> i32 {
    ask_own(on::CHMOD, on::CHOWN, Place::at(asked.word(0)))
}

/// Asks about a change of the file of a directory entry, with the column of the call's own kind. What the kernel does to
/// a file for itself, such as overlayfs to the one behind the one that was changed, was asked about before.
#[inline(always)]
fn ask_of_entry(on: u8, own: u32, dentry: u64) -> i32 {
    ask_with(|scratch, jail, who| {
        if path::acts_for_the_kernel(who.task) {
            return true;
        }
        let act = Act {
            on,
            own,
            object: mounts::place_of(scratch, who.task, dentry),
            new: None,
            exchange: false,
        };
        hook(scratch, jail, who, &act)
    })
}

/// Asks about an extended attribute, by the kernel's copy of its name: an access control list is a mode.
#[inline(always)]
fn ask_attribute(dentry: u64, name: u64) -> i32 {
    if read::kernel::<[u8; 16]>(name) == *b"system.posix_acl" {
        ask_of_entry(on::CHMOD, column::CHMOD, dentry)
    } else {
        ask_of_entry(on::ATTRIBUTE, column::own(on::XATTR), dentry)
    }
}

// int inode_set_acl(struct mnt_idmap *idmap, struct dentry *dentry, const char *acl_name, struct posix_acl *kacl)
#[inline(always)]
fn inode_set_acl(asked: &impl Asked) -> i32 {
    ask_of_entry(on::CHMOD, column::CHMOD, asked.word(1))
}

// int inode_remove_acl(struct mnt_idmap *idmap, struct dentry *dentry, const char *acl_name)
#[inline(always)]
fn inode_remove_acl(asked: &impl Asked) -> i32 {
    ask_of_entry(on::CHMOD, column::CHMOD, asked.word(1))
}

// int inode_setxattr(struct mnt_idmap *idmap, struct dentry *dentry, const char *name, …): before Linux 6.2, lists too
#[inline(always)]
fn inode_setxattr(asked: &impl Asked) -> i32 {
    ask_attribute(asked.word(1), asked.word(2))
}

// int inode_removexattr(struct mnt_idmap *idmap, struct dentry *dentry, const char *name): before Linux 6.2, lists too
#[inline(always)]
fn inode_removexattr(asked: &impl Asked) -> i32 {
    ask_attribute(asked.word(1), asked.word(2))
}

// int path_truncate(const struct path *path): before Linux 6.2, by a descriptor too
#[inline(always)]
fn path_truncate(asked: &impl Asked) -> i32 {
    ask_write(Place::at(asked.word(0)), on::TRUNCATE)
}

// int file_truncate(struct file *file)
#[inline(always)]
fn file_truncate(asked: &impl Asked) -> i32 {
    ask_write(path::place_of(asked.word(0)), on::TRUNCATE)
}

// int path_mknod(const struct path *dir, struct dentry *dentry, umode_t mode, unsigned int dev)
#[inline(always)]
fn path_mknod(asked: &impl Asked) -> i32 {
    ask_write(Place::entry(asked.word(0), asked.word(1)), on::MKNOD)
}

// int path_mkdir(const struct path *dir, struct dentry *dentry, umode_t mode)
#[inline(always)]
fn path_mkdir(asked: &impl Asked) -> i32 {
    ask_write(Place::entry(asked.word(0), asked.word(1)), on::MKDIR)
}

// int path_symlink(const struct path *dir, struct dentry *dentry, const char *old_name)
#[inline(always)]
fn path_symlink(asked: &impl Asked) -> i32 {
    let (directory, entry, aim) = (asked.word(0), asked.word(1), asked.word(2));
    let link = Link {
        directory: Place::at(directory),
        aim,
    };
    let place = Place::entry(directory, entry);
    let own = column::own(on::SYMLINK);
    ask_with(|scratch, jail, who| make_hook(scratch, jail, who, (place, Some(link), own)))
}

on_both_tiers!(
    path_link,
    "path_link",
    lsm_path_link,
    "security_path_link",
    entry_path_link
);
on_both_tiers!(
    path_rename,
    "path_rename",
    lsm_path_rename,
    "security_path_rename",
    entry_path_rename
);
on_both_tiers!(
    path_unlink,
    "path_unlink",
    lsm_path_unlink,
    "security_path_unlink",
    entry_path_unlink
);
on_both_tiers!(
    path_rmdir,
    "path_rmdir",
    lsm_path_rmdir,
    "security_path_rmdir",
    entry_path_rmdir
);
on_both_tiers!(
    path_chmod,
    "path_chmod",
    lsm_path_chmod,
    "security_path_chmod",
    entry_path_chmod
);
on_both_tiers!(
    path_chown,
    "path_chown",
    lsm_path_chown,
    "security_path_chown",
    entry_path_chown
);
on_both_tiers!(
    inode_set_acl,
    "inode_set_acl",
    lsm_inode_set_acl,
    "security_inode_set_acl",
    entry_inode_set_acl
);
on_both_tiers!(
    inode_remove_acl,
    "inode_remove_acl",
    lsm_inode_remove_acl,
    "security_inode_remove_acl",
    entry_inode_remove_acl
);
on_both_tiers!(
    inode_setxattr,
    "inode_setxattr",
    lsm_inode_setxattr,
    "security_inode_setxattr",
    entry_inode_setxattr
);
on_both_tiers!(
    inode_removexattr,
    "inode_removexattr",
    lsm_inode_removexattr,
    "security_inode_removexattr",
    entry_inode_removexattr
);
on_both_tiers!(
    path_truncate,
    "path_truncate",
    lsm_path_truncate,
    "security_path_truncate",
    entry_path_truncate
);
on_both_tiers!(
    file_truncate,
    "file_truncate",
    lsm_file_truncate,
    "security_file_truncate",
    entry_file_truncate
);
on_both_tiers!(
    path_mknod,
    "path_mknod",
    lsm_path_mknod,
    "security_path_mknod",
    entry_path_mknod
);
on_both_tiers!(
    path_mkdir,
    "path_mkdir",
    lsm_path_mkdir,
    "security_path_mkdir",
    entry_path_mkdir
);
on_both_tiers!(
    path_symlink,
    "path_symlink",
    lsm_path_symlink,
    "security_path_symlink",
    entry_path_symlink
);

// int security_bprm_check(struct linux_binprm *bprm): where BPF LSM asks, it has a program of its own, whose answer is heeded.
#[fentry(function = "security_bprm_check")]
fn entry_bprm_check(context: FEntryContext) -> i32 {
    let binprm = context.word(0);
    let _ = ask_with(|scratch, jail, who| {
        exec::entry_hook(scratch, jail, who, binprm);
        true
    });
    0
}

/// True in a call that changes a file's times, which is one of several that set attributes of an inode.
#[inline(always)]
fn changes_times() -> bool {
    let call = class_of(read::current_registers());
    matches!(call, class::TIMES | class::TIMESAT)
}

// int security_inode_setattr(struct mnt_idmap *idmap, struct dentry *dentry, struct iattr *attr): the hook that it asks
// has no `idmap` before Linux 6.9, so that both tiers are asked here. No rule can deny what it decides on.
#[fentry(function = "security_inode_setattr")]
fn entry_inode_setattr(context: FEntryContext) -> i32 {
    if changes_times() {
        let _ = ask_of_entry(on::ATTRIBUTE, column::own(on::UTIMENS), context.word(1));
    }
    0
}
