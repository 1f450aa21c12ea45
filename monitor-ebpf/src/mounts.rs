//! The mount by which a directory entry is reached, which hooks about an inode are not told.

use crate::path::{self, Place};
use crate::read::{self, Scratch, offset};
use crate::verifier::{self, Step};

/// Most mounts and directories that are looked at: what is further behind is on no mount that is known.
const ROUNDS: u32 = 1024;

/// Looks whether a mount is of the entry's file system.
const ARRIVES: u32 = 0;
/// Looks whether a directory above the entry is the top of the mount.
const RISES: u32 = 1;
/// Has looked at all that is mounted below the mount.
const RETURNS: u32 = 2;
/// The mount is found.
const FOUND: u32 = 3;

/// A walk through the mounts of a tree, each before those below it. It is kept in map memory, as counters of loops are:
/// before Linux 6.7 the verifier believes of a loop's values on the stack that one round was all.
#[repr(C)]
pub struct Search {
    /// The addresses of the `struct mount` that the tree begins with, and of the one that is looked at.
    first: u64,
    mount: u64,
    /// The address of the entry, and of the directory above it that is looked at.
    dentry: u64,
    above: u64,
    stage: u32,
}

struct Walk<'a> {
    scratch: &'a mut Scratch,
}

impl Step for Walk<'_> {
    #[inline(always)]
    fn step(&mut self, _round: u32) -> bool {
        let search = &mut self.scratch.search;
        match search.stage {
            ARRIVES => search.arrive(),
            RISES => search.rise(),
            _ => search.turn_back(),
        }
    }
}

impl Search {
    #[inline(always)]
    fn arrive(&mut self) -> bool {
        let inner = self.mount + u64::from(offset!(mount_mnt));
        let block: u64 = read::kernel(inner + u64::from(offset!(vfsmount_mnt_sb)));
        let own: u64 = read::kernel(self.dentry + u64::from(offset!(dentry_d_sb)));
        if block != own {
            return self.descend();
        }
        self.above = self.dentry;
        self.stage = RISES;
        true
    }

    #[inline(always)]
    fn rise(&mut self) -> bool {
        let inner = self.mount + u64::from(offset!(mount_mnt));
        let top: u64 = read::kernel(inner + u64::from(offset!(vfsmount_mnt_root)));
        if self.above == top {
            self.stage = FOUND;
            return false;
        }
        let above: u64 = read::kernel(self.above + u64::from(offset!(dentry_d_parent)));
        if above == self.above || above == 0 {
            // The entry is in another part of the file system than is mounted here.
            return self.descend();
        }
        self.above = above;
        true
    }

    /// To the first mount below this one.
    #[inline(always)]
    fn descend(&mut self) -> bool {
        let list = self.mount + u64::from(offset!(mount_mnt_mounts));
        let node: u64 = read::kernel(list);
        if node == list || node == 0 {
            self.stage = RETURNS;
        } else {
            self.mount = node - u64::from(offset!(mount_mnt_child));
            self.stage = ARRIVES;
        }
        true
    }

    /// To the next mount beside this one, or to the one above.
    #[inline(always)]
    fn turn_back(&mut self) -> bool {
        if self.mount == self.first {
            return false;
        }
        let above: u64 = read::kernel(self.mount + u64::from(offset!(mount_mnt_parent)));
        let node: u64 = read::kernel(self.mount + u64::from(offset!(mount_mnt_child)));
        if node == above + u64::from(offset!(mount_mnt_mounts)) {
            self.mount = above;
        } else {
            self.mount = node - u64::from(offset!(mount_mnt_child));
            self.stage = ARRIVES;
        }
        true
    }
}

/// The place of a directory entry in the tree of a task. Of a file that is mounted twice it is the first mount; of one
/// that is mounted nowhere, as a memory file, its name is all there is.
#[inline(always)]
pub fn place_of(scratch: &mut Scratch, task: u64, dentry: u64) -> Place {
    let (inner, _) = path::root(task).parts();
    let first = inner - u64::from(offset!(mount_mnt));
    let search = &mut scratch.search;
    search.first = first;
    search.mount = first;
    search.dentry = dentry;
    search.above = dentry;
    search.stage = ARRIVES;
    verifier::repeat(ROUNDS, &mut Walk { scratch });
    let search = &scratch.search;
    let mount = if search.stage == FOUND {
        search.mount + u64::from(offset!(mount_mnt))
    } else {
        0
    };
    Place::on_mount(verifier::opaque(mount), dentry)
}
