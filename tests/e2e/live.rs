//! `turnkey events` and what runs tell their followers: who may, who may not, and what a slow one costs. Each test is in a
//! network namespace of its own, so that the runs of others are not in its lists.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;
use turnkey_tests::{
    NOBODY, Run, binary, binary_for_everybody, callers_scratch, eventually, finish,
    network_of_its_own, open_to_all, outside, scratch,
};

mod queued;

/// A run whose program waits for lines on its standard input.
pub struct Waiting {
    run: Run,
    child: Child,
    input: ChildStdin,
}

impl Waiting {
    /// Starts it, and waits until it can be followed.
    pub fn start(run: Run, script: &str) -> Waiting {
        let before = names().len();
        let mut command = run.command(&["sh", "-c", script]);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("turnkey can be started");
        let input = child.stdin.take().expect("it is a pipe");
        eventually("the run can be followed", || names().len() > before);
        Waiting { run, child, input }
    }

    /// Lets the program read its next line.
    pub fn go_on(&mut self) {
        self.input.write_all(b"\n").expect("the program reads");
    }

    /// The process that makes the run: turnkey, or one of a service's. The name of the run ends with its number.
    pub fn maker(&self) -> i32 {
        let name = names().pop().expect("the run can be followed");
        let process = name.split('/').nth(1).and_then(|id| id.rsplit_once('-'));
        let (_, process) = process.expect("the id of a run ends with its process");
        i32::from_str_radix(process, 16).expect("a pid")
    }

    /// Waits for the end, and gives the report.
    pub fn end(self) -> Value {
        drop(self.input);
        finish(self.child);
        self.run.report()
    }
}

/// The names of runs in this network namespace.
pub fn names() -> Vec<String> {
    let (_, table) = outside("cat", &["/proc/net/unix"]);
    let lines = table.lines().filter_map(|line| line.split_once('@'));
    let names = lines.filter(|(_, name)| name.starts_with("turnkey/"));
    let mut names: Vec<String> = names.map(|(_, name)| name.to_owned()).collect();
    // A connection that was accepted has the name as well.
    names.dedup();
    names
}

/// `turnkey top --json`, by root.
pub fn top() -> Value {
    let (status, page) = outside(binary(), &["top", "--json"]);
    assert!(status.success());
    serde_json::from_str(&page).expect("JSON")
}

/// The runs that a user sees, by their uids.
fn seen_by(uid: u32) -> Vec<u64> {
    let place = scratch();
    open_to_all(place.path());
    let mut command = Command::new(binary_for_everybody(place.path()));
    command.args(["top", "--json"]).uid(uid).gid(uid);
    let output = command.output().expect("turnkey can be started");
    let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs = page["runs"].as_array().expect("a list");
    let mut uids: Vec<u64> = runs
        .iter()
        .map(|run| run["uid"].as_u64().expect("a uid"))
        .collect();
    uids.sort_unstable();
    uids
}

fn lines(text: &str) -> Vec<Value> {
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("each line is JSON")
}

/// `turnkey events` with what it has printed so far.
struct Follower {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Follower {
    /// Starts it, and waits for its first line, which it gives back.
    fn start(arguments: &[&str]) -> (Follower, Value) {
        let mut command = Command::new(binary());
        command.arg("events").args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().expect("turnkey can be started");
        let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut first = String::new();
        output.read_line(&mut first).expect("a pipe can be read");
        let first = serde_json::from_str(&first).expect("JSON");
        (Follower { child, output }, first)
    }

