//! Programs that a run leaves in the kernel for those after it, called only while somebody watches.
//!
//! Every test has a mount namespace with a BPF file system of its own.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, binary, eventually, nothing_is_loaded};

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

/// One act of a program, as the events tell it.
const ONCE: &str = "cat /turnkey-nowhere; /bin/true; exit 0";

/// Checks that every act was told, and told once.
fn expect_told_once(ran: &Ran) {
    ran.expect_code(0);
    ran.expect(ran.at("/events/complete") == true, "whole");
    let opens = ran
        .events
        .iter()
        .filter(|event| event.to_string().contains("turnkey-nowhere"));
    let opens: Vec<_> = opens.filter(|event| event["kind"] == "open").collect();
    ran.expect(
        opens.len() == 1 && opens[0]["repeated"].as_u64().unwrap_or(0) == 0,
        "one open",
    );
    let of_true = |event: &&Value| event["kind"] == "exec" && event["argv"][0] == "/bin/true";
    ran.expect(ran.events.iter().filter(of_true).count() == 1, "one exec");
}

/// Runs come and go beside each other, killed wherever they are; others attach the programs anew meanwhile.
#[test]
fn runs_that_are_killed_anywhere_leave_no_gap_no_double_and_nothing_behind() {
    nothing_is_loaded();
    Run::new().shell("true").expect_code(0);
    for round in 0..8_u64 {
        let dying = [0, 1].map(|other| {
            let run = Run::new();
            let mut command = run.command(&["/bin/sh", "-c", "while :; do /bin/true; done"]);
            let command = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let turnkey = command.spawn().expect("it can be started");
            // Points from before the monitor is opened to the program's work.
            std::thread::sleep(Duration::from_millis(4 * round + 3 * other));
            (run, turnkey)
        });
        for (_run, turnkey) in dying {
            killed(turnkey);
        }
        expect_told_once(&Run::new().with_events().shell(ONCE));
    }
    eventually("nobody watches any more", || !are_called());
    let version = &versions()[0];
    // What the map still has of a killed run goes with the next one that takes its slot.
    eventually("no jail is left", || {
        let jails = versions()[0]["jails"].as_array().cloned();
        jails.is_some_and(|jails| jails.iter().all(|jail| jail["cgroup"].is_null()))
    });
    assert!(version["current"] == true, "{version}");
}
