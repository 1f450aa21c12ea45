//! Evidence under pressure: what is lost is said to be lost, and no decision depends on it.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, callers_scratch, eventually, in_the_guest, measured};

use super::{events, rule, violations};

const FLOOD: &str = include_str!("../../attacks/flood.c");
const MANY: &str = include_str!("../../attacks/many.c");
const BUSY: &str = include_str!("../../attacks/busy.c");
const ENDS: &str = include_str!("../../attacks/ends.c");

/// More events than any ring holds.
fn flood() -> u64 {
    if in_the_guest() { 150_000 } else { 1_000_000 }
}

/// A jail that floods while nobody reads its events.
struct Flooded {
    place: tempfile::TempDir,
    run: Run,
    turnkey: Child,
    started: Instant,
}

impl Flooded {
    /// `then` is what the flooder becomes at the end.
    fn start(count: u64, then: &[&str], options: &str) -> Flooded {
        let place = callers_scratch();
        let directory = place.path().display().to_string();
        let run = Run::new().compiled("flood", FLOOD);
        let run = match then.is_empty() {
            true => run,
            false => run.profile(&rule("touch", "exec", "kill", "path = \"/usr/bin/touch\"")),
        };
        let run = run.option("--wall 60s --cpu-time 60s").with_events();
        let run = run.option(format!("--write {directory} {options}").trim_end());
        let count = count.to_string();
        let then: Vec<String> = (then.iter())
            .map(|word| word.replace("PLACE", &directory))
            .collect();
        let program = ["./flood", &directory, &count];
        let program = program.into_iter().chain(then.iter().map(String::as_str));
        let mut command = run.command(&program.collect::<Vec<_>>());
        let started = Instant::now();
        let turnkey = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let flooded = Flooded {
            turnkey: turnkey.expect("turnkey can be started"),
            place,
            run,
            started,
        };
        eventually("the flood is ready", || flooded.said("ready"));
        flooded
    }

