//! Byte offsets of the running kernel's structure members.

/// Declares [`Offsets`] and [`OFFSETS`] from one list, so that they cannot differ.
macro_rules! offsets {
    ($($name:ident = $structure:literal $member:literal,)*) => {
        /// Byte offsets of fields in the kernel's structures, from its BTF. A field's name is the
        /// structure's and the member's.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Offsets {
            $(
                #[doc = concat!("`", $structure, ".", $member, "`")]
                pub $name: u32,
            )*
        }

        impl Offsets {
            /// All zero, until the loader knows better.
            pub const ZERO: Self = Self { $($name: 0,)* };

            /// From one word per field, in the order of [`OFFSETS`].
            #[must_use]
            pub const fn from_words(words: [u32; OFFSETS.len()]) -> Self {
                let mut index = 0;
                $(
                    let $name = words[index];
                    index += 1;
                )*
                assert!(index == OFFSETS.len());
                Self { $($name,)* }
            }
        }

        /// Structure and member of each word of [`Offsets`], in order. An empty member stands for
        /// the size of the structure.
        pub const OFFSETS: &[(&str, &str)] = &[$(($structure, $member),)*];
    };
}

/// The offset of a field of [`OPTIONAL`] that the kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// Fields that not every kernel has, and does without.
pub const OPTIONAL: &[(&str, &str)] = &[
    ("backing_file", "user_path"),
    ("fs_struct", "users"),
    // The children of a directory entry, since Linux 6.8 and before.
    ("dentry", "d_children"),
    ("dentry", "d_sib"),
    ("dentry", "d_subdirs"),
    ("dentry", "d_child"),
];

