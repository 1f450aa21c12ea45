//! Groups that are taken and let go many times, and groups with very many processes and groups.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{binary, eventually, finish, scratch};

use super::{Attached, Others, OthersGroup, broken, hierarchy, is_whole, remove};
use crate::counted::{self, NOWHERE};

/// A program that starts programs, with a pause for those that watch it, until it is ended.
struct Busy(Child);

impl Busy {
    fn start(group: &Path) -> Busy {
        let mut command = Command::new("/bin/sh");
        let busy = "echo $$ > \"$0\" && while :; do /bin/sleep 0.005; done";
        command.args(["-c", busy]).arg(group.join("cgroup.procs"));
        let child = command.stdin(Stdio::null()).spawn();
        Busy(child.expect("a shell can be run"))
    }

    fn end(mut self) {
        self.0.kill().expect("it is a child");
        self.0.wait().expect("it is a child");
    }
}

/// A program that numbers its operations, and counts those that it has ended.
struct Counting {
    child: Others,
    place: tempfile::TempDir,
}

/// Writes the number of operations that have ended to a file.
const COUNTING: &str = "
import itertools, os, sys, time
count = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in itertools.count(1):
    try:
        os.open(sys.argv[2] + str(number - 1), os.O_RDONLY)
    except OSError:
        pass
    os.pwrite(count, b'%020d' % number, 0)
    if number == 1:
        print('ready', flush=True)
    time.sleep(0.0005)
";

/// Operations between two of its counts at least.
const BETWEEN: u64 = 20;

impl Counting {
    fn start(group: &Path) -> Counting {
        let place = scratch();
        let count = place.path().join("count").display().to_string();
        let mut child = Others::start_with(group, COUNTING, &[&count, NOWHERE]);
        assert_eq!(child.line(), "ready");
        Counting { child, place }
    }

    /// The number of operations that have ended.
    fn count(&self) -> u64 {
        let text = std::fs::read_to_string(self.place.path().join("count"));
        text.expect("it counts").parse().expect("a number")
    }

    fn end(mut self) {
        self.child.child.kill().expect("it is a child");
        self.child.end();
    }
}

/// The ids of all programs that are in the kernel.
fn programs() -> usize {
    aya::programs::loaded_programs()
        .filter_map(Result::ok)
        .count()
}

/// Groups that turnkey made for itself there.
fn canaries() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(hierarchy())
        .expect("it is mounted")
        .flatten();
    let paths = entries.map(|entry| entry.path());
    let own = |path: &PathBuf| path.display().to_string().contains("turnkey-canary-");
    paths.filter(own).collect()
}

/// Takes a busy group and lets it go, so many times; each time, all that was done is told, once.
pub(super) fn taken_and_let_go(times: u32) {
    let (group, directory) = (OthersGroup::new(), scratch());
    let busy = Busy::start(&group.path);
    let counting = Counting::start(&group.path);
    let events = directory.path().join("events.jsonl");
    for number in 0..times {
        let options = [
            "--required",
            "--pids",
            "500",
            "--events",
            events.to_str().expect("a name"),
        ];
        // Limits where they can be had; see `limits`.
        let has_pids = group.path.join("pids.max").exists();
        let options = match has_pids {
            true => options.to_vec(),
            false => [&options[..1], &options[3..]].concat(),
        };
        let attached = Attached::to(&["--cgroup", &group.name], &options);
        let before = counting.count();
        eventually("it goes on", || counting.count() > before + BETWEEN);
        let after = counting.count();
        attached.let_go();
        let (code, report, said) = attached.end();
        assert_eq!(
            (code, report["status"].as_str()),
            (0, Some("detached")),
            "{number}: {said}"
        );
        assert!(is_whole(&report), "{number}: {said}");
        let lines = counted::whole_lines(&events);
        assert_eq!(lines.last().expect("a line")["kind"], "end", "{number}");
        let told = counted::numbers(&lines);
        counted::expect_each_once(&told);
        // The first was begun when it was watched already, the last had ended when it still was.
        let between: Vec<u64> = (before + 1..after).collect();
        let told: Vec<u64> = told
            .into_iter()
            .filter(|told| between.contains(told))
            .collect();
        assert_eq!(told, between, "{number}: the program counted them");
    }
    counting.end();
    busy.end();
}

