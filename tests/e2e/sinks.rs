//! `--to`: each receiver's own copy of what it was told, held against the report.

use turnkey_expectations::expected;

mod attached;
mod https;
mod journal;
mod reach;
mod receiver;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use turnkey_tests::{NOBODY, Ran, Run, binary, finish, scratch};

use receiver::{Answer, Receiver, SECRET};

/// Breaks two rules, under names that would begin a line and steer a terminal, and goes on.
const HOSTILE: &str = r#"
for name in ("/etc/shadow", "/etc/x\x1b]0;y\n/.ssh/id_rsa", "/root/.ssh/id_rsa"):
    try:
        open(name)
    except OSError:
        pass
"#;

/// Waits until somebody outside knows.
const WAITS: &str = "
import os, sys, time
for _ in range(2000):
    if os.path.exists(sys.argv[1]):
        sys.exit(0)
    time.sleep(0.01)
sys.exit(9)
";

/// A run whose rules only log, with the secret of webhooks.
fn told(sinks: &[String], program: &str) -> Ran {
    let run = sinks
        .iter()
        .fold(Run::new().option("--mode observe"), |run, sink| {
            run.option(&format!("--to {sink}"))
        });
    with_secret(run, &["python3", "-c", program])
}

fn with_secret(run: Run, program: &[&str]) -> Ran {
    with_secret_and(run, program, |_| ())
}

/// The same, with what else is `set` of the command.
fn with_secret_and(run: Run, program: &[&str], set: impl FnOnce(&mut Command)) -> Ran {
    let mut command = run.command(program);
    command.env("TURNKEY_WEBHOOK_SECRET", SECRET);
    set(&mut command);
    let started = Instant::now();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    run.end(child.expect("turnkey can be started"), started)
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("it was written");
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(line).collect()
}

/// The report's rows without what is known at the end alone: how often, by which names, and that the host has nothing to show at a path.
fn rows(report: &Value) -> Vec<Value> {
    let rows = report["violations"].as_array().expect("a list");
    let mut rows: Vec<Value> = rows.iter().map(without_counts).collect();
    for row in &mut rows {
        let advice = row["advice"].as_str().unwrap_or_default();
        row["advice"] = advice
            .replacen("no flag shows it: this host has no ", "--read ", 1)
            .into();
    }
    rows
}

fn without_counts(row: &Value) -> Value {
    let mut row = row.clone();
    let fields = row.as_object_mut().expect("an object");
    fields.remove("count");
    fields.remove("names");
    row
}

/// Holds the alerts that a receiver has against the report.
fn expect_same(alerts: &[Value], report: &Value) {
    let of = |kind: &str| -> Vec<&Value> {
        let all = alerts.iter();
        all.filter(|alert| alert["alert"] == kind).collect()
    };
    let told: Vec<Value> = of("finding")
        .iter()
        .filter_map(|alert| alert.get("violation"))
        .map(without_counts)
        .collect();
    assert_eq!(told, rows(report));
    for finding in report["findings"].as_array().expect("a list") {
        let mut found = of("finding").into_iter();
        assert!(
            found.any(|alert| alert["finding"]["id"] == finding["id"]),
            "{finding} was not told"
        );
    }
    let [verdict] = of("verdict")[..] else {
        panic!("{alerts:#?}");
    };
    assert_eq!(alerts.last(), Some(verdict));
    for key in ["verdict", "status", "risk_score", "findings", "events"] {
        assert_eq!(verdict[key], report[key], "{key}");
    }
    for (number, alert) in alerts.iter().enumerate() {
        assert_eq!(alert["run"], report["id"]);
        let id = format!("{}/{}", report["id"].as_str().expect("text"), number + 1);
        assert_eq!(alert["id"], id.as_str());
    }
}

fn sink<'r>(report: &'r Value, to: &str) -> &'r Value {
    let mut sinks = report["sinks"].as_array().expect("a list").iter();
    let found = sinks.find(|sink| sink["to"].as_str().is_some_and(|name| name.contains(to)));
    found.unwrap_or_else(|| panic!("no {to} in {}", report["sinks"]))
}

