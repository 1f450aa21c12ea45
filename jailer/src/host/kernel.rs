//! Numbers of the kernel's interface that the `libc` crate does not carry: linux/mount.h,
//! linux/securebits.h and linux/magic.h, the same on every architecture.

/// open_tree(2): make a copy.
pub const OPEN_TREE_CLONE: u32 = 1;
/// open_tree(2): close on exec.
pub const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();
/// move_mount(2): the source is the descriptor itself.
pub const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x04;
/// move_mount(2): the target is the descriptor itself.
pub const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;
/// fsopen(2): close on exec.
pub const FSOPEN_CLOEXEC: u32 = 1;
/// fsmount(2): close on exec.
pub const FSMOUNT_CLOEXEC: u32 = 1;
/// fsconfig(2): a flag.
pub const FSCONFIG_SET_FLAG: u32 = 0;
/// fsconfig(2): a string.
pub const FSCONFIG_SET_STRING: u32 = 1;
/// fsconfig(2): make the super block.
pub const FSCONFIG_CMD_CREATE: u32 = 6;

/// mount_setattr(2): no writes.
pub const MOUNT_ATTR_RDONLY: u64 = 0x01;
/// mount_setattr(2): set-user-id bits and file capabilities have no effect.
pub const MOUNT_ATTR_NOSUID: u64 = 0x02;
/// mount_setattr(2): device nodes have no effect.
pub const MOUNT_ATTR_NODEV: u64 = 0x04;
/// mount_setattr(2): nothing can be executed.
pub const MOUNT_ATTR_NOEXEC: u64 = 0x08;
/// mount_setattr(2): ids are translated by a user namespace.
pub const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Root is nobody special, set-id calls move no capabilities, none are kept, none become ambient;
/// and none of this can be undone: capabilities(7), "The securebits flags". `KEEP_CAPS` itself
/// (bit 4) stays off while its lock (bit 5) is on.
pub const SECUREBITS_LOCKED: u64 = 0b1110_1111;

/// statfs(2): procfs.
pub const PROC_SUPER_MAGIC: i64 = 0x9fa0;
/// clone3(2): born in the control group of `clone_args.cgroup`. The `libc` crate's constant is too
/// narrow for it.
pub const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// `struct seccomp_data`: a call of x86_64 or x32, linux/audit.h.
pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
