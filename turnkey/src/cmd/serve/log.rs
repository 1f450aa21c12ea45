//! The service's own words for its administrator: one JSON object a line on standard error, which a unit's journal keeps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::counters::{ServiceCounters, UserUse};
use super::line_allowance::LineAllowance;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use turnkey_report::Verdict;

/// The log, on a descriptor of its own: the process of a run gives its standard error to the caller.
#[derive(Debug)]
pub struct ServiceLog {
    file: File,
    allowance: Mutex<LineAllowance>,
}

/// An event of the service.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServiceEvent<'e> {
    /// The service listens.
    Serving {
        /// The socket.
        socket: &'e str,
    },
    /// A caller waits: for a slot, or for what other runs of its user have.
    Waits {
        /// The id of the request.
        request: &'e str,
        /// The caller's user.
        user: u32,
        /// The caller's process.
        caller: u32,
        /// The reason, as the caller was told.
        #[serde(serialize_with = "short")]
        reason: &'e str,
    },
    /// A caller was turned away, at the door or by the process of its run.
    Refused {
        /// The id of the request.
        request: &'e str,
        /// The caller's user, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<u32>,
        /// The caller's process, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<u32>,
        /// The number of the refusal.
        code: u32,
        /// The reason, as the caller was told.
        #[serde(serialize_with = "short")]
        reason: &'e str,
    },
    /// A program has started.
    Started {
        /// The id of the request.
        request: &'e str,
        /// The caller's user.
        user: u32,
        /// The caller's process.
        caller: u32,
        /// The profile.
        #[serde(serialize_with = "shorter")]
        profile: &'e str,
        /// The program, without its arguments.
        #[serde(serialize_with = "shorter")]
        program: &'e str,
    },
    /// A run is over.
    Ran {
        /// The id of the request.
        request: &'e str,
        /// The caller's user.
        user: u32,
        /// The caller's process.
        caller: u32,
        /// The id of the run, as in its report.
        run: &'e str,
        /// The exit code that the caller got.
        exit_code: u8,
        /// The verdict.
        verdict: Verdict,
        /// The first line of what `turnkey run` tells: of what it was killed for, or how it ended.
        #[serde(serialize_with = "short")]
        result: &'e str,
        /// From the connection to the report.
        milliseconds: u64,
    },
    /// A caller hung up before it had asked for anything, or while it waited.
    Gone {
        /// The id of the request.
        request: &'e str,
    },
    /// The process of a run was ended by a signal before it had answered its caller.
    GivenUp {
        /// The id of the request.
        request: &'e str,
        /// The caller's user.
        user: u32,
        /// The signal.
        signal: i32,
        /// The reason, as far as the signal tells it.
        #[serde(serialize_with = "short")]
        reason: &'e str,
        /// From the slot to its end.
        milliseconds: u64,
    },
    /// The counters, since somebody has asked for them by SIGUSR1.
    Counted {
        /// Runs that are made now.
        running: usize,
        /// Callers that wait for a slot.
        waiting: usize,
        /// The use that each of them makes.
        users: &'e BTreeMap<u32, UserUse>,
        /// The callers that are gone.
        #[serde(flatten)]
        counters: &'e ServiceCounters,
    },
    /// Lines of a user's callers that waited, were refused, given up or hung up were left out, so that those of others have room.
    LeftOut {
        /// The user; none for those of whom nothing is known.
        user: Option<u32>,
        /// The number of the lines.
        lines: u64,
    },
    /// The service ends.
    Ending,
    /// A process of a run was killed and has not ended: a file system that its caller named holds it in a call, until that is answered.
    Stuck {
        /// The process.
        process: u32,
    },
}

/// The id of a request in every line about it: the service's process, and the number that it gave the request.
pub fn request_id(service: u32, number: u64) -> String {
    format!("{service}-{number}")
}

/// The time since then.
pub fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
struct Line<'e> {
    at: String,
    #[serde(flatten)]
    event: ServiceEvent<'e>,
}

impl ServiceLog {
    /// The log of a process whose standard error is the service's.
    ///
    /// # Errors
    /// The errors of copying a descriptor.
    pub fn open() -> std::io::Result<ServiceLog> {
        let copy = std::io::stderr().as_fd().try_clone_to_owned()?;
        Ok(ServiceLog::from(File::from(copy)))
    }

    /// The log with no line about a caller who gets no run: another process counts those.
    pub fn without_lines(mut self) -> ServiceLog {
        self.allowance = Mutex::new(LineAllowance::none());
        self
    }