#[test]
fn every_receivers_copy_is_what_the_report_says() {
    let place = scratch();
    let path = |name: &str| place.path().join(name);
    let (native, ocsf) = (path("native.jsonl"), path("ocsf.jsonl"));
    let signs = scratch();
    let sign = signs.path().join("told");
    let known = sign.clone();
    let http = Receiver::http(move |_| {
        std::fs::write(&known, "").expect("it can be written");
        Answer::Status(204)
    });
    let unix = Receiver::unix(&path("relay.sock"), |_| Answer::Status(200));
    let sinks = [
        format!("file:{}", native.display()),
        format!("ocsf+file:{}", ocsf.display()),
        format!("webhook:http://127.0.0.1:{}/hooks/T0KEN", http.port()),
        format!("webhook:unix:{}", path("relay.sock").display()),
    ];
    let run = sinks
        .iter()
        .fold(Run::new().option("--mode observe"), |run, sink| {
            run.option(&format!("--to {sink}"))
        })
        .option(&format!("--write {}", signs.path().display()));
    let program = format!("{HOSTILE}{WAITS}");
    let sign = sign.to_str().expect("UTF-8");
    let ran = with_secret(run, &["python3", "-c", &program, sign]);
    // It ends with another code when nobody is told before its end.
    ran.expect_code(0);
    let rules = rows(&ran.report);
    assert!(rules.len() >= 3, "{rules:?}");
    let alerts = lines(&native);
    expect_same(&alerts, &ran.report);
    for receiver in [&http, &unix] {
        let requests = receiver.requests();
        let bodies: Vec<Value> = requests.iter().map(|request| request.json()).collect();
        assert_eq!(bodies, alerts);
        for request in &requests {
            request.expect_signed();
            assert_eq!(request.header("content-type"), "application/json");
            assert_eq!(json!(request.header("turnkey-alert")), request.json()["id"]);
        }
    }
    assert_eq!(http.requests()[0].path(), "/hooks/T0KEN");
    crate::report::readers::read_ocsf(&ocsf);
    let events = lines(&ocsf);
    assert_eq!(events.len(), alerts.len());
    for (event, alert) in events.iter().zip(&alerts) {
        assert_eq!(
            (&event["class_uid"], &event["metadata"]["uid"]),
            (&json!(2004), &alert["id"])
        );
    }
    let last = events.last().expect("the verdict");
    assert_eq!(last["unmapped"]["verdict"], ran.report["verdict"]);
    for to in ["file:", "ocsf+file:", "webhook:http:", "webhook:unix:"] {
        let sink = sink(&ran.report, to);
        assert_eq!(
            (&sink["sent"], &sink["lost"]),
            (&json!(alerts.len()), &json!(0)),
            "{sink}"
        );
    }
    assert!(
        !ran.report.to_string().contains("T0KEN"),
        "a path may be a secret"
    );
    // No byte of the program steers whoever reads the file.
    let raw = std::fs::read(&native).expect("it was written");
    assert!(
        raw.iter()
            .all(|byte| *byte == b'\n' || (b' '..=b'~').contains(byte))
    );
}

