//! `--events`: one JSON object on one line for every event.
//!
//! Events come in the order of their numbers, which count without gaps. Where one is missing, it is
//! lost, and a line of kind `gap` says so. `docs/events.md` is the reference.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use turnkey_facts::{Event, Kind};
use turnkey_policy::{AttemptKind, Policy, Rule, RuleAction};

use super::act::{Object, ReportedAct, asked, kind_name};
use super::clock::Clock;
use super::errno::errno_name;
use super::json;
use super::model::{
    Argument, Executable, Exit, FileAccess, MemoryTrait, Result, SocketType, is_false,
};
use super::processes::{escape_all, exec_id, executable, exit};
use super::redact;
use super::stopper::{Attribution, Stopper};
use super::text::escape;
use super::unknown;
use super::words;

/// Writes the lines of one run.
#[derive(Debug)]
pub struct EventWriter<W> {
    out: W,
    lines: EventLines,
    next_seq: u64,
    /// Lines are missing, as the taker failed.
    failed: bool,
}

/// Renders the events of one run, each as a line.
#[derive(Debug)]
pub struct EventLines {
    clock: Clock,
    rules: Vec<Rule>,
    attribution: Attribution,
    redacts: bool,
}

/// One line.
#[derive(Serialize)]
struct EventLine<'a> {
    seq: u64,
    time: String,
    kind: &'static str,
    #[serde(flatten)]
    repeated: Option<Repeated>,
    process: ActingProcess,
    #[serde(flatten)]
    what: Option<EventDetails>,
    #[serde(flatten)]
    end: Option<AttemptEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decided<'a>>,
}

/// The repetitions that one line stands for.
#[derive(Serialize)]
struct Repeated {
    repeated: u64,
    last_time: String,
}

/// The part of a line that depends on the kind of the event.
#[derive(Serialize)]
#[serde(untagged)]
enum EventDetails {
    Exec {
        exe: Executable,
        #[serde(skip_serializing_if = "is_false")]
        script: bool,
        argv: Vec<String>,
        argv_truncated: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Argument>,
    },
    File {
        path: Option<String>,
        #[serde(skip_serializing_if = "is_false")]
        path_truncated: bool,
        access: Vec<FileAccess>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Argument>,
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        memory: Vec<MemoryTrait>,
        #[serde(skip_serializing_if = "is_false")]
        by_handle: bool,
    },
    Address {
        address: String,
        socket: Option<SocketType>,
    },
    Question {
        address: String,
        socket: Option<SocketType>,
        questions: Vec<DnsQuestion>,
        bytes: usize,
        #[serde(skip_serializing_if = "is_false")]
        truncated: bool,
        #[serde(skip_serializing_if = "is_false")]
        unreadable: bool,
    },
    Syscall {
        syscall: String,
        on: Option<&'static str>,
        args: [String; 3],
    },
    Fork {
        child: Child,
    },
    Exit {
        exit: Exit,
    },
}

impl EventDetails {
    /// Without credentials, in every text that is the program's.
    fn redacted(mut self) -> Self {
        match &mut self {
            Self::Exec { exe, argv, raw, .. } => {
                redact::arguments(argv);
                let raw = raw.iter_mut().map(|raw| &mut raw.text);
                raw.chain([&mut exe.path]).for_each(redact_in_place);
            }
            Self::File { path, raw, to, .. } => {
                let raw = raw.iter_mut().map(|raw| &mut raw.text);
                raw.chain(path).chain(to).for_each(redact_in_place);
            }
            Self::Address { address, .. } => redact_in_place(address),
            Self::Question {
                address, questions, ..
            } => {
                let names = questions.iter_mut().map(|asked| &mut asked.name);
                names.chain([address]).for_each(redact_in_place);
            }
            Self::Syscall { .. } | Self::Fork { .. } | Self::Exit { .. } => {}
        }
        self
    }
}

fn redact_in_place(text: &mut String) {
    if let Cow::Owned(redacted) = redact::text(text) {
        *text = redacted;
    }
}

