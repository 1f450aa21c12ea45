//! Lines about callers who get nothing: as many of one user as leave room for those about others in a journal, which drops what is
//! beyond its own limit, whosever it is (journald.conf(5), `RateLimitBurst`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The lines about one user in a [`WINDOW`].
const MOST: u64 = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts of the lines in the window that is open; users nobody knows are one.
#[derive(Debug, Default)]
pub struct LineAllowance {
    since: Option<Instant>,
    lines: BTreeMap<Option<u32>, u64>,
}

impl LineAllowance {
    /// Counts a line; true when it is to be written.
    pub fn admits(&mut self, user: Option<u32>) -> bool {
        self.since.get_or_insert_with(Instant::now);
        let lines = self.lines.entry(user).or_default();
        *lines += 1;
        *lines <= MOST
    }

    /// The time until lines that were left out can be told; none when there are none.
    pub fn rest(&self) -> Option<Duration> {
        let is_beyond = self.lines.values().any(|lines| *lines > MOST);
        let since = self.since.filter(|_| is_beyond)?;
        Some(WINDOW.saturating_sub(since.elapsed()))
    }

    /// Closes the window when its time has come, or `at_once`: the lines that were left out, by their user.
    pub fn close(&mut self, at_once: bool) -> Vec<(Option<u32>, u64)> {
        let is_over = self.since.is_some_and(|since| since.elapsed() >= WINDOW);
        if !is_over && !at_once {
            return Vec::new();
        }
        self.since = None;
        let lines = std::mem::take(&mut self.lines).into_iter();
        let left_out = |(user, lines)| (lines > MOST).then(|| (user, lines - MOST));
        lines.filter_map(left_out).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_own_lines_and_what_is_left_out_is_counted() {
        let mut lines = LineAllowance::default();
        let admitted = (0..MOST + 7).filter(|_| lines.admits(Some(1)));
        assert_eq!(admitted.count() as u64, MOST);
        assert!(lines.admits(Some(2)) && lines.admits(None));
        assert!(lines.rest().is_some_and(|rest| rest <= WINDOW));
        assert_eq!(lines.close(false), []);
        assert_eq!(lines.close(true), [(Some(1), 7)]);
        assert!(lines.admits(Some(1)) && lines.rest().is_none());
    }
}
