//! The jail's init: reaps, tells how the program ended, and takes everything with it.
//!
//! Runs as: process 1 of the jail, under every layer the program is under. When it ends, the
//! kernel kills every other process of its pid namespace, daemons included.

use nix::errno::Errno;
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

use crate::sys;
use crate::wire::Sender;

/// Reaps until `program` has ended, then tells and ends. Never returns.
pub fn run(program: libc::pid_t, sender: Sender<'_>) -> ! {
    // The program has its own; as long as this process held them too, a reader of the program's
    // output would not see its end.
    for stream in 0..=2 {
        let _ = nix::unistd::close(stream);
    }
    loop {
        match nix::sys::wait::wait() {
            Ok(status) if status.pid() == Some(Pid::from_raw(program)) => {
                sender.exited(raw_status(status));
                sys::exit(0)
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => sys::exit(1),
        }
    }
}

/// Back to the number of wait(2).
fn raw_status(status: WaitStatus) -> i32 {
    match status {
        WaitStatus::Exited(_, code) => (code & 0xff) << 8,
        WaitStatus::Signaled(_, signal, dumped) => signal as i32 | if dumped { 0x80 } else { 0 },
        // Not asked for, so not told.
        _ => 0,
    }
}
