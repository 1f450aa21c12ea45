//! Whole runs by hand: their reports against golden files and the JSON Schema, and what people read on the terminal.

mod attached;
mod calls;
mod looks;
mod sunk;

use std::time::Duration;

use turnkey_analysis::behaviour::BehaviourEngine;
use turnkey_facts::{Change, ChangedFile, ContentFate, LayerReport, Limit, Status, Usage};
use turnkey_policy::{
    AttemptKind, Behaviour, BehaviourResponse, EnforcementMode, Layer, OnLoss, Policy, RuleAction,
};

use super::fixture::{
    CREDENTIALS, ESCAPE, MIB, OUTBOUND, Story, clock, connect, exec, fork, open_failed, opened,
    policy, raw, refused, task,
};
use super::model::Verdict;
use super::schema;
use super::*;

/// A run that went well, to be spoilt by each story.
fn inputs<'a>(policy: &'a Policy, story: &Story) -> ReportInputs<'a> {
    let mut aggregator = Aggregator::new(policy, clock());
    let mut engine = BehaviourEngine::new(policy);
    for event in &story.events {
        aggregator.push(event);
        engine.take_event(event);
    }
    let host = Host {
        kernel: "6.18.0".to_owned(),
        arch: "x86_64".to_owned(),
    };
    let id = "0198c5a0-7e1f".to_owned();
    ReportInputs {
        ending: exited(0),
        usage: Some(Usage {
            wall: Duration::from_millis(210),
            user: Some(Duration::from_millis(31)),
            system: Some(Duration::from_millis(12)),
            throttled: Some(Duration::ZERO),
            memory_peak: Some(9 * MIB),
            swap_peak: None,
            pids_peak: Some(2),
            oom_kills: 0,
            io_read: Some(16384),
            io_written: Some(0),
            context_switches: Some(12),
        }),
        evidence: Evidence {
            watched: true,
            lost: std::collections::BTreeMap::new(),
            records: None,
            outsider: None,
        },
        observations: aggregator.finish(),
        engine,
        ..ReportInputs::of_nothing(policy, clock(), id, host)
    }
}

fn exited(code: u8) -> Ending {
    ran(Status::Exited(code))
}

fn ran(status: Status) -> Ending {
    Ending::Ran(RunEnding {
        status,
        condemned: false,
        killed_for_loss: false,
        limit: None,
        interrupted: None,
    })
}

fn condemned() -> Ending {
    Ending::Ran(RunEnding {
        status: Status::Signaled(9),
        condemned: true,
        killed_for_loss: false,
        limit: None,
        interrupted: None,
    })
}

fn limited(status: Status, limit: Limit) -> Ending {
    Ending::Ran(RunEnding {
        status,
        condemned: false,
        killed_for_loss: false,
        limit: Some(limit),
        interrupted: None,
    })
}

/// The report as it is written, after it was found to match the schema.
fn json(report: &Report) -> String {
    let text = String::from_utf8(json::page(report).unwrap()).unwrap();
    schema::assert_valid(&serde_json::from_str(&text).unwrap());
    text
}

fn terminal(report: &Report) -> String {
    let mut out = Vec::new();
    terminal::render(report, &mut out, false).unwrap();
    String::from_utf8(out).unwrap()
}

fn arguments(command: &[&str]) -> Vec<Vec<u8>> {
    command
        .iter()
        .map(|argument| argument.as_bytes().to_vec())
        .collect()
}

fn shadow_story(action: RuleAction) -> Story {
    let mut story = Story::command(&["python3", "shadow.py"]);
    story.push(2, opened("/workspace/shadow.py"));
    let file = Some(fixture::file("/etc/shadow"));
    let kind = turnkey_facts::Kind::Open {
        file,
        raw: raw("/proc/self/root/etc/shadow"),
        flags: 0o2_000_000,
        by_handle: false,
        errno: 0,
    };
    story.decided(2, kind, CREDENTIALS, action);
    story
}

