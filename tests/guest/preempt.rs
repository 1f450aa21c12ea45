//! A kernel that takes the CPU from a task wherever it is, also in the middle of a hook.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use turnkey_tests::{Ran, Run, measured, outside};

const PREEMPT: &str = include_str!("../attacks/preempt.c");
const GAP: &str = include_str!("../attacks/gap.c");

/// As many as `preempt.c` starts.
const THREADS: usize = 32;

/// How long they open files.
const SECONDS: &str = "4";

/// Directories above each file: the longer a hook walks, the more often it is caught on its way.
const DEPTH: usize = 200;

/// Every second one is denied, by where its file is and not by what the program calls it.
const RULE: &str = "[[rule]]\nid = \"deep\"\non = \"open\"\npath = [\"/workspace/d/**/denied-*\"]\n\
    action = \"deny\"\nseverity = \"info\"\nwhy = \"a test\"\n";

/// What the threads counted.
struct Counts {
    denied: u64,
    opened: u64,
    refused: u64,
}

/// The threads' names, which are those of their files.
fn names() -> impl Iterator<Item = String> {
    (0..THREADS).map(|number| match number % 2 {
        0 => format!("allowed-{number:02}"),
        _ => format!("denied-{number:02}"),
    })
}

fn deep() -> PathBuf {
    std::iter::repeat_n("d", DEPTH).collect()
}

/// Threads that take the CPU from one another in the middle of hooks.
fn preempted() -> (Ran, Counts) {
    let debug = "/sys/kernel/debug";
    outside("mount", &["-t", "debugfs", "none", debug]);
    let mode = fs::read_to_string(format!("{debug}/sched/preempt")).unwrap();
    outside("umount", &[debug]);
    measured(&format!("the kernel preempts so: {}", mode.trim()));
    let does = mode.contains("(full)") || mode.contains("(lazy)");
    assert!(does, "it preempts itself: {mode}");

    let run = Run::new().compiled("preempt", PREEMPT).profile(RULE);
    let links = run.path().join("links");
    fs::create_dir_all(run.path().join(deep())).unwrap();
    fs::create_dir(&links).unwrap();
    for name in names() {
        fs::write(run.path().join(deep()).join(&name), "").unwrap();
        symlink(
            PathBuf::from("..").join(deep()).join(&name),
            links.join(&name),
        )
        .unwrap();
    }
    let run = run.option("--cpu 100% --pids 100 --wall 50s --cpu-time 50s");
    let ran = run.with_events().run(&["./preempt", SECONDS, "links"]);
    let numbers: Vec<u64> = ran
        .stdout
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [denied, opened, allowed, refused, given_way] = numbers[..] else {
        panic!("no figures: {}\n{}", ran.stdout, ran.stderr);
    };
    measured(&format!(
        "{opened} of {denied} denied opens went through, {refused} of {allowed} others did not; \
         the CPU was taken away {given_way} times"
    ));
    ran.expect(
        denied > 500 && allowed > 500 && 10 * given_way > denied + allowed,
        "the control: one in ten was caught on its way",
    );
    let counts = Counts {
        denied,
        opened,
        refused,
    };
    (ran, counts)
}

/// Whether an event about one of the files is about the thread's own, and tells what became of it.
fn is_of_its_thread(event: &Value) -> bool {
    let name = event["process"]["comm"].as_str().unwrap_or_default();
    let path = event["path"].as_str().unwrap_or_default();
    let own = format!("/workspace/{}/{name}", deep().display());
    let result = if name.starts_with("denied") {
        "denied"
    } else {
        "allowed"
    };
    path == own && event["result"] == result
}

/// Every thread was answered, and told of, by its own file.
fn expect_right_decisions(ran: &Ran, counts: &Counts) {
    let is_one = |event: &&Value| {
        let name = event["process"]["comm"].as_str().unwrap_or_default();
        event["kind"] == "open" && names().any(|one| one == name)
    };
    let events: Vec<_> = ran.events.iter().filter(is_one).collect();
    let wrong: Vec<_> = events.iter().filter(|it| !is_of_its_thread(it)).collect();
    measured(&format!(
        "{} of {} events are wrong",
        wrong.len(),
        events.len()
    ));
    assert_eq!(counts.opened, 0, "a denied file was opened");
    assert_eq!(counts.refused, 0, "another file was refused");
    assert!(wrong.is_empty(), "an event is of another's: {:?}", wrong[0]);
    let told = events.iter().filter(|it| it["result"] == "denied").count() as u64;
    let lost = ran.at("/events/lost/open").as_u64().unwrap_or(0);
    assert!(
        told > 0 && told + lost >= counts.denied,
        "each refusal is told or counted"
    );
}