offsets! {
    task_tgid = "task_struct" "tgid",
    task_pid = "task_struct" "pid",
    task_real_parent = "task_struct" "real_parent",
    task_group_leader = "task_struct" "group_leader",
    task_start_boottime = "task_struct" "start_boottime",
    task_thread_pid = "task_struct" "thread_pid",
    task_files = "task_struct" "files",
    task_fs = "task_struct" "fs",
    task_mm = "task_struct" "mm",
    task_signal = "task_struct" "signal",
    task_comm = "task_struct" "comm",
    task_real_cred = "task_struct" "real_cred",
    task_cred = "task_struct" "cred",
    cred_uid = "cred" "uid",
    cred_user_ns = "cred" "user_ns",
    cred_cap_effective = "cred" "cap_effective",
    task_cgroups = "task_struct" "cgroups",
    task_nsproxy = "task_struct" "nsproxy",
    nsproxy_mnt_ns = "nsproxy" "mnt_ns",
    nsproxy_net_ns = "nsproxy" "net_ns",
    net_cookie = "net" "net_cookie",
    css_set_dfl_cgrp = "css_set" "dfl_cgrp",
    cgroup_kn = "cgroup" "kn",
    cgroup_level = "cgroup" "level",
    // Of pointers since Linux 6.1.
    cgroup_ancestors = "cgroup" "ancestors",
    kernfs_node_id = "kernfs_node" "id",
    sock_sk_cgrp_data = "sock" "sk_cgrp_data",
    sock_cgroup_data_cgroup = "sock_cgroup_data" "cgroup",
    socket_sk = "socket" "sk",
    socket_type = "socket" "type",
    sock_common_skc_family = "sock_common" "skc_family",
    sock_common_skc_num = "sock_common" "skc_num",
    sock_common_skc_net = "sock_common" "skc_net",
    sock_common_skc_rcv_saddr = "sock_common" "skc_rcv_saddr",
    sock_common_skc_v6_rcv_saddr = "sock_common" "skc_v6_rcv_saddr",
    sock_common_skc_dport = "sock_common" "skc_dport",
    sock_common_skc_daddr = "sock_common" "skc_daddr",
    sock_common_skc_v6_daddr = "sock_common" "skc_v6_daddr",
    task_exit_code = "task_struct" "exit_code",
    pid_level = "pid" "level",
    pid_numbers = "pid" "numbers",
    upid_nr = "upid" "nr",
    upid_size = "upid" "",
    signal_live = "signal_struct" "live",
    signal_flags = "signal_struct" "flags",
    signal_group_exit_code = "signal_struct" "group_exit_code",
    files_fdt = "files_struct" "fdt",
    fdtable_max_fds = "fdtable" "max_fds",
    fdtable_fd = "fdtable" "fd",
    fs_root = "fs_struct" "root",
    fs_pwd = "fs_struct" "pwd",
    fs_users = "fs_struct" "users",
    path_mnt = "path" "mnt",
    path_dentry = "path" "dentry",
    file_f_path = "file" "f_path",
    file_f_inode = "file" "f_inode",
    file_f_mode = "file" "f_mode",
    file_f_flags = "file" "f_flags",
    dentry_d_inode = "dentry" "d_inode",
    file_private_data = "file" "private_data",
    dentry_d_children = "dentry" "d_children",
    dentry_d_sib = "dentry" "d_sib",
    dentry_d_subdirs = "dentry" "d_subdirs",
    dentry_d_child = "dentry" "d_child",
    dentry_d_sb = "dentry" "d_sb",
    dentry_d_parent = "dentry" "d_parent",
    dentry_d_name = "dentry" "d_name",
    qstr_len = "qstr" "len",
    qstr_name = "qstr" "name",
    vfsmount_mnt_flags = "vfsmount" "mnt_flags",
    vfsmount_mnt_sb = "vfsmount" "mnt_sb",
    vfsmount_mnt_root = "vfsmount" "mnt_root",
    mount_mnt = "mount" "mnt",
    mount_mnt_parent = "mount" "mnt_parent",
    mount_mnt_mounts = "mount" "mnt_mounts",
    mount_mnt_child = "mount" "mnt_child",
    mount_mnt_ns = "mount" "mnt_ns",
    mount_mnt_mountpoint = "mount" "mnt_mountpoint",
    inode_i_mode = "inode" "i_mode",
    inode_i_ino = "inode" "i_ino",
    inode_i_nlink = "inode" "i_nlink",
    inode_i_sb = "inode" "i_sb",
    super_block_s_dev = "super_block" "s_dev",
    super_block_s_magic = "super_block" "s_magic",
    super_block_s_flags = "super_block" "s_flags",
    super_block_s_type = "super_block" "s_type",
    file_system_type_name = "file_system_type" "name",
    task_personality = "task_struct" "personality",
    task_thread_info = "task_struct" "thread_info",
    thread_info_status = "thread_info" "status",
    vma_vm_end = "vm_area_struct" "vm_end",
    vma_vm_flags = "vm_area_struct" "vm_flags",
    vma_vm_file = "vm_area_struct" "vm_file",
    vma_anon_vma = "vm_area_struct" "anon_vma",
    backing_file_user_path = "backing_file" "user_path",
    mm_arg_start = "mm_struct" "arg_start",
    mm_start_code = "mm_struct" "start_code",
    mm_end_code = "mm_struct" "end_code",
    mm_exe_file = "mm_struct" "exe_file",
    mm_arg_end = "mm_struct" "arg_end",
    binprm_file = "linux_binprm" "file",
    binprm_filename = "linux_binprm" "filename",
    binprm_interp = "linux_binprm" "interp",
    regs_orig_ax = "pt_regs" "orig_ax",
    regs_di = "pt_regs" "di",
    regs_si = "pt_regs" "si",
    regs_dx = "pt_regs" "dx",
    regs_r10 = "pt_regs" "r10",
    regs_r8 = "pt_regs" "r8",
    regs_r9 = "pt_regs" "r9",
    regs_bx = "pt_regs" "bx",
    regs_cx = "pt_regs" "cx",
    regs_bp = "pt_regs" "bp",
    regs_ip = "pt_regs" "ip",
    regs_sp = "pt_regs" "sp",
}

const _: () = assert!(core::mem::size_of::<Offsets>() == 4 * OFFSETS.len());
