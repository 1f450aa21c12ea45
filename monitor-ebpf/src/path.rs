//! The kernel's own path of a file: from its directory entry up to the jail's root.

use turnkey_abi::{ABSENT, PATH, fault};

use crate::read::{self, NAME, Scratch, offset};
use crate::verifier::{self, Forget, NOTHING, Passage, Step, global};

/// More steps than a path of `PATH` bytes can have components and mounts.
const STEPS: u32 = 4096;

/// The bits of a mode that are the type of the file, and two of the types, of linux/stat.h.
const S_IFMT: u16 = 0o170_000;
const S_IFSOCK: u16 = 0o140_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFLNK: u16 = 0o120_000;

/// The mount namespace of the kernel's own mounts: MNT_NS_INTERNAL of fs/mount.h, an ERR_PTR(-EINVAL).
const INTERNAL: u64 = -22_i64 as u64;

/// The name of an entry that has none: of the root of a file system, and of an entry that no directory is known of, as a handle finds
/// one (`slash_name` in d_alloc_anon of fs/dcache.c).
const NO_NAME: u8 = b'/';

/// In the place of a mount's top, where a walk has left it behind: the address of no entry.
const BEYOND: u64 = 1;

/// An address of a `struct path`, taken apart; zeros for one that could not be read.
#[derive(Clone, Copy)]
pub struct Place {
    mount: u64,
    dentry: u64,
}

impl Place {
    /// An entry on the mount of a `struct path`.
    #[inline(always)]
    pub fn entry(path: u64, dentry: u64) -> Self {
        Self {
            mount: read::kernel(path + u64::from(offset!(path_mnt))),
            dentry,
        }
    }

    /// Reads the `struct path` at an address.
    #[inline(always)]
    pub fn at(address: u64) -> Self {
        // On every kernel that is known: both in one go.
        if offset!(path_mnt) == 0 && offset!(path_dentry) == 8 {
            let [mount, dentry] = read::kernel(address);
            return Self { mount, dentry };
        }
        Self {
            mount: read::kernel(address + u64::from(offset!(path_mnt))),
            dentry: read::kernel(address + u64::from(offset!(path_dentry))),
        }
    }

    /// The place that the `struct file` at an address was opened at, of which [`read::head`] has copied the
    /// beginning.
    #[inline(always)]
    pub fn of_head(scratch: &Scratch, file: u64) -> Self {
        let path = offset!(file_f_path);
        Self {
            mount: read::of_head(scratch, file, path + offset!(path_mnt)),
            dentry: read::of_head(scratch, file, path + offset!(path_dentry)),
        }
    }

    /// An entry on the mount of a `struct vfsmount`; 0: on none that is known.
    #[inline(always)]
    pub fn on_mount(mount: u64, dentry: u64) -> Self {
        Self { mount, dentry }
    }

    /// True when the mount is the kernel's own, in no mount namespace.
    #[inline(always)]
    fn is_internal(self) -> bool {
        let mount = self.mount - u64::from(offset!(mount_mnt));
        let namespace: u64 = read::kernel(mount + u64::from(offset!(mount_mnt_ns)));
        namespace == INTERNAL
    }

    /// True when the mount is not read-only.
    #[inline(always)]
    pub fn is_writable(self) -> bool {
        // MNT_READONLY of linux/mount.h.
        const READ_ONLY: u32 = 0x40;
        let flags: u32 = read::kernel(self.mount + u64::from(offset!(vfsmount_mnt_flags)));
        flags & READ_ONLY == 0
    }

    /// True when the place is a directory.
    #[inline(always)]
    pub fn is_directory(self) -> bool {
        is_directory(self.inode())
    }

    /// The addresses of its `struct vfsmount` and `struct dentry`.
    #[inline(always)]
    pub fn parts(self) -> (u64, u64) {
        (self.mount, self.dentry)
    }

    /// True when the file system is the kernel's own, which nobody can mount elsewhere: those of pidfds, namespaces, memory files.
    #[inline(always)]
    fn is_of_own_file_system(self) -> bool {
        const SB_KERNMOUNT: u64 = 1 << 22;
        let block: u64 = read::kernel(self.mount + u64::from(offset!(vfsmount_mnt_sb)));
        let flags: u64 = read::kernel(block + u64::from(offset!(super_block_s_flags)));
        flags & SB_KERNMOUNT != 0
    }