    /// The lines to its end.
    fn end(mut self) -> Vec<Value> {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("UTF-8");
        assert!(self.child.wait().expect("a child").success());
        lines(&rest)
    }
}

/// The events that a file of `--events` has, without its last line, which says that it is whole.
fn written(file: &std::path::Path) -> Vec<Value> {
    let mut written = lines(&std::fs::read_to_string(file).expect("it was written"));
    written.retain(|line| line["kind"] != "end");
    written
}

/// The sum of the lines that `lost` lines stand for.
fn lost(lines: &[Value]) -> u64 {
    let lost = lines.iter().filter(|line| line["kind"] == "lost");
    lost.map(|line| line["count"].as_u64().expect("a count"))
        .sum()
}

#[test]
fn a_follower_sees_what_the_file_of_events_and_the_report_have() {
    network_of_its_own();
    let run = Run::new().option("--mode observe");
    let place = callers_scratch();
    let file = place.path().join("events.jsonl");
    let run = run.option(&format!("--events {}", file.display()));
    let mut waiting = Waiting::start(run, "read x; cat /etc/shadow; (true); cat /etc/passwd");
    let (follower, joined) = Follower::start(&[]);
    assert_eq!(
        (&joined["kind"], &joined["mode"]),
        (&"joined".into(), &"observe".into())
    );
    assert_eq!(
        (&joined["verdict"], &joined["findings"]),
        (&"clean".into(), &0.into())
    );
    waiting.go_on();
    let report = waiting.end();
    let told = follower.end();
    let written = written(&file);

    assert!(told.iter().all(|line| line["run"] == report["id"]));
    let (events, alerts): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|line| line["alert"].is_null());
    let missed = usize::try_from(joined["events"].as_u64().expect("a count")).expect("a few");
    assert!(missed > 0 && missed < written.len());
    let events: Vec<Value> = events
        .into_iter()
        .map(|mut line| {
            line.as_object_mut().expect("an object").remove("run");
            line
        })
        .collect();
    assert_eq!(events, written[missed..], "with the same exec_ids");
    let (verdict, findings) = alerts.split_last().expect("a verdict");
    assert_eq!(
        (&verdict["alert"], &verdict["verdict"]),
        (&"verdict".into(), &report["verdict"])
    );
    assert_eq!(verdict["verdict"], "violated");
    assert_eq!(findings[0]["violation"]["path"], "/etc/shadow");
}

