//! The owner of a jail's user namespace.
//!
//! Runs as: the supervisor, outside the jail, for the one call that makes the jail's first process.
//!
//! What the kernel counts for each user (inotify, queued signals, timers, locked memory, message queues, tasks,
//! namespaces) it counts in a user namespace and once more, in the namespace around it, for the user who made it:
//! `inc_ucount()` and `inc_rlimit_ucounts()` in kernel/ucount.c. A namespace that root has made takes from what root
//! and all other jails have. So the jail's own user makes it, who is nobody else.

use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use turnkey_policy::Layer;

use crate::process::proof::ProofError;
use crate::sys::{self, CapabilitySets};

/// One thread at a time: whether a process can be looked into, which the kernel forbids as soon as somebody in it becomes
/// another, is a matter of all its threads, and of the child that is born meanwhile.
static ACTING: Mutex<()> = Mutex::new(());

/// A thread that acts as another user, with every capability that it had.
#[derive(Debug)]
pub struct NamespaceOwner {
    user: u32,
    capabilities: CapabilitySets,
    death_signal: u64,
    is_dumpable: bool,
    _acting: MutexGuard<'static, ()>,
}

impl NamespaceOwner {
    /// Acts as `user` from here on, until [`NamespaceOwner::back`]. `None` when this thread does already.
    pub fn become_user(user: u32) -> Result<Option<NamespaceOwner>, Errno> {
        let own = nix::unistd::geteuid().as_raw();
        if user == own {
            return Ok(None);
        }
        let before = NamespaceOwner {
            user: own,
            capabilities: sys::capabilities()?,
            death_signal: sys::death_signal()?,
            _acting: ACTING.lock().unwrap_or_else(PoisonError::into_inner),
            is_dumpable: is_dumpable()?,
        };
        // The kernel clears what is effective when root becomes another; making a namespace can take some of it.
        let acting = sys::act_as_user(user)
            .and_then(|()| sys::set_capabilities(before.capabilities))
            // Or a caller without privileges could not map the user of a child that is born like this.
            .and_then(|()| before.let_be_looked_into());
        match acting {
            Ok(()) => Ok(Some(before)),
            Err(errno) => before.back().and(Err(errno)),
        }
    }

    /// As before.
    pub fn back(self) -> Result<(), Errno> {
        sys::act_as_user(self.user)?;
        sys::set_capabilities(self.capabilities)?;
        // commit_creds() in kernel/cred.c takes both back from who changes.
        self.let_be_looked_into()?;
        if self.death_signal != 0 {
            sys::prctl(libc::PR_SET_PDEATHSIG, self.death_signal)?;
        }
        Ok(())
    }

    fn let_be_looked_into(&self) -> Result<(), Errno> {
        if self.is_dumpable {
            sys::prctl(libc::PR_SET_DUMPABLE, 1)?;
        }
        Ok(())
    }
}

/// Proves who owns the user namespace of the process `pid`, which has changed nothing of itself yet.
pub fn prove(pid: libc::pid_t, user: u32) -> Result<(), ProofError> {
    let path = format!("/proc/{pid}/ns/user");
    // A link of procfs to an object without a path; it has to be followed.
    let namespace = nix::fcntl::open(path.as_str(), OFlag::O_CLOEXEC, Mode::empty());
    let owner = namespace.and_then(|namespace| sys::owner_of(namespace.as_fd()));
    if owner == Ok(user) {
        return Ok(());
    }
    Err(ProofError {
        layer: Layer::UserNamespace,
        expected: format!("a user namespace owned by {user}, the jail's user"),
        seen: owner.map_or_else(|errno| errno.to_string(), |owner| owner.to_string()),
    })
}

/// Neither by root alone nor not at all, which nobody could set.
fn is_dumpable() -> Result<bool, Errno> {
    Ok(sys::prctl(libc::PR_GET_DUMPABLE, 0)? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::prctl;
    use nix::sys::signal::Signal;
    use turnkey_expectations::expected;

    expected!(as_root, "act as another user, or make files of another's");

    /// The state of this thread that is to be the same afterwards.
    fn state() -> (u32, CapabilitySets, u64, bool) {
        (
            nix::unistd::geteuid().as_raw(),
            sys::capabilities().unwrap(),
            sys::death_signal().unwrap(),
            is_dumpable().unwrap(),
        )
    }

    #[test]
    fn acting_as_another_user_leaves_no_trace() {
        prctl::set_pdeathsig(Signal::SIGTERM).unwrap();
        let before = state();
        if before.0 != 0 {
            return eprintln!("not root: nobody else to act as");
        }
        let owner = NamespaceOwner::become_user(0x7000_0001).unwrap().unwrap();
        let (user, capabilities, ..) = state();
        assert_eq!((user, capabilities), (0x7000_0001, before.1));
        owner.back().unwrap();
        assert_eq!(state(), before);
        assert!(NamespaceOwner::become_user(before.0).unwrap().is_none());
    }

    #[test]
    fn many_threads_leave_the_process_as_it_was() {
        let before = state();
        if before.0 != 0 {
            return eprintln!("not root: nobody else to act as");
        }
        std::thread::scope(|scope| {
            for user in 0x7000_0001..0x7000_0009 {
                let act = move || {
                    for _ in 0..1000 {
                        let owner = NamespaceOwner::become_user(user).unwrap().unwrap();
                        owner.back().unwrap();
                    }
                };
                scope.spawn(act);
            }
        });
        assert_eq!((state().0, is_dumpable()), (before.0, Ok(before.3)));
    }
}
