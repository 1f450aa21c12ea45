//! The service's own words for its administrator: one JSON object a line on standard error, which a unit's journal keeps.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::SystemTime;

use super::counters::ServiceCounters;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

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
    /// A caller was turned away, at the door or by the process of its run.
    Refused {
        /// The caller's user, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<u32>,
        /// The number of the refusal.
        code: u32,
        /// The reason, as the caller was told.
        reason: &'e str,
    },
    /// A run is over.
    Ran {
        /// The caller's user.
        user: u32,
        /// The caller's process.
        caller: u32,
        /// The id of the run, as in its report.
        run: &'e str,
        /// The exit code that the caller got.
        exit_code: u8,
        /// From the connection to the report.
        milliseconds: u64,
    },
    /// The counters, since somebody has asked for them by SIGUSR1.
    Counted {
        /// Runs that are made now.
        running: usize,
        /// Callers that wait for a slot.
        waiting: usize,
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