/// A question to a name server.
#[derive(Serialize)]
struct DnsQuestion {
    name: String,
    #[serde(rename = "type")]
    record: String,
}

/// The result of an attempt.
#[derive(Serialize)]
struct AttemptEnd {
    result: Result,
    stopped_by: Option<Stopper>,
    errno: Option<String>,
}

/// The process that acted.
#[derive(Serialize)]
struct ActingProcess {
    exec_id: Option<u32>,
    pid: u32,
    host_pid: u32,
    host_tid: u32,
    host_parent_pid: u32,
    host_uid: u32,
    comm: String,
}

/// The process that was made.
#[derive(Serialize)]
struct Child {
    pid: u32,
    host_pid: u32,
}

/// The rule that decided, and what the kernel did.
#[derive(Serialize)]
struct Decided<'a> {
    rule: &'a str,
    #[serde(serialize_with = "words::serialize")]
    action: RuleAction,
    #[serde(skip_serializing_if = "is_false")]
    actor_unknown: bool,
    #[serde(skip_serializing_if = "is_false")]
    file_unknown: bool,
}

/// Numbers that no event had.
#[derive(Serialize)]
struct Gap {
    seq: u64,
    kind: &'static str,
    count: u64,
}

/// The last line: a file without it is not whole.
#[derive(Serialize)]
struct Last {
    seq: u64,
    kind: &'static str,
}

impl<W: Write> EventWriter<W> {
    /// For the events of a run under `policy`. `clock` gives them their dates.
    pub fn new(policy: &Policy, clock: Clock, out: W) -> Self {
        Self {
            out,
            lines: EventLines::new(policy, clock),
            next_seq: 0,
            failed: false,
        }
    }

    /// With credentials as they are.
    pub fn unredacted(mut self) -> Self {
        self.lines.redacts = false;
        self
    }

    /// Writes the event, and what is missing before it; `process` is the report's row of who acted, if it has one. Fails only when the
    /// writer does.
    pub fn push(&mut self, event: &Event, process: Option<usize>) -> io::Result<()> {
        let written = self
            .up_to(event.seq)
            .and_then(|()| self.out.write_all(&self.lines.line(event, process)));
        self.next_seq = self.next_seq.max(event.seq + 1);
        self.failed |= written.is_err();
        written
    }

