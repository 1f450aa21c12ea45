//! Programs that a run leaves in the kernel for those after it, called only while somebody watches.
//!
//! Every test has a mount namespace with a BPF file system of its own.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, binary, eventually, measured, nothing_is_loaded, scratch, traces};

use crate::attach::{Attached, OthersGroup};
use crate::counted::{self, NOWHERE};

expected!(on [TRACEPOINT_6_1, NEWEST, NEWEST_TRACEPOINT]);

/// The versions that are loaded.
fn versions() -> Vec<Value> {
    let mut status = Command::new(binary());
    status.args(["monitor", "status", "--json"]);
    let told = status.output().expect("turnkey can be started");
    let page: Value = serde_json::from_slice(&told.stdout).expect("it is JSON");
    page["versions"].as_array().expect("a list").clone()
}

/// True when tracepoints of the host call the programs.
fn are_called() -> bool {
    versions().iter().any(|version| version["watching"] == true)
}

/// True when the report says that the programs were there before.
fn was_warm(ran: &Ran) -> bool {
    let mut layers = ran.list("/enforcement").iter();
    let monitor = layers.find(|layer| layer["layer"] == "monitor");
    let monitor = monitor.expect("the monitor is a layer");
    monitor["effective"].to_string().contains("loaded before")
}

const TOLD: &str = "the monitor's programs stay in the kernel";

#[test]
fn the_first_run_leaves_its_programs_to_the_next_one_and_says_so() {
    nothing_is_loaded();
    let alone = Run::new().option("--leave-nothing").shell("true");
    alone.expect_code(0);
    alone.expect(versions().is_empty(), "nothing is left");
    alone.expect(!alone.stderr.contains(TOLD), "and nothing is told");

    let first = Run::new().shell("true");
    first.expect(!was_warm(&first), "it loads them");
    first.expect(first.stderr.contains(TOLD), "it says what it leaves");
    first.expect(
        first.stderr.contains("turnkey monitor unload"),
        "and how it goes",
    );
    let left = versions();
    first.expect(left.len() == 1 && left[0]["current"] == true, "one version");
    first.expect(!are_called(), "no tracepoint calls it");

    for run in [Run::new(), Run::new().option("--leave-nothing")] {
        let next = run.shell("cat /etc/shadow; true");
        next.expect(was_warm(&next), "it finds them");
        next.expect_code(121);
        next.expect(!next.stderr.contains(TOLD), "told once");
        next.expect(!are_called(), "it has let go");
    }
    let unloaded = Command::new(binary()).args(["monitor", "unload"]).status();
    assert!(unloaded.is_ok_and(|status| status.success()));
    assert!(versions().is_empty(), "the advice works");
}

#[test]
fn an_attachment_that_is_to_leave_nothing_leaves_no_program() {
    nothing_is_loaded();
    let group = OthersGroup::new();
    let attach = |options: &[&str]| {
        let options = [&["--for", "10ms"], options].concat();
        let (code, report, said) = Attached::to(&["--cgroup", group.name()], &options).end();
        assert_eq!(code, 0, "{said}");
        assert_eq!(report["events"]["lost"], serde_json::json!({}), "{said}");
        versions().len()
    };
    assert_eq!(attach(&["--leave-nothing"]), 0, "nothing is left");
    assert_eq!(attach(&[]), 1, "the control");
    assert_eq!(attach(&["--leave-nothing"]), 1, "it takes what is there");
    assert!(!are_called(), "and has let go");
}

