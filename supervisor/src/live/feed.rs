//! The lines that a run tells its followers: bounded for each, and waited for by nobody.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use turnkey_facts::Event;
use turnkey_jailer::CurrentUsage;
use turnkey_report::EventLines;
use turnkey_report::live::{LiveNumbers, LiveRun};

use super::Visitor;
use super::peer::Peer;
use crate::clock;

/// Followers of one run at a time.
const FOLLOWERS: usize = 64;
/// Bytes that wait for one follower, beside what the kernel keeps for a socket: some 700 events.
const WAITING: usize = 256 << 10;
/// The longest time that a run waits for all its followers when it is over.
const AT_THE_END: Duration = Duration::from_millis(200);

/// The followers of one run.
pub struct LiveFeed {
    run: LiveRun,
    lines: EventLines,
    followers: Vec<Follower>,
    events: u64,
}

impl LiveFeed {
    /// The feed of a run that nobody can follow yet.
    pub fn new(run: LiveRun, lines: EventLines) -> LiveFeed {
        LiveFeed {
            run,
            lines,
            followers: Vec::new(),
            events: 0,
        }
    }

    /// The facts that followers are told first.
    pub fn run_mut(&mut self) -> &mut LiveRun {
        &mut self.run
    }

    /// Takes in those of `came` who may follow, each with a first line of `numbers` and of what the group uses. Where there is no
    /// place for more, that line and the reason are all they get. For the others the connection is closed.
    pub fn join(
        &mut self,
        came: Vec<Visitor>,
        numbers: LiveNumbers,
        usage: impl FnOnce() -> Option<CurrentUsage>,
    ) {
        let may_follow = |stream| may_follow(stream, self.run.served);
        let mut joined: Vec<_> = came.into_iter().filter_map(may_follow).collect();
        if joined.is_empty() {
            return;
        }
        self.followers.retain_mut(Follower::is_there);
        let places = FOLLOWERS.saturating_sub(self.followers.len());
        let without = joined.split_off(places.min(joined.len()));
        let usage = usage();
        let seconds = |time: Duration| time.as_secs_f64();
        let numbers = LiveNumbers {
            events: self.events,
            tasks: usage.as_ref().and_then(|usage| usage.tasks),
            memory_bytes: usage.as_ref().and_then(|usage| usage.memory),
            cpu_seconds: usage.and_then(|usage| usage.cpu_time).map(seconds),
            ..numbers
        };
        let first = self.run.joined(numbers, clock::boottime());
        for stream in joined {
            let mut follower = Follower::new(stream);
            follower.offer(&first, &self.run);
            self.followers.push(follower);
        }
        for stream in without {
            let mut visitor = Follower::new(stream);
            visitor.offer(&first, &self.run);
            visitor.offer(&self.run.full(FOLLOWERS), &self.run);
            // A new connection has room for so little.
            let _ = visitor.flush();
        }
    }

    /// True when somebody follows.
    pub fn is_followed(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Takes an event; `process` is the row of who acted.
    pub fn event(&mut self, event: &Event, process: Option<usize>) {
        self.events += 1;
        if self.is_followed() {
            let line = self.run.event(&self.lines.line(event, process));
            self.offer(&line);
        }
    }

    /// Takes a line for all.
    pub fn offer(&mut self, line: &[u8]) {
        for follower in &mut self.followers {
            follower.offer(line, &self.run);
        }
    }

    /// Sends what the followers take at once.
    pub fn flush(&mut self) {
        self.followers
            .retain_mut(|follower| follower.flush().is_ok());
    }

    /// Sends the rest to those who take it soon.
    pub fn finish(mut self) {
        let deadline = Instant::now() + AT_THE_END;
        for follower in &mut self.followers {
            follower.conclude(&self.run);
        }
        self.flush();
        self.followers
            .retain(|follower| !follower.waiting.is_empty());
        while self.is_followed() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let mut slow: Vec<_> = self
                .followers
                .iter()
                .map(|follower| PollFd::new(follower.stream.as_fd(), PollFlags::POLLOUT))
                .collect();
            if !poll(&mut slow, left).is_ok_and(|ready| ready > 0) {
                return;
            }
            self.flush();
            self.followers
                .retain(|follower| !follower.waiting.is_empty());
        }
    }
}

