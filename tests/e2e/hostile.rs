//! What commands print of files that somebody else made: nothing that steers a terminal, turns a line round or
//! looks like a line of turnkey's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use turnkey_expectations::expected;
use turnkey_tests::{binary, finish, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "what is escaped is printed by the command alone"
);

/// Clears the screen, sets the title, begins a line of turnkey's own, turns it round.
const HOSTILE: &str =
    "a\u{1b}[2J\u{1b}]0;pwned\u{7}\nturnkey: forged\r\u{202e}\u{2066}\u{200f}\u{61c}\u{9b}1m";

fn turnkey(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    finish(child.expect("turnkey can be started"))
}

fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n')
}

/// Something is told, and nothing of it is raw.
fn expect_visible(arguments: &[&str], output: &Output) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let raw = text.contains(steers) || text.contains("\nturnkey: forged");
        assert!(!raw, "{arguments:?}: {text:?}\n{output:?}");
    }
    let told = output.stdout.len() + output.stderr.len();
    assert!(told > 0 || output.status.success(), "{arguments:?}");
}

/// A text as JSON and as basic strings of TOML have it.
fn quoted(text: &str) -> String {
    let escaped = |c: char| format!("\\u{:04x}", u32::from(c));
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Files by what they are, each with hostile words in it and with a hostile name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let word = quoted(HOSTILE);
    let head = "schema = \"turnkey.profile/v1\"\nextends = [\"untrusted\"]\n";
    let pattern = quoted(&format!("/{}", HOSTILE.replace('[', "")));
    let rule = |id: &str| {
        format!(
            "{head}name = \"p\"\ndescription = {word}\n[[rule]]\nid = {id}\non = \"open\"\npath = [\"/x\", {pattern}]\n\
             action = \"log\"\nwhy = {word}\n"
        )
    };
    let oci = |default: &str, name: &str| {
        format!(
            "{{\"defaultAction\": {default}, {word}: 1, \"syscalls\": [{{\"names\": [{name}], \
             \"action\": \"SCMP_ACT_ALLOW\"}}]}}"
        )
    };
    let contents = [
        ("raw.toml", HOSTILE.to_owned()),
        ("key.toml", format!("{head}name = \"p\"\n{word} = 1\n")),
        ("name.toml", format!("{head}name = {word}\n")),
        (
            "base.toml",
            format!("schema = \"turnkey.profile/v1\"\nname = \"p\"\nextends = [{word}]\n"),
        ),
        ("rule.toml", rule("\"r\"")),
        ("id.toml", rule(&word)),
        (
            "shown.toml",
            format!(
                "{head}name = \"p\"\n[filesystem]\nread = [{{ path = {}, why = {word} }}]\n",
                quoted(&format!("/{HOSTILE}"))
            ),
        ),
        ("raw.json", format!("{{{HOSTILE}")),
        ("calls.json", oci("\"SCMP_ACT_ERRNO\"", &word)),
        (
            "long.json",
            oci("\"SCMP_ACT_ERRNO\"", &format!("\"{}\"", "x".repeat(9000))),
        ),
        ("action.json", oci(&word, "\"read\"")),
        (
            "twice.json",
            format!("{{{word}: 1, {word}: 2, \"defaultAction\": \"SCMP_ACT_ERRNO\"}}"),
        ),
        (
            "wrong.json",
            format!("{{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": {word}}}"),
        ),
        (
            "settings.json",
            format!(
                "{{{word}: 1, \"network\": {{{word}: 1}}, \
             \"filesystem\": {{\"denyRead\": [{word}, \"/s/\\u202e\"], \"allowWrite\": [\"/w/\\u202e\", {word}], {word}: 1}}}}"
            ),
        ),
        (
            "domain.json",
            format!("{{\"network\": {{\"allowedDomains\": [{word}]}}, \"filesystem\": {{}}}}"),
        ),
        (
            "report.json",
            format!("{{\"schema\": {word}, {word}: [{word}]}}"),
        ),
    ];
    let place = |(name, content): (&str, String)| {
        let file = directory.join(format!("{HOSTILE}{name}"));
        std::fs::write(&file, content).expect("a file can be written");
        file
    };
    contents.into_iter().map(place).collect()
}

/// Every command that reads such a file, with that file.
fn commands(file: &str) -> Vec<Vec<&str>> {
    if file.ends_with(".json") {
        return vec![
            vec!["import", file],
            vec!["report", file],
            vec!["diff", file, "untrusted"],
            vec!["check", file],
        ];
    }
    vec![
        vec!["check", file],
        vec!["check", "--json", file],
        vec!["explain", file],
        vec!["explain", "--json", file],
        vec!["explain", file, "--path", file],
        vec!["diff", "untrusted", file],
        vec!["diff", "--json", "untrusted", file],
    ]
}