/// How many runs of the monitor's programs the kernel left out.
fn left_out(ran: &Ran) -> u64 {
    let missed = ran.at("/events/lost/missed").as_u64().unwrap_or(0);
    measured(&format!("{missed} runs of programs were left out"));
    missed
}

mod whole {
    use super::*;
    use turnkey_expectations::expected;

    expected!(on PREEMPT);

    #[test]
    fn m22_tasks_that_meet_in_a_hook_are_each_decided_on_by_their_own_file() {
        let (ran, counts) = preempted();
        let left_out = left_out(&ran);
        expect_right_decisions(&ran, &counts);
        ran.expect_code(0);
        ran.expect(left_out == 0, "no program was left out");
    }
}

/// A kill lands, also while somebody else has been interrupted in one of the monitor's programs.
mod kills {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::time::Instant;
    use turnkey_expectations::expected;

    use super::*;

    expected!(on[NEWEST_TRACEPOINT]);

    /// How often it is tried, each time by a jail of its own: the first attempt that is seen ends one.
    const ATTEMPTS: u64 = 10;

    /// Opening this file kills.
    const DEADLY: &str = "[[rule]]\nid = \"deadly\"\non = \"open\"\n\
        path = [\"/workspace/secret\"]\naction = \"kill\"\nwhy = \"a test\"\n";

    /// A directory where `busy` leads deep down.
    fn prepared() -> Run {
        let run = Run::new()
            .compiled("gap", GAP)
            .file("secret", "leaked\n")
            .option("--cpu 100% --pids 100 --wall 55s --cpu-time 55s");
        fs::create_dir_all(run.path().join(deep())).unwrap();
        fs::write(run.path().join(deep()).join("file"), "").unwrap();
        symlink(deep().join("file"), run.path().join("busy")).unwrap();
        run
    }

    /// Steals at a moment that differs from attempt to attempt; whether it got away with it.
    fn steals(attempt: u64, how: &str) -> bool {
        let millis = (200 + 3 * attempt).to_string();
        let run = prepared().profile(DEADLY);
        let ran = run.run(&["./gap", how, "busy", "secret", &millis]);
        let stolen = ran.stdout.contains("leaked");
        measured(&format!(
            "attempt {attempt}: {}, verdict {}, {} missed, interrupted {} times",
            if stolen { "stolen" } else { "killed" },
            ran.at("/verdict"),
            ran.at("/events/lost/missed").as_u64().unwrap_or(0),
            ran.at("/usage/context_switches")
        ));
        if !stolen {
            ran.expect(ran.at("/status") == "killed_by_policy", "killed for it");
        }
        stolen
    }

    #[test]
    fn m22_a_kill_lands_while_others_of_the_jail_are_interrupted_in_the_programs() {
        let run = prepared();
        let path = |name: &str| run.path().join(name).display().to_string();
        let steal = ["steal", &path("busy"), &path("secret"), "50"];
        let (_, control) = outside(path("gap"), &steal);
        assert_eq!(
            control, "leaked\n",
            "the control: without a rule it is read"
        );
        let stolen = (0..ATTEMPTS).filter(|&attempt| steals(attempt, "steal"));
        assert_eq!(stolen.count(), 0, "of {ATTEMPTS} attempts");
    }

    #[test]
    fn m22_a_kill_lands_while_another_jail_is_interrupted_in_the_programs() {
        let run = prepared();
        let mut command = run.command(&["./gap", "hammer", "busy", "50"]);
        let started = Instant::now();
        let mut hammers = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(hammers.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "hammers\n");
        let stolen = (0..ATTEMPTS).filter(|&attempt| steals(attempt, "alone"));
        assert_eq!(stolen.count(), 0, "of {ATTEMPTS} attempts");
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(hammers.id().cast_signed()),
            nix::sys::signal::Signal::SIGINT,
        )
        .unwrap();
        let hammered = run.end(hammers, started);
        let opens = hammered.at("/usage/system_seconds").as_f64().unwrap();
        hammered.expect(opens > 1.0, "the control: it was busy all the time");
    }
}