    fn said(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.place.path(), name)
    }

    /// Lets the flood come, and waits for its end.
    fn come(&self) {
        fs::write(self.file("go"), "").expect("a test can write its own directory");
        let deadline = Instant::now() + Duration::from_secs(45);
        while !self.said("done") {
            assert!(Instant::now() < deadline, "the flood does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        let reader = self.run.maker(&self.turnkey);
        kill(reader, signal).expect("turnkey runs");
    }

    fn end(self) -> Ran {
        self.run.end(self.turnkey, self.started)
    }
}

/// How often it happened, and how often it is in no event.
fn seen_and_lost(ran: &Ran, kind: &str) -> (u64, u64) {
    let count = |list: &str| ran.at(&format!("/events/{list}/{kind}")).as_u64();
    (count("seen").unwrap_or(0), count("lost").unwrap_or(0))
}

/// How often the events say that it happened.
fn told(ran: &Ran, kind: &str) -> u64 {
    let counts = events(ran, kind).map(|event| 1 + event["repeated"].as_u64().unwrap_or(0));
    counts.sum()
}

expected!(
    m20_j64_a_flood_hides_no_forbidden_act_and_what_is_lost_is_counted,
    m20_j64_lost_evidence_is_never_called_clean: not_on [ORDINARY_6_12],
    "floods, which take an emulated CPU long; `live::evidence::` has them there"
);
expected!(
    m20_j64_a_flood_hides_no_forbidden_act_and_what_is_lost_is_counted: at_night,
    "floods; `live::evidence::m20_a_flood_of_violations` has one by day"
);
#[test]
fn m20_j64_a_flood_hides_no_forbidden_act_and_what_is_lost_is_counted() {
    let then = ["/usr/bin/touch", "PLACE/came"];
    let quiet = Flooded::start(0, &then, "--mode observe");
    quiet.come();
    eventually("the control: it comes where the rule logs", || {
        quiet.said("came")
    });
    let quiet = quiet.end();
    quiet.expect(
        quiet.at("/events/complete") == true,
        "the control: nothing is lost",
    );
    let opens = seen_and_lost(&quiet, "open").0;

    let flooded = Flooded::start(flood(), &then, "");
    flooded.signal(Signal::SIGSTOP);
    flooded.come();
    // Another jail, while the ring of the first is full: all of its events, and its own decisions.
    let other = Run::new()
        .with_events()
        .shell("cat /etc/hostname; cat /etc/shadow; echo lived");
    let came = flooded.said("came");
    flooded.signal(Signal::SIGCONT);
    let ran = flooded.end();
    assert!(!came, "dead before anybody read of it");
    ran.expect_code(121);
    ran.expect(ran.at("/verdict") == "violated", "and known to be");
    let (seen, lost) = seen_and_lost(&ran, "open");
    measured(&format!("flood: {seen} opens seen, {lost} lost"));
    ran.expect(lost > 0, "the control: events are lost");
    // The opens of touch(1) itself are those that never came.
    let expected = flood()..=flood() + opens;
    ran.expect(expected.contains(&seen), "and each is counted");
    ran.expect(
        told(&ran, "open") == seen - lost,
        "and nothing else is missing",
    );
    ran.expect(ran.at("/events/complete") == false, "and it is told");

    other.expect_code(121);
    other.expect(other.stdout == "jail\n", "the neighbour's rules act");
    other.expect(other.at("/events/complete") == true, "and it loses nothing");
    let told = violations(&other, "credential-file").count();
    other.expect(told == 1, "and its events are its own");
    let floods = events(&other, "open").filter(|event| event["path"] == "/nowhere/file");
    other.expect(floods.count() == 0, "and no one else's");
}

#[test]
fn m20_j64_lost_evidence_is_never_called_clean() {
    let quiet = Flooded::start(0, &[], "--on-loss fail");
    quiet.come();
    let quiet = quiet.end();
    quiet.expect_code(0);
    quiet.expect(quiet.at("/verdict") == "clean", "the control");
    let opens = seen_and_lost(&quiet, "open").0;

    let count = flood() / 2;
    let flooded = Flooded::start(count, &[], "--on-loss fail");
    flooded.signal(Signal::SIGSTOP);
    flooded.come();
    flooded.signal(Signal::SIGCONT);
    let ran = flooded.end();
    ran.expect_code(120);
    ran.expect(ran.at("/verdict") == "inconclusive", "not clean");
    ran.expect(ran.at("/is_safe") == false, "nor safe");
    let (seen, lost) = seen_and_lost(&ran, "open");
    ran.expect(lost > 0 && seen == count + opens, "counted to the last one");
    ran.expect(
        told(&ran, "open") == seen - lost,
        "and nothing else is missing",
    );
}

expected!(
    m21_many_processes_alive_at_once_change_no_decision: at_night,
    "twenty thousand processes; `live::shared::m21_` has jails that take all they can"
);
#[test]
fn m21_many_processes_alive_at_once_change_no_decision() {
    let attempt = |many: u64, options: &str| {
        let run = Run::new().compiled("many", MANY);
        let run = run.option("--pids 25000 --memory 8G --wall 60s --cpu-time 60s");
        let run = run.option(options);
        let ran = run.run(&["./many", &many.to_string()]);
        let peak = ran.at("/usage/pids_peak").as_u64().unwrap_or(0);
        measured(&format!("{peak} processes alive at once"));
        ran.expect(peak == 0 || peak > many, "they lived at once");
        let live = format!("{} live\n", many + 2);
        ran.expect(ran.stdout.starts_with(&live), "the last of them did it");
        let by = violations(&ran, "credential-file").map(|one| one["process"]["pid"].as_u64());
        ran.expect(by.eq([Some(many + 2)]), "and is named");
        let (forks, _) = seen_and_lost(&ran, "fork");
        ran.expect(forks == many, "each fork is counted");
        ran
    };
    let control = attempt(500, "--mode observe");
    control.expect(
        control.stdout.contains("opened"),
        "the control: where it is logged",
    );
    let many = if in_the_guest() { 1_000 } else { 20_000 };
    let ran = attempt(many, "--mode enforce");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("opened"), "without effect");
}

