//! Changes to the whole machine while a jail runs, or to what its root may have.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, as_nobody, eventually, measured, open_to_all, scratch};

expected!(on[LSM_6_12]);

/// A caller may have both, as who plays music has.
#[test]
fn j70_the_priority_that_a_caller_may_have_is_not_the_jails() {
    let program = "import os
def tried(call):
    try: call()
    except PermissionError: return 'refused'
    return 'done'
print(tried(lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))), tried(lambda: os.nice(-5)))";
    for (resource, most) in [(Resource::RLIMIT_RTPRIO, 10), (Resource::RLIMIT_NICE, 40)] {
        setrlimit(resource, most, most).unwrap();
    }
    let (_, control) = as_nobody("/usr/bin/python3", &["-c", program]);
    assert_eq!(control, "done done\n", "the control");
    for run in [Run::new().option("--unmonitored"), Run::rootless()] {
        let ran = run.python(program);
        ran.expect(ran.stdout == "refused refused\n", "neither in the jail");
    }
}

const SLEEPER: &str = "touch LIVES; sleep 60";

/// In seconds.
const DAY: i64 = 24 * 60 * 60;

/// Sets the clock of the machine forward by this much, or back.
fn set_clock(by: i64) {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    let then = TimeSpec::new(now.tv_sec() + by, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).unwrap();
}

/// Runs of five seconds, in the middle of which something happens to the machine. Each is of a shell script, which makes
/// the file LIVES before.
fn interrupted<const N: usize>(scripts: [&str; N], what: impl FnOnce()) -> [Ran; N] {
    let runs = scripts.map(|script| {
        let place = scratch();
        open_to_all(place.path());
        let lives = place.path().join("lives");
        let run = Run::new().option(&format!("--wall 5s --write {}", place.path().display()));
        let script = script.replace("LIVES", &lives.display().to_string());
        let began = Instant::now();
        let mut command = run.command(&["sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (place, run, command.spawn().unwrap(), began)
    });
    for (place, ..) in &runs {
        let lives = place.path().join("lives");
        eventually("the program lives", || lives.exists());
    }
    what();
    runs.map(|(_place, run, child, began)| run.end(child, began))
}

/// The step of the clock: more than every limit of the run.
#[test]
fn a_clock_that_is_set_neither_ends_a_run_nor_lets_it_go_on() {
    for by in [DAY, -DAY] {
        let [ran] = interrupted([SLEEPER], || set_clock(by));
        set_clock(-by);
        measured(&format!(
            "the clock was set by {by} s; the run took {:?}",
            ran.took
        ));
        ran.expect_code(124);
        ran.expect(ran.took > Duration::from_secs(5), "not before its time");
        ran.expect(ran.took < Duration::from_secs(15), "and not long after it");
        let events = ran.list("/violations").len();
        ran.expect(events == 0, "nothing else was seen in it");
    }
}

/// Seconds that the machine is suspended at least: more than every limit of the run.
const NIGHT: Duration = Duration::from_secs(7);

/// In how many seconds of the host its clock wakes the machine, which is emulated and takes some of them to fall asleep.
const WAKE: &str = "+20";

/// Suspends the machine to memory.
fn suspend() {
    let asleep = || {
        let awake = since(ClockId::CLOCK_MONOTONIC);
        since(ClockId::CLOCK_BOOTTIME) - awake
    };
    let before = asleep();
    fs::write("/sys/class/rtc/rtc0/wakealarm", WAKE).unwrap();
    fs::write("/sys/power/state", "mem").unwrap();
    let slept = asleep() - before;
    measured(&format!("suspended for {slept:?}"));
    assert!(slept >= NIGHT, "the control");
}

fn since(clock: ClockId) -> Duration {
    clock_gettime(clock).unwrap().into()
}

/// Waits until the machine has slept, then goes on.
const AFTER_THE_NIGHT: &str = r#"python3 -c "
import time
def asleep(): return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
before = asleep()
open('LIVES', 'w')
while asleep() < before + 1: time.sleep(0.01)
""#;

#[test]
fn a_run_sleeps_with_the_machine_and_is_watched_when_it_wakes() {
    let offends = format!("{AFTER_THE_NIGHT}; cat /etc/shadow; echo survived");
    let goes_on = format!("{AFTER_THE_NIGHT}; echo went on");
    let [ran, offender, innocent] = interrupted([SLEEPER, &offends, &goes_on], suspend);

    ran.expect_code(124);
    let awake = ran.at("/usage/wall_seconds").as_f64().unwrap();
    ran.expect((5.0..7.0).contains(&awake), "its time is that awake");
    ran.expect(ran.at("/verdict") != "clean", "a limit ended it");

    let ran = offender;
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("survived"), "it is killed");
    let rules = ran.violations().iter().map(|it| it["rule"].clone());
    ran.expect(
        rules.collect::<Vec<_>>() == ["credential-file"],
        "for what it did then",
    );

    let ran = innocent;
    ran.expect_code(0);
    ran.expect(ran.stdout == "went on\n", "who does nothing goes on");
    ran.expect(ran.at("/events/complete") == true, "nothing is lost");
    ran.expect(ran.at("/verdict") == "clean", "nor in doubt");
    let time = |place: &str| second_of_day(ran.at(place).as_str().unwrap());
    let dated = time("/processes/0/end") - time("/processes/0/start");
    let night = NIGHT.as_secs_f64();
    ran.expect(dated.rem_euclid(DAY as f64) >= night, "dates count it");
    let awake = ran.at("/usage/wall_seconds").as_f64().unwrap();
    ran.expect(awake < night, "and the clock of the run does not");
}

/// Of a date as reports have them.
fn second_of_day(date: &str) -> f64 {
    let parts = date[11..26].split(':').map(|it| it.parse::<f64>().unwrap());
    parts.fold(0.0, |sum, part| 60.0 * sum + part)
}
