//! `turnkey attach`: groups that others fill, early and late, with groups below.

mod allowance;
mod blinded;
mod detached;
mod first_thread;
mod killed;
mod kinds;
mod limits;
mod no_descriptors;
mod other_ways;
mod outside;
mod required;
mod robust;
mod roots;
mod several;
mod sockets;
mod tables;
mod unread;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use turnkey_tests::{binary, eventually, finish, scratch};

/// True when nothing is lost since the attachment, and nothing is claimed of the time before it.
pub fn is_whole(report: &Value) -> bool {
    let came_first = report["attached"]["found_count"] == 0;
    report["events"]["lost"] == serde_json::json!({}) && report["events"]["complete"] == came_first
}

/// A group of the test's, as a service or a container has one; what is in it dies with it.
pub struct OthersGroup {
    /// The path of its directory.
    pub path: PathBuf,
    /// As `--cgroup` takes it.
    pub name: String,
}

impl OthersGroup {
    /// An empty one.
    pub fn new() -> OthersGroup {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        OthersGroup::called(&format!("others-{}-{count}", std::process::id()))
    }

    fn called(name: &str) -> OthersGroup {
        let name = format!("/{name}");
        let path = hierarchy().join(name.trim_start_matches('/'));
        std::fs::create_dir(&path).expect("root makes groups");
        OthersGroup { path, name }
    }

    /// The group, as `--cgroup` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the group.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A group below, which is there as long as this one.
    pub fn below(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir(&path).expect("root makes groups");
        path
    }
}

impl Drop for OthersGroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.path.join("cgroup.kill"), "1");
        eventually("the group can be removed", || remove(&self.path));
        // A container's runtime makes one of the name in each v1 hierarchy, and a test may not have it remove them.
        for hierarchy in mounted("cgroup") {
            remove(&hierarchy.join(self.name.trim_start_matches('/')));
        }
    }
}

/// Removes a group with all below; whether it is gone.
fn remove(group: &Path) -> bool {
    let below = std::fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.path().is_dir()) {
        remove(&entry.path());
    }
    std::fs::remove_dir(group).is_ok() || !group.exists()
}

fn hierarchy() -> PathBuf {
    let hierarchy = mounted("cgroup2").into_iter().next();
    hierarchy.expect("cgroup v2 is mounted")
}

/// True where control groups of version 2 stand beside those of version 1.
pub fn is_hybrid() -> bool {
    !mounted("cgroup").is_empty()
}

/// The places where file systems of a type are mounted.
fn mounted(kind: &str) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
    let lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let of_kind = lines.filter(|line| line[2] == kind);
    of_kind.map(|line| PathBuf::from(line[1])).collect()
}

/// A program of somebody's: it does what the lines on its standard input say, in a group.
pub struct Others {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

/// `read PATH`: the length of what it could read; `run COMMAND`: by a shell; `end`.
const OTHERS: &str = "
import os, sys
print('ready', flush=True)
for line in sys.stdin:
    what, _, object = line.strip().partition(' ')
    if what == 'end':
        break
    try:
        print(len(open(object).read()) if what == 'read' else os.system(object), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
";

impl Others {
    /// One that does as it is told.
    pub fn start(group: &Path) -> Others {
        let mut others = Others::start_with(group, OTHERS, &[]);
        assert_eq!(others.line(), "ready");
        others
    }

    /// A program in Python, with its arguments.
    fn start_with(group: &Path, program: &str, arguments: &[&str]) -> Others {
        let mut command = Command::new("/bin/sh");
        command
            .args([
                "-c",
                "echo $$ > \"$0\" && exec /usr/bin/python3 -S -E -c \"$@\"",
            ])
            .arg(group.join("cgroup.procs"))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell can be run");
        Others {
            input: child.stdin.take().expect("it is a pipe"),
            output: BufReader::new(child.stdout.take().expect("it is a pipe")),
            child,
        }
    }

    /// The next line of its output; empty when it has ended.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.expect("a pipe can be read");
        line.trim().to_owned()
    }

    /// Has it do something; its answer, which is empty when it died of it.
    pub fn ask(&mut self, what: &str) -> String {
        let asked = writeln!(self.input, "{what}").and_then(|()| self.input.flush());
        asked.map_or(String::new(), |()| self.line())
    }

    /// Ends it; the signal that it died of, if one did.
    pub fn end(mut self) -> Option<i32> {
        let _ = writeln!(self.input, "end");
        drop(self.input);
        std::os::unix::process::ExitStatusExt::signal(&self.child.wait().expect("it is a child"))
    }
}

/// Turnkey, attached: it has said that it watches.
pub struct Attached {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    said: Vec<String>,
    report: PathBuf,
    _directory: tempfile::TempDir,
}

impl Attached {
    /// Begun, and watching.
    pub fn to(target: &[&str], options: &[&str]) -> Attached {
        Attached::by(&mut Command::new(binary()), target, options)
    }