#[test]
fn m22_hooks_that_meet_under_load_miss_nothing() {
    let run = Run::new().compiled("busy", BUSY);
    let ran = run.option("--cpu 200% --pids 100").run(&["./busy"]);
    ran.expect_code(0);
    let busy = ["open", "send", "connect", "exec_attempt", "fork", "exit"];
    for kind in busy {
        ran.expect(
            seen_and_lost(&ran, kind).0 > 100,
            &format!("the control: {kind}"),
        );
    }
    for name in ["missed", "malformed", "faults", "unaccounted"] {
        let count = ran.at(&format!("/events/lost/{name}"));
        ran.expect(count.is_null(), name);
    }
}

#[test]
fn m22_the_end_of_a_process_is_told_once_though_its_threads_end_together() {
    let attempt = |many: u64| {
        let run = Run::new().compiled("ends", ENDS).option("--cpu 200%");
        let ran = run.run(&["./ends", &many.to_string()]);
        ran.expect_code(0);
        ran.expect(ran.stdout == format!("{many} ended\n"), "the control");
        seen_and_lost(&ran, "exit").0
    };
    // Without the exchange in the kernel a quarter of them have two.
    assert_eq!(attempt(200), attempt(0) + 200, "an end for each");
}

/// The numbers of a process in the host's namespace and in the jail's, and its user outside.
fn on_the_host(word: &str) -> Option<(u64, u64, u64)> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|process| {
            let line = fs::read(process.path().join("cmdline")).ok()?;
            // The jail's first process, and the program's before it is executed, still have turnkey's words.
            let mut words = line.split(|byte| *byte == 0);
            let is_program = words.next() == Some(b"python3");
            let is_called = is_program && words.any(|one| one == word.as_bytes());
            let status = fs::read_to_string(process.path().join("status")).ok()?;
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                let numbers = line.split_whitespace().map(|word| word.parse().ok());
                numbers.collect::<Option<Vec<u64>>>()
            };
            let numbers = field("NSpid:")?;
            let jailed = is_called && numbers.len() == 2;
            let user = *field("Uid:")?.first()?;
            jailed.then(|| (numbers[0], numbers[1], user))
        })
        .next()
}

#[test]
fn m32_numbers_are_told_as_the_host_and_as_the_jail_knows_them() {
    let word = format!("numbers-{}", std::process::id());
    let program = "import os, time
print(os.getpid(), os.getuid(), flush=True)
open('marker', 'w').close()
time.sleep(1.5)";
    let run = Run::new().with_events();
    let mut command = run.command(&["python3", "-c", program, &word]);
    let started = Instant::now();
    let turnkey = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut found = None;
    eventually("it is there", || {
        found = on_the_host(&word);
        found.is_some()
    });
    let (host, jail, user) = found.unwrap_or_default();
    let ran = run.end(turnkey.unwrap(), started);
    ran.expect_code(0);
    let said = ran.stdout.split_whitespace().next();
    ran.expect(said == Some(&jail.to_string()), "the jail's number");
    ran.expect(host != jail, "the host has another");
    let event = events(&ran, "open").find(|event| event["path"] == "/workspace/marker");
    let process = event
        .map(|event| event["process"].clone())
        .unwrap_or_default();
    ran.expect(process["pid"] == jail, "pid");
    ran.expect(
        process["host_pid"] == host && process["host_tid"] == host,
        "host_pid",
    );
    ran.expect(process["host_uid"] == user, "host_uid");
    let row = ran.list("/processes").iter().find(|row| row["pid"] == jail);
    ran.expect(
        row.is_some_and(|row| row["host_pid"] == host),
        "in the report, too",
    );
}
