//! The file that a path leads to, by the lists that the kernel has of what is in each directory and of what is mounted.
//!
//! After a rename without hooks only arguments tell which file it was. A rename puts the entry into the kernel's lists,
//! so it is found there without asking a file system.

use turnkey_abi::{ABSENT, PATH};

use crate::path::{self, Place, is_directory};
use crate::read::{self, Scratch, UNREADABLE, offset};
use crate::verifier::{self, NOTHING, Step, global};

/// Bytes that two names are compared by in a round.
const AT_ONCE: u32 = 8;

/// Most entries, mounts and components that are looked at: what is further behind is not found. Names that were looked for in vain are
/// entries as well, in front of older ones, and anybody who may search a directory makes them; so there are more of them than files.
const ROUNDS: u32 = 1 << 14;

/// A walk along a path, from a directory to what is there. It is kept in map memory, as counters of loops are.
#[repr(C)]
pub struct Course {
    /// The address of the rest of the path, and its length.
    rest: u64,
    left: u32,
    /// One of the constants below.
    stage: u32,
    /// The directory that the walk has come to.
    mount: u64,
    dentry: u64,
    /// The address of the head of a list, and of the list node that is looked at.
    list: u64,
    node: u64,
    /// Bytes of the name that are known to be the same.
    same: u32,
    /// Number of `..` to be stepped over before the walk is over.
    steps: u32,
    /// Bit 0: the walk is in the aim of a symlink; bit 1: behind a name there.
    aimed: u64,
    /// The address behind a name that the next `..` takes back, whatever it is the name of; 0: none is.
    taken_back: u64,
    /// The root of the task, above which `..` does not lead.
    root_mount: u64,
    root_dentry: u64,
    /// The inode of the last component, when it was found.
    pub found: u64,
}

/// Looks whether something is mounted on the directory.
const MOUNTS: u32 = 0;
/// Looks at what is written next.
const WRITTEN: u32 = 1;
/// Looks for a component among the directory's entries.
const ENTRIES: u32 = 2;
/// Looks whether more is written behind a component that is not among them.
const BEHIND: u32 = 3;
/// The last component is not there, and no other is written behind it.
const NOT_THERE: u32 = 4;

struct Walk<'a> {
    scratch: &'a mut Scratch,
}

impl Step for Walk<'_> {
    #[inline(always)]
    fn step(&mut self, _round: u32) -> bool {
        let course = &mut self.scratch.course;
        match course.stage {
            MOUNTS => course.look_at_mount(),
            WRITTEN => course.look_at_component(),
            ENTRIES => course.look_at_entry(),
            _ => course.look_behind(),
        }
    }
}

impl Course {
    /// Begins with the list at an address.
    #[inline(always)]
    fn look_through(&mut self, stage: u32, list: u64) {
        self.stage = stage;
        self.list = list;
        self.node = read::kernel(list);
        self.same = 0;
    }

    /// Comes to a directory, on which something may be mounted.
    #[inline(always)]
    fn enter(&mut self, mount: u64, dentry: u64) {
        self.mount = mount;
        self.dentry = dentry;
        let mounts = offset!(mount_mnt_mounts).wrapping_sub(offset!(mount_mnt));
        self.look_through(MOUNTS, mount + i64::from(mounts as i32) as u64);
    }

    #[inline(always)]
    fn is_at_end(&self) -> bool {
        self.node == 0 || self.node == self.list
    }

    #[inline(always)]
    fn look_at_mount(&mut self) -> bool {
        if self.is_at_end() {
            self.stage = WRITTEN;
            return true;
        }
        let mount = self.node - u64::from(offset!(mount_mnt_child));
        let on: u64 = read::kernel(mount + u64::from(offset!(mount_mnt_mountpoint)));
        if on == self.dentry {
            let inner = mount + u64::from(offset!(mount_mnt));
            self.enter(inner, top(inner));
        } else {
            self.node = read::kernel(self.node);
        }
        true
    }

    /// Steps over slashes and dots.
    #[inline(always)]
    fn look_at_component(&mut self) -> bool {
        let [first, second, third, _]: [u8; 4] = read::kernel(self.rest);
        let ends = |behind: u32, byte: u8| self.left == behind || byte == b'/';
        if self.left == 0 {
            return false;
        }
        if first == b'/' || first == b'.' && ends(1, second) {
            self.advance(1);
        } else if first == b'.' && second == b'.' && ends(2, third) {
            return self.step_back();
        } else {
            let (list, _) = entries();
            self.look_through(ENTRIES, self.dentry + u64::from(list));
        }
        true
    }

