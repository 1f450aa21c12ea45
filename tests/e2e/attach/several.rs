//! Several watchers of the same processes: each acts by its own rules and tells all that was done, and their reports name each other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnkey_tests::{binary, eventually, scratch};

use super::{Attached, Others, OthersGroup, broken, is_whole};

/// The place, the group and the run of each other watcher, in their order by place.
fn named(report: &Value) -> Vec<[&str; 3]> {
    let rows = report["watchers"].as_array();
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let text = |row: &'_ Value, key: &str| row[key].as_str().unwrap_or("nobody").to_owned();
    let mut named: Vec<_> = rows
        .iter()
        .map(|row| ["place", "group", "run"].map(|key| row[key].as_str().unwrap_or("nobody")))
        .collect();
    assert!(rows.iter().all(|row| !text(row, "group").is_empty()));
    named.sort_unstable();
    named
}

fn id(report: &Value) -> &str {
    report["id"].as_str().expect("a name")
}

#[test]
fn each_of_several_watchers_tells_all_and_names_the_others() {
    let group = OthersGroup::new();
    let below = group.below("below");
    let name = format!("{}/below", group.name);
    let observe = ["--mode", "observe"];
    // In another order than that of their groups: who comes later finds those above and those below.
    let inner = Attached::to(&["--cgroup", &name], &observe);
    let outer = Attached::to(&["--cgroup", &group.name], &observe);
    let same = Attached::to(&["--cgroup", &name], &observe);
    let mut others = Others::start(&below);
    assert_ne!(others.ask("read /etc/shadow"), "");
    // The one above lives on: who has ended is not named any more by one that came before it, and looks for it at its own end.
    let above = Others::start(&group.path);
    assert_eq!(others.end(), None);
    let [inner, same] = [inner, same].map(|attached| attached.end().1);
    assert_eq!(above.end(), None);
    let outer = outer.end().1;
    for report in [&inner, &outer, &same] {
        assert_eq!(broken(report), ["credential-file"], "{report}");
        assert!(is_whole(report), "{report}");
    }
    let above = ["above", &*group.name, id(&outer)];
    assert_eq!(named(&inner), [above, ["same", &*name, id(&same)]]);
    assert_eq!(named(&same), [above, ["same", &*name, id(&inner)]]);
    let mut below = [["below", &*name, id(&inner)], ["below", &*name, id(&same)]];
    below.sort_unstable();
    assert_eq!(named(&outer), below);
}

/// The paths of what was opened, in a file of events that is whole.
fn opened_in(events: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(events).expect("events are there");
    let lines = text.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.map(|line| line.expect("JSON")).collect();
    let last = lines.last().map(|line| line["kind"].clone());
    assert_eq!(last, Some("end".into()), "it is whole: {text}");
    let opened = lines.iter().filter(|line| line["kind"] == "open");
    let paths = opened.filter_map(|line| line["path"].as_str());
    paths.map(str::to_owned).collect()
}

