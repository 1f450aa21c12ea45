//! The caller's process: what a run takes from it, and what is done with its rights.

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Gid, Pid, Uid, setegid, seteuid, setgroups};
use turnkey_jailer::served::SchedulingClass;
use turnkey_supervisor::service::{CallerAllowance, ServedPeer};

/// The caller's process, as far as it decides what its run gets.
pub struct CallerLook {
    nice: i32,
    class: SchedulingClass,
    affinity: CpuSet,
    /// The limits of the process itself.
    pub allowance: CallerAllowance,
}

impl CallerLook {
    /// The process as it is now.
    ///
    /// # Errors
    /// When it has ended.
    pub fn at(pid: u32) -> anyhow::Result<CallerLook> {
        let number = pid.cast_signed();
        Ok(CallerLook {
            nice: rustix::process::getpriority_process(rustix::process::Pid::from_raw(number))?,
            class: SchedulingClass::read(pid)?,
            affinity: sched_getaffinity(Pid::from_raw(number))?,
            allowance: CallerAllowance::read(pid)?,
        })
    }
}

/// Takes on what a jail inherits from its maker: priority, classes of scheduling, CPUs.
pub fn be_like(peer: &ServedPeer, caller: &CallerLook) -> anyhow::Result<()> {
    // Not below that of the service itself.
    let own = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(None, caller.nice.max(own))?;
    caller.class.take()?;
    sched_setaffinity(Pid::from_raw(0), &caller.affinity)?;
    // Of the caller's alone from here on; the jail leaves them.
    let groups: Vec<Gid> = peer.groups.iter().copied().map(Gid::from_raw).collect();
    setgroups(&groups)?;
    Ok(())
}

/// Does something with the caller's rights alone. This process has no other thread yet.
pub fn as_caller<T>(peer: &ServedPeer, act: impl FnOnce() -> T) -> anyhow::Result<T> {
    const FAILED: &str = "could not act as the caller";
    setegid(Gid::from_raw(peer.user.group)).context(FAILED)?;
    seteuid(Uid::from_raw(peer.user.user)).context(FAILED)?;
    let done = act();
    seteuid(Uid::from_raw(0)).context(FAILED)?;
    setegid(Gid::from_raw(0)).context(FAILED)?;
    Ok(done)
}