/// Operations that no repetition is, as fast as can be.
const FLOOD: &str = "
import itertools, os
print('ready', flush=True)
for number in itertools.count():
    try:
        os.open('/tmp/missing-%d' % number, os.O_RDONLY)
    except OSError:
        pass
";

/// There is always another event to be taken, faster than they can be: nobody would ever hear a signal or a clock.
#[test]
fn a_flood_keeps_nobody_from_letting_a_group_go() {
    let group = OthersGroup::new();
    let mut flood = Others::start_with(&group.path, FLOOD, &[]);
    assert_eq!(flood.line(), "ready");
    let attached = Attached::to(&["--cgroup", &group.name], &["--for", "300ms"]);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, report["status"].as_str()),
        (0, Some("detached")),
        "{said}"
    );
}

/// An engine or a unit that is started anew makes its group anew, under the old name.
#[test]
fn a_group_made_anew_under_the_name_of_a_watched_one_is_another() {
    let group = OthersGroup::new();
    let first = Others::start(&group.path);
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    first.end();
    eventually("the group can be removed", || remove(&group.path));
    std::fs::create_dir(&group.path).expect("root makes groups");
    let mut anew = Others::start(&group.path);
    assert_ne!(anew.ask("read /etc/shadow"), "", "it is nobody's");
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, report["status"].as_str()),
        (0, Some("ended")),
        "{said}"
    );
    assert_eq!(broken(&report), [""; 0], "the read is another group's");

    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    assert_eq!(anew.ask("read /etc/shadow"), "", "it died");
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, broken(&report)),
        (121, vec!["credential-file"]),
        "{said}"
    );
}

/// A watcher of the group that writes to that file.
fn watcher(group: &OthersGroup, report: &Path) -> Child {
    let mut command = Command::new(binary());
    let command = command.args(["attach", "--cgroup", &group.name, "--report"]);
    let command = command.arg(report).stdin(Stdio::null());
    let child = command.stderr(Stdio::piped()).spawn();
    child.expect("it can be started")
}

/// Waits until the watcher says that it watches.
fn watches(watcher: &mut Child) {
    let mut line = String::new();
    let errors = watcher.stderr.as_mut().expect("it is a pipe");
    let read = BufReader::new(errors).read_line(&mut line);
    read.expect("a pipe can be read");
    assert!(line.starts_with("turnkey: watching"), "{line}");
}

fn signal(watcher: &Child, signal: &str) {
    let pid = watcher.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.expect("kill can be run").success());
}

/// As at each start of a service: the watcher before may still be at its report when the next one begins.
#[test]
fn the_report_of_who_watches_a_group_made_anew_is_not_replaced_by_the_end_of_the_one_before() {
    let (group, directory) = (OthersGroup::new(), scratch());
    let report = directory.path().join("report.json");
    let told = || -> Value {
        let text = std::fs::read_to_string(&report).expect("it is there");
        serde_json::from_str(&text).expect("a report is JSON")
    };
    let others = Others::start(&group.path);
    let mut first = watcher(&group, &report);
    watches(&mut first);
    let begun = told();
    signal(&first, "-STOP");
    others.end();
    eventually("the group can be removed", || remove(&group.path));
    std::fs::create_dir(&group.path).expect("root makes groups");
    let mut second = watcher(&group, &report);
    // It waits for the name by then, on an idle machine.
    std::thread::sleep(std::time::Duration::from_millis(400));
    signal(&first, "-CONT");
    assert!(finish(first).status.success());
    watches(&mut second);
    let next = told();
    assert_ne!(next["id"], begun["id"]);
    assert_eq!(next["status"], "watching");
    Others::start(&group.path).end();
    assert!(finish(second).status.success());
    assert_eq!(
        (&told()["id"], &told()["status"]),
        (&next["id"], &Value::from("ended"))
    );
    let files = std::fs::read_dir(directory.path()).expect("it is there");
    assert_eq!(files.count(), 1, "and nothing beside it");
}

