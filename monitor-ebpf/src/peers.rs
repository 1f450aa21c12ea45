//! Peers: sockets and processes at the other end. Those outside of the jail are no peers of it, whatever the rules say.

use crate::read::{self, offset};

/// The id of the group that a `struct cgroup` counts for, as [`read::current_group`] has it.
#[inline(always)]
fn group_of(mut cgroup: u64) -> u64 {
    let level = read::level();
    if level != 0 {
        let own: u32 = read::kernel(cgroup + u64::from(offset!(cgroup_level)));
        if own < level {
            return 0;
        }
        let ancestors = cgroup + u64::from(offset!(cgroup_ancestors));
        cgroup = read::kernel(ancestors + 8 * u64::from(level));
    }
    let node: u64 = read::kernel(cgroup + u64::from(offset!(cgroup_kn)));
    read::kernel(node + u64::from(offset!(kernfs_node_id)))
}

/// True when a `struct sock` was made in the jail that the current task is in.
#[inline(always)]
pub fn is_ours(sock: u64) -> bool {
    let data = sock + u64::from(offset!(sock_sk_cgrp_data));
    let cgroup: u64 = read::kernel(data + u64::from(offset!(sock_cgroup_data_cgroup)));
    group_of(cgroup) == read::current_group()
}

/// The `struct socket` of a `struct file` that is one.
#[inline(always)]
pub fn socket_of(file: u64) -> u64 {
    read::kernel(file + u64::from(offset!(file_private_data)))
}

/// The `SOCK_*` type of a `struct socket`.
#[inline(always)]
pub fn type_of(socket: u64) -> u16 {
    read::kernel(socket + u64::from(offset!(socket_type)))
}

/// The `struct sock` of a `struct socket`, which begins with its `struct sock_common`.
#[inline(always)]
pub fn sock_of(socket: u64) -> u64 {
    read::kernel(socket + u64::from(offset!(socket_sk)))
}

/// True when a task is in the jail that the current task is in.
#[inline(always)]
pub fn is_neighbour(task: u64) -> bool {
    let set: u64 = read::kernel(task + u64::from(offset!(task_cgroups)));
    let cgroup: u64 = read::kernel(set + u64::from(offset!(css_set_dfl_cgrp)));
    group_of(cgroup) == read::current_group()
}