    #[inline(always)]
    fn inode(self) -> u64 {
        read::kernel(self.dentry + u64::from(offset!(dentry_d_inode)))
    }
}

/// True when the `struct inode` at an address is a directory's.
#[inline(always)]
pub fn is_directory(inode: u64) -> bool {
    mode(inode) & S_IFMT == S_IFDIR
}

/// True for a `struct file` of a socket.
#[inline(always)]
pub fn is_socket(file: u64) -> bool {
    let inode: u64 = read::kernel(file + u64::from(offset!(file_f_inode)));
    mode(inode) & S_IFMT == S_IFSOCK
}

/// The type and the mode of the file whose `struct inode` is at an address, as inode(7) has them; 0 when it cannot be read.
#[inline(always)]
pub fn mode(inode: u64) -> u16 {
    read::kernel(inode + u64::from(offset!(inode_i_mode)))
}

/// 1 for a mode that is known and no directory's, or else 0. Branch-free, as what follows.
#[inline(always)]
pub fn is_certainly_a_file(mode: u16) -> u32 {
    (verifier::is_some(mode) & verifier::is_some(mode & S_IFMT ^ S_IFDIR)) as u32
}

/// 1 for a mode that is not known or a symlink's, or else 0.
#[inline(always)]
pub fn may_be_symlink(mode: u16) -> u64 {
    (verifier::is_some(mode) & verifier::is_some(mode & S_IFMT ^ S_IFLNK)) ^ 1
}

/// True when the kernel opened a file for itself: with credentials that are not the task's, on a mount that is in no
/// mount namespace. So overlayfs opens the files behind its own, and such a file's path means something else than in
/// the jail; the program's own open of it was asked about before.
#[inline(always)]
pub fn is_of_the_kernel(task: u64, file: u64) -> bool {
    place_of(file).is_internal() && acts_for_the_kernel(task)
}

/// True while a task has credentials that are not its own: the kernel has lent them for what it does by itself.
#[inline(always)]
pub fn acts_for_the_kernel(task: u64) -> bool {
    let real: u64 = read::kernel(task + u64::from(offset!(task_real_cred)));
    let acting: u64 = read::kernel(task + u64::from(offset!(task_cred)));
    real != acting
}

/// A resolved path: its place in [`Scratch::path`], and how far the walk came.
#[derive(Clone, Copy)]
pub struct Resolved {
    /// Index of the path's first byte.
    pub from: u32,
    /// The path's length; at most `PATH - 1`.
    pub length: u32,
    /// The address of the `struct inode` that is there; 0 when there is none.
    pub inode: u64,
    /// One of the constants below.
    state: u32,
}

/// Only during the walk.
const GOING: u32 = 0;
/// The path is complete. The lowest bit says so.
const WHOLE: u32 = 1;
/// The path is longer than the buffer, which holds its end.
const TOO_LONG: u32 = 2;
/// The entry is in no directory and has no name either, as that of a pipe, a pidfd or a namespace: so is its path, which is complete.
const NAMELESS: u32 = 3;
/// The walk ended in something that is no path.
const FAILED: u32 = 4;

impl Resolved {
    /// No path at all.
    pub const UNKNOWN: Self = Self {
        from: 0,
        length: 0,
        inode: 0,
        state: FAILED,
    };

    /// The empty base of a path that is absolute already.
    pub const EMPTY: Self = Self {
        from: 0,
        length: 0,
        inode: 0,
        state: WHOLE,
    };

    /// True when the path is complete.
    #[inline(always)]
    pub fn is_whole(self) -> bool {
        self.state & WHOLE != 0
    }

    /// True when the path, or at least its end, is known.
    #[inline(always)]
    pub fn is_known(self) -> bool {
        self.state < FAILED
    }
}

impl Forget for Resolved {
    #[inline(always)]
    fn forget(self, memory: &mut impl Passage) -> Self {
        Self {
            from: self.from.forget(memory),
            length: self.length.forget(memory),
            inode: self.inode.forget(memory),
            state: self.state.forget(memory),
        }
    }
}

