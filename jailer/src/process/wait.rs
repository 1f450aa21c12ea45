//! Waiting for a jail, for a supervisor without an event loop.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::JailError;
use crate::jail::{JailNews, Running};

impl Running {
    /// The next news, or `None` when there was none within `patience`. Whoever has an event loop
    /// waits for [`Running::descriptor`] instead, and then asks for [`Running::news`].
    ///
    /// # Errors
    /// When the jail's first process cannot be heard.
    pub fn news_within(&mut self, patience: Duration) -> Result<Option<JailNews>, JailError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if is_readable(self, left)? {
                return self.news().map(Some);
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}

/// An interrupted wait is one that ended early.
fn is_readable(running: &Running, patience: Duration) -> Result<bool, JailError> {
    // Rounded up: a rest below a millisecond would otherwise be waited for in a busy loop.
    let patience = patience.saturating_add(Duration::from_micros(999));
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    let mut waiting = [PollFd::new(running.descriptor(), PollFlags::POLLIN)];
    match poll(&mut waiting, timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(source) => Err(JailError::System {
            act: "wait for the jail",
            source,
        }),
    }
}
