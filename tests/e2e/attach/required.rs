//! Watchers that are killed: with `--required` the group dies with them, without it the gap is told.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{binary, eventually, scratch};

use super::{Attached, Others, OthersGroup};

/// The guards that a watcher has now.
fn guards(watcher: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc")
        .expect("/proc is mounted")
        .flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_watcher = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        status.contains(&format!("\nPPid:\t{watcher}\n")) && command.contains("attach-guard")
    };
    pids.filter(of_watcher).collect()
}

fn send(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.expect("kill can be run").success());
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn report_in(file: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(serde_json::from_str(&text).expect("a report is whole, or not there"))
}

/// The signal of a watcher that is to have died.
fn signal_of(others: &mut Others) -> Option<i32> {
    let mut ended = None;
    eventually("the workload has died", || {
        ended = others.child.try_wait().expect("it is a child");
        ended.is_some()
    });
    std::os::unix::process::ExitStatusExt::signal(&ended?)
}

#[test]
fn a_group_dies_with_its_watcher_and_with_the_guard_before_it_replaced() {
    let group = OthersGroup::new();
    let mut others = Others::start(&group.path);
    let mut attached = Attached::to(&["--cgroup", &group.name], &["--required"]);
    let watcher = attached.child.id();
    let [first] = guards(watcher)[..] else {
        panic!("one guard: {:?}", guards(watcher));
    };
    send("-KILL", first);
    let mut second = None;
    // From its first instruction on it hears no signal that can be blocked: this one may come while it starts.
    eventually("another stands in its place", || {
        second = guards(watcher).into_iter().find(|pid| *pid != first);
        second.is_some_and(|second| {
            send("-HUP", second);
            true
        })
    });
    assert!(is_gone(first), "nobody's child is left over");
    // What is not a watcher's end is no reason.
    assert_ne!(others.ask("read /etc/hostname"), "");
    send("-TERM", second.expect("found above"));
    assert_ne!(others.ask("read /etc/hostname"), "");
    attached.child.kill().expect("it is a child");
    attached.child.wait().expect("it is a child");
    assert_eq!(signal_of(&mut others), Some(libc::SIGKILL));
    eventually("the guard is gone", || second.is_some_and(is_gone));
    let report = report_in(&attached.report).expect("it is there from the beginning on");
    assert_eq!(report["status"], "watching");
    assert_eq!(report["attached"]["required"], true);
}

/// A watcher may be killed while its guard starts: the guard finds nobody to say its word to.
#[test]
fn a_guard_whose_watcher_has_ended_before_it_stands_kills() {
    let directory = scratch();
    let kill = directory.path().join("cgroup.kill");
    let (watcher, its) = std::os::unix::net::UnixStream::pair().expect("a pair");
    drop(watcher);
    let ended = Command::new(binary())
        .arg("attach-guard")
        .stdin(std::os::fd::OwnedFd::from(its))
        .stdout(std::fs::File::create(&kill).expect("a test can make a file"))
        .status();
    assert!(ended.expect("turnkey can be started").success());
    assert_eq!(std::fs::read(&kill).expect("it is there"), b"1");
}

#[test]
fn letting_go_and_an_end_by_itself_kill_nobody() {
    let group = OthersGroup::new();
    let mut others = Others::start(&group.path);
    let attached = Attached::to(&["--cgroup", &group.name], &["--required"]);
    let guard = guards(attached.child.id());
    assert_eq!(guard.len(), 1);
    attached.let_go();
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["status"]),
        (0, &Value::from("detached")),
        "{said}"
    );
    eventually("the guard is gone", || is_gone(guard[0]));
    assert_ne!(others.ask("read /etc/shadow"), "", "it lives, unwatched");
    let attached = Attached::to(&["--cgroup", &group.name], &["--required"]);
    assert_eq!(others.end(), None, "it was killed by nobody");
    let (code, report, said) = attached.end();
    assert_eq!(
        (code, &report["status"]),
        (0, &Value::from("ended")),
        "{said}"
    );
}

#[test]
fn a_watcher_that_was_killed_without_it_leaves_the_gap_told() {
    let (group, directory) = (OthersGroup::new(), scratch());
    let events = directory.path().join("events.jsonl");
    let events = events.to_str().expect("a name");
    let mut others = Others::start(&group.path);
    let mut attached = Attached::to(&["--cgroup", &group.name], &["--events", events]);
    assert!(guards(attached.child.id()).is_empty());
    attached.child.kill().expect("it is a child");
    attached.child.wait().expect("it is a child");
    assert_ne!(others.ask("read /etc/hostname"), "", "it lives");
    let report = report_in(&attached.report).expect("it is there from the beginning on");
    assert_eq!(report["status"], "watching");
    assert_eq!(report["verdict"], "inconclusive");
    assert_eq!(report["is_safe"], false);
    assert_eq!(report["attached"]["found_count"], 1);
    let last = |text: &str| {
        text.lines()
            .last()
            .map(|line| line.contains("\"kind\":\"end\""))
    };
    let text = std::fs::read_to_string(events).expect("events are there");
    assert_ne!(last(&text), Some(true), "{text}");

    let file = attached.report.to_str().expect("a name");
    for format in ["text", "html", "sarif", "ocsf", "junit", "profile", "json"] {
        let shown = turnkey(&["report", file, "--format", format]);
        assert_eq!(shown.0, 0, "{format}: {}", shown.1);
        let tells = ["text", "html", "junit"].contains(&format);
        assert!(
            !tells || shown.1.contains("still watches, or was killed"),
            "{format}: {}",
            shown.1
        );
    }
    let (code, said) = turnkey(&["diff", file, file]);
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("has nothing of what was done"), "{said}");

    // One that lets go tells that its events are whole.
    let attached = Attached::to(&["--cgroup", &group.name], &["--events", events]);
    assert_eq!(others.ask("run true"), "0");
    assert_eq!(others.end(), None);
    let (_, report, _) = attached.end();
    assert_eq!(report["status"], "ended");
    let text = std::fs::read_to_string(events).expect("events are there");
    assert_eq!(last(&text), Some(true), "{text}");
}

