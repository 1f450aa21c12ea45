//! More processes than an ordinary machine can have.

use std::fs;

use nix::sys::resource::{Resource, setrlimit};
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, measured};

expected!(on[CROWD_6_12]);

const THRONG: &str = include_str!("../attacks/throng.c");

const MANY: u64 = 100_000;

/// Lets this machine have them.
fn make_room() {
    let most = (2 * MANY).to_string();
    for switch in ["pid_max", "threads-max"] {
        fs::write(format!("/proc/sys/kernel/{switch}"), &most).unwrap();
    }
    setrlimit(Resource::RLIMIT_NPROC, 2 * MANY, 2 * MANY).unwrap();
}

fn alive() -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
        .count()
}

fn attempt(many: u64, options: &str) -> Ran {
    let run = Run::new().compiled("throng", THRONG);
    let run = run.option("--pids 110000 --memory 4G --wall 160s --cpu-time 160s");
    let ran = run.option(options).run(&["./throng", &many.to_string()]);
    measured(&format!(
        "{} processes alive at once; {:?} altogether",
        ran.at("/usage/pids_peak"),
        ran.took
    ));
    let live = format!("{} live\n", many + 2);
    ran.expect(ran.stdout.starts_with(&live), "the last of them did it");
    let peak = ran.at("/usage/pids_peak").as_u64().unwrap_or(0);
    ran.expect(peak > many, "they lived at once");
    ran
}

#[test]
fn m21_a_hundred_thousand_processes_alive_at_once_change_no_decision() {
    make_room();
    let before = alive();
    let control = attempt(500, "--mode observe");
    control.expect(
        control.stdout.contains("opened"),
        "the control: where it is logged",
    );
    let ran = attempt(MANY, "--mode enforce");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("opened"), "without effect");
    let mut violations = ran.violations().iter();
    ran.expect(
        violations.any(|one| one["process"]["pid"] == MANY + 2),
        "and the one of them is named",
    );
    ran.expect(alive() <= before + 5, "all of them are dead");
}
