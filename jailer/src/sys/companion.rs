//! A process that shares this one's memory, as a thread does, and nothing else with it: no page is copied to make
//! it, and none afterwards because both have it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

use super::{Result, close_from, exit, lend, process, signal};

/// Bytes to act in: the calls of a companion have no deep frames, not even unoptimised.
const ROOM: usize = 32 << 10;

/// The ABI of x86-64 wants a stack aligned to that.
#[repr(align(16))]
struct Stack([MaybeUninit<u8>; ROOM]);

/// A companion, with the memory that is its own. Dropping it kills it.
pub struct Companion<T: Sync + 'static> {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    ended: bool,
    // Used by the companion until it has ended.
    _errand: Box<Errand<T>>,
    _stack: Box<Stack>,
}

struct Errand<T> {
    act: fn(&T) -> !,
    what: T,
}

impl<T: Sync + 'static> Companion<T> {
    /// Makes a child that does `act` with `what`; clone(2) with `CLONE_VM`, and with `flags` of namespaces. It has
    /// copies of this process's descriptors, and every signal blocked.
    ///
    /// `act` has the thread-local storage of this thread, which goes on meanwhile. So it must neither allocate nor lock nor
    /// unwind, and make its system calls without the C library, which leaves `errno` there: by `rustix`.
    pub fn start(flags: c_int, act: fn(&T) -> !, what: T) -> Result<Self> {
        let errand = Box::new(Errand { act, what });
        let stack = Box::<Stack>::new_uninit();
        // SAFETY: bytes that may be uninitialised are what it consists of.
        let mut stack = unsafe { stack.assume_init() };
        let top = stack.0.as_mut_ptr_range().end.cast::<c_void>();
        let mut pidfd: RawFd = -1;
        let flags = flags | libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
        let argument = (&raw const *errand).cast_mut().cast::<c_void>();
        // A handler of the caller's would run in this memory.
        let mut before = SigSet::empty();
        pthread_sigmask(
            SigmaskHow::SIG_BLOCK,
            Some(&SigSet::all()),
            Some(&mut before),
        )?;
        // SAFETY: the child runs `run::<T>` on the upper end of a stack of its own, which lives, as what `argument`
        // points to, until it has ended: see `wait` and `drop`. `pidfd` is written before the call returns.
        let answer = unsafe { libc::clone(run::<T>, top, flags, argument, &raw mut pidfd) };
        // Owned from here on: whatever fails below ends it before its stack is gone.
        let made = Errno::result(answer).map(|pid| Companion {
            pid,
            // SAFETY: the kernel has just made this descriptor for this process, and nobody else knows it.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
            ended: false,
            _errand: errand,
            _stack: stack,
        });
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
        made
    }

    /// In the caller's pid namespace.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) {
        // Who ignores their children, or waits for all of them, has it taken away: it is dead then, too.
        if !self.ended {
            let _ = process::wait(self.pid);
            self.ended = true;
        }
    }
}

impl<T: Sync + 'static> Drop for Companion<T> {
    fn drop(&mut self) {
        if !self.ended {
            // ESRCH when it is gone already, which is as good.
            let _ = signal(self.pidfd.as_fd(), libc::SIGKILL);
        }
        self.wait();
    }
}

impl<T: Sync + 'static> fmt::Debug for Companion<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = formatter.debug_struct("Companion");
        told.field("pid", &self.pid).finish_non_exhaustive()
    }
}

extern "C" fn run<T>(errand: *mut c_void) -> c_int {
    // SAFETY: what `Companion::start` has made of a box that lives longer than this process.
    let errand = unsafe { &*errand.cast_const().cast::<Errand<T>>() };
    (errand.act)(&errand.what)
}

/// In a companion: gives up all descriptors but this one, the reading end of a pipe, and waits until nobody has the other end.
pub fn wait_for_the_end(waiting: RawFd) {
    let stdin = lend(0);
    // A caller without standard streams may have got the number 0 for it.
    if waiting != stdin.as_raw_fd() && rustix::stdio::dup2_stdin(lend(waiting)).is_err() {
        exit(1);
    }
    let _ = close_from(1);
    let mut byte = [0];
    while rustix::io::read(stdin, &mut byte) == Err(rustix::io::Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::sys;

    fn count(number: &AtomicU32) -> ! {
        number.fetch_add(1, Ordering::Relaxed);
        sys::exit(0)
    }

    #[test]
    fn what_a_companion_writes_is_seen() {
        static NUMBER: AtomicU32 = AtomicU32::new(6);
        let act = |number: &&'static AtomicU32| count(number);
        let mut companion = Companion::start(0, act, &NUMBER).expect("a process");
        companion.wait();
        assert_eq!(NUMBER.load(Ordering::Relaxed), 7);
    }

    fn sleep(_: &()) -> ! {
        loop {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_companion_hears_no_signal_and_dropping_it_ends_it() {
        let mask = SigSet::thread_get_mask().expect("a mask");
        let companion = Companion::start(0, sleep, ()).expect("a process");
        let pid = companion.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = u64::from_str_radix(blocked.expect("a mask").trim(), 16).expect("bits");
        let terminate = 1 << (libc::SIGTERM - 1);
        assert_ne!(blocked & terminate, 0, "a handler would run in this memory");
        drop(companion);
        assert_eq!(sys::kill(pid, 0), Err(Errno::ESRCH));
        assert_eq!(SigSet::thread_get_mask(), Ok(mask));
    }
}