#[test]
fn code_in_memory_and_a_new_name_fit_the_schema() {
    let mut policy = policy();
    policy.rules[ESCAPE].on.insert(AttemptKind::Map);
    let mut story = Story::command(&["python3", "code.py"]);
    let map = |file: Option<turnkey_facts::File>, writable| turnkey_facts::Kind::Map {
        unknown: false,
        nr: 9,
        errno: 0,
        file,
        writable,
    };
    let mut memory = fixture::file("memfd:code");
    memory.unlinked = true;
    let rename = turnkey_facts::Kind::Change {
        on: AttemptKind::Rename,
        object: raw("/etc/passwd"),
        new: Some(b"/etc/old".to_vec()),
        resolved: false,
        call: turnkey_facts::NamingCall::default(),
        errno: 0,
    };
    story.decided(2, map(None, false), ESCAPE, RuleAction::Log);
    story.decided(2, map(Some(memory), true), ESCAPE, RuleAction::Log);
    story.decided(2, rename, CREDENTIALS, RuleAction::Log);
    let report = Report::build(inputs(&policy, &story));
    let written = serde_json::to_value(&report).unwrap();
    schema::assert_valid(&written);
    let told = written["violations"].as_array().unwrap();
    assert_eq!(told[0]["memory"], serde_json::json!(["anonymous"]));
    let traits = serde_json::json!(["memory_file", "writable"]);
    assert_eq!(told[1]["memory"], traits);
    assert_eq!(told[2]["to"], "/etc/old");
    let terminal = terminal(&report);
    let line = "turnkey: noticed: making executable memory without a file\n";
    assert!(terminal.contains(line), "{terminal}");
}

#[test]
fn shadow_read_under_enforce() {
    let policy = policy();
    let mut story = shadow_story(RuleAction::Kill);
    story.push(2, turnkey_facts::Kind::Exit { status: 9 });
    let command = arguments(&["python3", "shadow.py"]);
    let report = Report::build(ReportInputs {
        command: &command,
        ending: condemned(),
        ..inputs(&policy, &story)
    });
    assert_eq!(report.exit_code(), 121);
    insta::assert_snapshot!("shadow_read_under_enforce", json(&report));
    assert_eq!(
        terminal(&report),
        r#"turnkey: killed for reading /etc/shadow
  by          python3 (pid 2): python3 shadow.py
  rule        credential-file (critical, T1003.008): no program that we run has business here
  stopped by  the monitor: it killed the jail
  asked as    /proc/self/root/etc/shadow
  note        nothing real was read: /etc/shadow in the jail is a decoy
  to allow    turnkey explain --on open --path /etc/shadow
turnkey: credential-access (high, T1552): tried to open the decoy /etc/shadow
turnkey: violated — killed by policy after 0.21 s, risk score 100
"#
    );
}

#[test]
fn shadow_read_under_observe() {
    let policy = policy().with_mode(EnforcementMode::Observe);
    let mut story = shadow_story(RuleAction::Log);
    story.push(2, turnkey_facts::Kind::Exit { status: 0 });
    let report = Report::build(inputs(&policy, &story));
    assert_eq!(report.exit_code(), 0);
    assert_eq!(report.status, model::Status::Exited);
    assert_eq!(report.verdict, Verdict::Violated);
    let [violation] = report.violations.as_slice() else {
        panic!("{:?}", report.violations)
    };
    assert_eq!(
        (violation.action, violation.stopped_by),
        (RuleAction::Log, None)
    );
    assert_eq!(violation.path.as_deref(), Some("/etc/shadow"));
    let text = terminal(&report);
    assert!(
        text.starts_with("turnkey: noticed: reading /etc/shadow\n"),
        "{text}"
    );
    assert!(
        text.contains("  stopped by  nothing: it had its effect\n"),
        "{text}"
    );
    assert!(
        text.ends_with("turnkey: violated — exited 0 in 0.21 s, risk score 100\n"),
        "{text}"
    );
}

