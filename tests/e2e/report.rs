//! `turnkey report`: a stored report rendered again.

use turnkey_expectations::expected;

expected!(
    not_on[ORDINARY_6_12],
    "a stored report is rendered by the command alone, without a jail; the runs that fill it \
     are ordinary ones: on 6.12 programs"
);

expected!(on[PROGRAMS_6_12]);

mod advised;
mod browser;
pub mod readers;
mod redaction;
mod suggested;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use turnkey_tests::{Run, binary, finish, scratch};

/// A directory with the report of a run, and what that run said on standard error.
struct Told {
    directory: tempfile::TempDir,
    stderr: String,
}

impl Told {
    fn report(&self) -> PathBuf {
        self.directory.path().join("report.json")
    }
}

/// Runs a program with its report kept.
fn told(options: &[&str], program: &[&str]) -> Told {
    let directory = scratch();
    let mut command = Command::new(binary());
    command
        .arg("run")
        .args(options)
        .args(["--report", "report.json", "--"])
        .args(program)
        .current_dir(directory.path())
        .stdin(Stdio::null());
    let output = run(&mut command);
    Told {
        stderr: String::from_utf8(output.stderr).expect("it is UTF-8"),
        directory,
    }
}

fn run(command: &mut Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(piped.spawn().expect("it can be started"))
}

/// `turnkey report FILE` with these arguments.
fn render(report: &Path, arguments: &[&str]) -> Output {
    run(Command::new(binary())
        .arg("report")
        .arg(report)
        .args(arguments))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is UTF-8")
}

#[test]
fn the_text_is_what_the_run_said_and_the_json_what_it_wrote() {
    let hostile = "open('/etc/passwd').read(); open('/tmp/\x1b[2J\\x9b/.ssh/id_rsa')";
    let stories = [
        told(&["--quiet", "--mode", "observe"], &["python3", "-c", "1"]),
        told(&[], &["python3", "-c", hostile]),
        told(
            &["--export", "out"],
            &["sh", "-c", "ln -s a b; cat /root/none; cat /root; exit 3"],
        ),
        told(&["--memory", "32M"], &["python3", "-c", "b'x' * (1 << 28)"]),
        told(&[], &["no-such-program"]),
    ];
    for (index, story) in stories.iter().enumerate() {
        let rendered = render(&story.report(), &[]);
        assert!(rendered.status.success(), "{}", text(&rendered.stderr));
        // The first was asked to say nothing.
        if index > 0 {
            let program_said = |line: &&str| line.starts_with("cat: ") || line.contains("rror");
            let said: Vec<&str> = story
                .stderr
                .lines()
                .filter(|line| !program_said(line))
                .collect();
            let told: Vec<&str> = text(&rendered.stdout).lines().collect();
            assert!(
                !told.is_empty() && said.ends_with(&told),
                "{said:#?}\n{told:#?}"
            );
        }
        let json = render(&story.report(), &["--format", "json"]);
        let stored = std::fs::read(story.report()).expect("there is a report");
        assert_eq!(text(&json.stdout), text(&stored));
        assert_eq!(text(&json.stderr), "");
    }
}

#[test]
fn what_is_rendered_can_go_to_a_file_and_come_from_a_pipe() {
    let story = told(&["--quiet"], &["true"]);
    let out = story.directory.path().join("out.txt");
    let place = out.display().to_string();
    let rendered = render(&story.report(), &["--out", &place]);
    assert!(rendered.status.success() && rendered.stdout.is_empty());
    let written = std::fs::read_to_string(&out).expect("it was written");
    assert!(written.starts_with("turnkey: clean"), "{written}");
    let report = std::fs::File::open(story.report()).expect("there is a report");
    let piped = run(Command::new(binary()).args(["report", "-"]).stdin(report));
    assert_eq!(text(&piped.stdout), written);
}

