//! The jail's init: reaps, passes signals on, tells how the program ended, and takes everything
//! with it.
//!
//! Runs as: process 1 of the jail, under every layer the program is under. When it ends, the
//! kernel kills every other process of its pid namespace, daemons included. It dies with its
//! supervisor by two means that do not need each other: the kernel's death signal, and the end of
//! the lifeline, a socket whose other end only the supervisor holds. A supervisor that lives and does nothing, stopped by a
//! signal, keeps no clock: so there is a second one here, a moment behind.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::process::child::{CHILDREN, CLOCK, LIFELINE};
use crate::process::wire::ChildSender;
use crate::sys;

/// Reaps until `program` has ended, then tells and ends. Never returns.
pub fn run(program: libc::pid_t, sender: ChildSender<'_>) -> ! {
    // The program has its own; as long as this process held them too, a reader of the program's
    // output would not see its end.
    for stream in 0..=2 {
        let _ = nix::unistd::close(stream);
    }
    let (lifeline, children) = (sys::lend(LIFELINE), sys::lend(CHILDREN));
    let clock = sys::lend(CLOCK);
    loop {
        let [ordered, ended, over] = wait_for_any([lifeline, children, clock]);
        if ordered {
            obey(lifeline, program);
        }
        // First: who ended in time was in time.
        if ended {
            reap(children, program, sender);
        }
        if over {
            sender.out_of_time();
            sys::exit(1);
        }
    }
}

/// The descriptors that are readable, or at their end.
fn wait_for_any(descriptors: [BorrowedFd<'_>; 3]) -> [bool; 3] {
    let mut all = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
    match poll(&mut all, PollTimeout::NONE) {
        Ok(_) => {}
        Err(Errno::EINTR) => return [false; 3],
        Err(_) => sys::exit(1),
    }
    all.map(|entry| entry.revents().is_some_and(|events| !events.is_empty()))
}

/// Passes a signal on to the program and the processes of its group; or ends with the supervisor.
fn obey(lifeline: BorrowedFd<'_>, program: libc::pid_t) {
    let mut order = [0];
    match nix::unistd::read(lifeline, &mut order) {
        Ok(0) | Err(Errno::ECONNRESET) => sys::exit(1),
        // A program that has just ended needs no signal any more.
        Ok(_) => drop(sys::kill(-program, i32::from(order[0]))),
        Err(Errno::EINTR) => {}
        Err(_) => sys::exit(1),
    }
}

/// One signal may stand for many ends.
fn reap(children: BorrowedFd<'_>, program: libc::pid_t, sender: ChildSender<'_>) {
    // `struct signalfd_siginfo`; what it says is asked for below.
    let mut told = [0; 128];
    let _ = nix::unistd::read(children, &mut told);
    while let Ok(Some(ended)) = sys::ended() {
        if ended.pid == program {
            sender.exited(ended.status);
            sys::exit(0)
        }
    }
}