#[test]
fn a_clean_run() {
    let policy = policy();
    let mut story = Story::command(&["python3", "-c", "print(6*7)"]);
    story.push(2, opened("/usr/lib/python3.11/os.py"));
    story.push(2, opened("/usr/lib/python3.11/os.py"));
    story.push(
        2,
        open_failed("/usr/lib/python3.11/none.py", 0, libc::ENOENT),
    );
    story.push(
        2,
        open_failed("/root/.local", libc::O_DIRECTORY, libc::ENOENT),
    );
    story.push(
        2,
        open_failed("/workspace/out.txt", libc::O_CREAT | libc::O_RDWR, 0),
    );
    story.push(2, fork(3));
    story.push(3, exec(&["true"]));
    story.push(3, turnkey_facts::Kind::Exit { status: 0 });
    story.push(2, turnkey_facts::Kind::Exit { status: 7 << 8 });
    let command = arguments(&["python3", "-c", "print(6*7)"]);
    let changed = [ChangedFile {
        path: b"out.txt".to_vec(),
        change: Change::Added,
        size: Some(0),
        sha256: Some("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned()),
        content: ContentFate::Unknown,
        backdated: false,
    }];
    let layers = [
        LayerReport {
            layer: Layer::Seccomp,
            requested: "118 syscalls".to_owned(),
            effective: "118 syscalls".to_owned(),
            proof: Some("Seccomp: 2, 1 filter".to_owned()),
            degraded: None,
        },
        LayerReport {
            layer: Layer::Cpu,
            requested: "100% of one CPU".to_owned(),
            effective: "nothing".to_owned(),
            proof: None,
            degraded: Some("no cpu controller".to_owned()),
        },
    ];
    let report = Report::build(ReportInputs {
        command: &command,
        ending: exited(7),
        calls: Some(&[0, 257, 9999]),
        stdout: Some(Captured {
            bytes: b"42\n".to_vec(),
            total: 3,
        }),
        stderr: Some(Captured {
            bytes: b"\xff".to_vec(),
            total: 100,
        }),
        files_changed: &changed,
        enforcement: &layers,
        ..inputs(&policy, &story)
    });
    assert_eq!(report.exit_code(), 7);
    assert!(report.is_safe);
    insta::assert_snapshot!("a_clean_run", json(&report));
    // What is missing or not in the jail is nothing to tell a person; a layer that is missing is.
    assert_eq!(
        terminal(&report),
        "turnkey: less is enforced than was asked for\n  cpu: no cpu controller\n\
         turnkey: clean — exited 7 in 0.21 s\n"
    );
}

#[test]
fn a_port_scan_is_one_block_and_one_finding() {
    let policy = policy();
    let mut story = Story::command(&["python3", "scan.py"]);
    for port in 1..=1000 {
        story.decided(
            2,
            connect(&format!("127.0.0.1:{port}"), libc::EPERM),
            OUTBOUND,
            RuleAction::Deny,
        );
    }
    let report = Report::build(inputs(&policy, &story));
    assert_eq!(report.verdict, Verdict::Suspicious);
    // Of the rule, and of the behaviour.
    assert_eq!(report.risk_score, 25 + 25);
    assert_eq!(report.findings[0].count, 1000);
    assert_eq!(report.network_attempts.len(), 1000);
    assert_eq!(report.violations.len(), 256);
    assert_eq!(report.omitted.violations, 744);
    json(&report);
    assert_eq!(
        terminal(&report),
        r#"turnkey: blocked: connecting to 127.0.0.1:1
  by          python3 (pid 2): python3 scan.py
  rule        outbound (medium, T1071): there is no network
  stopped by  the network program of the control group
  also        127.0.0.1:2, 127.0.0.1:3, 127.0.0.1:4, 127.0.0.1:5 and 251 more; 1000 attempts in all
  to allow    --network loopback (the jail's own), or --allow 127.0.0.1:1 (the host's)
turnkey: port-scan (medium, T1046): tried 10 ports of 127.0.0.1 within ten seconds
turnkey: suspicious — exited 0 in 0.21 s, risk score 50
"#
    );
}

#[test]
fn what_no_rule_speaks_of_is_told_as_well() {
    let mut policy = policy();
    policy.rules.clear();
    policy
        .behaviours
        .insert(Behaviour::FileDiscovery, BehaviourResponse::Off);
    let mut story = Story::command(&["python3", "rm.py"]);
    story.push(2, open_failed("/mnt/env", libc::O_WRONLY, libc::EROFS));
    story.push(2, open_failed("/mnt/env", libc::O_WRONLY, libc::EROFS));
    story.push(2, open_failed("/", libc::O_DIRECTORY, libc::EACCES));
    story.push(2, connect("93.184.215.14:443", libc::EPERM));
    story.push(2, connect("93.184.215.14:80", libc::EPERM));
    let report = Report::build(inputs(&policy, &story));
    assert_eq!(report.verdict, Verdict::Clean);
    assert_eq!(
        terminal(&report),
        "\
turnkey: blocked: writing /mnt/env (2 times)
  by          python3 (pid 2): python3 rm.py
  stopped by  the mounts: it is read-only in the jail
  to allow    --write /mnt/env
turnkey: blocked: reading /
  by          python3 (pid 2): python3 rm.py
  stopped by  Landlock: the profile does not grant it
  to allow    in a profile: [filesystem] read = […] without `list = false` in any entry
turnkey: blocked: connecting to 93.184.215.14:443
  by          python3 (pid 2): python3 rm.py
  stopped by  the network program of the control group
  to allow    --allow 93.184.215.14:443
turnkey: blocked: 1 more; --report FILE lists them
turnkey: clean — exited 0 in 0.21 s
"
    );
}

#[test]
fn out_of_memory() {
    let policy = policy();
    let story = Story::command(&["python3", "bomb.py"]);
    let usage = Usage {
        wall: Duration::from_millis(480),
        memory_peak: Some(256 * MIB),
        oom_kills: 1,
        ..Usage::default()
    };
    let report = Report::build(ReportInputs {
        usage: Some(usage),
        ending: limited(Status::Signaled(9), Limit::Memory),
        ..inputs(&policy, &story)
    });
    assert_eq!(report.exit_code(), 122);
    insta::assert_snapshot!("out_of_memory", json(&report));
    assert_eq!(
        terminal(&report),
        "\
turnkey: memory: used 256 MiB of 256 MiB; the kernel killed 1 process; allow more with --memory 512M
turnkey: exhaustion (medium, T1499): memory: used 256 MiB of 256 MiB
turnkey: suspicious — out of memory after 0.48 s, risk score 35
"
    );
}

#[test]
fn a_hostile_name_changes_neither_terminal_nor_json() {
    let policy = policy();
    let mut story = Story::command(&["python3", "\x1b]0;owned\x07", "\u{202e}gpj.exe"]);
    let path = b"/etc/\x1b[2J\xff\"\n\\.ssh/id_rsa";
    story.decided(
        2,
        open_failed(path, 0, libc::ENOENT),
        CREDENTIALS,
        RuleAction::Log,
    );
    let report = Report::build(inputs(&policy, &story));
    let text = json(&report);
    insta::assert_snapshot!("a_hostile_name", text);
    let terminal = terminal(&report);
    for written in [&text, &terminal] {
        assert!(
            written
                .chars()
                .all(|c| c == '\n' || turnkey_policy::visible::is_printable(c)),
            "{written:?}"
        );
    }
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value["violations"][0]["path"],
        r#"/etc/\x1b[2J\xff"\n\\.ssh/id_rsa"#
    );
    // A path that had to be escaped cannot be typed, so no rule is made of it.
    assert!(!terminal.contains("allow-credential-file"), "{terminal}");
}