    /// By a command that is turnkey's but for the words.
    pub fn by(command: &mut Command, target: &[&str], options: &[&str]) -> Attached {
        let directory = scratch();
        let report = directory.path().join("report.json");
        command.arg("attach").args(target).args(options);
        command.arg("--report").arg(&report);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("turnkey can be started");
        let mut errors = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a pipe can be read");
        assert!(line.starts_with("turnkey: watching "), "{line}");
        Attached {
            child,
            errors,
            said: vec![line],
            report,
            _directory: directory,
        }
    }

    /// The report that is there until the end.
    fn begun(&self) -> Value {
        let text =
            std::fs::read_to_string(&self.report).expect("it is there from the beginning on");
        serde_json::from_str(&text).expect("a report is JSON")
    }

    /// Asks it to let the group go.
    fn let_go(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill can be run").success());
    }

    /// The next line that it says.
    fn next_line(&mut self) -> String {
        let mut line = String::new();
        let read = self.errors.read_line(&mut line);
        read.expect("a pipe can be read");
        self.said.push(line.clone());
        line
    }

    pub fn end(mut self) -> (i32, Value, String) {
        // The rest is little, and fits the pipe.
        let rest = String::from_utf8_lossy(self.errors.buffer()).into_owned();
        self.said.push(rest);
        self.child.stderr = Some(self.errors.into_inner());
        let Output { status, stderr, .. } = finish(self.child);
        let said = self.said.concat() + &String::from_utf8_lossy(&stderr);
        let text =
            std::fs::read_to_string(&self.report).unwrap_or_else(|error| panic!("{error}: {said}"));
        let report: Value = serde_json::from_str(&text).expect("a report is JSON");
        (status.code().unwrap_or(-1), report, said)
    }
}

/// The rules that the report says were broken.
pub fn broken(report: &Value) -> Vec<&str> {
    let rows = report["violations"].as_array().expect("a list");
    rows.iter().filter_map(|row| row["rule"].as_str()).collect()
}

#[test]
fn a_group_that_is_watched_early_is_killed_for_a_read_of_shadow_in_a_group_below() {
    let group = OthersGroup::new();
    let below = group.below("below");
    let mut control = Others::start(&below);
    assert_ne!(control.ask("read /etc/shadow"), "", "the control");
    control.end();

    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let later = group.below("later");
    let (mut first, mut second) = (Others::start(&below), Others::start(&later));
    assert!(first.ask("read /etc/hostname").parse::<usize>().is_ok());
    assert_eq!(
        second.ask("read /etc/shadow"),
        "",
        "it died before it had the content"
    );
    assert_eq!(first.end(), Some(libc::SIGKILL), "the whole group dies");
    let (code, report, said) = attached.end();
    assert_eq!(code, 121, "{said}");
    assert_eq!(report["status"], "killed_by_policy");
    assert_eq!(report["verdict"], "violated");
    assert_eq!(broken(&report), ["credential-file"], "{said}");
    assert_eq!(report["attached"]["found_count"], 0);
    assert!(is_whole(&report), "{said}");
    assert!(said.contains("it killed the group"), "{said}");
    drop(second);
}

#[test]
fn m41_what_was_there_before_is_told_and_never_called_clean() {
    let group = OthersGroup::new();
    let mut others = Others::start(&group.below("below"));
    let path = group.path.display().to_string();
    let directory = scratch();
    let events = directory.path().join("events.jsonl");
    let options = ["--events", events.to_str().expect("a name")];
    let attached = Attached::to(&["--cgroup", &path], &options);
    assert_ne!(others.ask("read /etc/hostname"), "");
    assert_eq!(others.end(), None);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["status"]),
        (0, &Value::from("ended")),
        "{said}"
    );
    assert_eq!(report["verdict"], "inconclusive");
    let found = &report["attached"]["found"][0];
    assert!(
        found["executable"]
            .as_str()
            .is_some_and(|exe| exe.contains("python"))
    );
    let open = found["open"].as_array().expect("a list");
    let is_pipe = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("pipe:["));
    assert!(open.iter().any(is_pipe), "{open:?}");
    assert_eq!(found["open_count"], open.len());
    // It waits for its next order, in a call that nobody saw begin.
    let call = &found["calls"][0];
    assert_eq!(
        (&call["call"], &call["arguments"][0]),
        (&Value::from("read"), &Value::from("0x0"))
    );
    // It has one number, in the events too.
    let text = std::fs::read_to_string(&events).expect("events are there");
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert_eq!(
        (&first["process"]["pid"], &first["process"]["exec_id"]),
        (&found["pid"], &report["processes"][0]["exec_id"]),
        "{text}"
    );
    // The tree of processes knows it from before.
    assert!(
        report["processes"][0]["exe"]["path"]
            .as_str()
            .is_some_and(|exe| exe.contains("python")),
        "{}",
        report["processes"]
    );
}

