//! Sinks: receivers that are told of a run's findings while it lasts, and of its verdict. Followers are told the same.
//!
//! No sink holds a run up. Each has a queue with a bound and a thread that is started with the first alert; what finds no
//! room is lost, and when the run is over all of them together have [`AT_THE_END`] to take what is left. What is lost is counted.
//!
//! The receiver is the caller's choice alone: sockets and files are found by the rules of [`paths`](turnkey_jailer::paths)
//! before anything runs, and nothing that a receiver answers changes a run.

mod file;
mod https;
mod journald;
mod queue;
mod socket;
mod target;
mod webhook;

use std::io;
use std::time::Duration;

use anyhow::Context;
use turnkey_analysis::behaviour::BehaviourEngine;
use turnkey_jailer::{CurrentUsage, foreign};
use turnkey_policy::Severity;
use turnkey_report::live::LiveNumbers;
use turnkey_report::model::Violation;
use turnkey_report::{Alert, AlertWriter, Attachment, Report, Sink};

use crate::files::CallerOutput;
use crate::live::{LiveFeed, Visitor};
use queue::AlertQueue;

pub use target::{AlertFormat, SinkTarget, TargetError};
pub use webhook::WebhookSecret;

/// The longest time that a run waits for its sinks when it is over.
const AT_THE_END: Duration = Duration::from_secs(5);

/// A receiver: sends one alert at a time.
trait Receiver: Send {
    /// Sends the alert, of which `line` is the form that was asked for.
    fn send(&mut self, alert: &Alert, line: &[u8]) -> Result<(), SendError>;
}

/// The reason why an alert was not taken.
#[derive(Debug, thiserror::Error)]
enum SendError {
    /// Another try may help.
    #[error("{0}")]
    Again(String),
    /// The receiver will not have it.
    #[error("{0}")]
    Refused(String),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        SendError::Again(error.to_string())
    }
}

/// A sink whose place has been found. Nothing is opened yet.
#[derive(Debug)]
pub struct FoundSink {
    target: SinkTarget,
    place: FoundPlace,
}

#[derive(Debug)]
enum FoundPlace {
    Socket(socket::FoundSocket),
    File(CallerOutput),
    Webhook(socket::FoundEndpoint, WebhookSecret),
    Https(https::Curl, WebhookSecret),
}

impl FoundSink {
    /// Finds every sink, as the caller and before anything runs; `secret` signs what goes to webhooks.
    ///
    /// # Errors
    /// When a path does not lead to what is asked for, or a webhook has no secret.
    pub fn find(
        targets: &[SinkTarget],
        secret: impl Fn() -> anyhow::Result<WebhookSecret>,
    ) -> anyhow::Result<Vec<FoundSink>> {
        let found = targets.iter().map(|target| {
            let place = target.find(&secret);
            let place = place.with_context(|| format!("{target} cannot be had"))?;
            let target = target.clone();
            Ok(FoundSink { target, place })
        });
        found.collect()
    }

    /// The file that is written, where it is one.
    pub fn output(&self) -> Option<&CallerOutput> {
        match &self.place {
            FoundPlace::File(output) => Some(output),
            FoundPlace::Socket(_) | FoundPlace::Webhook(..) | FoundPlace::Https(..) => None,
        }
    }

    /// The path of the socket that is written to, where it is one.
    pub fn socket(&self) -> Option<&std::path::Path> {
        match &self.place {
            FoundPlace::Socket(socket)
            | FoundPlace::Webhook(socket::FoundEndpoint::Unix(socket), _) => Some(socket.path()),
            FoundPlace::File(_) | FoundPlace::Webhook(..) | FoundPlace::Https(..) => None,
        }
    }

    /// The secret that signs what goes there.
    pub fn secret(&self) -> Option<&WebhookSecret> {
        match &self.place {
            FoundPlace::Webhook(_, secret) | FoundPlace::Https(_, secret) => Some(secret),
            FoundPlace::File(_) | FoundPlace::Socket(_) => None,
        }
    }