/// Each of two groups has a file that its own process alone opens.
#[test]
fn of_two_that_write_events_to_one_file_each_has_all_of_its_own() {
    let directory = scratch();
    let events = directory.path().join("events.jsonl");
    let option = ["--events", events.to_str().expect("a name")];
    let groups = [OthersGroup::new(), OthersGroup::new()];
    let [mut one, mut other] = [0, 1].map(|number: usize| Others::start(&groups[number].path));
    let first = Attached::to(&["--cgroup", &groups[0].name], &option);
    let pid = other.child.id().to_string();
    // It is the container's that a runtime waits for, so that it does not wait for the end of the first.
    let mut command = Command::new(binary());
    command.args(["attach", "--pid", &pid, "--before-program"]);
    command.args(option).stdin(Stdio::null());
    let mut second = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    let mut errors = BufReader::new(second.stderr.take().expect("it is a pipe"));
    while !said.contains("turnkey: watching") {
        assert_ne!(errors.read_line(&mut said).expect("a pipe"), 0, "{said}");
    }
    let beside = directory.path().join(format!("events-{pid}.jsonl"));
    assert!(said.contains(&beside.display().to_string()), "{said}");

    assert_ne!(one.ask("read /etc/hostname"), "");
    assert_ne!(other.ask("read /etc/passwd"), "");
    assert_eq!((one.end(), other.end()), (None, None));
    first.end();
    assert!(second.wait().expect("it is a child").success());
    let [first, second] = [&events, &beside].map(|file| opened_in(file));
    let has = |paths: &[String], path: &str| paths.iter().any(|one| one == path);
    assert!(has(&first, "/etc/hostname"), "{first:?}");
    assert!(!has(&first, "/etc/passwd"), "{first:?}");
    assert!(has(&second, "/etc/passwd"), "{second:?}");
    assert!(!has(&second, "/etc/hostname"), "{second:?}");

    // A name that nobody keeps any more is taken as ever.
    let next = Attached::to(&["--cgroup", &groups[0].name], &option);
    Others::start(&groups[0].path).end();
    next.end();
    assert!(!has(&opened_in(&events), "/etc/hostname"));
    let files = std::fs::read_dir(directory.path()).expect("it is there");
    assert_eq!(files.count(), 2, "nothing else beside them");
}

/// Whoever could take the watcher above off by a lax one below would have no watcher at all.
#[test]
fn a_lax_watcher_below_takes_no_strict_one_off() {
    let group = OthersGroup::new();
    let below = group.below("below");
    let name = format!("{}/below", group.name);
    let outer = Attached::to(&["--cgroup", &group.name], &[]);
    let inner = Attached::to(&["--cgroup", &name], &["--mode", "observe"]);
    let mut others = Others::start(&below);
    assert_eq!(others.ask("read /etc/shadow"), "", "it is killed");
    assert_eq!(others.end(), Some(libc::SIGKILL));
    let (code, outer, said) = outer.end();
    assert_eq!(
        (code, broken(&outer)),
        (121, vec!["credential-file"]),
        "{said}"
    );
    assert_eq!(named(&outer), [["below", &*name, id(&inner.begun())]]);
    let (code, inner, said) = inner.end();
    // By its own rules nothing was to be killed, and it says who has.
    assert_eq!(
        (code, broken(&inner)),
        (0, vec!["credential-file"]),
        "{said}"
    );
    assert_eq!(inner["watchers"][0]["killed"], true, "{inner}");
    let findings = inner["findings"].as_array().expect("a list");
    let by_another = |finding: &&Value| finding["id"] == "turnkey:outside";
    let finding = findings.iter().find(by_another).expect("it is told");
    assert!(finding.to_string().contains(id(&outer)), "{finding}");
    assert!(said.contains("killed by another watcher"), "{said}");
}

#[test]
fn a_strict_watcher_below_kills_its_own_group_alone() {
    let group = OthersGroup::new();
    let below = group.below("below");
    let name = format!("{}/below", group.name);
    let outer = Attached::to(&["--cgroup", &group.name], &["--mode", "observe"]);
    let inner = Attached::to(&["--cgroup", &name], &[]);
    let mut beside = Others::start(&group.path);
    let mut others = Others::start(&below);
    assert_eq!(others.ask("read /etc/shadow"), "", "it is killed");
    assert_eq!(others.end(), Some(libc::SIGKILL));
    let (code, inner, said) = inner.end();
    assert_eq!(code, 121, "{said}");
    assert_ne!(inner["watchers"][0]["killed"], true, "{inner}");
    assert_ne!(beside.ask("read /etc/hostname"), "", "it lives");
    assert_eq!(beside.end(), None);
    let (code, outer, said) = outer.end();
    assert_eq!(
        (code, broken(&outer)),
        (0, vec!["credential-file"]),
        "{said}"
    );
}