    /// Goes to the directory above, but for the root: over the edge of a mount first, and then is asked again. Not from a name in the
    /// aim of a symlink: whoever follows that later may find a symlink in the directory's place.
    #[inline(always)]
    fn step_back(&mut self) -> bool {
        if self.aimed > 1 {
            return false;
        }
        let is_root = self.dentry == self.root_dentry && self.mount == self.root_mount;
        if !is_root && self.dentry == top(self.mount) {
            return self.leave_mount();
        }
        self.advance(2);
        self.steps = self.steps.wrapping_sub(1);
        if !is_root {
            let above = read::kernel(self.dentry + u64::from(offset!(dentry_d_parent)));
            self.enter(self.mount, above);
        }
        self.steps != 0
    }

    /// From the top of a mount to what it is mounted on.
    #[inline(always)]
    fn leave_mount(&mut self) -> bool {
        let inner = u64::from(offset!(mount_mnt));
        let mount = self.mount - inner;
        let parent: u64 = read::kernel(mount + u64::from(offset!(mount_mnt_parent)));
        let is_last = parent == 0 || parent == mount;
        self.dentry = read::kernel(mount + u64::from(offset!(mount_mnt_mountpoint)));
        self.mount = parent + inner;
        !is_last
    }

    #[inline(always)]
    fn look_at_entry(&mut self) -> bool {
        if self.is_at_end() {
            self.stage = BEHIND;
            return true;
        }
        let (_, of_node) = entries();
        let entry = self.node - u64::from(of_node);
        let name = entry + u64::from(offset!(dentry_d_name));
        let length: u32 = read::kernel(name + u64::from(offset!(qstr_len)));
        if !self.is_named(name, length) {
            self.node = read::kernel(self.node);
            self.same = 0;
            return true;
        }
        self.same += AT_ONCE;
        if self.same < length {
            return true;
        }
        self.advance(length);
        if self.rest == self.taken_back {
            const BACK: u32 = 3;
            self.advance(BACK);
            self.aimed = 1;
            self.stage = WRITTEN;
            self.steps = self.steps.wrapping_sub(1);
            return self.steps != 0;
        }
        self.aimed |= self.aimed << 1;
        let inode: u64 = read::kernel(entry + u64::from(offset!(dentry_d_inode)));
        if self.left == 0 {
            self.found = inode;
            return false;
        }
        self.enter(self.mount, entry);
        is_directory(inode)
    }

    #[inline(always)]
    fn look_behind(&mut self) -> bool {
        if self.left == 0 {
            self.stage = NOT_THERE;
            return false;
        }
        let byte: u8 = read::kernel(self.rest);
        self.advance(1);
        byte != b'/'
    }

    /// True when the component has this length, and the name's bytes from [`Course::same`] on are the component's.
    #[inline(always)]
    fn is_named(&self, name: u64, length: u32) -> bool {
        if length == 0 || length > self.left {
            return false;
        }
        let behind: u8 = read::kernel(self.rest + u64::from(length));
        if length != self.left && behind != b'/' {
            return false;
        }
        let text: u64 = read::kernel(name + u64::from(offset!(qstr_name)));
        let of = |address: u64| {
            let word = read::kernel(address + u64::from(self.same));
            cut(word, length.wrapping_sub(self.same))
        };
        of(text) == of(self.rest)
    }

    /// The directory that the walk has come to, when it has found an entry there or has seen that there is none; or else 0.
    /// Branch-free, so that the verifier does not fork states.
    #[inline(always)]
    fn parent(&self) -> u64 {
        let is_there = self.is_at(ENTRIES) & verifier::is_some(self.found);
        self.dentry & (is_there | self.is_at(NOT_THERE)).wrapping_neg()
    }

    /// 1 when every component in front of the last one is a directory, and the last one does not lead on, as a symlink does where
    /// `end.follows` is 1; or else 0. Branch-free, so that the verifier does not fork states.
    #[inline(always)]
    fn is_straight(&self, end: End) -> u64 {
        let is_last = self.is_at(ENTRIES) & (verifier::is_some(self.left) ^ 1);
        let leads_on = end.follows
            & verifier::is_some(self.found)
            & path::may_be_symlink(path::mode(self.found));
        is_last & (leads_on ^ 1) | self.is_at(NOT_THERE) | self.is_at(BEHIND) & end.is_nowhere
    }

    /// 1 in this stage, or else 0.
    #[inline(always)]
    fn is_at(&self, stage: u32) -> u64 {
        verifier::is_some(self.stage ^ stage) ^ 1
    }

    #[inline(always)]
    fn advance(&mut self, length: u32) {
        self.rest += u64::from(length);
        self.left -= length;
    }
}