#[test]
fn nothing_ran() {
    let policy = policy();
    let ending = Ending::NotStarted {
        reason: NotStarted::NotFound,
        message: "no such program in the jail: pyhton3".to_owned(),
    };
    let evidence = Evidence::default();
    let report = Report::build(ReportInputs {
        ending,
        usage: None,
        evidence,
        ..inputs(&policy, &Story::default())
    });
    assert_eq!(report.exit_code(), 127);
    insta::assert_snapshot!("nothing_ran", json(&report));
    assert_eq!(
        terminal(&report),
        "turnkey: no such program in the jail: pyhton3\n"
    );
}

#[test]
fn a_run_that_nobody_watched_is_inconclusive_and_loses_nothing() {
    let mut policy = policy();
    policy.enforcement.on_loss = OnLoss::Fail;
    let story = Story::command(&["python3", "hello.py"]);
    let report = Report::build(ReportInputs {
        evidence: Evidence::default(),
        ..inputs(&policy, &story)
    });
    assert_eq!(
        (report.verdict, report.exit_code()),
        (Verdict::Inconclusive, 0)
    );
    json(&report);
    assert_eq!(
        terminal(&report),
        "turnkey: nobody watched the run: no rule was asked, and who opened a decoy (/etc/shadow) is not known\n\
         turnkey: inconclusive — exited 0 in 0.21 s, risk score 25\n"
    );
}