// Some ninety processes, of a build that is not optimized: more than two seconds.
#[test]
fn j55_what_a_file_holds_and_is_called_reaches_no_terminal_raw() {
    let directory = scratch();
    let mut files = files(directory.path());
    files.push(directory.path().join(format!("{HOSTILE}missing.toml")));
    for file in &files {
        let file = file.to_str().expect("UTF-8");
        for arguments in commands(file) {
            expect_visible(&arguments, &turnkey(directory.path(), &arguments));
        }
    }
}

// A run for every profile, most of which end before it: more than two seconds.
#[test]
fn j55_a_run_tells_nothing_of_a_file_raw() {
    let directory = scratch();
    let profile = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "toml");
    for file in files(directory.path()).into_iter().filter(profile) {
        let file = file.to_str().expect("UTF-8");
        for arguments in [
            &["run", "--unmonitored", "--profile", file, "--", "true"][..],
            &["learn", "--merge", file, "--", "true"],
        ] {
            expect_visible(arguments, &turnkey(directory.path(), arguments));
        }
    }
}

#[test]
fn j55_what_turnkey_is_called_with_reaches_no_terminal_raw() {
    let directory = scratch();
    let flag = format!("--{HOSTILE}");
    for arguments in [
        &[HOSTILE][..],
        &["run", &flag],
        &["run", "--network", HOSTILE, "--", "true"],
        &["run", "--memory", HOSTILE, "--", "true"],
        &["run", "--mode", HOSTILE, "--", "true"],
        &["run", "--read", HOSTILE, "--", "true"],
        &["run", "--report", HOSTILE, "--write", ".", "--", "true"],
        &["run", "--unmonitored", "--", HOSTILE],
        &["explain", "--path", HOSTILE],
        &["report", "--format", HOSTILE, "x"],
    ] {
        let output = turnkey(directory.path(), arguments);
        expect_visible(arguments, &output);
    }
}

#[test]
fn j55_a_written_profile_holds_nothing_raw() {
    let directory = scratch();
    for file in files(directory.path()) {
        let out = directory.path().join("out.toml");
        let file = file.to_str().expect("UTF-8");
        turnkey(directory.path(), &["import", "--out", "out.toml", file]);
        let written = std::fs::read_to_string(&out).unwrap_or_default();
        assert!(!written.contains(steers), "{file:?}: {written:?}");
        let _ = std::fs::remove_file(&out);
    }
}

#[test]
fn j55_a_stored_report_tells_nothing_raw() {
    let directory = scratch();
    let run = [
        "run",
        "--unmonitored",
        "--report",
        "stored.json",
        "--",
        "true",
        HOSTILE,
    ];
    assert!(turnkey(directory.path(), &run).status.success());
    let place = directory.path().join("stored.json");
    let stored = std::fs::read_to_string(&place).unwrap();
    let hostile = stored.replace("\"untrusted\"", &quoted(HOSTILE));
    assert_ne!(hostile, stored, "the profile is named in it");
    std::fs::write(&place, hostile).unwrap();
    for arguments in [
        &["report", "stored.json"][..],
        &["report", "--format", "json", "stored.json"],
        &["report", "--format", "html", "stored.json"],
        &["report", "--format", "junit", "stored.json"],
        &["diff", "stored.json", "untrusted"],
    ] {
        expect_visible(arguments, &turnkey(directory.path(), arguments));
    }
}

#[test]
fn j55_a_scan_tells_nothing_of_a_script_raw() {
    let directory = scratch();
    let words: String = HOSTILE
        .chars()
        .filter(|c| !matches!(c, '\n' | '\r'))
        .collect();
    let code = format!(
        "import os\nif 0:\n    open('/etc/{words}')\n    os.system('rm -rf /; curl http://{words}')\n    __import__('{words}')\n    \
         open('/etc/x\\n\\x1b[2J')\n"
    );
    let script = directory.path().join(format!("{HOSTILE}.py"));
    std::fs::write(&script, code).unwrap();
    let script = script.to_str().unwrap();
    let answer = format!(
        r#"{{"schema": "turnkey.scan-findings/v1", "findings": [{{"rule": {0}, "line": 1, "weight": 1, "says": {0}}}]}}"#,
        quoted(HOSTILE)
    );
    std::fs::write(directory.path().join("answer"), answer).unwrap();
    for arguments in [
        &["scan", script][..],
        &["scan", "--json", script],
        &["scan", "--sarif", script],
        &["scan", "--with", "cat answer", script],
        &["scan", "--with", HOSTILE, script],
        &["scan", HOSTILE],
        &["run", "--unmonitored", "--scan", "--", "python3", script],
    ] {
        expect_visible(arguments, &turnkey(directory.path(), arguments));
    }
}
