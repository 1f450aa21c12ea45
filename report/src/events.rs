//! `--events`: one JSON object on one line for every event.
//!
//! Events come in the order of their numbers, which count without gaps. Where one is missing, it is
//! lost, and a line of kind `gap` says so. `docs/events.md` is the reference.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use turnkey_facts::{Event, Kind};
use turnkey_policy::{AttemptKind, Policy, Rule, RuleAction};

use super::act::{Object, ReportedAct, asked, errno_name, kind_name};
use super::clock::Clock;
use super::json;
use super::model::{
    Argument, Executable, Exit, FileAccess, MemoryTrait, Result, SocketType, is_false,
};
use super::processes::{Processes, escape_all, exec_id, executable, exit};
use super::redact;
use super::stopper::{Attribution, Stopper};
use super::text::escape;
use super::unknown;
use super::words;

/// Writes the lines of one run.
#[derive(Debug)]
pub struct EventWriter<W> {
    out: W,
    clock: Clock,
    rules: Vec<Rule>,
    attribution: Attribution,
    processes: Processes,
    next_seq: u64,
    redacts: bool,
    /// Lines are missing, as the taker failed.
    failed: bool,
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    time: String,
    kind: &'static str,
    #[serde(flatten)]
    repeated: Option<Repeated>,
    process: Process,
    #[serde(flatten)]
    what: Option<What>,
    #[serde(flatten)]
    end: Option<End>,
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
enum What {
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
    },
    Address {
        address: String,
        socket: Option<SocketType>,
    },
    Question {
        address: String,
        socket: Option<SocketType>,
        questions: Vec<Asked>,
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

impl What {
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
struct Asked {
    name: String,
    #[serde(rename = "type")]
    record: String,
}

/// The result of an attempt.
#[derive(Serialize)]
struct End {
    result: Result,
    stopped_by: Option<Stopper>,
    errno: Option<String>,
}

/// The process that acted.
#[derive(Serialize)]
struct Process {
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
            clock,
            rules: policy.rules.clone(),
            attribution: Attribution::new(policy),
            processes: Processes::default(),
            next_seq: 0,
            redacts: true,
            failed: false,
        }
    }

    /// With credentials as they are.
    pub fn unredacted(mut self) -> Self {
        self.redacts = false;
        self
    }

    /// Writes the event, and what is missing before it. Fails only when the writer does.
    pub fn push(&mut self, event: &Event) -> io::Result<()> {
        let process = self.processes.observe(event);
        let written = self.up_to(event.seq).and_then(|()| {
            let mut line = Vec::new();
            json::write_line(&self.line(event, process), &mut line)?;
            self.out.write_all(&line)
        });
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

    fn line(&self, event: &Event, process: Option<usize>) -> Line<'_> {
        let act = ReportedAct::of(event, &self.attribution);
        let decision = event.decision.and_then(|decision| {
            let rule = self.rules.get(decision.rule)?;
            let act = act.as_ref();
            Some(Decided {
                rule: &rule.id,
                action: decision.action,
                actor_unknown: act.is_some_and(|act| unknown::decided(&self.rules, decision, act)),
            })
        });
        Line {
            seq: event.seq,
            time: self.clock.date(event.time_ns),
            kind: kind_name(&event.kind),
            repeated: (event.repeated > 0).then(|| Repeated {
                repeated: event.repeated,
                last_time: self.clock.date(event.last_ns),
            }),
            process: actor(event, process),
            end: act.as_ref().map(|act| End {
                result: act.outcome.result(),
                stopped_by: act.outcome.stopper(),
                errno: errno_name(act.errno),
            }),
            what: what(&event.kind, act)
                .map(|what| if self.redacts { what.redacted() } else { what }),
            decision,
        }
    }
}

/// Forks and exits are no acts; everything else is one.
fn what(kind: &Kind, act: Option<ReportedAct>) -> Option<What> {
    match (kind, act.map(|act| (act.on, act.object))) {
        (Kind::Exit { status }, _) => Some(What::Exit {
            exit: exit(*status),
        }),
        (
            Kind::Fork {
                child_pid,
                child_jail_pid,
                ..
            },
            _,
        ) => Some(What::Fork {
            child: Child {
                pid: *child_jail_pid,
                host_pid: *child_pid,
            },
        }),
        (
            Kind::Exec {
                file,
                script,
                argv,
                argv_truncated,
                ..
            },
            Some((_, Object::File { raw, .. })),
        ) => {
            let argv = escape_all(argv);
            Some(What::Exec {
                exe: executable(file),
                script: *script,
                argv,
                argv_truncated: *argv_truncated,
                raw,
            })
        }
        (
            _,
            Some((
                _,
                Object::File {
                    path,
                    truncated,
                    access,
                    raw,
                    to,
                    memory,
                },
            )),
        ) => Some(What::File {
            path,
            path_truncated: truncated,
            access,
            raw,
            to,
            memory,
        }),
        (
            Kind::Question {
                data,
                socket_type,
                truncated,
                unreadable,
                ..
            },
            Some((
                _,
                Object::Address {
                    address, socket, ..
                },
            )),
        ) => Some(What::Question {
            address,
            socket,
            questions: questions(data, *socket_type),
            bytes: data.len(),
            truncated: *truncated,
            unreadable: *unreadable,
        }),
        (
            _,
            Some((
                _,
                Object::Address {
                    address, socket, ..
                },
            )),
        ) => Some(What::Address { address, socket }),
        (Kind::Refused { args, .. }, Some((on, Object::Syscall(syscall)))) => Some(What::Syscall {
            syscall,
            on: on.map(AttemptKind::name),
            args: args.map(|arg| format!("{arg:#x}")),
        }),
        _ => None,
    }
}

fn questions(data: &[u8], socket_type: u32) -> Vec<Asked> {
    let asked = asked(data, socket_type).into_iter();
    let asked = asked.map(|question| Asked {
        record: question.record_name(),
        name: question.name,
    });
    asked.collect()
}

fn actor(event: &Event, process: Option<usize>) -> Process {
    let task = &event.task;
    Process {
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
mod tests {
    use super::super::fixture::{
        CREDENTIALS, ESCAPE, OUTBOUND, Story, clock, connect, fork, open_failed, opened, policy,
        question, refused,
    };
    use super::*;

    fn lines(story: &Story) -> String {
        let mut writer = EventWriter::new(&policy(), clock(), Vec::new());
        for event in &story.events {
            writer.push(event).unwrap();
        }
        String::from_utf8(writer.finish(None).unwrap()).unwrap()
    }

    fn sequence(lines: &str) -> Vec<(u64, String)> {
        let parsed = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        parsed
            .map(|line| {
                (
                    line["seq"].as_u64().unwrap(),
                    line["kind"].as_str().unwrap().to_owned(),
                )
            })
            .collect()
    }

    #[test]
    fn every_kind_has_its_line() {
        let mut story = Story::command(&["python3", "a b\n"]);
        story.decided(
            2,
            open_failed("/etc/shadow", libc::O_RDWR, 0),
            CREDENTIALS,
            RuleAction::Kill,
        );
        story.push(2, open_failed("/usr/\x1b", libc::O_RDONLY, libc::ENOENT));
        story.decided(
            2,
            connect("[::1]:53", libc::EPERM),
            OUTBOUND,
            RuleAction::Deny,
        );
        story.decided(
            2,
            refused("ptrace", AttemptKind::Ptrace),
            ESCAPE,
            RuleAction::Log,
        );
        story.push(2, fork(3));
        story.push(3, Kind::Exit { status: 9 });
        insta::assert_snapshot!("every_kind_has_its_line", lines(&story));
    }

    #[test]
    fn a_gap_is_a_line_of_its_own() {
        let mut story = Story::command(&["sh"]);
        story.lose(3);
        story.push(2, opened("/usr/lib/a"));
        let lines = lines(&story);
        assert_eq!(
            sequence(&lines),
            [
                (0, "exec".into()),
                (1, "gap".into()),
                (4, "open".into()),
                (5, "end".into())
            ]
        );
        assert!(
            lines.contains("{\"seq\":1,\"kind\":\"gap\",\"count\":3}\n"),
            "{lines}"
        );
    }

    #[test]
    fn a_gap_in_the_end_is_told_as_well() {
        let story = Story::command(&["sh"]);
        let mut writer = EventWriter::new(&policy(), clock(), Vec::new());
        writer.push(&story.events[0]).unwrap();
        let lines = String::from_utf8(writer.finish(Some(4)).unwrap()).unwrap();
        assert!(
            lines.ends_with(
                "{\"seq\":1,\"kind\":\"gap\",\"count\":3}\n{\"seq\":4,\"kind\":\"end\"}\n"
            ),
            "{lines}"
        );
    }

    /// Takes so many bytes and no more.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let left = self.0.checked_sub(bytes.len());
            self.0 = left.ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_lack_one_have_no_end() {
        let mut story = Story::command(&["sh"]);
        story.push(2, opened("/usr/lib/a"));
        let mut writer = EventWriter::new(&policy(), clock(), Full(60));
        assert!(writer.push(&story.events[0]).is_err());
        // It would fit.
        assert_eq!(writer.finish(None).unwrap().0, 60);
    }

    #[test]
    fn a_question_is_told_by_name_and_type() {
        let mut story = Story::command(&["sh"]);
        story.push(
            2,
            question(
                "192.0.2.1:53",
                b"\x06secret\x03com\0\0\x1c\0\x01",
                libc::EPERM,
            ),
        );
        let lines = lines(&story);
        let told = "\"kind\":\"question\"";
        assert_eq!(lines.matches(told).count(), 1, "{lines}");
        let asked = "\"questions\":[{\"name\":\"secret.com\",\"type\":\"AAAA\"}],\"bytes\":28";
        assert!(lines.contains(asked), "{lines}");
    }

    #[test]
    fn a_line_that_stands_for_many_says_so() {
        let mut story = Story::command(&["sh"]);
        story.push(2, opened("/usr/lib/a"));
        let event = &mut story.events[1];
        (event.repeated, event.last_ns) = (41, event.time_ns + 5_000_000);
        let lines = lines(&story);
        assert!(
            lines.contains(
                "\"kind\":\"open\",\"repeated\":41,\"last_time\":\"2026-01-02T03:04:05.007000Z\""
            ),
            "{lines}"
        );
        assert_eq!(lines.matches("repeated").count(), 1);
    }
}