#[test]
fn a_busy_group_is_taken_and_let_go_again() {
    taken_and_let_go(2);
}

expected!(
    fifty_times_busy_groups_are_taken_and_let_go: not_on [ORDINARY_6_12],
    "an emulated CPU takes half a minute for each"
);
/// Three seconds, as there are fifty.
#[test]
fn fifty_times_busy_groups_are_taken_and_let_go() {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| taken_and_let_go(25));
        }
    });
}

expected!(
    a_thousand_times_busy_groups_are_taken_and_let_go_without_a_loss_or_a_leak: at_night,
    "a minute; `attach::robust::fifty_times` has fifty"
);
expected!(
    a_thousand_times_busy_groups_are_taken_and_let_go_without_a_loss_or_a_leak: not_on [ORDINARY_6_12],
    "an emulated CPU takes half a minute for each"
);
#[test]
fn a_thousand_times_busy_groups_are_taken_and_let_go_without_a_loss_or_a_leak() {
    const TIMES: u32 = 1000;
    let before = programs();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| taken_and_let_go(TIMES / 2));
        }
    });
    // Others may have loaded some meanwhile; one that stays of each would be more.
    eventually("their programs have left the kernel", || {
        programs() < before + 500
    });
    eventually("their groups are gone", || canaries().is_empty());
}

/// Groups in groups, of which the deepest is answered.
fn nested(group: &OthersGroup, count: usize) -> PathBuf {
    let mut path = group.path.clone();
    for _ in 0..count {
        path.push("n");
        std::fs::create_dir(&path).expect("root makes groups");
    }
    path
}

/// Starts processes that wait, in a group.
const CROWD: &str = "
import os, signal, sys
children = []
for number in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        signal.pause()
    children.append(child)
print(len(children), flush=True)
sys.stdin.readline()
for child in children:
    os.kill(child, signal.SIGKILL)
for child in children:
    os.waitpid(child, 0)
try:
    open('/etc/shadow').read()
except OSError:
    pass
";

expected!(
    ten_thousand_processes_and_a_thousand_nested_groups_are_one_attachment: at_night,
    "ten thousand processes; `attach::everybody_is_found` has many groups"
);
expected!(
    ten_thousand_processes_and_a_thousand_nested_groups_are_one_attachment: not_on [ORDINARY_6_12],
    "an emulated CPU takes minutes for so many processes"
);
#[test]
fn ten_thousand_processes_and_a_thousand_nested_groups_are_one_attachment() {
    const PROCESSES: u32 = 10_000;
    const GROUPS: usize = 1_000;
    let group = OthersGroup::new();
    let deepest = nested(&group, GROUPS);
    let mut crowd = Others::start_with(&deepest, CROWD, &[&PROCESSES.to_string()]);
    assert_eq!(crowd.line(), PROCESSES.to_string());
    let attached = Attached::to(&["--cgroup", &group.name], &["--required"]);
    let report = attached.begun();
    // With the one that made them.
    assert_eq!(report["attached"]["found_count"], PROCESSES + 1);
    assert_eq!(report["attached"]["groups_below"], GROUPS);
    crowd.ask("go on");
    assert_eq!(crowd.end(), Some(libc::SIGKILL), "for its read of shadow");
    let (code, report, said) = attached.end();
    assert_eq!(code, 121, "{said}");
    assert!(is_whole(&report), "{}", report["events"]);
    assert!(
        report["events"]["seen"]["exit"].as_u64() > Some(u64::from(PROCESSES)),
        "{}",
        report["events"]
    );
    drop(group);
    assert!(remove(&deepest));
}
