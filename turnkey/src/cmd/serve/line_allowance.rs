//! Lines about callers who get nothing: as many of one user as leave room for those about others in a journal, which drops what is
//! beyond its own limit, whosever it is (journald.conf(5), `RateLimitBurst`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The lines about one user in a [`WINDOW`].
const MOST: u64 = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts of the lines in the window that is open; users nobody knows are one.
#[derive(Debug)]
pub struct LineAllowance {
    /// The lines about one user in a window.
    most: u64,
    since: Option<Instant>,
    lines: BTreeMap<Option<u32>, LineCount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LineCount {
    written: u64,
    left_out: u64,
}

impl LineAllowance {
    /// One that admits no line.
    pub fn none() -> LineAllowance {
        LineAllowance {
            most: 0,
            ..LineAllowance::default()
        }
    }

    /// True when there is room for a line.
    pub fn has_room(&self, user: Option<u32>) -> bool {
        let lines = self.lines.get(&user);
        lines.map_or(0, |lines| lines.written) < self.most
    }

    /// Counts a line; true when it is to be written.
    pub fn admits(&mut self, user: Option<u32>) -> bool {
        let has_room = self.has_room(user);
        self.count(user, has_room);
        has_room
    }

    /// Counts a line that another process has written, or has left out as it was told to.
    pub fn count(&mut self, user: Option<u32>, is_written: bool) {
        self.since.get_or_insert_with(Instant::now);
        let lines = self.lines.entry(user).or_default();
        match is_written {
            true => lines.written += 1,
            false => lines.left_out += 1,
        }
    }

    /// The time until lines that were left out can be told; none when there are none.
    pub fn rest(&self) -> Option<Duration> {
        let is_beyond = self.lines.values().any(|lines| lines.left_out > 0);
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
        let left_out = lines.map(|(user, lines)| (user, lines.left_out));
        left_out.filter(|(_, lines)| *lines > 0).collect()
    }
}

impl Default for LineAllowance {
    fn default() -> Self {
        LineAllowance {
            most: MOST,
            since: None,
            lines: BTreeMap::new(),
        }
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
        // As two processes of its runs have it, the second started when there was no room.
        assert!(!lines.has_room(Some(1)) && lines.has_room(Some(2)));
        lines.count(Some(1), true);
        lines.count(Some(1), false);
        assert!(lines.rest().is_some_and(|rest| rest <= WINDOW));
        assert_eq!(lines.close(false), []);
        assert_eq!(lines.close(true), [(Some(1), 8)]);
        assert!(lines.admits(Some(1)) && lines.rest().is_none());
        assert!(!LineAllowance::none().admits(Some(1)));
    }
}