/// Runs `turnkey run` in a group.
fn run_in(group: &Path, report: &Path, program: &[&str]) -> Output {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(group.join("cgroup.procs"))
        .arg(binary())
        .args(["run", "--mode", "observe", "--report"])
        .arg(report)
        .arg("--")
        .args(program)
        .stdin(Stdio::null())
        .current_dir(report.parent().expect("a directory"));
    command.output().expect("a shell can be run")
}

/// True where a jail of a turnkey in the group can only be made outside: its limits are the business of groups, and this one hands
/// none down.
fn makes_jails_elsewhere(group: &Path) -> bool {
    let read = |file| std::fs::read_to_string(group.join(file)).expect("it is there");
    let enabled = read("cgroup.subtree_control");
    let offered = read("cgroup.controllers");
    let limits = ["memory", "pids", "cpu"];
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    limits
        .iter()
        .any(|name| has(&offered, name) && !has(&enabled, name))
}

#[test]
fn a_jail_does_not_leave_the_watched_group_that_it_is_started_in() {
    let (group, directory) = (OthersGroup::new(), scratch());
    let report = directory.path().join("report.json");
    let runner = ["--mode", "observe", "--profile", "runner"];
    // As on every host of systemd, where the hierarchy is of version 2 alone.
    let enabled = super::hierarchy().join("cgroup.subtree_control");
    let offered = std::fs::read_to_string(super::hierarchy().join("cgroup.controllers"));
    if offered.is_ok_and(|offered| offered.contains("memory")) {
        std::fs::write(enabled, "+memory +pids +cpu").expect("root may");
    }
    let control = run_in(&group.path, &report, &["true"]);
    assert_eq!(control.status.code(), Some(0), "the control: {control:?}");
    let outer = Attached::to(&["--cgroup", &group.name], &runner);
    let output = run_in(&group.path, &report, &["cat", "/etc/shadow"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut others = Others::start(&group.path);
    assert_ne!(others.ask("read /etc/hostname"), "");
    assert_eq!(others.end(), None);
    let (_, outer, told) = outer.end();
    if makes_jails_elsewhere(&group.path) {
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains("out of its sight: start it outside of"),
            "{said}"
        );
        return;
    }
    let text = std::fs::read_to_string(&report).expect("it is written");
    let inner: Value = serde_json::from_str(&text).expect("a report is JSON");
    assert_eq!(
        named(&inner),
        [["above", &*group.name, id(&outer)]],
        "{said}"
    );
    // However short it was.
    let [[place, below, run]] = named(&outer)[..] else {
        panic!("one: {told}");
    };
    assert_eq!((place, run), ("below", id(&inner)));
    assert!(below.starts_with(&*group.name), "{below}");
    let path = |report: &Value| {
        let rows = report["file_operations"]
            .as_array()
            .expect("a list")
            .clone();
        rows.iter().any(|row| row["path"] == "/etc/shadow")
    };
    assert!(path(&inner) && path(&outer), "{told}");
}

/// The reader of a name is no reader of requests: what is no word of a turnkey is a follower, and what a stranger says is not heard.
#[test]
fn no_stranger_makes_a_watcher_up() {
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let run = id(&attached.begun()).to_owned();
    let stranger = format!(
        "import os, socket, sys
names = open('/proc/net/unix').read().split()
name = [name for name in names if name.startswith('@turnkey/{run}/')][0]
os.setuid(int(sys.argv[1]))
mine = socket.socket(socket.AF_UNIX)
mine.bind('\\0turnkey-watches/a1-2/1/made-up')
mine.connect('\\0' + name[1:])
mine.recv(1)"
    );
    let said = Command::new("python3")
        .args(["-c", &stranger, "65534"])
        .output()
        .expect("python is there");
    assert!(said.status.success(), "{said:?}");
    attached.let_go();
    let (_, report, told) = attached.end();
    assert_eq!(named(&report), [[""; 3]; 0], "{told}");
    eventually("its name is gone", || {
        let names = std::fs::read_to_string("/proc/net/unix").expect("/proc is mounted");
        !names.contains(&run)
    });
}