/// As if it had been made a minute ago; the run of another test may have swept it by then.
fn age(group: &Path) {
    let made = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    if let Ok(directory) = std::fs::File::open(group) {
        directory.set_modified(made).expect("root may");
    }
}

#[test]
fn a_group_that_is_waited_for_is_swept_by_no_run() {
    // By its name and age, it is what a killed run has left.
    let group = OthersGroup::called(&format!("turnkey-{}-waited", std::process::id()));
    let below = group.below("below");
    let sweep = || {
        age(&below);
        age(&group.path);
        let run = turnkey_tests::Run::new().option("--unmonitored");
        run.run(&["/bin/true"]).expect_code(0);
    };
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    sweep();
    assert!(below.exists() && group.path.exists());
    let mut others = Others::start(&below);
    assert_ne!(others.ask("read /etc/hostname"), "", "it is watched");
    assert_eq!(others.end(), None);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["status"]),
        (0, &Value::from("ended")),
        "{said}"
    );
    assert_eq!(report["verdict"], "clean", "{said}");
    // The control: without somebody who waits, a run takes it for left behind.
    sweep();
    assert!(!group.path.exists());
}

#[test]
fn what_a_killed_attachment_has_tried_itself_in_goes_with_the_next() {
    let group = OthersGroup::new();
    let left = hierarchy().join(format!("turnkey-canary-{}-left", std::process::id()));
    std::fs::create_dir_all(left.join("leaf")).expect("root makes groups");
    age(&left.join("leaf"));
    age(&left);
    let attached = Attached::to(&["--cgroup", &group.name], &["--for", "10ms"]);
    attached.end();
    assert!(!left.exists());
}

/// A list that is cut short must not pass for the whole.
#[test]
fn everybody_is_found_in_more_groups_than_files_may_be_open() {
    const GROUPS: usize = 600;
    const FILES: usize = 300;
    let group = OthersGroup::new();
    let groups: Vec<_> = (0..GROUPS)
        .map(|number| group.below(&number.to_string()))
        .collect();
    let places = [0, GROUPS / 2, GROUPS - 1].map(|number| &groups[number]);
    let others = places.map(|place| Others::start(place));
    let attached = Attached::by(
        Command::new("/bin/sh")
            .args(["-c", "ulimit -n \"$0\" && exec \"$@\""])
            .arg(FILES.to_string())
            .arg(binary()),
        &["--cgroup", &group.name],
        &["--for", "10ms"],
    );
    let (code, report, said) = attached.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(report["attached"]["found_count"], 3, "{said}");
    assert_eq!(report["attached"]["groups_below"], GROUPS, "{said}");
    for other in others {
        assert_eq!(other.end(), None);
    }
}

#[test]
fn a_harmless_program_that_came_later_is_clean() {
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let mut others = Others::start(&group.path);
    assert_eq!(others.ask("run true"), "0");
    assert_eq!(others.end(), None);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["verdict"]),
        (0, &Value::from("clean")),
        "{said}"
    );
    assert_eq!(
        report["attached"]["group"],
        Value::from(group.name.as_str())
    );
}

/// Reaches what no jail would: netlink, raw sockets, a socket of somebody outside, a process outside.
const OUTSIDE: &str = "
import os, signal, socket, sys
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
    there = socket.socket(socket.AF_UNIX, kind)
    there.connect(sys.argv[1] + ('/stream' if kind == socket.SOCK_STREAM else '/datagram'))
    there.send(b'x')
os.kill(int(sys.argv[2]), signal.SIGTERM)
print('all', flush=True)
";

