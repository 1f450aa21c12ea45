//! A kernel that takes the processor from a task wherever it is, also in the middle of a hook.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use turnkey_tests::{Ran, Run, measured, outside};

const PREEMPT: &str = include_str!("../attacks/preempt.c");

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

/// Threads that take the processor from one another in the middle of hooks.
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
         the processor was taken away {given_way} times"
    ));
    ran.expect(
        denied > 500 && allowed > 500 && given_way > 1000,
        "the control: they were caught on their way",
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

    #[test]
    fn m22_tasks_that_meet_in_a_hook_are_each_decided_on_by_their_own_file() {
        let (ran, counts) = preempted();
        let left_out = left_out(&ran);
        expect_right_decisions(&ran, &counts);
        ran.expect_code(0);
        ran.expect(left_out == 0, "no program was left out");
    }
}

/// Since Linux 7.0 the programs at tracepoints can be interrupted too, and the kernel leaves one out
/// while another task of the processor is in it.
mod counted {
    use super::*;

    #[test]
    fn m22_programs_that_the_kernel_left_out_are_counted_and_the_run_is_not_called_clean() {
        let (ran, counts) = preempted();
        let left_out = left_out(&ran);
        expect_right_decisions(&ran, &counts);
        ran.expect(left_out > 0, "the control: some were left out");
        ran.expect(ran.at("/verdict") == "inconclusive", "not clean");
        ran.expect(ran.at("/is_safe") == false, "nor safe");
        ran.expect(ran.at("/events/complete") == false, "nor whole");
    }
}