#[test]
fn a_receiver_that_fails_twice_is_asked_a_third_time() {
    let receiver = Receiver::http(|count| match count {
        0 | 1 => Answer::Status(500),
        _ => Answer::Status(200),
    });
    let to = format!("webhook:http://localhost:{}", receiver.port());
    let ran = told(&[to], "pass");
    ran.expect_code(0);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 3);
    let ids: Vec<Value> = requests
        .iter()
        .map(|request| request.json()["id"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let sink = sink(&ran.report, "webhook");
    assert_eq!((&sink["sent"], &sink["lost"]), (&json!(1), &json!(0)));
}

#[test]
fn what_a_receiver_did_not_take_is_counted_and_said_and_changes_no_exit_code() {
    let cases: [(&str, Receiver, &str); 5] = [
        ("one that closes in mid-body", Receiver::that_hangs_up(), ""),
        (
            "one that closes in mid-answer",
            Receiver::http(|_| Answer::Close),
            "no HTTP",
        ),
        (
            "one that refuses",
            Receiver::http(|_| Answer::Status(401)),
            "it answered 401",
        ),
        (
            "one that leads elsewhere",
            Receiver::http(|_| Answer::Status(302)),
            "it answered 302",
        ),
        (
            "one that speaks something else",
            Receiver::http(|_| Answer::Nonsense),
            "no HTTP",
        ),
    ];
    for (what, receiver, said) in cases {
        let to = format!("webhook:http://127.0.0.1:{}", receiver.port());
        let run = Run::new().option("--quiet").option(&format!("--to {to}"));
        let ran = with_secret(run, &["sh", "-c", "exit 7"]);
        ran.expect_code(7);
        let sink = sink(&ran.report, "webhook");
        assert_eq!(
            (&sink["sent"], &sink["lost"]),
            (&json!(0), &json!(1)),
            "{what}"
        );
        let error = sink["error"].as_str().expect("a reason");
        assert!(error.contains(said), "{what}: {error}");
        let line = format!("turnkey: {to}: 1 of 1 alerts were lost: {error}\n");
        assert_eq!(ran.stderr, line, "{what}");
    }
}

#[test]
fn a_receiver_that_is_gone_in_the_middle_of_a_run_ends_nothing() {
    let receiver = Receiver::http(|_| Answer::Gone);
    let to = format!("webhook:http://127.0.0.1:{}", receiver.port());
    let ran = told(&[to], HOSTILE);
    ran.expect_code(0);
    assert_eq!(ran.report["exit_code"], 0);
    let sink = sink(&ran.report, "webhook");
    let told = u64::try_from(rows(&ran.report).len()).expect("few") + 1;
    assert_eq!(sink["sent"], 0);
    assert!(sink["lost"].as_u64() >= Some(told), "{sink}");
    assert!(
        sink["error"]
            .as_str()
            .is_some_and(|error| error.contains("refused")),
        "{sink}"
    );
}

expected!(
    a_receiver_that_never_answers_holds_neither_the_jail_nor_the_end_up: at_night,
    "five seconds of a clock; the tests of the queue have it by day"
);
/// Longer than other tests: the time that turnkey waits is the thing.
#[test]
fn a_receiver_that_never_answers_holds_neither_the_jail_nor_the_end_up() {
    let receiver = Receiver::http(|_| Answer::Nothing);
    let to = format!("webhook:http://127.0.0.1:{}", receiver.port());
    let ran = told(&[to], HOSTILE);
    ran.expect_code(0);
    let wall = ran.report["usage"]["wall_seconds"]
        .as_f64()
        .expect("seconds");
    assert!(wall < 6.0, "the jail lasted {wall} s");
    assert!(ran.took.as_secs_f64() - wall < 15.0, "{:?}", ran.took);
    let sink = sink(&ran.report, "webhook");
    assert_eq!(sink["sent"], 0);
    assert!(ran.stderr.contains("alerts were lost"), "{}", ran.stderr);
}

#[test]
fn a_receiver_that_cannot_be_had_is_told_before_anything_runs() {
    let place = scratch();
    let path = |name: &str| place.path().join(name).display().to_string();
    let strangers = path("strangers");
    std::fs::write(&strangers, "").expect("it can be written");
    std::os::unix::fs::chown(&strangers, Some(NOBODY), None).expect("root gives files away");
    let (one, other) = (path("one"), path("other"));
    std::fs::write(&one, "kept").expect("it can be written");
    std::fs::hard_link(&one, &other).expect("it can be linked");
    let link = path("link");
    std::os::unix::fs::symlink("fresh", &link).expect("it can be linked");
    let closed = Receiver::http(|_| Answer::Nothing).closed_port();
    for (sink, said) in [
        (
            format!("webhook:http://127.0.0.1:{closed}"),
            "start its receiver first",
        ),
        (format!("webhook:unix:{}", path("none.sock")), "ENOENT"),
        (format!("webhook:unix:{one}"), "is no socket"),
        (format!("journald:{}", path("none.sock")), "ENOENT"),
        (format!("file:{}", path("none/x")), "No such file"),
        (format!("file:{strangers}"), "another user"),
        (format!("file:{other}"), "another name"),
        (format!("file:{link}"), "name the file itself"),
        ("webhook:http://example.org/".to_owned(), "in clear"),
        ("syslog".to_owned(), "journald, file:PATH, webhook:"),
    ] {
        let ran = with_secret(
            Run::new().option(&format!("--to {sink}")),
            &["touch", "/tmp/x"],
        );
        ran.expect_code(125);
        assert!(ran.stderr.contains(said), "{sink}: {}", ran.stderr);
        assert_eq!(ran.report, Value::Null, "nothing ran");
    }
    assert_eq!(std::fs::read_to_string(&one).expect("it is there"), "kept");
}

#[test]
fn a_webhook_without_a_secret_of_its_own_is_refused() {
    let receiver = Receiver::http(|_| Answer::Status(200));
    let to = format!("--to webhook:http://127.0.0.1:{}", receiver.port());
    let ran = Run::new().option(&to).run(&["true"]);
    ran.expect_code(125);
    assert!(
        ran.stderr.contains("TURNKEY_WEBHOOK_SECRET"),
        "{}",
        ran.stderr
    );

    let place = scratch();
    let secret = place.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).expect("it can be written");
    let by_file = |mode: u32, file: &Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(file, mode).expect("it is ours");
        let option = format!("--webhook-secret-file {}", file.display());
        Run::new().option(&to).option(&option).run(&["true"])
    };
    let readable = by_file(0o640, &secret);
    readable.expect_code(125);
    assert!(readable.stderr.contains("chmod 600"), "{}", readable.stderr);
    by_file(0o600, &secret).expect_code(0);
    receiver.requests()[0].expect_signed();
    // Where the program reads, it could sign alerts of its own.
    let run = Run::new().file("secret", SECRET).option(&to);
    let shown = run.path().join("secret");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&shown, mode).expect("it is ours");
    let ran = run.option("--webhook-secret-file secret").run(&["true"]);
    ran.expect_code(125);
    assert!(ran.stderr.contains("the jail may read"), "{}", ran.stderr);
}

