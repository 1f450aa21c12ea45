//! Runs without the monitor, and runs of a caller without privileges.

use turnkey_tests::Run;

#[test]
fn unmonitored_runs_and_never_calls_it_clean() {
    let ran = Run::new()
        .option("--unmonitored")
        .python("print(1); raise SystemExit(7)");
    ran.expect_code(7);
    ran.expect(ran.stdout == "1\n", "the program ran");
    ran.expect(ran.at("/verdict") == "inconclusive", "nobody watched");
    ran.expect(ran.at("/is_safe") == false, "not safe");
    ran.expect(ran.at("/events/complete") == false, "no evidence");
    let monitor = ran
        .list("/enforcement")
        .iter()
        .find(|layer| layer["layer"] == "monitor")
        .expect("the monitor's layer is in the report");
    ran.expect(monitor["effective"] == "nothing", "no monitor");
    ran.expect(
        monitor["degraded"] == "not loaded: --unmonitored",
        "the reason is told",
    );
    ran.expect(
        ran.stderr.contains("less is enforced than was asked for"),
        "the terminal tells",
    );
}

#[test]
fn on_loss_asks_for_evidence_of_a_watched_run_only() {
    let run = || Run::new().option("--on-loss fail");
    // The control: a watched run loses nothing either.
    run().shell("true").expect_code(0);
    run().option("--unmonitored").shell("exit 3").expect_code(3);
}

#[test]
fn unmonitored_still_holds_every_other_layer() {
    let ran = Run::new()
        .option("--unmonitored")
        .shell("cat /etc/shadow; echo x > /usr/made; sleep 0.01");
    let proved = ran.list("/enforcement").iter();
    let without: Vec<_> = proved
        .filter(|layer| layer["proof"].is_null())
        .map(|layer| layer["layer"].as_str().unwrap_or_default())
        .collect();
    ran.expect(without == ["monitor"], "all others are proved");
    ran.expect(ran.stderr.contains("/usr/made"), "the write was tried");
    ran.expect(
        !std::path::Path::new("/usr/made").exists(),
        "the write had no effect",
    );
    ran.expect(ran.stdout.starts_with("root:!*"), "it read the decoy");
}