/// A walk from a directory entry to the root, in map memory. Names are written from the end of the buffer.
#[repr(C)]
pub struct Ascent {
    mount: u64,
    dentry: u64,
    root: Place,
    /// Of the mount: its top, and what it is mounted on.
    top: u64,
    parent: u64,
    mountpoint: u64,
}

struct Walk<'a> {
    scratch: &'a mut Scratch,
}

impl Step for Walk<'_> {
    #[inline(always)]
    fn step(&mut self, _round: u32) -> bool {
        let ended = self.up();
        self.scratch.cursor.ended = ended;
        ended == GOING
    }
}

impl Walk<'_> {
    /// One step up: over a mount's edge, or from an entry to its directory.
    #[inline(always)]
    fn up(&mut self) -> u32 {
        if self.scratch.ascent.dentry == self.scratch.ascent.root.dentry
            && self.scratch.ascent.mount == self.scratch.ascent.root.mount
        {
            return WHOLE;
        }
        if self.scratch.ascent.dentry == self.scratch.ascent.top {
            return self.over_mount();
        }
        read::head(self.scratch, self.scratch.ascent.dentry);
        let directory: u64 = read::of_head(
            self.scratch,
            self.scratch.ascent.dentry,
            offset!(dentry_d_parent),
        );
        if directory == 0 {
            return FAILED;
        }
        let alone = directory == self.scratch.ascent.dentry;
        let done = self.prepend_name(alone);
        self.scratch.ascent.dentry = directory;
        done
    }

    /// From the top of a mount to where it is mounted.
    #[inline(always)]
    fn over_mount(&mut self) -> u32 {
        let above = self.scratch.ascent.parent + u64::from(offset!(mount_mnt));
        if above == self.scratch.ascent.mount {
            // From no place at all, which is zeros throughout, one comes here, too.
            return if self.scratch.ascent.parent == 0 {
                FAILED
            } else {
                self.at_top()
            };
        }
        self.scratch.ascent.dentry = self.scratch.ascent.mountpoint;
        self.scratch.ascent.mount = above;
        self.look_at_mount();
        GOING
    }

    /// At the top of a tree of mounts: the root of the mount namespace, where the path ends, or of a tree that is mounted nowhere,
    /// as open_tree(2) copies one and umount2(2) leaves one. Where tasks can mount, such a tree takes no file from its
    /// rule: the path goes on to the root of the file system.
    #[inline(always)]
    fn at_top(&mut self) -> u32 {
        let mount = self.scratch.ascent.mount - u64::from(offset!(mount_mnt));
        let namespace: u64 = read::kernel(mount + u64::from(offset!(mount_mnt_ns)));
        let is_here = namespace == mount_namespace(read::current_task());
        if is_here || namespace == INTERNAL || self.scratch.cursor.roams == 0 {
            return WHOLE;
        }
        self.scratch.ascent.top = BEYOND;
        GOING
    }

    /// Learns what the walk wants to know of the mount that it is on.
    #[inline(always)]
    fn look_at_mount(&mut self) {
        let inner = offset!(mount_mnt);
        let mount = self.scratch.ascent.mount - u64::from(inner);
        read::head(self.scratch, mount);
        let top = inner + offset!(vfsmount_mnt_root);
        self.scratch.ascent.top = read::of_head(self.scratch, mount, top);
        self.scratch.ascent.parent = read::of_head(self.scratch, mount, offset!(mount_mnt_parent));
        self.scratch.ascent.mountpoint =
            read::of_head(self.scratch, mount, offset!(mount_mnt_mountpoint));
    }

    /// Writes the place at which everybody has the file system that a tree is of which is mounted nowhere, in front of what is there.
    #[inline(always)]
    fn prepend_usual_place(&mut self) -> u32 {
        const PROC: u64 = 0x9fa0;
        const SYSFS: u64 = 0x6265_6572;
        let block: u64 =
            read::kernel(self.scratch.ascent.mount + u64::from(offset!(vfsmount_mnt_sb)));
        let place = match read::kernel(block + u64::from(offset!(super_block_s_magic))) {
            PROC => *b"/proc",
            SYSFS => *b"\0/sys",
            _ => return WHOLE,
        };
        let length = if place[0] == 0 { 4 } else { 5 };
        let end = self.scratch.cursor.begin;
        if end <= 5 {
            return TOO_LONG;
        }
        let mut at = 0;
        while at < place.len() {
            if place[at] != 0 {
                self.scratch.path[(end as usize - place.len() + at) % PATH] = place[at];
            }
            at += 1;
        }
        self.scratch.cursor.begin = end - length;
        WHOLE
    }

    /// The state of a walk at an entry in no directory whose name says nothing: it is one of the kernel's own, or a file that a handle found, and some
    /// directory has it.
    #[inline(always)]
    fn without_name(&self) -> u32 {
        let place = Place::on_mount(self.scratch.ascent.mount, self.scratch.ascent.dentry);
        if self.scratch.ascent.top == BEYOND {
            WHOLE
        } else if place.is_internal() && place.is_of_own_file_system() {
            NAMELESS
        } else {
            FAILED
        }
    }

    /// Writes the entry's name in front of what is there. An entry that is in no directory is a
    /// memory file, a pipe, a socket: its name is its path.
    #[inline(always)]
    fn prepend_name(&mut self, alone: bool) -> u32 {
        let end = self.scratch.cursor.begin;
        if alone && end as usize != PATH {
            // Else a directory that was moved out of the tree that is mounted here.
            return if self.scratch.ascent.top == BEYOND {
                self.prepend_usual_place()
            } else {
                FAILED
            };
        }
        let name = offset!(dentry_d_name);
        let length = name + offset!(qstr_len);
        let length: u32 = read::of_head(self.scratch, self.scratch.ascent.dentry, length);
        let text = name + offset!(qstr_name);
        let text: u64 = read::of_head(self.scratch, self.scratch.ascent.dentry, text);
        if length as usize > NAME {
            return FAILED;
        }
        if length + 1 >= end {
            return TOO_LONG;
        }
        if !read::name(self.scratch, end - length, text, length) {
            return FAILED;
        }
        if alone {
            if length == 1 && self.scratch.path[(end - 1) as usize % PATH] == NO_NAME {
                return self.without_name();
            }
            self.scratch.cursor.begin = end - length;
            return if length == 0 { NAMELESS } else { WHOLE };
        }
        let begin = end - length - 1;
        self.scratch.path[begin as usize % PATH] = b'/';
        self.scratch.cursor.begin = begin;
        GOING
    }
}

