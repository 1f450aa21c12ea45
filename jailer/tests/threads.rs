//! Many jails in one process, started from many threads: nothing of one is found in another, and
//! nothing of any is left. Needs what jails need: root, or delegated groups.

#![allow(clippy::disallowed_methods, reason = "a test opens its own files")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use turnkey_expectations::expected;
use turnkey_facts::{Limit, Status};
use turnkey_jailer::{Host, JailCommand, JailNews, Plan, Prepared};
use turnkey_policy::Policy;

expected!(as_root, "make jails of root's with control groups");

#[path = "../examples/embed_jail.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod embed;

const THREADS: usize = 16;
const ROUNDS: usize = 3;

fn shell(script: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", script].map(OsString::from).to_vec()
}

fn descriptors() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    let named = entries.flatten().filter_map(|entry| {
        // The descriptor of the listing itself is gone by now, and has no target.
        let target = std::fs::read_link(entry.path()).ok()?;
        Some(format!("{:?} {}", entry.file_name(), target.display()))
    });
    named.collect()
}

/// Groups of this process, in every hierarchy.
fn groups() -> Vec<String> {
    let ours = format!("turnkey-{}-", std::process::id());
    let mut found = Vec::new();
    let mut open = vec![(Path::new("/sys/fs/cgroup").to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(&ours) {
                found.push(entry.path().display().to_string());
            } else if depth < 4 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

#[track_caller]
fn nothing_is_left(before: &BTreeSet<String>) {
    assert_eq!(&descriptors(), before, "descriptors");
    assert_eq!(groups(), Vec::<String>::new(), "control groups");
    let child = waitpid(None, Some(WaitPidFlag::WNOHANG));
    assert_eq!(child, Err(Errno::ECHILD), "children");
}

/// Each jail tells its marker, what it was fed, and its user on the host; all of one round are
/// alive at once.
#[test]
fn jails_of_many_threads_share_nothing() {
    let policy = embed::policy().unwrap();
    let directories: Vec<_> = (0..THREADS).map(|_| tempfile::tempdir().unwrap()).collect();
    // A descriptor that stays open across execve(2), as careless programs have them.
    let careless = std::fs::File::open("/etc/hostname").unwrap();
    nix::fcntl::fcntl(
        &careless,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let before = descriptors();
    let all_alive = Barrier::new(THREADS);
    let script = "read marker; head -n 1 /proc/self/uid_map; echo $marker > $marker; ls; \
                  ls /proc/self/fd | wc -l; sleep 0.5";
    let one_thread = |number: usize, directory: &Path| {
        let mut users = Vec::new();
        for round in 0..ROUNDS {
            all_alive.wait();
            let marker = format!("marker-{number}-{round}");
            let input = format!("{marker}\n").into_bytes();
            let ran = embed::run(&policy, shell(script), directory.to_owned(), input);
            let ran = ran.expect("a jail can be made");
            let output = String::from_utf8_lossy(&ran.output).into_owned();
            let mut lines = output.lines();
            let map = lines.next().unwrap_or_default().to_owned();
            let user = map.split_whitespace().nth(1).unwrap_or_default().to_owned();
            // Nobody else's file, and no descriptor but the three and the listing's own.
            assert_eq!(
                lines.collect::<Vec<_>>(),
                [marker.as_str(), "4"],
                "{output}"
            );
            assert_eq!(ran.exit.status, Status::Exited(0), "{output}");
            assert_eq!(ran.exit.changed.len(), 1, "{:?}", ran.exit.changed);
            users.push((round, user));
        }
        users
    };
    let users: Vec<(usize, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = directories
            .iter()
            .enumerate()
            .map(|(number, directory)| scope.spawn(move || one_thread(number, directory.path())))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread failed"));
        joined.flatten().collect()
    });
    for round in 0..ROUNDS {
        let of_round = users.iter().filter(|(of, _)| *of == round);
        let different: BTreeSet<_> = of_round.map(|(_, user)| user).collect();
        assert_eq!(
            different.len(),
            THREADS,
            "users of living jails differ: {users:?}"
        );
    }
    for directory in &directories {
        let files = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 0, "the host's directory is as before");
    }
    nothing_is_left(&before);
}

/// A program that reads to the end of its input sees that end when its owner closes the pipe,
/// however many other jails are being made at that moment: none of them keeps a copy.
#[test]
fn the_end_of_an_input_is_seen_while_other_jails_start() {
    let policy = embed::policy().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let before = descriptors();
    let done = AtomicBool::new(false);
    let others = || {
        let mut count = 0;
        while !done.load(Ordering::Relaxed) {
            let place = directory.path().to_owned();
            embed::run(&policy, shell("true"), place, Vec::new()).expect("a jail can be made");
            count += 1;
        }
        count
    };
    let (slowest, started) = std::thread::scope(|scope| {
        let others: Vec<_> = (0..4).map(|_| scope.spawn(others)).collect();
        let slowest = (0..10)
            .map(|_| time_to_the_end(&policy, directory.path()))
            .max();
        done.store(true, Ordering::Relaxed);
        let started: i32 = others
            .into_iter()
            .map(|thread| thread.join().expect("no thread failed"))
            .sum();
        (slowest.unwrap_or_default(), started)
    });
    eprintln!("{started} jails started beside; the slowest end took {slowest:?} to be seen");
    assert!(started > 10, "others were started: {started}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    nothing_is_left(&before);
}

/// A jail that is dropped at any point leaves nothing behind.
#[test]
fn a_jail_that_is_dropped_leaves_nothing() {
    let policy = embed::policy().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let before = descriptors();
    let prepared = || prepare(&policy, directory.path(), &["sleep", "30"]).0;
    drop(prepared());
    nothing_is_left(&before);
    drop(prepared().spawn().unwrap());
    nothing_is_left(&before);
    let running = prepared()
        .spawn()
        .and_then(turnkey_jailer::Held::release)
        .unwrap();
    assert!(!groups().is_empty(), "a living jail has groups");
    drop(running);
    nothing_is_left(&before);
}

/// A prepared jail, and the other end of its input.
fn prepare(policy: &Policy, directory: &Path, arguments: &[&str]) -> (Prepared, PipeWriter) {
    let command = JailCommand {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: Vec::new(),
        workdir: directory.to_owned(),
        ..JailCommand::default()
    };
    let plan = Plan::new(policy, &Host::probe(policy).expect("groups"), command).expect("a plan");
    let (their_input, our_input) = std::io::pipe().expect("a pipe");
    let output = || OwnedFd::from(std::fs::File::create("/dev/null").expect("/dev/null is there"));
    let streams = [their_input.into(), output(), output()];
    (
        plan.prepare(streams).expect("a jail can be made ready"),
        our_input,
    )
}

/// From the closing of the input of a `cat` to the end of its jail.
fn time_to_the_end(policy: &Policy, directory: &Path) -> Duration {
    let (prepared, our_input) = prepare(policy, directory, &["cat"]);
    let held = prepared.spawn();
    let mut running = held
        .and_then(turnkey_jailer::Held::release)
        .expect("a jail");
    // It lives for as long as its input does.
    let early = running
        .news_within(Duration::from_millis(50))
        .expect("it is heard");
    assert_eq!(early, None, "cat waits for its input");
    let closed = Instant::now();
    drop(our_input);
    while running
        .news_within(Duration::from_secs(10))
        .expect("it is heard")
        != Some(JailNews::Gone)
    {
        assert!(
            closed.elapsed() < Duration::from_secs(10),
            "cat never saw the end"
        );
    }
    let took = closed.elapsed();
    running.finish().expect("it is cleared away");
    took
}

/// A jail that runs over its time, and one that is fed more than it reads.
#[test]
fn the_example_ends_what_does_not_end_by_itself() {
    let mut policy = embed::policy().unwrap();
    policy.limits.wall = Duration::from_millis(300);
    let directory = tempfile::tempdir().unwrap();
    let before = descriptors();
    let started = Instant::now();
    let place = || directory.path().to_owned();
    let input = vec![b'x'; 1 << 20];
    let ran = embed::run(&policy, shell("sleep 30"), place(), input).unwrap();
    assert_eq!(ran.limit, Some(Limit::Wall));
    assert!(started.elapsed() < Duration::from_secs(10));
    let flood = embed::run(
        &policy,
        shell("while :; do echo flood; done"),
        place(),
        Vec::new(),
    );
    let flood = flood.unwrap();
    assert_eq!(flood.output.len() as u64, policy.limits.output);
    // What a jail wrote can be read for as long as its exit is held.
    drop((ran, flood));
    nothing_is_left(&before);
}
