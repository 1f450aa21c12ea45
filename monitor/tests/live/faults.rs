//! M34: what the programs cannot find out never lets anything through, and is told.

use std::path::Path;

use turnkey_abi::fault;
use turnkey_expectations::expected;
use turnkey_facts::Kind;
use turnkey_policy::{EnforcementMode, Policy, RuleAction};

use super::harness::{OBJECT, Seen, kill_reading, policy, python_path, rule, run_object};

/// The object, with faults in it.
pub fn faulty(faults: u64) -> Vec<u8> {
    let mark = fault::MARK.to_ne_bytes();
    let mut object = OBJECT.to_vec();
    let found = object.windows(8).enumerate();
    let places: Vec<usize> = found
        .filter(|(_, bytes)| *bytes == mark)
        .map(|(at, _)| at)
        .collect();
    let [at] = places[..] else {
        panic!("the mark stands once: {places:?}")
    };
    object[at..at + 8].copy_from_slice(&(fault::MARK | faults).to_ne_bytes());
    object
}

fn attempt(faults: u64, policy: &Policy, program: &str) -> Seen {
    let command = [python_path(), "-S", "-E", "-c", program];
    run_object(&faulty(faults), policy, Path::new("/"), &command)
}

const SECRET: &str = "/etc/passwd";
/// Opens the secret by a way that only the kernel's own file tells.
const READ: &str = "import os\nos.symlink('/etc/passwd', '/tmp/turnkey-fault-%d' % os.getpid())\nname = '/tmp/turnkey-fault-%d' % os.getpid()\ntry: os.write(1, open(name, 'rb').read(4))\nfinally: os.unlink(name)";

fn enforced() -> Policy {
    policy(&kill_reading(SECRET))
}

fn observed() -> Policy {
    enforced().with_mode(EnforcementMode::Observe)
}

#[track_caller]
fn assert_nothing_got_through(seen: &Seen) {
    assert!(seen.condemned, "{}", seen.tell());
    assert_eq!(seen.stdout(), "", "{}", seen.tell());
}

#[test]
fn m34_without_a_fault_the_rule_alone_decides() {
    assert_nothing_got_through(&attempt(0, &enforced(), READ));
    let seen = attempt(0, &observed(), READ);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "root");
    assert!(seen.evidence.complete && seen.evidence.faults == 0);
    let other = attempt(0, &policy(&kill_reading("/no-such-file")), READ);
    other.assert_lived();
    assert_eq!(
        other.stdout(),
        "root",
        "the control: nothing else forbids it"
    );
}

#[test]
fn m34_no_rules_or_no_memory_is_death_under_enforce_and_told_under_observe() {
    for faults in [fault::TABLE, fault::SCRATCH] {
        assert_nothing_got_through(&attempt(faults, &enforced(), READ));
        let seen = attempt(faults, &observed(), READ);
        seen.assert_lived();
        assert!(seen.evidence.faults > 0, "{:?}", seen.evidence);
        assert!(!seen.evidence.complete);
    }
}

expected!(
    m34_a_file_that_is_not_known_is_treated_as_the_worst,
    m34_an_exec_that_is_not_known_is_treated_as_the_worst: at_night,
    "a run for each way; `m34_an_argument` and `m34_full_rings` are by day"
);
#[test]
fn m34_a_file_that_is_not_known_is_treated_as_the_worst() {
    for faults in [fault::RESOLVE, fault::FILE] {
        assert_nothing_got_through(&attempt(faults, &enforced(), READ));
        let seen = attempt(faults, &observed(), READ);
        seen.assert_lived();
        assert!(seen.evidence.unresolved > 0, "{:?}", seen.evidence);
        assert!(seen.decisions().contains(&(0, RuleAction::Log)));
    }
}

#[test]
fn m34_an_argument_that_is_not_known_leaves_the_kernels_own_file() {
    assert_nothing_got_through(&attempt(fault::ARGUMENT, &enforced(), READ));
    let seen = attempt(fault::ARGUMENT, &observed(), READ);
    seen.assert_lived();
    assert!(seen.evidence.unreadable > 0, "{:?}", seen.evidence);
}

#[test]
fn m34_an_exec_that_is_not_known_is_treated_as_the_worst() {
    let policy = policy(&rule("no", "exec", "kill", "path = [\"/no-such-file\"]"));
    let program = "import os\nos.execv('/bin/echo', ['echo', 'through'])";
    let control = attempt(0, &policy, program);
    control.assert_lived();
    assert_eq!(control.stdout(), "through\n");
    for faults in [
        fault::RESOLVE,
        fault::ARGUMENT,
        fault::TABLE,
        fault::SCRATCH,
    ] {
        assert_nothing_got_through(&attempt(faults, &policy, program));
    }
}

#[test]
fn m34_a_connect_without_rules_is_refused() {
    let program = "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ntry: s.connect(('127.0.0.1', 9)); print('through')\nexcept OSError: pass";
    for mode in [EnforcementMode::Enforce, EnforcementMode::Observe] {
        let policy = policy("[network]\nmode = \"loopback\"\n").with_mode(mode);
        let control = attempt(0, &policy, program);
        assert_eq!(control.stdout(), "through\n", "{}", control.tell());
        let seen = attempt(fault::TABLE, &policy, program);
        assert_eq!(seen.stdout(), "", "{}", seen.tell());
        assert!(seen.evidence.faults > 0);
    }
}

#[test]
fn m34_full_rings_lose_records_and_no_kill() {
    let seen = attempt(fault::RINGS, &enforced(), READ);
    assert_nothing_got_through(&seen);
    assert_eq!(seen.evidence.lost, seen.evidence.seen);
    assert_eq!(seen.evidence.lost_records, seen.evidence.records);
    assert!(seen.events.is_empty() && !seen.evidence.complete);
}

#[test]
fn m34_without_slots_every_repetition_is_told() {
    let program = "import os\nfor _ in range(100): os.close(os.open('/dev/null', 0))";
    let seen = attempt(fault::REPEATS, &enforced(), program);
    seen.assert_lived();
    assert!(seen.evidence.complete);
    assert!(seen.events.len() > 100);
}

#[test]
fn m34_without_marks_a_call_is_told_twice_and_the_run_says_so() {
    let program =
        "import socket\nsocket.socket(type=socket.SOCK_DGRAM).connect_ex(('127.0.0.1', 9))";
    assert!(attempt(fault::MARKS, &policy(""), program).condemned);
    for (faults, times) in [(0, 1), (fault::MARKS, 2)] {
        let observed = policy("").with_mode(EnforcementMode::Observe);
        let seen = attempt(faults, &observed, program);
        seen.assert_lived();
        let told = seen.kinds(|kind| matches!(kind, Kind::Network { .. }).then_some(()));
        assert_eq!(told.len(), times, "{}", seen.tell());
        assert_eq!(seen.evidence.complete, faults == 0, "{:?}", seen.evidence);
    }
}
