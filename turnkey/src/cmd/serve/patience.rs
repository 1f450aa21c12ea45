//! The time that the process of a run has for what it does, alarm(2): when it is over, the process ends.

use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds for what is left of a run whose caller has hung up.
pub const ABANDONED: u32 = 4;

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Gives what begins now so many seconds, or what is left to a run whose caller has hung up, before or meanwhile.
pub fn give(seconds: u32) {
    nix::unistd::alarm::set(seconds);
    if IS_LOST.load(Ordering::SeqCst) {
        nix::unistd::alarm::set(ABANDONED);
    }
}

/// Leaves a run whose caller has hung up little time, whatever begins afterwards.
pub fn lose() {
    IS_LOST.store(true, Ordering::SeqCst);
    nix::unistd::alarm::set(ABANDONED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_after_the_caller_has_gone_has_no_more_time() {
        give(300);
        assert!(nix::unistd::alarm::cancel() > Some(ABANDONED));
        lose();
        give(300);
        assert!(nix::unistd::alarm::cancel() <= Some(ABANDONED));
    }
}
