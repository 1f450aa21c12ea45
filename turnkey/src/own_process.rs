//! Memory and signals of turnkey's own process, mallopt(3) and sigaction(2), the streams that it began without, and its end.
//!
//! A run lives for milliseconds, and allocates half a megabyte in three threads. By default each thread begins an arena
//! of its own, that grows by a page at a time with a system call for each; and what is freed at the end of the heap goes
//! back to the kernel, to be asked for again a moment later.

#![expect(
    unsafe_code,
    reason = "how the C library gives memory, and what it calls before the standard library"
)]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Bytes by which the heap grows at a time; twice as many may lie free at its end.
const AT_HAND: libc::c_int = 256 << 10;

/// Notes the standard streams that are closed, as long as that can be told: the standard library opens /dev/null in their place.
extern "C" fn note_closed_streams() {
    for number in 0..3 {
        // SAFETY: a system call alone, which asks about a descriptor.
        if unsafe { libc::fcntl(number.into(), libc::F_GETFD) } == -1 {
            turnkey_supervisor::files::note_absent(number);
        }
    }
}

// SAFETY: the C library calls each function of this list once, before main, as this thread alone. It is given arguments that it does not
// take, as the calling convention of C allows, and makes system calls alone.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_THE_STANDARD_LIBRARY: extern "C" fn() = note_closed_streams;

/// Ends the process at once, as the kernel would: no destructor, which might wait for a thread or a lock, is run.
pub fn end(status: u8) -> ! {
    // SAFETY: it does not return and runs nothing of this process's.
    unsafe { libc::_exit(status.into()) }
}

/// Ends turnkey on abort(3), the standard library's answer to memory that cannot be had. A signal's status, 134,
/// would be the program's. When there is none to tell of that either, it ends by an instruction that is none.
extern "C" fn aborted(_: libc::c_int) {
    hang_up();
    turnkey_supervisor::restore_all();
    end(crate::FAILED)
}

/// The milliseconds in which a run ends by itself whose caller has hung up.
const HUNG_UP: libc::c_int = 5000;

/// Hangs up on the service that makes a run for this process, if one does, and waits for its last word: by then it has given the
/// terminal back.
fn hang_up() {
    let Some(connection) = turnkey_supervisor::service::connection() else {
        return;
    };
    let mut waited = libc::pollfd {
        fd: connection,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: both are system calls alone, on a number that is this process's connection, and a list of one that is this function's.
    unsafe {
        libc::shutdown(connection, libc::SHUT_WR);
        libc::poll(&raw mut waited, 1, HUNG_UP);
    }
}

/// The last signal that [`note`] was asked to keep; 0 without one.
static NOTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn noted(signal: libc::c_int) {
    NOTED.store(signal, Ordering::Relaxed);
}

/// From now on, these signals are kept for [`take_noted`] and end nothing. A program that this process becomes or starts has
/// their own meanings again.
pub fn note(signals: &[Signal]) {
    for signal in signals {
        answer(*signal, SigHandler::Handler(noted));
    }
}

/// A signal that was noted since the last call.
pub fn take_noted() -> Option<Signal> {
    Signal::try_from(NOTED.swap(0, Ordering::Relaxed)).ok()
}

/// Call it first: it tells of memory that is not asked for yet.
pub fn settle_memory_and_signals() {
    let wishes = [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TOP_PAD, AT_HAND),
        (libc::M_TRIM_THRESHOLD, 2 * AT_HAND),
    ];
    for (parameter, value) in wishes {
        // SAFETY: no pointers; no other thread allocates yet. It answers 0 for what the library does not know, and all
        // is as without it then.
        unsafe { libc::mallopt(parameter, value) };
    }
    for signal in [Signal::SIGABRT, Signal::SIGILL] {
        answer(signal, SigHandler::Handler(aborted));
    }
    // Whoever ignores the ends of its children has the kernel take them away: none could be waited for.
    answer(Signal::SIGCHLD, SigHandler::SigDfl);
    // A report past the caller's `ulimit -f` is an error of write(2): the signal's status, 153, would be the program's.
    answer(Signal::SIGXFSZ, SigHandler::SigIgn);
}

/// Gives every signal its own meaning that whoever started this process ignores, but for the two that turnkey ignores itself: a service's
/// runs are their callers', and not those of who started it.
pub fn heed_what_is_ignored() {
    for number in 1..=libc::SIGRTMAX() {
        if ![libc::SIGPIPE, libc::SIGXFSZ].contains(&number) && is_ignored(number) {
            // SAFETY: no function of this process's is named.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

fn is_ignored(number: libc::c_int) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is set, and what is asked for has its place.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: the kernel has filled it where it answers 0; the numbers that the C library keeps for itself have none.
    asked == 0 && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn answer(signal: Signal, handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: of the two handlers there are, one stores a number, and the other makes system calls alone and does not return. Neither
    // allocates or waits for a lock.
    let _ = unsafe { sigaction(signal, &action) };
}
