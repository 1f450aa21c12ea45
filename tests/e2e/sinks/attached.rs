//! `--to` of attachments: each receiver's own copy, held against the report.

use std::process::Command;

use serde_json::{Value, json};
use turnkey_tests::{binary, eventually, measured, scratch};

use super::journal::Journal;
use super::receiver::{Answer, Receiver, SECRET};
use super::{expect_same, lines, rows, sink};
use crate::attach::{Attached, Others, OthersGroup};

/// Has a program in a group break rules that only log; `known` tells that somebody outside knows before it ends. The report, when the
/// group has ended, and what turnkey said.
fn told(sinks: &[String], group: &OthersGroup, known: impl FnMut() -> bool) -> (Value, String) {
    let mut command = Command::new(binary());
    command.env("TURNKEY_WEBHOOK_SECRET", SECRET);
    let to = sinks.iter().flat_map(|sink| ["--to", sink]);
    let options: Vec<&str> = ["--mode", "observe"].into_iter().chain(to).collect();
    let attached = Attached::by(&mut command, &["--cgroup", group.name()], &options);
    let mut others = Others::start(group.path());
    assert_ne!(others.ask("read /etc/shadow"), "", "it lives on");
    assert_ne!(others.ask("run cat /etc/gshadow > /dev/null"), "");
    eventually("a receiver knows while it lives", known);
    assert_eq!(others.end(), None);
    let (code, report, said) = attached.end();
    assert_eq!(code, 0, "{said}");
    assert!(rows(&report).len() >= 2, "{report}");
    (report, said)
}

/// As logrotate(8) moves a file away: each line is in one file and in no other.
#[test]
fn a_file_that_is_rotated_is_opened_anew_and_no_line_is_lost_or_told_twice() {
    let (place, group) = (scratch(), OthersGroup::new());
    let file = place.path().join("alerts.jsonl");
    let rotated = ["1", "2"].map(|end| file.with_extension(format!("jsonl.{end}")));
    let to = format!("file:{}", file.display());
    let options = ["--mode", "observe", "--to", &to];
    let attached = Attached::to(&["--cgroup", group.name()], &options);
    let mut others = Others::start(group.path());
    let paths = ["/etc/shadow", "/etc/gshadow", "/etc/shadow-"];
    let mut lines_of = |path: &str| {
        let done = others.ask(&format!("run cat {path} > /dev/null 2>&1"));
        assert_ne!(done, "", "it lives on");
        eventually("the file has it", || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            text.contains(&format!("{path}\""))
        });
    };
    lines_of(paths[0]);
    std::fs::rename(&file, &rotated[0]).expect("it is the test's");
    // Nobody has made another one.
    lines_of(paths[1]);
    std::fs::rename(&file, &rotated[1]).expect("it is the test's");
    std::fs::write(&file, "").expect("a test can write");
    lines_of(paths[2]);
    assert_eq!(others.end(), None);
    let (_, report, said) = attached.end();
    let all = [&rotated[0], &rotated[1], &file].map(|file| lines(file));
    for (lines, path) in all.iter().zip(paths) {
        assert_eq!(lines[0]["violation"]["path"], path, "{said}");
    }
    let all = all.concat();
    expect_same(&all, &report);
    let sink = sink(&report, "file:");
    assert_eq!(
        (&sink["sent"], &sink["lost"]),
        (&json!(all.len()), &json!(0))
    );
}

/// Longer than other tests: the receiver that is gone is asked three times for each alert.
#[test]
fn receivers_of_an_attachment_have_what_the_report_says() {
    let (place, group) = (scratch(), OthersGroup::new());
    let file = place.path().join("alerts.jsonl");
    let socket = place.path().join("relay.sock");
    let http = Receiver::http(|_| Answer::Status(204));
    let unix = Receiver::unix(&socket, |_| Answer::Status(200));
    let gone = Receiver::http(|_| Answer::Gone);
    let sinks = [
        format!("file:{}", file.display()),
        format!("webhook:http://127.0.0.1:{}/hooks", http.port()),
        format!("webhook:unix:{}", socket.display()),
        format!("webhook:http://127.0.0.1:{}/gone", gone.port()),
    ];
    let (report, said) = told(&sinks, &group, || !http.requests().is_empty());
    let alerts = lines(&file);
    expect_same(&alerts, &report);
    assert!(alerts.iter().all(|alert| alert["group"] == group.name()));
    assert_eq!(alerts[0]["violation"]["path"], "/etc/shadow");
    for receiver in [&http, &unix] {
        let requests = receiver.requests();
        let bodies: Vec<Value> = requests.iter().map(|request| request.json()).collect();
        assert_eq!(bodies, alerts);
        requests.iter().for_each(|request| request.expect_signed());
    }
    let port = http.port().to_string();
    for to in ["file:", &port, "webhook:unix:"] {
        let sink = sink(&report, to);
        assert_eq!(
            (&sink["sent"], &sink["lost"]),
            (&json!(alerts.len()), &json!(0)),
            "{sink}"
        );
    }
    let lost = sink(&report, &gone.port().to_string());
    assert_eq!(
        (&lost["sent"], &lost["lost"]),
        (&json!(0), &json!(alerts.len()))
    );
    assert!(said.contains("alerts were lost"), "{said}");
}

#[test]
fn the_journal_keeps_what_the_report_of_an_attachment_says() {
    let Some(journal) = Journal::start() else {
        return measured("there is no systemd-journald here");
    };
    let group = OthersGroup::new();
    let sink = format!("journald:{}", journal.socket().display());
    let (report, _) = told(&[sink], &group, || true);
    let entries = journal.entries(report["id"].as_str().expect("text"));
    let bodies = entries
        .iter()
        .map(|entry| entry["TURNKEY_JSON"].as_str().expect("text"));
    let bodies: Vec<Value> = bodies
        .map(|body| serde_json::from_str(body).expect("each is JSON"))
        .collect();
    expect_same(&bodies, &report);
    assert!(bodies.iter().all(|body| body["group"] == group.name()));
    let shadow = entries
        .iter()
        .find(|entry| entry["TURNKEY_PATH"] == "/etc/shadow");
    let shadow = shadow.expect("the read of /etc/shadow");
    assert_eq!(shadow["TURNKEY_RULE"], "credential-file");
    assert_eq!(shadow["SYSLOG_IDENTIFIER"], "turnkey");
}