/// An attachment has rules and no walls, whatever the kernel asks of jails.
#[test]
fn what_no_rule_speaks_of_is_not_held_back() {
    let (group, place) = (OthersGroup::new(), scratch());
    let stream = std::os::unix::net::UnixListener::bind(place.path().join("stream"));
    let datagram = std::os::unix::net::UnixDatagram::bind(place.path().join("datagram"));
    let _sockets = (stream.expect("a new name"), datagram.expect("a new name"));
    let mut outside = Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep can be run");
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let arguments = [place.path().display().to_string(), outside.id().to_string()];
    let arguments = arguments.each_ref().map(String::as_str);
    let mut others = Others::start_with(&group.path, OUTSIDE, &arguments);
    let said = others.line();
    let _ = outside.kill();
    let ended = outside.wait().expect("it is a child");
    others.end();
    let (code, _, told) = attached.end();
    assert_eq!((code, &*said), (0, "all"), "{told}");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended),
        Some(15),
        "from inside"
    );
}

#[test]
fn observing_tells_and_kills_nobody() {
    let group = OthersGroup::new();
    let mut others = Others::start(&group.path);
    let pid = others.child.id().to_string();
    let attached = Attached::to(&["--pid", &pid], &["--mode", "observe"]);
    assert_ne!(others.ask("read /etc/shadow"), "");
    assert_eq!(others.end(), None);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["verdict"]),
        (0, &Value::from("violated")),
        "{said}"
    );
    assert_eq!(broken(&report), ["credential-file"]);
    assert_eq!(report["violations"][0]["action"], "log");
}

#[test]
fn a_group_that_is_let_go_lives_on_unwatched_and_what_was_told_is_whole() {
    let group = OthersGroup::new();
    let mut others = Others::start(&group.path);
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let busy = "run for i in 1 2 3 4 5 6 7 8; do /bin/true; done";
    assert_eq!(others.ask(busy), "0");
    attached.let_go();
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["status"]),
        (0, &Value::from("detached")),
        "{said}"
    );
    assert!(is_whole(&report), "{said}");
    assert!(
        report["events"]["seen"]["exec"].as_u64() >= Some(8),
        "{}",
        report["events"]
    );
    assert_ne!(others.ask("read /etc/shadow"), "", "no rule is left");
    assert_eq!(others.end(), None);
}

/// Nothing was there to be seen, and nothing is missing.
#[test]
fn a_group_in_which_nobody_was_is_let_go_as_whole_and_clean() {
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", &group.name], &["--for", "10ms"]);
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, report["status"].as_str(), report["verdict"].as_str()),
        (0, Some("ended"), Some("clean")),
        "{said}"
    );
    assert!(is_whole(&report), "{said}");
    assert_eq!(report["findings"], serde_json::json!([]), "{said}");
    // One that came and went is seen to have ended.
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    Others::start(&group.path).end();
    assert_eq!(attached.end().1["verdict"], "clean");
}

#[test]
fn a_turnkey_that_is_killed_takes_its_rules_with_it() {
    let group = OthersGroup::new();
    let mut attached = Attached::to(&["--cgroup", &group.name], &[]);
    attached.child.kill().expect("it is a child");
    attached.child.wait().expect("it is a child");
    // The kernel lets the programs go a moment after their holder, and where another test watches that level, it looks every
    // 400 ms; a group that was condemned meanwhile stays so until then.
    eventually("no rule is left", || {
        let mut others = Others::start_with(&group.path, OTHERS, &[]);
        let lives = others.line() == "ready" && !others.ask("read /etc/shadow").is_empty();
        lives && others.end().is_none()
    });
}

#[test]
fn what_cannot_be_attached_to_is_125_with_the_fix() {
    let group = OthersGroup::new();
    let own = std::process::id().to_string();
    let threads = group.below("threads");
    std::fs::write(threads.join("cgroup.type"), "threaded").expect("root makes it one");
    let threads = format!("{}/threads", group.name);
    let cases: [(&[&str], &str); 8] = [
        (&["--cgroup", "/no-such-group"], "there is no group"),
        (&["--cgroup", &threads], "attach to its domain"),
        (&["--cgroup", "/"], "attach to a group below it"),
        (&["--cgroup", "/a/../b"], "as /proc/PID/cgroup does"),
        (&["--pid", "4194999"], "there is no process 4194999"),
        (
            &["--cgroup", &group.name, "--profile", "python"],
            "use --profile container, service or runner",
        ),
        (&["--cgroup", &group.name, "--mode", "watch"], "enforce"),
        (&["--pid", &own, "--cgroup", "/x"], "cannot be used with"),
    ];
    for (arguments, words) in cases {
        let output = Command::new(binary())
            .arg("attach")
            .args(arguments)
            .output();
        let output = output.expect("turnkey can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    // And no jail is made of what asks for none.
    let run = Command::new(binary())
        .args(["run", "--profile", "container", "true"])
        .output();
    let run = run.expect("turnkey can be started");
    assert_eq!(run.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&run.stderr).contains("is for `turnkey attach`"));
}