#[test]
fn filters_choose_lines_and_runs_that_begin_later_are_followed() {
    network_of_its_own();
    let filters = [
        "--follow",
        "--filter",
        "kind=joined",
        "--filter",
        "severity=critical",
    ];
    // Of several keys all: no line is both, so the first line is never printed.
    let mut none = Command::new(binary())
        .arg("events")
        .args(filters)
        .stdout(Stdio::piped())
        .spawn()
        .expect("turnkey can be started");
    let mut child = Command::new(binary())
        .args(["events", "--follow", "--filter", "rule=credential-file"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("turnkey can be started");
    let script = "read x; read x < /etc/shadow; cat /etc/passwd";
    let mut waiting = Waiting::start(Run::new().option("--mode observe"), script);
    // Until both have joined.
    eventually("it is followed", || connections() == 2);
    waiting.go_on();
    waiting.end();
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let told: Vec<Value> = (0..2)
        .map(|_| {
            let mut line = String::new();
            output.read_line(&mut line).expect("a pipe can be read");
            serde_json::from_str(&line).expect("JSON")
        })
        .collect();
    assert_eq!(told[0]["decision"]["rule"], "credential-file");
    assert_eq!(told[1]["finding"]["id"], "credential-file");
    for child in [&mut child, &mut none] {
        assert_eq!(child.try_wait().expect("a child"), None, "it goes on");
        child.kill().expect("it is ours");
    }
    let nothing = finish(none);
    assert_eq!(String::from_utf8_lossy(&nothing.stdout), "");
    finish(child);
}

/// Connections to runs that were accepted.
fn connections() -> usize {
    let (_, table) = outside("cat", &["/proc/net/unix"]);
    // The states of unix_seq_show() in net/unix/af_unix.c: 02 is a connection that nobody has accepted yet.
    let accepted = |line: &&str| line.contains("@turnkey/") && line.contains(" 00000000 0001 03 ");
    table.lines().filter(accepted).count()
}

#[test]
fn root_sees_all_runs_and_a_user_the_own_ones() {
    network_of_its_own();
    let own = Waiting::start(Run::new(), "read x");
    let theirs = Waiting::start(Run::rootless(), "read x");
    let nobody = u64::from(NOBODY);
    assert_eq!(seen_by(0), [0, nobody]);
    assert_eq!(seen_by(NOBODY), [nobody]);
    assert_eq!(seen_by(NOBODY - 1), [0u64; 0]);
    own.end();
    theirs.end();
    assert_eq!(seen_by(0), [0u64; 0]);
}

/// Connects to every run there is, and says what came.
const CONNECT: &str = r#"
import socket
for line in open("/proc/net/unix"):
    name = line.split()[-1]
    if not name.startswith("@turnkey/") or line.split()[3] != "00010000": continue
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(5)
    try:
        peer.connect("\0" + name[1:])
        print("joined" if b"joined" in peer.recv(65536) else "closed")
    except OSError as error: print(type(error).__name__)
"#;

#[test]
fn a_program_in_a_jail_follows_nobody_in_the_hosts_network_either() {
    network_of_its_own();
    let theirs = Waiting::start(Run::rootless(), "read x");
    // The same user outside: the control.
    let (_, said) = turnkey_tests::as_nobody("python3", &["-c", CONNECT]);
    assert_eq!(said, "joined\n");
    // Inside, as the same user: its own run and the other.
    let ran = Run::rootless().option("--network host").python(CONNECT);
    assert_eq!(
        ran.stdout, "PermissionError\nPermissionError\n",
        "{}",
        ran.stderr
    );
    // Without Landlock's scope, a process in a pid namespace is told apart by that.
    let own = Waiting::start(Run::new(), "read x");
    let (_, said) = outside("python3", &["-c", CONNECT]);
    assert_eq!(
        said.lines().filter(|line| *line == "joined").count(),
        1,
        "{said}"
    );
    // Another user finds the connection closed, also by a client of their own.
    let (_, said) = turnkey_tests::as_nobody("python3", &["-c", CONNECT]);
    let mut answers: Vec<&str> = said.lines().collect();
    answers.sort_unstable();
    assert_eq!(answers, ["closed", "joined"]);
    let arguments = ["--pid", "--fork", "--mount-proc", "python3", "-c", CONNECT];
    let (_, said) = outside("unshare", &arguments);
    assert_eq!(
        said.lines().filter(|line| *line == "closed").count(),
        2,
        "{said}"
    );
    own.end();
    theirs.end();
}

/// Listens under the name of a run, and tells everybody a state of it until somebody says that it is enough.
const PRETEND: &str = r#"
import json, os, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0turnkey/abc-1")
listener.listen()
listener.settimeout(0.1)
state = dict(schema="turnkey.live/v1", run="abc-1", kind="joined", profile="x", mode="enforce", command=["x"], started_at="",
    age_seconds=1.0, events=0, findings=0, verdict="clean", tasks=1, memory_bytes=1, cpu_seconds=1.0)
until = time.time() + float(sys.argv[1])
while time.time() < until:
    try: peer, _ = listener.accept()
    except OSError: continue
    try: peer.send(json.dumps(state).encode() + b"\n")
    except OSError: pass
"#;

#[test]
fn a_program_in_a_jail_passes_for_no_run() {
    network_of_its_own();
    let pretends = |mut command: Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it can be started");
        eventually("it listens", || {
            names().contains(&"turnkey/abc-1".to_owned())
        });
        let runs = top()["runs"].as_array().expect("a list").clone();
        finish(child);
        runs.iter().any(|run| run["run"] == "abc-1")
    };
    let mut outside = Command::new("python3");
    outside.args(["-c", PRETEND, "1"]).uid(NOBODY).gid(NOBODY);
    assert!(
        pretends(outside),
        "the control: a user may say so of themselves"
    );
    let run = Run::rootless().option("--network host");
    assert!(!pretends(run.command(&["python3", "-c", PRETEND, "1.5"])));
}

#[test]
fn a_follower_that_does_not_read_holds_nothing_up_and_is_told_what_it_lost() {
    network_of_its_own();
    let script = "read x; i=0; while [ $i -lt 2500 ]; do i=$((i+1)); read y < /etc/nothing$i; done 2>/dev/null; read x";
    let place = callers_scratch();
    let file = place.path().join("events.jsonl");
    let run = Run::new().option(&format!("--events {}", file.display()));
    let mut waiting = Waiting::start(run, script);
    let reader = format!(
        "import socket, sys\npeer = socket.socket(socket.AF_UNIX)\npeer.connect('\\0{}')\nprint(peer.recv(1, socket.MSG_PEEK), \
         flush=True)\nsys.stdin.readline()\nwhile (piece := peer.recv(65536)): sys.stdout.buffer.write(piece)",
        names()[0]
    );
    let mut slow = Command::new("python3");
    slow.args(["-c", &reader])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut slow = slow.spawn().expect("it can be started");
    let mut output = BufReader::new(slow.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a pipe can be read");
    assert_eq!(line, "b'{'\n", "it has joined");
    waiting.go_on();
    // The run goes on while nobody reads.
    eventually("all is written that the loop does", || {
        let runs = top()["runs"].clone();
        runs[0]["events"]
            .as_u64()
            .is_some_and(|events| events > 2500)
    });
    writeln!(slow.stdin.take().expect("a pipe"), "read").expect("it reads");
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines() {
            let _ = tell.send(line.expect("UTF-8"));
        }
    });
    // Until it has read what waited.
    let soon = std::time::Duration::from_millis(500);
    let mut read: Vec<String> = std::iter::from_fn(|| told.recv_timeout(soon).ok()).collect();
    waiting.go_on();
    let report = waiting.end();
    assert_eq!(report["verdict"], "clean");
    read.extend(told);
    reader.join().expect("it only reads");
    finish(slow);
    let told = lines(&read.join("\n"));
    let events = told.iter().filter(|line| !line["seq"].is_null()).count();
    let lost = lost(&told);
    assert!(lost > 0, "the queue has a bound");
    let written = written(&file).len();
    let missed = told[0]["events"].as_u64().expect("a count");
    assert_eq!(events as u64 + lost + missed, written as u64);
}