/// The connection, where it is of this user, or of the one who is served, and of no process of a jail.
fn may_follow(stream: Visitor, served: Option<u32>) -> Option<Visitor> {
    let peer = Peer::of(&stream)?;
    let is_of_the_run = peer.is_own() || Some(peer.uid) == served;
    if !is_of_the_run || !peer.is_outside_of_jails() {
        return None;
    }
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// A connection with what waits for it.
struct Follower {
    stream: Visitor,
    waiting: VecDeque<u8>,
    /// Lines since the last one that found room.
    lost: u64,
}

impl Follower {
    fn new(stream: Visitor) -> Follower {
        Follower {
            stream,
            waiting: VecDeque::new(),
            lost: 0,
        }
    }

    /// Has a line wait, or counts it. That lines were lost is told before the next one that has room.
    fn offer(&mut self, line: &[u8], run: &LiveRun) {
        let lost = match self.lost {
            0 => Vec::new(),
            count => run.lost(count),
        };
        let more = lost.len() + line.len();
        if self.waiting.len() + more > WAITING {
            // A burst may have come since the last look at who reads; one that is gone is seen at the next.
            let _ = self.flush();
        }
        if self.waiting.len() + more > WAITING {
            self.lost += 1;
            return;
        }
        self.lost = 0;
        self.waiting.extend(lost);
        self.waiting.extend(line);
    }

    /// Tells of the lines that were lost last, whatever waits.
    fn conclude(&mut self, run: &LiveRun) {
        if self.lost > 0 {
            self.waiting.extend(run.lost(self.lost));
            self.lost = 0;
        }
    }

    /// Sends what the kernel takes. An error is a follower that has gone.
    fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let (first, _) = self.waiting.as_slices();
            match (&*self.stream).write(first) {
                Ok(sent) => drop(self.waiting.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// True while it is open. Nothing that it says is read: what it has queued would be closed with that.
    fn is_there(&mut self) -> bool {
        let mut stream = [PollFd::new(self.stream.as_fd(), PollFlags::empty())];
        poll(&mut stream, PollTimeout::ZERO) == Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use turnkey_report::live::{FULL, JOINED};

    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn feed() -> LiveFeed {
        let no_files = |path: &str| Err(path.to_owned());
        let overrides = turnkey_policy::Overrides::default();
        let policy = turnkey_policy::load("container", &no_files, &overrides).unwrap();
        let clock = clock::now();
        let run = LiveRun::new(&policy, clock, "a-1".to_owned(), Vec::new());
        LiveFeed::new(run, EventLines::new(&policy, clock))
    }

    /// The kinds of the lines that came, and whether there will be more.
    fn told(stream: &mut UnixStream) -> (Vec<&'static str>, bool) {
        stream.set_nonblocking(true).unwrap();
        let mut text = Vec::new();
        let is_over = stream.read_to_end(&mut text).is_ok();
        let lines = String::from_utf8(text).unwrap();
        let kinds = [JOINED, FULL];
        let of = |line: &str| {
            kinds
                .into_iter()
                .find(|kind| line.contains(&format!("\"kind\":\"{kind}\"")))
        };
        let kinds = lines.lines().map(|line| of(line).unwrap());
        (kinds.collect(), !is_over)
    }

    #[test]
    fn one_more_than_there_may_be_is_told_why_and_the_others_stay() {
        let mut feed = feed();
        let pairs = (0..=FOLLOWERS).map(|_| UnixStream::pair().unwrap());
        let (came, mut kept): (Vec<_>, Vec<_>) = pairs.unzip();
        let came = came.into_iter().map(Visitor::from).collect();
        feed.join(came, LiveNumbers::default(), || None);
        feed.flush();
        turnkey_jailer::foreign::close_dropped();
        let mut last = kept.pop().unwrap();
        assert_eq!(told(&mut last), (vec![JOINED, FULL], false));
        for mut other in kept {
            assert_eq!(told(&mut other), (vec![JOINED], true));
        }
    }
}