    /// Writes what is missing in the end, when the run had so many numbers, and the last line, unless one before it is missing;
    /// flushes and gives the writer back.
    pub fn finish(mut self, numbers: Option<u64>) -> io::Result<W> {
        let numbers = numbers.unwrap_or(0);
        self.up_to(numbers)?;
        if !self.failed {
            let last = Last {
                seq: numbers.max(self.next_seq),
                kind: "end",
            };
            json::write_line(&last, &mut self.out)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Tells of the numbers before `seq` that no event had.
    fn up_to(&mut self, seq: u64) -> io::Result<()> {
        if seq <= self.next_seq {
            return Ok(());
        }
        let gap = Gap {
            seq: self.next_seq,
            kind: "gap",
            count: seq - self.next_seq,
        };
        json::write_line(&gap, &mut self.out)
    }
}

impl EventLines {
    /// For the events of a run under `policy`. `clock` gives them their dates.
    pub fn new(policy: &Policy, clock: Clock) -> EventLines {
        EventLines {
            clock,
            rules: policy.rules.clone(),
            attribution: Attribution::new(policy),
            redacts: true,
        }
    }

    /// With credentials as they are.
    pub fn unredacted(mut self) -> EventLines {
        self.redacts = false;
        self
    }

    /// The line of an event; `process` is the row of who acts, as [`Aggregator::acting`](super::Aggregator::acting) has it.
    pub fn line(&self, event: &Event, process: Option<usize>) -> Vec<u8> {
        let mut line = Vec::new();
        // Into memory, which does not fail.
        let _ = json::write_line(&self.parts(event, process), &mut line);
        line
    }

    fn parts(&self, event: &Event, process: Option<usize>) -> EventLine<'_> {
        let act = ReportedAct::from_event(event, &self.attribution);
        let decision = event.decision.and_then(|decision| {
            let rule = self.rules.get(decision.rule)?;
            let act = act.as_ref();
            Some(Decided {
                rule: &rule.id,
                action: decision.action,
                actor_unknown: act.is_some_and(|act| unknown::decided(&self.rules, decision, act)),
                file_unknown: decision.file_unknown,
            })
        });
        EventLine {
            seq: event.seq,
            time: self.clock.date(event.time_ns),
            kind: kind_name(&event.kind),
            repeated: (event.repeated > 0).then(|| Repeated {
                repeated: event.repeated,
                last_time: self.clock.date(event.last_ns),
            }),
            process: actor(event, process),
            end: act.as_ref().map(|act| AttemptEnd {
                result: act.outcome.result(),
                stopped_by: act.outcome.stopper(),
                errno: errno_name(act.errno),
            }),
            what: details(&event.kind, act)
                .map(|what| if self.redacts { what.redacted() } else { what }),
            decision,
        }
    }
}

/// Forks and exits are no acts; everything else is one.
fn details(kind: &Kind, act: Option<ReportedAct>) -> Option<EventDetails> {
    match kind {
        Kind::Exit { status } => Some(EventDetails::Exit {
            exit: exit(*status),
        }),
        Kind::Fork {
            child_pid,
            child_jail_pid,
            ..
        } => Some(EventDetails::Fork {
            child: Child {
                pid: *child_jail_pid,
                host_pid: *child_pid,
            },
        }),
        _ => act_details(kind, act?),
    }
}

fn act_details(kind: &Kind, act: ReportedAct) -> Option<EventDetails> {
    Some(match (kind, act.object) {
        (
            Kind::Exec {
                file,
                script,
                argv,
                argv_truncated,
                ..
            },
            Object::File { raw, .. },
        ) => EventDetails::Exec {
            exe: executable(file),
            script: *script,
            argv: escape_all(argv),
            argv_truncated: *argv_truncated,
            raw,
        },
        (
            kind,
            Object::File {
                path,
                truncated,
                access,
                raw,
                to,
                memory,
            },
        ) => EventDetails::File {
            path,
            path_truncated: truncated,
            access,
            raw,
            to,
            memory,
            by_handle: matches!(
                kind,
                Kind::Open {
                    by_handle: true,
                    ..
                }
            ),
        },
        (
            Kind::Question {
                data,
                socket_type,
                truncated,
                unreadable,
                ..
            },
            Object::Address {
                address, socket, ..
            },
        ) => EventDetails::Question {
            address,
            socket,
            questions: questions(data, *socket_type),
            bytes: data.len(),
            truncated: *truncated,
            unreadable: *unreadable,
        },
        (
            _,
            Object::Address {
                address, socket, ..
            },
        ) => EventDetails::Address { address, socket },
        (Kind::Refused { args, .. }, Object::Syscall(syscall)) => EventDetails::Syscall {
            syscall,
            on: act.on.map(AttemptKind::name),
            args: args.map(|arg| format!("{arg:#x}")),
        },
        (_, Object::Syscall(_)) => return None,
    })
}

fn questions(data: &[u8], socket_type: u32) -> Vec<DnsQuestion> {
    let asked = asked(data, socket_type).into_iter();
    let asked = asked.map(|question| DnsQuestion {
        record: question.record_name(),
        name: question.name,
    });
    asked.collect()
}

fn actor(event: &Event, process: Option<usize>) -> ActingProcess {
    let task = &event.task;
    ActingProcess {
        exec_id: process.map(exec_id),
        pid: task.jail_pid,
        host_pid: task.pid,
        host_tid: task.tid,
        host_parent_pid: task.parent_pid,
        host_uid: task.uid,
        comm: escape(&task.comm),
    }
}

#[cfg(test)]
mod tests;
