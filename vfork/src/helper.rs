//! The owner of a child that runs beside its maker.

#![expect(
    unsafe_code,
    reason = "a process in this one's memory, beside its maker"
)]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{Signal, pidfd_send_signal};

use crate::{SpawnOptions, Stack, spawn};

/// Bytes of its stack: the calls of a helper have no deep frames, not even unoptimised.
const STACK: usize = 32 << 10;

/// A process that shares this one's memory and runs beside it, with the memory that is its own. Dropping it kills it.
pub struct VforkHelper<T: Sync + 'static> {
    pid: Pid,
    pidfd: OwnedFd,
    ended: bool,
    // Used by the helper until it has ended.
    _task: Box<HelperTask<T>>,
    _stack: Box<Stack<STACK>>,
}

struct HelperTask<T> {
    function: fn(&T) -> !,
    argument: T,
}

impl<T: Sync + 'static> VforkHelper<T> {
    /// Makes a child that runs `function` with `argument`, with `flags` of namespaces. It has copies of this process's
    /// descriptors, and every signal blocked.
    ///
    /// # Errors
    /// Those of clone3(2).
    ///
    /// # Safety
    /// `function` must keep to the rules of this [crate](crate#safety).
    pub unsafe fn start(flags: c_int, function: fn(&T) -> !, argument: T) -> nix::Result<Self> {
        let task = Box::new(HelperTask { function, argument });
        let mut stack = Box::new(Stack::<STACK>::EMPTY);
        let mut pidfd: RawFd = -1;
        // A handler of the caller's would run in this memory.
        let mut before = SigSet::empty();
        pthread_sigmask(
            SigmaskHow::SIG_BLOCK,
            Some(&SigSet::all()),
            Some(&mut before),
        )?;
        let options = SpawnOptions {
            flags,
            cgroup: None,
            pidfd: Some(&mut pidfd),
        };
        let pointer = (&raw const *task).cast::<c_void>();
        // SAFETY: the child runs `run::<T>` on a stack of its own, which lives, as what `pointer` points to, until it has
        // ended: see `wait` and `drop`. Its maker answers for `function`.
        let answer = unsafe { spawn(options, &mut stack, (run::<T>, pointer)) };
        // Owned from here on: whatever fails below ends it before its stack is gone.
        let made = answer.map(|pid| VforkHelper {
            pid,
            // SAFETY: the kernel has just made this descriptor for this process, and nobody else knows it.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
            ended: false,
            _task: task,
            _stack: stack,
        });
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
        made
    }

    /// The helper's id in the caller's pid namespace.
    pub fn pid(&self) -> libc::pid_t {
        self.pid.as_raw()
    }

    /// Kills it, and tells how it ended: by this, unless it had before.
    ///
    /// # Errors
    /// `ECHILD` where the caller ignores its children.
    pub fn kill(mut self) -> nix::Result<WaitStatus> {
        let _ = pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL);
        self.ended = true;
        loop {
            match waitpid(self.pid, None) {
                Err(Errno::EINTR) => {}
                ended => return ended,
            }
        }
    }

    /// True when it has ended.
    pub fn has_ended(&mut self) -> bool {
        let lives = Ok(WaitStatus::StillAlive);
        self.ended = self.ended || waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) != lives;
        self.ended
    }

    /// Waits for its end, but no longer than this; true when it has ended.
    pub fn ended_within(&mut self, milliseconds: u8) -> bool {
        let mut looked = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut looked, milliseconds);
        self.has_ended()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) {
        // Where the caller ignores its children, or waits for all of them, it is taken away: it is dead then, too.
        if !self.ended {
            while waitpid(self.pid, None) == Err(Errno::EINTR) {}
            self.ended = true;
        }
    }
}

impl<T: Sync + 'static> Drop for VforkHelper<T> {
    fn drop(&mut self) {
        if !self.ended {
            // ESRCH when it is gone already, which is as good.
            let _ = pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL);
        }
        self.wait();
    }
}

impl<T: Sync + 'static> fmt::Debug for VforkHelper<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("VforkHelper");
        fields.field("pid", &self.pid).finish_non_exhaustive()
    }
}

extern "C" fn run<T>(task: *const c_void) -> c_int {
    // SAFETY: what `VforkHelper::start` has made of a box that lives longer than this process.
    let task = unsafe { &*task.cast::<HelperTask<T>>() };
    (task.function)(&task.argument)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use turnkey_expectations::expected;

    use super::*;

    expected!(
        as_root,
        "call clone3(2), which the filter around an ordinary container hides"
    );

    fn count(number: &AtomicU32) -> ! {
        number.fetch_add(1, Ordering::Relaxed);
        // SAFETY: it takes no pointer and does not return.
        unsafe { libc::_exit(0) }
    }

    #[test]
    fn what_a_helper_writes_is_seen() {
        static NUMBER: AtomicU32 = AtomicU32::new(6);
        let function = |number: &&'static AtomicU32| count(number);
        // SAFETY: `count` adds to a number and makes one system call.
        let helper = unsafe { VforkHelper::start(0, function, &NUMBER) };
        let mut helper = helper.expect("a process");
        helper.wait();
        assert_eq!(NUMBER.load(Ordering::Relaxed), 7);
    }

    fn spin(_: &()) -> ! {
        loop {
            std::hint::spin_loop();
        }
    }

    fn crash(_: &()) -> ! {
        // SAFETY: no instruction, by which the kernel ends this process alone; a blocked signal does not keep it.
        unsafe { std::arch::asm!("ud2", options(noreturn)) }
    }

    #[test]
    fn one_that_crashed_is_told_from_one_that_was_killed() {
        use nix::sys::signal::Signal::{SIGILL, SIGKILL};
        // SAFETY: `spin` does nothing at all.
        let lives = unsafe { VforkHelper::start(0, spin, ()) }.expect("a process");
        let (pid, ended) = (lives.pid, lives.kill());
        assert_eq!(ended, Ok(WaitStatus::Signaled(pid, SIGKILL, false)));
        // SAFETY: `crash` does nothing.
        let crashes = unsafe { VforkHelper::start(0, crash, ()) }.expect("a process");
        let pid = crashes.pid;
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        while !state().contains(") Z") {
            std::thread::yield_now();
        }
        let ended = crashes.kill();
        assert!(
            matches!(ended, Ok(WaitStatus::Signaled(_, SIGILL, _))),
            "{ended:?}"
        );
    }

    #[test]
    fn a_helper_hears_no_signal_and_dropping_it_ends_it() {
        let mask = SigSet::thread_get_mask().expect("a mask");
        // SAFETY: `spin` does nothing at all.
        let helper = unsafe { VforkHelper::start(0, spin, ()) }.expect("a process");
        let pid = helper.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = u64::from_str_radix(blocked.expect("a mask").trim(), 16).expect("bits");
        let terminate = 1 << (libc::SIGTERM - 1);
        assert_ne!(blocked & terminate, 0, "a handler would run in this memory");
        drop(helper);
        let gone = nix::sys::signal::kill(Pid::from_raw(pid), None);
        assert_eq!(gone, Err(Errno::ESRCH));
        assert_eq!(SigSet::thread_get_mask(), Ok(mask));
    }
}