/// The directory at the top of a mount, by the address of its `struct vfsmount`.
#[inline(always)]
fn top(mount: u64) -> u64 {
    read::kernel(mount + u64::from(offset!(vfsmount_mnt_root)))
}

/// Offsets of the list of a directory's entries, and of the list node in an entry.
#[inline(always)]
fn entries() -> (u32, u32) {
    if offset!(dentry_d_children) == ABSENT {
        (offset!(dentry_d_subdirs), offset!(dentry_d_child))
    } else {
        (offset!(dentry_d_children), offset!(dentry_d_sib))
    }
}

/// The first so many bytes of a word, and zeros behind them.
#[inline(always)]
fn cut(word: u64, length: u32) -> u64 {
    if length < AT_ONCE {
        word & (u64::MAX >> (64 - 8 * length))
    } else {
        word
    }
}

/// Looks for the path that is the first `length` bytes of the text, from a directory on: [`Course::found`] is its inode. Of
/// several entries of one name the kernel has the newest in front (__d_move of fs/dcache.c). A path through a symlink is not found.
/// Returns the address of the `struct dentry` of the directory that has it or had it, or 0 when that is not certain.
#[inline(always)]
pub fn find(scratch: &mut Scratch, directory: i32, length: u32) -> u64 {
    if length == UNREADABLE {
        scratch.course.found = 0;
        return 0;
    }
    scratch.cursor.own = 0;
    scratch.cursor.aimed = 0;
    walk(scratch, directory, (length, 0));
    scratch.course.parent()
}

/// The end of a path, in ones and zeros.
#[derive(Clone, Copy)]
pub struct End {
    /// A symlink there is followed.
    pub follows: u64,
    /// The kernel has found nothing there, so that a directory on the way may be missing.
    pub is_nowhere: u64,
}

/// 1 when the path that is the first `length` bytes of the text certainly leads where it says, as no symlink is on the way, or else 0.
#[inline(always)]
pub fn leads_straight(scratch: &mut Scratch, directory: i32, (length, end): (u32, End)) -> u32 {
    if length == 0 || length == UNREADABLE {
        return 0;
    }
    scratch.cursor.own = 0;
    scratch.cursor.aimed = 0;
    walk(scratch, directory, (length, 0));
    scratch.course.is_straight(end) as u32
}

/// True when each `..` of such a path certainly leads back from a directory, so that the path in its plain form is the
/// same file's. From a symlink it leads to whatever is above that symlink's target. `steps` is how often it is there, and not 0. In the
/// aim of a symlink none behind a name does: that is followed later.
/// The first [`Cursor::own`](read::Cursor::own) bytes are of the new symlink whose aim the rest is, behind a `..`.
#[inline(always)]
pub fn steps_back_surely(
    scratch: &mut Scratch,
    directory: i32,
    (length, steps): (u32, u32),
) -> bool {
    walk(scratch, directory, (length, steps));
    scratch.course.steps == 0
}

/// Walks along the path that is the first `length` bytes of the text, until `..` was stepped over so often; 0: to its end.
///
#[inline(always)]
pub fn walk(scratch: &mut Scratch, directory: i32, (length, steps): (u32, u32)) {
    global_walk_entries(scratch, directory as u32, length, steps);
}

global!(global_walk_entries(scratch, directory: u32, length: u32, steps: u32) {
    walk_inline(scratch, directory as i32, (length, steps));
    NOTHING
});

/// [`walk`], inlined into its global function.
#[inline(always)]
fn walk_inline(scratch: &mut Scratch, directory: i32, (length, steps): (u32, u32)) {
    let task = read::current_task();
    let (list, of_node) = entries();
    let (root_mount, root_dentry) = path::root(task).parts();
    let text = scratch.text.as_ptr() as u64;
    let (mount, dentry) = start(scratch, task, directory).parts();
    let course = &mut scratch.course;
    course.rest = text;
    course.left = length;
    course.found = 0;
    course.steps = steps;
    course.aimed = scratch.cursor.aimed;
    // No path's first byte is behind a name.
    course.taken_back = text + (verifier::opaque(scratch.cursor.own) & (PATH as u64 - 1));
    course.root_mount = root_mount;
    course.root_dentry = root_dentry;
    if list == ABSENT || of_node == ABSENT {
        return;
    }
    course.enter(mount, dentry);
    verifier::repeat(ROUNDS, &mut Walk { scratch });
}

/// The directory that a path starts from, which is the text.
#[inline(always)]
fn start(scratch: &Scratch, task: u64, directory: i32) -> Place {
    if scratch.text[0] == b'/' {
        path::root(task)
    } else {
        path::base(task, directory)
    }
}