    /// True when there is room for a line about a caller of this user who gets no run.
    pub fn has_room(&self, user: u32) -> bool {
        self.allowance().has_room(Some(user))
    }

    /// Counts a line about such a caller, which the process of its run has written, or has left out.
    pub fn count(&self, user: u32, is_written: bool) {
        self.allowance().count(Some(user), is_written);
    }

    /// Writes a line, where somebody takes it at once: who reads no more is no reason to stop. One about a caller who gets nothing is
    /// left out and counted when its user has had its [allowance](LineAllowance).
    pub fn tell(&self, event: ServiceEvent<'_>) {
        let user = match &event {
            ServiceEvent::Waits { user, .. } => Some(Some(*user)),
            ServiceEvent::Refused { user, .. } => Some(*user),
            ServiceEvent::GivenUp { user, .. } => Some(Some(*user)),
            ServiceEvent::Gone { .. } => Some(None),
            _ => None,
        };
        if user.is_none_or(|user| self.allowance().admits(user)) {
            self.write(event);
        }
    }

    /// Tells how many lines were left out, once it is time, or `at_once`.
    pub fn tell_left_out(&self, at_once: bool) {
        let left_out = self.allowance().close(at_once);
        for (user, lines) in left_out {
            self.write(ServiceEvent::LeftOut { user, lines });
        }
    }

    /// The time until that has to be told; none when nothing was left out.
    pub fn rest(&self) -> Option<Duration> {
        self.allowance().rest()
    }

    /// Tells that the caller of a request has hung up.
    pub fn tell_gone(&self, number: u64) {
        let request = &request_id(std::process::id(), number);
        self.tell(ServiceEvent::Gone { request });
    }

    fn allowance(&self) -> MutexGuard<'_, LineAllowance> {
        self.allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, event: ServiceEvent<'_>) {
        let now = OffsetDateTime::from(SystemTime::now());
        let at = now.format(&Rfc3339).unwrap_or_default();
        let Ok(line) = serde_json::to_string(&Line { at, event }) else {
            return;
        };
        let mut taken = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut taken, PollTimeout::ZERO) == Ok(0) {
            return;
        }
        // One write, of no more than a pipe takes as a whole.
        let _ = (&self.file).write_all(in_ascii(&line).as_bytes());
    }
}

impl From<File> for ServiceLog {
    fn from(file: File) -> Self {
        ServiceLog {
            file,
            allowance: Mutex::default(),
        }
    }
}

/// The line with each character that a terminal could heed, or show in another order, as JSON has it for programs.
fn in_ascii(line: &str) -> String {
    let mut words = String::with_capacity(line.len() + 1);
    for character in line.chars() {
        if (' '..='~').contains(&character) {
            words.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            words.push_str(&format!("\\u{unit:04x}"));
        }
    }
    words.push('\n');
    words
}

/// Words of a caller's, cut so that a line, with twelve bytes for each character, fits in what a pipe takes as a whole.
fn short<S: Serializer>(words: &str, to: S) -> Result<S::Ok, S::Error> {
    cut(words, 300).serialize(to)
}

/// Two of a line's.
fn shorter<S: Serializer>(words: &str, to: S) -> Result<S::Ok, S::Error> {
    cut(words, 150).serialize(to)
}

fn cut(words: &str, characters: usize) -> &str {
    let end = words.char_indices().nth(characters);
    end.map_or(words, |(end, _)| &words[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_line_steers_no_terminal_is_short_and_waits_for_nobody() {
        let (mut out, into) = std::io::pipe().unwrap();
        let log = ServiceLog::from(File::from(std::os::fd::OwnedFd::from(into)));
        let program = format!(
            "\u{9b}31m\u{202e}\u{7f}\u{1f511}\n{}",
            "\u{1f511}".repeat(9999)
        );
        let profile = &program;
        // More than a pipe takes.
        for _ in 0..100 {
            log.tell(ServiceEvent::Started {
                request: "1-1",
                user: 1,
                caller: 2,
                profile,
                program: &program,
            });
        }
        drop(log);
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert!(
            said.bytes()
                .all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte))
        );
        let lines: Vec<&str> = said.lines().collect();
        assert!((1..100).contains(&lines.len()), "{}", lines.len());
        for line in lines {
            assert!(line.len() < 4096, "{}", line.len());
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let told = line["program"].as_str().unwrap();
            assert!(program.starts_with(told) && told.chars().count() == 150);
        }
    }
}