#[test]
fn a_file_that_the_jail_may_write_is_refused() {
    let place = scratch();
    let inside = place.path().join("alerts.jsonl");
    let ran = Run::new()
        .option(&format!("--write {}", place.path().display()))
        .option(&format!("--to file:{}", inside.display()))
        .run(&["true"]);
    ran.expect_code(125);
    assert!(
        ran.stderr.contains("the program could change it"),
        "{}",
        ran.stderr
    );
    assert!(!inside.exists());
}

#[test]
fn no_two_outputs_are_one_file_even_one_that_is_not_there_yet() {
    let place = scratch();
    for (one, other) in [
        (["--report", "x"], ["--to", "file:x"]),
        (["--to", "file:x"], ["--to", "ocsf+file:./x"]),
        (["--report", "x"], ["--events", "x"]),
    ] {
        let mut command = Command::new(binary());
        command
            .arg("run")
            .args(one)
            .args(other)
            .args(["--", "true"]);
        let streams = command.current_dir(place.path()).stderr(Stdio::piped());
        let output = finish(streams.spawn().expect("turnkey can be started"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("would go where"), "{said}");
        assert!(!place.path().join("x").exists());
    }
}

#[test]
fn runs_that_append_to_one_file_at_once_leave_whole_lines() {
    let place = scratch();
    let file = place.path().join("alerts.jsonl");
    std::fs::write(&file, "{\"before\":true}\n").expect("it can be written");
    let to = format!("--to file:{}", file.display());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let to = &to;
            scope.spawn(move || {
                let run = Run::new().option("--mode observe").option(to);
                run.python(HOSTILE).expect_code(0);
            });
        }
    });
    let all = lines(&file);
    assert_eq!(all[0], json!({"before": true}));
    let verdicts = all.iter().filter(|alert| alert["alert"] == "verdict");
    assert_eq!(verdicts.count(), 3);
}

#[test]
fn the_journal_keeps_what_the_report_says() {
    let Some(journal) = journal::Journal::start() else {
        turnkey_tests::measured("there is no systemd-journald here");
        return;
    };
    let sink = format!("journald:{}", journal.socket().display());
    // More than a datagram takes: it goes in a memory file.
    let long = "x".repeat(110_000);
    let program = format!("{HOSTILE}\n#{long}");
    let run = Run::new()
        .option("--mode observe")
        .option(&format!("--to {sink}"));
    let ran = run.run(&["python3", "-c", &program, &long, &long]);
    ran.expect_code(0);
    let entries = journal.entries(ran.report["id"].as_str().expect("text"));
    let bodies: Vec<Value> = entries
        .iter()
        .map(|entry| serde_json::from_str(entry["TURNKEY_JSON"].as_str().expect("text")))
        .collect::<Result<_, _>>()
        .expect("each is JSON");
    expect_same(&bodies, &ran.report);
    let kinds: std::collections::BTreeSet<_> = entries
        .iter()
        .map(|entry| entry["MESSAGE_ID"].to_string())
        .collect();
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    let shadow = entries
        .iter()
        .find(|entry| entry["TURNKEY_RULE"] == "credential-file")
        .expect("the read of /etc/shadow");
    assert_eq!(shadow["PRIORITY"], "2");
    assert_eq!(shadow["SYSLOG_IDENTIFIER"], "turnkey");
    assert_eq!(shadow["TURNKEY_PATH"], "/etc/shadow");
    let last = entries.last().expect("the verdict");
    assert_eq!(last["TURNKEY_VERDICT"], ran.report["verdict"]);
}
