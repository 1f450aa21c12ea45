//! Runs the emitted programs the way the kernel does, on calls that must not be made for real.

use turnkey_policy::{SyscallPolicy, syscalls};

use super::SeccompFilters;
use crate::host::kernel::AUDIT_ARCH_X86_64;
use crate::sys::FilterInstruction;

// linux/audit.h and linux/seccomp.h
pub const I386: u32 = 0x4000_0003;
pub const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
pub const KILL_PROCESS: u32 = libc::SECCOMP_RET_KILL_PROCESS;
pub const EPERM: u32 = errno(libc::EPERM);
pub const ENOSYS: u32 = errno(libc::ENOSYS);

/// The answer that fails a call with this error.
pub const fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
}

/// `struct seccomp_data` as words.
fn data(architecture: u32, number: u32, arguments: [u64; 6]) -> Vec<u32> {
    let halves = |value: u64| {
        [
            u32::try_from(value & 0xffff_ffff).unwrap(),
            u32::try_from(value >> 32).unwrap(),
        ]
    };
    let mut words = vec![number, architecture, 0, 0];
    words.extend(arguments.into_iter().flat_map(halves));
    words
}

/// The classic BPF that seccomp accepts: loads of words, jumps, and `and`, linux/filter.h.
pub fn run(program: &[FilterInstruction], data: &[u32]) -> u32 {
    let (mut accumulator, mut at) = (0_u32, 0_usize);
    loop {
        let FilterInstruction { code, jt, jf, k } = program[at];
        at += 1;
        let branch = |taken: bool| usize::from(if taken { jt } else { jf });
        match code {
            0x20 => accumulator = data[usize::try_from(k).unwrap() / 4],
            0x54 => accumulator &= k,
            0x05 => at += usize::try_from(k).unwrap(),
            0x15 => at += branch(accumulator == k),
            0x25 => at += branch(accumulator > k),
            0x35 => at += branch(accumulator >= k),
            0x45 => at += branch(accumulator & k != 0),
            0x06 => return k,
            other => panic!("unknown operation {other:#x}"),
        }
    }
}

/// The kernel asks the programs from the youngest to the oldest and takes the answer with the highest
/// precedence, which is the lowest as a signed number; of equals, the first.
pub fn answer(
    filters: &SeccompFilters,
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
) -> u32 {
    let data = data(architecture, number, arguments);
    let answers = [run(&filters.allow, &data), run(&filters.refuse, &data)];
    answers
        .into_iter()
        .min_by_key(|answer| (answer & 0xffff_0000).cast_signed())
        .unwrap()
}

/// With every group allowed, for a jail that cannot write to the host.
pub fn all_that_any_policy_allows() -> SeccompFilters {
    SeccompFilters::build(&every_group(true)).unwrap()
}

/// Every group, for a jail with a network of its own.
pub fn every_group(set_id_files: bool) -> SyscallPolicy {
    let allow: std::collections::BTreeSet<&'static str> = syscalls::GROUPS
        .iter()
        .flat_map(|group| group.syscalls.iter().copied())
        .collect();
    SyscallPolicy {
        allow,
        set_id_files,
        host_network: false,
    }
}

/// The answer to a call of x86_64.
pub fn ask(filters: &SeccompFilters, number: libc::c_long, arguments: [u64; 6]) -> u32 {
    answer(
        filters,
        AUDIT_ARCH_X86_64,
        u32::try_from(number).unwrap(),
        arguments,
    )
}
