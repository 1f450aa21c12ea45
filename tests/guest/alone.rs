//! Changes to the whole machine while a jail runs, or to what its root may have.

use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use turnkey_tests::{Ran, Run, as_nobody, eventually, measured, open_to_all, scratch};

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

/// Sets the clock of the machine forward by this much, or back.
fn set_clock(by: i64) {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    let then = TimeSpec::new(now.tv_sec() + by, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).unwrap();
}

/// A run of five seconds, in the middle of which something happens to the machine; the program said before that it lives.
fn interrupted(what: impl FnOnce()) -> Ran {
    let place = scratch();
    open_to_all(place.path());
    let lives = place.path().join("lives");
    let run = Run::new().option(&format!("--wall 5s --write {}", place.path().display()));
    let program = format!("touch {}; sleep 60", lives.display());
    let began = Instant::now();
    let child = run.command(&["sh", "-c", &program]).spawn().unwrap();
    eventually("the program lives", || lives.exists());
    what();
    run.end(child, began)
}

/// A day is more than every limit of the run.
#[test]
fn a_clock_that_is_set_neither_ends_a_run_nor_lets_it_go_on() {
    const DAY: i64 = 24 * 60 * 60;
    for by in [DAY, -DAY] {
        let ran = interrupted(|| set_clock(by));
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