fn turnkey(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(binary()).args(arguments).output();
    let output = output.expect("turnkey can be started");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// A moment of a watcher's life; the time is counted from the beginning of the phase.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Beginning(Duration),
    Watching(Duration),
    LettingGo(Duration),
}

/// The traces of a watcher that was killed.
#[derive(Debug)]
struct KilledWatcher {
    had_guard: bool,
    said_it_watches: bool,
    status: Option<String>,
}

impl KilledWatcher {
    /// Killed at that moment, and gone with its guard.
    fn at(moment: Moment, group: &OthersGroup, required: bool) -> KilledWatcher {
        let directory = scratch();
        let report = directory.path().join("report.json");
        let mut command = Command::new(binary());
        command
            .args(["attach", "--cgroup", &group.name, "--report"])
            .arg(&report);
        if required {
            command.arg("--required");
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("turnkey can be started");
        let mut errors = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let mut said = String::new();
        match moment {
            Moment::Beginning(after) => std::thread::sleep(after),
            Moment::Watching(after) | Moment::LettingGo(after) => {
                errors.read_line(&mut said).expect("a pipe can be read");
                if matches!(moment, Moment::LettingGo(_)) {
                    send("-TERM", child.id());
                }
                std::thread::sleep(after);
            }
        }
        let guards = guards(child.id());
        let _ = child.kill();
        child.wait().expect("it is a child");
        std::io::Read::read_to_string(&mut errors, &mut said).expect("a pipe can be read");
        eventually("its guard is gone", || {
            guards.iter().all(|guard| is_gone(*guard))
        });
        let status = report_in(&report).map(|report| {
            let status = report["status"].as_str().expect("a word").to_owned();
            let is_open = report["verdict"] == "inconclusive";
            assert!(status != "watching" || is_open, "{report}");
            status
        });
        KilledWatcher {
            had_guard: !guards.is_empty(),
            said_it_watches: said.contains("turnkey: watching"),
            status,
        }
    }
}

/// The number of workloads that died.
fn killed_at(moments: &[Moment], required: bool) -> usize {
    moments
        .iter()
        .filter(|moment| {
            let group = OthersGroup::new();
            let mut others = Others::start(&group.path);
            let seen = KilledWatcher::at(**moment, &group, required);
            let told = format!("{moment:?}: {seen:?}");
            let has_ended = seen.status.as_deref() == Some("detached");
            assert!(
                !seen.said_it_watches || seen.status.is_some(),
                "a gap that nobody tells: {told}"
            );
            if required && !has_ended && (seen.had_guard || seen.said_it_watches) {
                assert_eq!(signal_of(&mut others), Some(libc::SIGKILL), "{told}");
                return true;
            }
            if !required {
                assert!(!seen.had_guard, "{told}");
                assert_ne!(
                    others.ask("read /etc/hostname"),
                    "",
                    "it was killed: {told}"
                );
                assert_eq!(others.end(), None, "{told}");
            }
            false
        })
        .count()
}

/// Moments of all phases, spread over the time that each takes here.
fn moments(each: u32) -> Vec<Moment> {
    let group = OthersGroup::new();
    let begun = Instant::now();
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let beginning = begun.elapsed();
    let begun = Instant::now();
    attached.let_go();
    attached.end();
    let ending = begun.elapsed();
    let spread = |time: Duration| (0..each).map(move |number| time * number / each);
    let moments = spread(beginning).map(Moment::Beginning);
    let moments = moments.chain(spread(Duration::from_millis(50)).map(Moment::Watching));
    moments
        .chain(spread(ending).map(Moment::LettingGo))
        .collect()
}

#[test]
fn at_a_moment_of_each_phase_a_killed_watcher_takes_its_group_along() {
    let moments = [
        Moment::Beginning(Duration::from_millis(300)),
        Moment::LettingGo(Duration::ZERO),
    ];
    killed_at(&moments, true);
    assert_eq!(killed_at(&[Moment::Watching(Duration::ZERO)], true), 1);
}

expected!(
    at_twenty_moments_and_more_a_killed_watcher_takes_its_group_along,
    at_twenty_moments_and_more_a_killed_watcher_without_it_kills_nobody: at_night,
    "twenty-four watchers, each with programs of its own; `attach::required::at_a_moment` \
     kills three"
);
#[test]
fn at_twenty_moments_and_more_a_killed_watcher_takes_its_group_along() {
    let died = killed_at(&moments(8), true);
    assert!(died >= 8, "{died} of 24: those that were watched");
}

#[test]
fn at_twenty_moments_and_more_a_killed_watcher_without_it_kills_nobody() {
    assert_eq!(killed_at(&moments(8), false), 0);
}
