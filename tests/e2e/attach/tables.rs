//! The calls of the 32-bit table, which no filter refuses in a group of others: they are told and decided on as those that do the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use turnkey_tests::{compile, scratch};

use super::{Attached, OthersGroup};

const TABLES: &str = include_str!("../../attacks/tables.c");

/// Makes the calls of a table in a group, and returns what came of them.
fn made(group: &OthersGroup, program: &Path, table: &str, directory: &Path) -> String {
    let done = Command::new("/bin/sh")
        .args(["-c", "echo $$ > \"$0\" && cd / && exec \"$@\""])
        .arg(group.path.join("cgroup.procs"))
        .arg(program)
        .arg(table)
        .arg(directory)
        .env_clear()
        .output()
        .expect("a shell can be run");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("it prints text")
}

/// The events of the program in a directory, without what differs from run to run: times, numbers and the directory's name.
fn told(events: &str, directory: &Path) -> Vec<Value> {
    let name = directory.display().to_string();
    let of_program = |event: &Value| event["process"]["comm"] == "tables";
    let events = events.lines().map(|line| line.replace(&name, "DIRECTORY"));
    let mut events: Vec<Value> = events
        .map(|line| serde_json::from_str(&line).expect("a line is JSON"))
        .filter(of_program)
        .filter(|event| !matches!(event["kind"].as_str(), Some("exec" | "fork" | "exit")))
        .collect();
    for event in &mut events {
        let event = event.as_object_mut().expect("an event is an object");
        for key in ["seq", "time", "process"] {
            event.remove(key);
        }
        if event["kind"] == "listen" {
            // The kernel has chosen the port.
            event.remove("address");
        }
        // A call of 32 bits has arguments of 32 bits.
        let arguments = event.get_mut("args").and_then(Value::as_array_mut);
        for argument in arguments.into_iter().flatten() {
            let text = argument
                .as_str()
                .unwrap_or_default()
                .replace("0xffffffffffffffff", "0xffffffff");
            *argument = text.into();
        }
    }
    events
}

/// Watches a group in which the calls of a table are made: what came of each, what was told, and the report.
fn watched(program: &Path, table: &str) -> (String, Vec<Value>, Value) {
    let place = scratch();
    let (directory, events) = (place.path().join("in"), place.path().join("events.jsonl"));
    std::fs::create_dir(&directory).expect("a test can write");
    let group = OthersGroup::new();
    let attached = Attached::to(
        &["--cgroup", &group.name],
        &[
            "--mode",
            "observe",
            "--events",
            events.to_str().expect("a name"),
        ],
    );
    let said = made(&group, program, table, &directory);
    let (_, report, _) = attached.end();
    let events = std::fs::read_to_string(events).expect("events are there");
    (said, told(&events, &directory), report)
}

#[test]
fn a_call_of_the_32_bit_table_is_told_as_the_one_that_does_the_same() {
    let place = scratch();
    let program = place.path().join("tables");
    compile(&program, TABLES);
    let (wide_said, wide, wide_report) = watched(&program, "wide");
    let (said, narrow, report) = watched(&program, "narrow");
    assert_eq!(said, wide_said, "the calls do the same");
    for (narrow, wide) in narrow.iter().zip(&wide) {
        assert_eq!(narrow, wide);
    }
    assert_eq!(narrow.len(), wide.len());
    assert_eq!(report["events"]["complete"], true, "{}", report["events"]);
    assert_eq!(
        report["violations"].as_array().map(Vec::len),
        wide_report["violations"].as_array().map(Vec::len)
    );
    // Not that nothing was told of either.
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for event in &narrow {
        *kinds
            .entry(event["kind"].as_str().unwrap_or_default())
            .or_default() += 1;
    }
    let kinds = json!(kinds);
    for (kind, least) in [
        ("open", 5),
        ("change", 35),
        ("refused", 10),
        ("send", 4),
        ("question", 3),
        ("connect", 2),
        ("bind", 1),
        ("exec_attempt", 2),
    ] {
        assert!(kinds[kind].as_u64() >= Some(least), "{kind}: {kinds}");
    }
}