    /// Opens it, and makes sure that somebody listens.
    ///
    /// # Errors
    /// When it cannot be opened, or nobody listens.
    pub fn open(self) -> anyhow::Result<OpenSink> {
        let name = self.target.to_string();
        let mend = match self.place {
            // It has none to be started.
            FoundPlace::File(_) => "name another file",
            _ => "start its receiver first",
        };
        let receiver = match self.place {
            FoundPlace::Socket(socket) => journald::Journald::open(socket).map(boxed),
            FoundPlace::File(output) => file::AlertFile::open(output).map(boxed),
            FoundPlace::Webhook(endpoint, secret) => {
                webhook::Webhook::open(endpoint, self.target.request_path(), secret).map(boxed)
            }
            FoundPlace::Https(curl, secret) => {
                https::HttpsWebhook::open(curl, self.target.url(), secret).map(boxed)
            }
        };
        let receiver = receiver
            .with_context(|| format!("{name} cannot be had; {mend}, or leave `--to` out"))?;
        Ok(OpenSink {
            name,
            format: self.target.format,
            receiver,
        })
    }
}

fn boxed(receiver: impl Receiver + 'static) -> Box<dyn Receiver> {
    Box::new(receiver)
}

/// A sink that takes alerts.
pub struct OpenSink {
    name: String,
    format: AlertFormat,
    receiver: Box<dyn Receiver>,
}

/// The sinks and the followers of one run, and what is told to them.
pub struct Alerts {
    writer: AlertWriter,
    queues: Vec<AlertQueue>,
    /// The followers.
    pub live: LiveFeed,
    /// Behaviours that were told.
    behaviours: usize,
    /// The weight of the heaviest finding.
    worst: Option<Severity>,
}

impl Alerts {
    /// Tells `sinks`, and who follows `live`, what `writer` makes of a run.
    pub fn new(sinks: Vec<OpenSink>, writer: AlertWriter, live: LiveFeed) -> Alerts {
        Alerts {
            writer,
            queues: sinks.into_iter().map(AlertQueue::new).collect(),
            live,
            behaviours: 0,
            worst: None,
        }
    }

    /// Takes in those who may follow; `usage` is what the group uses now.
    pub fn join(&mut self, came: Vec<Visitor>, usage: impl FnOnce() -> Option<CurrentUsage>) {
        let numbers = LiveNumbers {
            findings: self.writer.findings() as u64,
            worst: self.worst,
            ..LiveNumbers::default()
        };
        self.live.join(came, numbers, usage);
    }

    /// Tells the group that turnkey is attached to.
    pub fn attached(&mut self, attachment: Attachment) {
        let run = self.live.run_mut();
        run.group = Some(attachment.group.clone());
        run.whole = attachment.found_count == 0;
        self.writer.attached(attachment);
    }

    /// Tells of a violation. Waits for nobody.
    pub fn violation(&mut self, violation: &Violation) {
        if let Some(alert) = self.writer.violation(violation) {
            self.offer(alert);
        }
    }

    /// Tells of the behaviours that were found newly. Waits for nobody.
    pub fn behaviours(&mut self, engine: &BehaviourEngine) {
        for found in engine.found_after(self.behaviours) {
            self.behaviours += 1;
            if let Some(alert) = self.writer.behaviour(found) {
                self.offer(alert);
            }
        }
    }

    fn offer(&mut self, alert: Alert) {
        self.worst = self.worst.max(Some(alert.severity));
        self.live.offer(&alert.native);
        queue::offer(&mut self.queues, alert);
    }

    /// Tells the rest and the verdict, waits a little, and says what reached whom.
    pub fn conclude(mut self, report: &Report) -> Vec<Sink> {
        if self.queues.is_empty() && !self.live.is_followed() {
            return Vec::new();
        }
        for alert in self.writer.conclude(report, crate::clock::boottime()) {
            self.live.offer(&alert.native);
            queue::offer(&mut self.queues, alert);
        }
        self.live.finish();
        foreign::close_dropped();
        queue::finish(self.queues, AT_THE_END)
    }
}