/// Writes the path of `place`, as seen from the root of the current task, or of its mount namespace where tasks choose their roots, to
/// [`Scratch::path`]. That of no place is not known.
#[inline(always)]
pub fn resolve(scratch: &mut Scratch, place: Place) -> Resolved {
    // What a hook is handed is a pointer, to the verifier as well, until it has been in memory.
    let (mount, dentry) = place.parts();
    let (mount, dentry) = (mount.forget(scratch), dentry.forget(scratch));
    global_resolve(scratch, mount, dentry);
    scratch.cursor.resolved
}

global!(global_resolve(scratch, mount: u64, dentry: u64) {
    scratch.cursor.resolved = resolve_inline(scratch, Place::on_mount(mount, dentry));
    NOTHING
});

/// [`resolve`], inlined into its global function.
#[inline(always)]
fn resolve_inline(scratch: &mut Scratch, place: Place) -> Resolved {
    // Nothing is at the address 0: the walk ends at the top. Branch-free, as the verifier would go on from here twice.
    let stays = verifier::opaque(scratch.cursor.roams).wrapping_sub(1);
    let own = root(read::current_task());
    let root = Place {
        mount: own.mount & stays,
        dentry: own.dentry & stays,
    };
    let Place { mount, dentry } = place;
    scratch.cursor.begin = PATH as u32;
    scratch.cursor.ended = GOING;
    scratch.ascent = Ascent {
        mount,
        dentry,
        root,
        // Of zeros all at once the compiler makes a loop, byte by byte.
        top: verifier::opaque(0),
        parent: verifier::opaque(0),
        mountpoint: verifier::opaque(0),
    };
    let mut walk = Walk { scratch };
    walk.look_at_mount();
    verifier::repeat(STEPS, &mut walk);
    let state = scratch.cursor.ended;
    let mut from = scratch.cursor.begin;
    if from as usize == PATH && state == WHOLE {
        from -= 1;
        scratch.path[PATH - 1] = b'/';
    }
    let length = PATH as u32 - from;
    let inode = read::kernel(dentry + u64::from(offset!(dentry_d_inode)));
    if state == GOING || length as usize >= PATH || read::has(fault::RESOLVE) {
        Resolved {
            inode,
            ..Resolved::UNKNOWN
        }
    } else {
        Resolved {
            from,
            length,
            inode,
            state,
        }
    }
}