#[test]
fn a_killed_run_leaves_no_name_and_a_killed_follower_no_trace() {
    network_of_its_own();
    let mut waiting = Waiting::start(Run::new(), "read x; cat /etc/hosts; read x");
    let (mut follower, _) = Follower::start(&[]);
    follower.child.kill().expect("it is ours");
    follower.child.wait().expect("a child");
    waiting.go_on();
    eventually("the run has seen that it is gone", || connections() == 0);
    assert_eq!(top()["runs"][0]["verdict"], "clean");
    let (follower, _) = Follower::start(&[]);
    let pid = nix::unistd::Pid::from_raw(waiting.maker());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL).expect("it is ours");
    let told = follower.end();
    assert!(
        told.iter().all(|line| line["alert"] != "verdict"),
        "nobody has judged it"
    );
    waiting.end();
    assert_eq!(names(), [""; 0]);
    assert_eq!(top()["runs"], serde_json::json!([]));
}

#[test]
fn an_attachment_is_followed_too() {
    network_of_its_own();
    let group = crate::attach::OthersGroup::new();
    let mut command = Command::new(binary());
    command.args(["attach", "--cgroup", group.name(), "--for", "20s"]);
    let mut attached = command
        .stderr(Stdio::null())
        .spawn()
        .expect("turnkey can be started");
    eventually("it can be followed", || names().len() == 1);
    let run = &top()["runs"][0];
    assert_eq!(
        (&run["group"], &run["profile"]),
        (&group.name().into(), &"container".into())
    );
    let (follower, _) = Follower::start(&[]);
    let script = format!(
        "echo $$ > {}/cgroup.procs; cat /etc/shadow",
        group.path().display()
    );
    outside("sh", &["-c", &script]);
    attached.wait().expect("a child");
    let told = follower.end();
    let opened = |line: &&Value| line["path"] == "/etc/shadow" && line["seq"].is_u64();
    assert_eq!(told.iter().filter(opened).count(), 1);
    assert_eq!(told.last().expect("a verdict")["verdict"], "violated");
}

#[test]
fn a_wrong_filter_is_told_with_the_keys() {
    let mut command = Command::new(binary());
    command.args(["events", "--filter", "colour=red"]);
    let output = command.output().expect("turnkey can be started");
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("run, profile, kind, rule, severity, verdict"),
        "{said}"
    );
}