#[test]
fn lost_events_are_counted_once() {
    let mut policy = policy();
    policy.enforcement.on_loss = OnLoss::Fail;
    let mut story = Story::command(&["python3", "flood.py"]);
    story.lose(5);
    story.push(2, opened("/usr/lib/os.py"));
    let lost = [("open".to_owned(), 3), ("fork".to_owned(), 0)].into();
    let report = Report::build(ReportInputs {
        evidence: Evidence {
            watched: true,
            lost,
            records: None,
            outsider: None,
        },
        ..inputs(&policy, &story)
    });
    // The monitor counted 3 of the 5 that `seq` misses.
    assert_eq!(
        report.events.lost,
        [("open".to_owned(), 3), ("unknown".to_owned(), 2)].into()
    );
    assert_eq!(
        (report.verdict, report.exit_code()),
        (Verdict::Inconclusive, 120)
    );
    assert_eq!(report.events.seen["open"], 4, "one arrived, three are lost");
    json(&report);
    assert_eq!(
        terminal(&report),
        "turnkey: 5 events are lost\nturnkey: inconclusive — exited 0 in 0.21 s, risk score 25\n"
    );
}

#[test]
fn refused_syscalls_are_violations_by_name() {
    let policy = policy();
    let mut story = Story::command(&["python3", "escape.py"]);
    story.decided(
        2,
        refused("ptrace", AttemptKind::Ptrace),
        ESCAPE,
        RuleAction::Log,
    );
    story.decided(
        2,
        refused("mount", AttemptKind::Mount),
        ESCAPE,
        RuleAction::Log,
    );
    let report = Report::build(inputs(&policy, &story));
    json(&report);
    assert_eq!(
        terminal(&report),
        "\
turnkey: blocked: calling ptrace
  by          python3 (pid 2): python3 escape.py
  rule        escape (high): a way out of a jail
  stopped by  seccomp: the profile does not allow that syscall
  also        mount; 2 attempts in all
  to allow    no profile can allow it: it looks into other processes, or changes them; a program that was built with -fsanitize=address goes on without it by --env LSAN_OPTIONS=detect_leaks=0
turnkey: jail-escape (critical, T1611): called ptrace and 1 more
turnkey: violated — exited 0 in 0.21 s, risk score 100
"
    );
}

#[test]
fn colours_only_when_asked_for() {
    let policy = policy();
    let report = Report::build(inputs(&policy, &Story::command(&["true"])));
    let mut out = Vec::new();
    terminal::render(&report, &mut out, true).unwrap();
    assert_eq!(
        out,
        "turnkey: \x1b[1;32mclean\x1b[0m — exited 0 in 0.21 s\n".as_bytes()
    );
}

#[test]
fn a_signal_is_named() {
    let policy = policy();
    let ending = ran(Status::Signaled(libc::SIGSEGV));
    let report = Report::build(ReportInputs {
        ending,
        ..inputs(&policy, &Story::command(&["true"]))
    });
    assert_eq!(report.exit_code(), 139);
    assert_eq!(
        terminal(&report),
        "turnkey: clean — ended by SIGSEGV after 0.21 s\n"
    );
}

#[test]
fn a_character_cut_by_the_capture_is_left_out() {
    let policy = policy();
    let stdout = Some(Captured {
        bytes: "aé".as_bytes()[..2].to_vec(),
        total: 9,
    });
    let report = Report::build(ReportInputs {
        stdout,
        ..inputs(&policy, &Story::command(&["true"]))
    });
    let stdout = report.stdout.unwrap();
    assert_eq!(
        (stdout.text.as_deref(), stdout.truncated),
        (Some("a"), true)
    );
}