/// The address of the `struct file` behind a descriptor of `task`; 0 when there is none.
#[inline(always)]
pub fn file_of(task: u64, descriptor: u32) -> u64 {
    let files: u64 = read::kernel(task + u64::from(offset!(task_files)));
    let table: u64 = read::kernel(files + u64::from(offset!(files_fdt)));
    let count: u32 = read::kernel(table + u64::from(offset!(fdtable_max_fds)));
    if descriptor >= count || read::has(fault::FILE) {
        return 0;
    }
    let slots: u64 = read::kernel(table + u64::from(offset!(fdtable_fd)));
    read::kernel(slots + 8 * u64::from(descriptor))
}

/// The place a `struct file` was opened at; none when there is no file.
#[inline(always)]
pub fn place_of(file: u64) -> Place {
    Place::at(file + u64::from(offset!(file_f_path)))
}

/// 1 for the mode of a symlink, or else 0.
#[inline(always)]
pub fn is_symlink(mode: u16) -> u64 {
    verifier::is_some(mode & S_IFMT ^ S_IFLNK) ^ 1
}

/// True when a file has a path. A pipe or a socket of no directory has none, whatever its entry is called.
#[inline(always)]
pub fn has_path(file: u64) -> bool {
    // S_IFMT, S_IFDIR and S_IFREG of linux/stat.h: the root, and memory files.
    const ANY: u16 = 0o170_000;
    const DIRECTORY: u16 = 0o040_000;
    const REGULAR: u16 = 0o100_000;
    let place = place_of(file);
    let directory: u64 = read::kernel(place.dentry + u64::from(offset!(dentry_d_parent)));
    let mode: u16 = read::kernel(place.inode() + u64::from(offset!(inode_i_mode)));
    directory != place.dentry || matches!(mode & ANY, DIRECTORY | REGULAR)
}

/// The place where a mapped file stands in the jail's tree. What overlayfs maps is a file of its own,
/// behind the one that was opened; newer kernels keep the place of the latter beside it. The file
/// behind is on a mount in no task's tree, as memory files are, whose file system is the kernel's own.
#[inline(always)]
pub fn user_place(file: u64) -> Place {
    let beside = offset!(backing_file_user_path);
    let place = place_of(file);
    if beside == ABSENT || !place.is_internal() {
        return place;
    }
    if place.is_of_own_file_system() {
        return place;
    }
    Place::at(file + u64::from(beside))
}

/// The inode at the place where a mapped file stands in the jail's tree.
#[inline(always)]
pub fn user_inode(file: u64) -> u64 {
    user_place(file).inode()
}

/// The address of the mount namespace that a task is in; 0 when it is in none any more.
#[inline(always)]
pub fn mount_namespace(task: u64) -> u64 {
    let all: u64 = read::kernel(task + u64::from(offset!(task_nsproxy)));
    read::kernel(all + u64::from(offset!(nsproxy_mnt_ns)))
}

/// The place that an absolute path starts from.
#[inline(always)]
pub fn root(task: u64) -> Place {
    let fs: u64 = read::kernel(task + u64::from(offset!(task_fs)));
    Place::at(fs + u64::from(offset!(fs_root)))
}

/// The place that a relative path starts from; none for a descriptor that is none.
#[inline(always)]
pub fn base(task: u64, directory: i32) -> Place {
    const AT_FDCWD: i32 = -100;
    if directory == AT_FDCWD {
        let fs: u64 = read::kernel(task + u64::from(offset!(task_fs)));
        return Place::at(fs + u64::from(offset!(fs_pwd)));
    }
    place_of(file_of(task, directory as u32))
}
