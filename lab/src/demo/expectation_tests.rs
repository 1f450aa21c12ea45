//! Facts against a report written by hand, after the keys of the contract.

use serde_json::json;

use super::*;

fn killed() -> DemoObservation {
    DemoObservation {
        exit: Some(121),
        stdout: b"before\n".to_vec(),
        stderr: b"turnkey: killed\n".to_vec(),
        report: Some(json!({
            "status": "killed_by_policy",
            "verdict": "violated",
            "signal": 9,
            "violations": [
                {"rule": "connect", "action": "deny", "address": "127.0.0.1:80"},
                {"rule": "credential-file", "action": "kill", "technique": "T1003.008",
                 "path": "/etc/shadow"},
            ],
            "network_attempts": [
                {"address": "127.0.0.1:80", "result": "denied"},
                {"address": "[::1]:443", "result": "allowed"},
            ],
            "files_changed": [{"path": "a", "change": "added"}, {"path": "b", "change": "deleted"}],
        })),
        elapsed: Duration::from_millis(1500),
        ..DemoObservation::default()
    }
}

fn disagreements(facts: &str, seen: &DemoObservation) -> Vec<String> {
    let expectation = Expectation::in_the_jail(facts).expect("it reads");
    expectation.disagreements(seen, &|text| text.replace("{port}", "80"))
}

#[test]
fn facts_that_hold() {
    for fact in [
        "exit=121",
        "status=killed_by_policy",
        "verdict=violated",
        "signal=9",
        "rule=credential-file",
        "rule=credential-file/kill",
        "rule=connect/deny",
        "path=/etc/shadow",
        "technique=T1003.008",
        "network=127.0.0.1:{port}",
        "network=*:{port}",
        "files-changed=b,a",
        "stdout-has=before",
        "stdout-lacks=root:",
        "stderr-has=\"turnkey: killed\"",
        "stderr-lacks=panic",
        "stderr-plain",
        "stdout-at-most=1M",
        "within=2s",
        "listener=silent survivors=none workdir=unchanged",
    ] {
        assert_eq!(disagreements(fact, &killed()), [""; 0], "{fact}");
    }
}

#[test]
fn facts_that_do_not_hold() {
    for fact in [
        "exit=0",
        "status=exited",
        "verdict=clean",
        "signal=31",
        "rule=credential",
        "rule=credential-file/log",
        "rule=connect/kill",
        "path=/etc/passwd",
        "technique=T1003",
        "violations=none",
        "network=127.0.0.1:81",
        "network=[::1]:443",
        "files-changed=a",
        "files-changed=a,b,c",
        "files-changed=none",
        "stdout-has=after",
        "stdout-lacks=before",
        "stderr-has=panic",
        "stderr-lacks=killed",
        "within=1s",
    ] {
        assert_eq!(disagreements(fact, &killed()).len(), 1, "{fact}");
    }
}

#[test]
fn effects_are_held_against_every_run_in_the_jail() {
    let seen = DemoObservation {
        listener_reached: true,
        survivors: true,
        workdir_changed: true,
        ..killed()
    };
    assert_eq!(disagreements("exit=121", &seen).len(), 3);
}

#[test]
fn run_without_a_report_agrees_with_nothing_in_it() {
    let seen = DemoObservation {
        report: None,
        ..killed()
    };
    for fact in [
        "status=exited",
        "rule=x",
        "violations=none",
        "network=*",
        "files-changed=a",
    ] {
        assert_eq!(disagreements(fact, &seen).len(), 1, "{fact}");
    }
}

#[test]
fn failure_of_the_run_itself_is_a_disagreement() {
    let seen = DemoObservation {
        failure: Some("it hung".to_owned()),
        ..killed()
    };
    assert_eq!(disagreements("exit=121", &seen), ["it hung"]);
}

#[test]
fn control_characters_are_found_in_both_shapes() {
    for output in ["\x1b[2J", "a\rb", "\u{9b}1A"] {
        let seen = DemoObservation {
            stderr: output.into(),
            ..killed()
        };
        assert_eq!(disagreements("stderr-plain", &seen).len(), 1, "{output:?}");
    }
}

#[test]
fn control_cannot_speak_of_the_report() {
    assert!(Expectation::outside("exit=0 stdout-has=root: survivors=some").is_ok());
    for fact in ["status=exited", "rule=x", "network=*:1", "files-changed=a"] {
        assert!(Expectation::outside(fact).is_err(), "{fact}");
    }
}

#[test]
fn control_holds_effects_only_against_what_it_says() {
    let seen = DemoObservation {
        exit: Some(0),
        workdir_changed: true,
        ..DemoObservation::default()
    };
    let expectation = Expectation::outside("exit=0").expect("it reads");
    assert_eq!(expectation.disagreements(&seen, &str::to_owned), [""; 0]);
}

#[test]
fn what_is_not_a_fact_is_an_error() {
    for wrong in [
        "",
        "exit",
        "exit=",
        "exit=one",
        "exti=1",
        "within=5",
        "stdout-at-most=1",
        "listener=loud",
        "survivors=unchanged",
        "violations=some",
        "stdout-has=\"open",
    ] {
        assert!(Expectation::in_the_jail(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn words_are_parted_by_spaces_outside_quotes() {
    let parted = words("a  b=\"c d\" \"\" e\"f g\"h").expect("it reads");
    assert_eq!(parted, ["a", "b=c d", "", "ef gh"]);
}

#[test]
fn summary_shows_how_it_ends() {
    let facts =
        "stdout-lacks=x exit=121 status=killed_by_policy rule=credential-file/kill within=5s";
    let expectation = Expectation::in_the_jail(facts).expect("it reads");
    assert_eq!(
        expectation.summary(),
        "121 killed_by_policy credential-file"
    );
}