#[test]
fn a_hostile_report_neither_crashes_it_nor_steers_the_terminal() {
    let directory = scratch();
    let ten_megabytes = 10 << 20;
    let hostile = [
        Vec::new(),
        vec![0; ten_megabytes],
        b"[".repeat(ten_megabytes),
        b"{\"schema\":".repeat(ten_megabytes / 10),
        format!(
            "{{\"schema\":\"\x1b[2J{}\"}}",
            "\u{9b}".repeat(ten_megabytes / 2)
        )
        .into_bytes(),
        b"{\"schema\":\"turnkey.report/v1\",\"id\":7}".to_vec(),
    ];
    for (index, bytes) in hostile.iter().enumerate() {
        let file = directory.path().join(format!("{index}.json"));
        std::fs::write(&file, bytes).expect("a test can write its own directory");
        for format in ["text", "json", "html", "sarif", "ocsf", "junit"] {
            let refused = render(&file, &["--format", format]);
            let said = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(125), "{index}: {said}");
            assert!(refused.stdout.is_empty() && said.len() < 2000, "{index}");
            assert!(said.contains("fix: "), "{index}: {said}");
            assert!(
                said.chars().all(|c| c == '\n' || !c.is_control()),
                "{said:?}"
            );
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let refused = render(Path::new("/nowhere/report.json"), &[]);
    assert_eq!(refused.status.code(), Some(125));
    let said = text(&refused.stderr);
    assert!(
        said.contains("/nowhere/report.json") && said.contains("No such file"),
        "{said}"
    );
}

const JUNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/junit-4.xsd");

#[test]
fn the_xml_is_what_build_servers_read() {
    let evil = "open('/tmp/<script>&\"]]>/.ssh/id_rsa')";
    for story in [
        told(&[], &["true", "<&\">"]),
        told(&[], &["python3", "-c", evil]),
        told(&[], &["none"]),
    ] {
        let out = story
            .directory
            .path()
            .join("junit.xml")
            .display()
            .to_string();
        let rendered = render(&story.report(), &["--format", "junit", "--out", &out]);
        assert!(rendered.status.success(), "{}", text(&rendered.stderr));
        // No entity or schema may be fetched for it.
        let judge = ["--nonet", "--noout", "--schema", JUNIT, &out];
        let judged = run(Command::new("xmllint").args(judge));
        assert!(judged.status.success(), "{}", text(&judged.stderr));
    }
}

#[test]
fn a_run_is_told_in_the_words_of_other_programs() {
    let story = told(&[], &["python3", "-c", "open('/home/you/.ssh/id_rsa')"]);
    let json = |format: &str| -> serde_json::Value {
        let rendered = render(&story.report(), &["--format", format]);
        serde_json::from_slice(&rendered.stdout).expect("one line is one value")
    };
    let result = &json("sarif")["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "private-key", "{result:#}");
    let event = json("ocsf");
    assert_eq!(event["class_uid"], 2004);
    assert_eq!(event["evidences"][0]["file"]["name"], "id_rsa", "{event:#}");
}

/// The fields that SARIF's readers take for the same result.
fn fingerprints(log: &serde_json::Value) -> Vec<(String, String)> {
    let results = log["runs"][0]["results"].as_array().expect("a list");
    let of = |result: &serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        let print = text(&result["partialFingerprints"]["turnkey/v1"]);
        (print, text(&result["ruleId"]))
    };
    results.iter().map(of).collect()
}

#[test]
fn a_finding_has_one_fingerprint_in_every_run_and_stands_at_the_repositorys_file() {
    // Other process ids, times, temporary files and ports in each run.
    let script = "
import os, socket, subprocess, tempfile
for _ in range(os.getpid() % 7 + 1):
    subprocess.run(['true'])
for secret in ('id_rsa', 'id_ecdsa'):
    try:
        open(os.path.join(tempfile.mkdtemp(), '.ssh', secret))
    except OSError:
        pass
for name in ('/etc/shadow', '/proc/%d/mem' % os.getppid()):
    try:
        open(name)
    except OSError:
        pass
";
    let log = || {
        let run = Run::new().file("attack.py", script);
        let ran = run.option("--mode observe").run(&["python3", "attack.py"]);
        let file = ran.directory.path().join("report.json");
        std::fs::write(&file, ran.report.to_string()).expect("a test can write its own directory");
        let rendered = render(&file, &["--format", "sarif"]);
        let log: serde_json::Value = serde_json::from_slice(&rendered.stdout).expect("JSON");
        (log, rendered.stdout)
    };
    let ((one, text_of_one), (other, _)) = (log(), log());
    let prints = fingerprints(&one);
    assert_eq!(prints, fingerprints(&other));
    let distinct: std::collections::BTreeSet<_> = prints.iter().collect();
    assert!(
        prints.len() >= 3 && distinct.len() == prints.len(),
        "{prints:?}"
    );
    let result = &one["runs"][0]["results"][0];
    let file = &result["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(
        (&file["uri"], &file["uriBaseId"]),
        (&"attack.py".into(), &"%SRCROOT%".into())
    );
    readers::read_sarif(&[text_of_one], prints.len());
}
