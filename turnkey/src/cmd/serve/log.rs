//! The service's own words for its administrator: one JSON object a line on standard error, which a unit's journal keeps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Instant, SystemTime};

use super::counters::{ServiceCounters, UserUse};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use turnkey_report::Verdict;

/// The log, on a descriptor of its own: the process of a run gives its standard error to the caller.
#[derive(Debug)]
pub struct ServiceLog(File);

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
        profile: &'e str,
        /// The program, without its arguments.
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
        result: &'e str,
        /// From the connection to the report.
        milliseconds: u64,
    },
    /// A caller hung up before it had asked for anything.
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
        Ok(ServiceLog(File::from(copy)))
    }

    /// Writes a line. Who reads it no more is no reason to stop.
    pub fn tell(&self, event: ServiceEvent<'_>) {
        let now = OffsetDateTime::from(SystemTime::now());
        let at = now.format(&Rfc3339).unwrap_or_default();
        let Ok(mut line) = serde_json::to_vec(&Line { at, event }) else {
            return;
        };
        line.push(b'\n');
        let _ = (&self.0).write_all(&line);
    }
}
