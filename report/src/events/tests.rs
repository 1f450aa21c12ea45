//! Lines of events: what stands in them, and what ends them.

use super::super::fixture::{
    CREDENTIALS, ESCAPE, OUTBOUND, Story, clock, connect, fork, open_failed, opened, policy,
    question, refused,
};
use super::super::processes::Processes;
use super::*;

fn lines(story: &Story) -> String {
    let mut writer = EventWriter::new(&policy(), clock(), Vec::new());
    let mut processes = Processes::default();
    for event in &story.events {
        let process = processes.observe(event);
        writer.push(event, process).unwrap();
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
    writer.push(&story.events[0], None).unwrap();
    let lines = String::from_utf8(writer.finish(Some(4)).unwrap()).unwrap();
    assert!(
        lines.ends_with("{\"seq\":1,\"kind\":\"gap\",\"count\":3}\n{\"seq\":4,\"kind\":\"end\"}\n"),
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
    assert!(writer.push(&story.events[0], None).is_err());
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