/// A watched run that lasts, once the program is there.
fn lasting() -> (Run, Child) {
    let run = Run::new();
    let mut command = run.command(&["/bin/sh", "-c", "echo there; sleep 60"]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut turnkey = command
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let mut there = [0; 6];
    let stdout = turnkey.stdout.as_mut().expect("it is a pipe");
    stdout.read_exact(&mut there).expect("the program speaks");
    (run, turnkey)
}

fn killed(mut turnkey: Child) {
    turnkey.kill().expect("it can be killed");
    turnkey.wait().expect("it can be waited for");
}

#[test]
fn who_is_killed_last_leaves_no_program_at_work() {
    nothing_is_loaded();
    let [(_one, first), (_another, second)] = [lasting(), lasting()];
    assert!(are_called(), "the control");
    killed(first);
    assert!(are_called(), "somebody watches");
    killed(second);
    eventually("nobody watches any more", || !are_called());
}

/// Operations of a program that come and go while others do: each of these numbers once.
const OPERATIONS: u64 = 20;

/// Numbers its operations until there are so many, then starts a program.
fn numbered(operations: u64) -> String {
    format!(
        "exec 2> /dev/null; n=0; while [ $n -lt {operations} ]; do true < {NOWHERE}$n; n=$((n+1)); done; /bin/true; exit 0"
    )
}

/// Checks that every operation was told, and told once.
fn expect_told_once(ran: &Ran) {
    ran.expect_code(0);
    ran.expect(ran.at("/events/complete") == true, "whole");
    ran.expect(ran.at("/verdict") == "clean", "and clean");
    let numbers = counted::numbers(&ran.events);
    ran.expect(numbers.iter().copied().eq(0..OPERATIONS), "each open once");
    let of_true = |event: &&Value| event["kind"] == "exec" && event["argv"][0] == "/bin/true";
    ran.expect(ran.events.iter().filter(of_true).count() == 1, "one exec");
    ran.expect(
        ran.events
            .last()
            .is_some_and(|event| event["kind"] == "end"),
        "to the end",
    );
}

/// A run that never ends by itself, which is going to be killed.
struct Dying {
    run: Run,
    turnkey: Child,
    /// Of its `--events`.
    events: PathBuf,
    _place: TempDir,
}

impl Dying {
    fn start() -> Dying {
        let place = scratch();
        let events = place.path().join("events.jsonl");
        let run = Run::new().option(&format!("--events {}", events.display()));
        // It starts programs in between, so that whoever takes the events can follow.
        let endless = format!(
            "exec 2> /dev/null; n=0; while :; do true < {NOWHERE}$n; /bin/true; n=$((n+1)); done"
        );
        let mut command = run.command(&["/bin/sh", "-c", &endless]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Dying {
            turnkey: command.spawn().expect("it can be started"),
            run,
            events,
            _place: place,
        }
    }

    /// Kills turnkey; whether its program had been watched. What it has told by then is whole as far as it goes, nobody calls it clean,
    /// and of its jail nothing is left.
    fn kill(self) -> bool {
        let mark = format!("turnkey-{}-", self.turnkey.id());
        killed(self.turnkey);
        let report = self.run.report();
        assert_ne!(report["verdict"], "clean", "{report}");
        let events = counted::whole_lines(&self.events);
        let numbers = counted::numbers(&events);
        assert!(
            numbers.iter().copied().eq(0..numbers.len() as u64),
            "{numbers:?}"
        );
        assert!(
            events.iter().all(|event| event["kind"] != "end"),
            "nobody ended it"
        );
        eventually("nothing is left of its jail", || {
            !traces().iter().any(|trace| trace.contains(&mark))
        });
        !events.is_empty()
    }
}

/// Numbers that are the same in each run of the tests (Knuth, MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Runs come and go beside each other, in each round two that are killed anywhere and one that ends by itself; the number of killed ones
/// that were watched by then.
fn come_and_go(rounds: u64, seed: u64) -> u64 {
    let mut random = Random(seed);
    let mut watched = 0;
    for _ in 0..rounds {
        let dying = [(); 2].map(|()| {
            let dying = Dying::start();
            std::thread::sleep(Duration::from_millis(random.below(LONGEST)));
            dying
        });
        watched += dying.map(Dying::kill).map(u64::from).iter().sum::<u64>();
        expect_told_once(&Run::new().with_events().shell(&numbered(OPERATIONS)));
    }
    watched
}

/// Milliseconds that one of them lives at most: from before the monitor is opened to far in the program's work.
const LONGEST: u64 = 160;

/// The kernel watches for no run, holds no jail, and the programs that are left go whole.
fn expect_nothing_left() {
    eventually("nobody watches any more", || !are_called());
    // What the map still has of a killed run goes with the next one that takes its slot.
    eventually("no jail is left", || {
        let jails = versions()[0]["jails"].as_array().cloned();
        jails.is_some_and(|jails| jails.iter().all(|jail| jail["cgroup"].is_null()))
    });
    let versions = versions();
    assert!(
        versions.len() == 1 && versions[0]["current"] == true,
        "{versions:?}"
    );
    let unloaded = Command::new(binary()).args(["monitor", "unload"]).status();
    assert!(unloaded.is_ok_and(|status| status.success()));
    let pins = std::fs::read_dir("/sys/fs/bpf").expect("it is mounted");
    let mut pins: Vec<_> = pins.flatten().map(|entry| entry.path()).collect();
    // The kernel's own.
    pins.retain(|pin| pin.extension().is_none_or(|end| end != "debug"));
    assert!(pins.is_empty(), "{pins:?}");
}

/// Runs come and go beside each other, killed wherever they are; others attach the programs anew meanwhile. Longer than other tests: it
/// loads the programs anew, and two dozen runs are few.
#[test]
fn runs_that_are_killed_anywhere_leave_no_gap_no_double_and_nothing_behind() {
    nothing_is_loaded();
    Run::new().shell("true").expect_code(0);
    let started = std::time::Instant::now();
    let watched = come_and_go(8, 1);
    measured(&format!(
        "{watched} of 16 killed runs were watched; {:?}",
        started.elapsed()
    ));
    expect_nothing_left();
}

expected!(
    thousands_of_runs_that_are_killed_anywhere_leave_no_gap_no_double_and_nothing_behind: at_night,
    "three thousand runs; `left_loaded::runs_that_are_killed_anywhere` has 24"
);
expected!(
    thousands_of_runs_that_are_killed_anywhere_leave_no_gap_no_double_and_nothing_behind: not_on [TRACEPOINT_6_1, NEWEST, NEWEST_TRACEPOINT],
    "an emulated CPU takes seconds for each"
);
/// The same, in two lanes at once.
#[test]
fn thousands_of_runs_that_are_killed_anywhere_leave_no_gap_no_double_and_nothing_behind() {
    const LANES: [u64; 2] = [2, 3];
    const ROUNDS: u64 = 500;
    nothing_is_loaded();
    Run::new().shell("true").expect_code(0);
    let watched = std::thread::scope(|scope| {
        let lanes = LANES.map(|seed| scope.spawn(move || come_and_go(ROUNDS, seed)));
        lanes
            .map(|lane| lane.join().expect("a lane passes"))
            .iter()
            .sum::<u64>()
    });
    // Points before and behind the beginning of the watch.
    measured(&format!(
        "{watched} of {} killed runs were watched",
        4 * ROUNDS
    ));
    assert!(watched > ROUNDS / 2 && watched < 4 * ROUNDS, "{watched}");
    expect_nothing_left();
}
