//! The classes in which a process waits for CPUs and for disks: sched(7), ioprio_set(2).

use super::{Result, Word, call, word};

/// `IOPRIO_WHO_PROCESS`.
const PROCESS: Word = 1;

/// ioprio_get(2): class and level in one number.
pub fn io_priority(pid: u32) -> Result<Word> {
    call(libc::SYS_ioprio_get, [PROCESS, Word::from(pid), 0, 0, 0, 0])
}

/// ioprio_set(2) of the calling thread.
pub fn set_io_priority(priority: Word) -> Result<()> {
    call(libc::SYS_ioprio_set, [PROCESS, 0, priority, 0, 0, 0]).map(drop)
}

/// sched_getscheduler(2).
pub fn policy(pid: u32) -> Result<Word> {
    call(
        libc::SYS_sched_getscheduler,
        [Word::from(pid), 0, 0, 0, 0, 0],
    )
}

/// sched_setscheduler(2) of the calling thread, for a policy without a priority.
pub fn set_policy(policy: Word) -> Result<()> {
    let priority: libc::c_int = 0;
    let place = word((&raw const priority) as usize);
    call(libc::SYS_sched_setscheduler, [0, policy, place, 0, 0, 0]).map(drop)
}
