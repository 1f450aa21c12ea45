//! `turnkey scan` and `run --scan`: what is said of a script before it runs, and that nothing else comes of it.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{Run, binary, finish, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "scripts are looked at by the command alone"
);
expected!(on[PROGRAMS_6_12]);

fn scan(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("scan").args(arguments).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    finish(child.expect("turnkey can be started"))
}

fn page(directory: &Path, arguments: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(arguments);
    serde_json::from_slice(&scan(directory, &all).stdout).expect("JSON")
}

fn rules(file: &Value) -> Vec<&str> {
    let findings = file["findings"].as_array().expect("a list");
    findings
        .iter()
        .filter_map(|finding| finding["rule"].as_str())
        .collect()
}

const DECODES: &str = "import base64\nexec(base64.b64decode('b3BlbigibWFkZSIsICJ3Iik='))\n";

#[test]
fn a_scan_runs_nothing_and_fails_where_it_is_asked_to() {
    let directory = scratch();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("x.py"), DECODES).unwrap();
    std::fs::write(at("x.sh"), "touch made\n").unwrap();
    let output = scan(directory.path(), &["x.py", "x.sh"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!at("made").exists());
    let grave = scan(directory.path(), &["--fail-at", "80", "x.py"]);
    assert_eq!(grave.status.code(), Some(1), "{grave:?}");
    let harmless = scan(directory.path(), &["--fail-at", "1", "x.sh"]);
    assert_eq!(harmless.status.code(), Some(0), "{harmless:?}");
    // A score says nothing of what was not read: a zero byte ends what a shell and the scanner take for text.
    std::fs::write(at("zero.sh"), b"echo x\0\n").unwrap();
    let unread = scan(directory.path(), &["--fail-at", "100", "zero.sh"]);
    assert_eq!(unread.status.code(), Some(1), "{unread:?}");
    let page = page(directory.path(), &["--allowed-imports", "os", "x.py"]);
    assert_eq!(
        rules(&page["files"][0]),
        ["executes-decoded", "import-not-allowed"]
    );
}

#[test]
fn what_is_no_script_is_an_error_when_it_is_named_and_told_below_a_directory() {
    let directory = scratch();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("in")).unwrap();
    std::fs::write(at("secret.py"), DECODES).unwrap();
    std::fs::write(at("in/a.sh"), "cat /etc/shadow\n").unwrap();
    std::fs::write(at("in/notes"), "nothing\n").unwrap();
    symlink(at("secret.py"), at("in/link.py")).unwrap();
    symlink(directory.path(), at("in/up")).unwrap();
    for named in ["in/notes", "missing.py"] {
        let output = scan(directory.path(), &[named]);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(named),
            "{output:?}"
        );
    }
    let page = page(directory.path(), &["in"]);
    let files = page["files"].as_array().expect("a list");
    assert_eq!(files.len(), 1, "{page}");
    assert_eq!(rules(&files[0]), ["reads-secret"]);
    let text = String::from_utf8(scan(directory.path(), &["in"]).stdout).unwrap();
    for told in [
        "files that are neither Python nor shell: 1",
        "symbolic links: 2",
    ] {
        assert!(text.contains(&format!("not looked at: {told}")), "{text}");
    }
}

/// One argument that is wrong takes the others nothing.
#[test]
fn the_scripts_beside_one_that_cannot_be_read_are_told() {
    let directory = scratch();
    std::fs::write(directory.path().join("x.py"), DECODES).unwrap();
    std::fs::write(directory.path().join("noext"), "what is it\n").unwrap();
    let output = scan(directory.path(), &["x.py", "noext", "absent.sh"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("x.py"), "{stdout}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("noext") && stderr.contains("absent.sh"),
        "{stderr}"
    );
}

/// A script that somebody else alone may read is not one without findings.
#[test]
fn a_directory_of_which_not_all_was_read_is_too_grave() {
    let directory = scratch();
    std::fs::write(directory.path().join("ok.sh"), "echo hi\n").unwrap();
    let whole = scan(directory.path(), &["--fail-at", "50", "."]);
    assert_eq!(whole.status.code(), Some(0), "the control: {whole:?}");
    // More than one scan reads of a file.
    let large = std::fs::File::create(directory.path().join("large.sh")).unwrap();
    large.set_len(64 << 20).unwrap();
    let part = scan(directory.path(), &["--fail-at", "50", "."]);
    assert_eq!(part.status.code(), Some(1), "{part:?}");
}

#[test]
fn another_scanner_is_told_as_itself_and_one_that_fails_is_no_zero() {
    let directory = scratch();
    std::fs::write(directory.path().join("x.sh"), "password=1\n").unwrap();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/scanner/password.sh"
    );
    let page = page(directory.path(), &["--with", example, "x.sh"]);
    let file = &page["files"][0];
    assert_eq!((&file["score"], rules(file)), (&0.into(), vec![]), "{page}");
    assert_eq!(file["others"][0]["by"], example);
    assert_eq!(file["others"][0]["findings"][0]["line"], 1);
    let grave = scan(
        directory.path(),
        &["--with", example, "--fail-at", "20", "x.sh"],
    );
    assert_eq!(grave.status.code(), Some(1), "{grave:?}");
    let broken = scan(directory.path(), &["--with", "exit 3", "x.sh"]);
    assert_eq!(broken.status.code(), Some(125), "{broken:?}");
    let text = String::from_utf8_lossy(&broken.stdout);
    assert!(
        text.contains("exit 3 gave no answer: it ended with exit status: 3"),
        "{text}"
    );
}

#[test]
fn the_command_that_is_proposed_works() {
    let directory = scratch();
    let at = |name: &str| directory.path().join(name);
    let data = scratch();
    std::fs::write(data.path().join("data"), "what it reads\n").unwrap();
    let script = format!("print(open('{}/data').read())\n", data.path().display());
    std::fs::write(at("x.py"), script).unwrap();
    let page = page(directory.path(), &["x.py"]);
    let command = page["files"][0]["command"].as_str().expect("a command");
    let command = command.replacen(
        "turnkey run",
        &format!("{} run --unmonitored", binary().display()),
        1,
    );
    let output = Command::new("/bin/sh")
        .args(["-c", &command])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    assert_eq!(output.stdout, b"what it reads\n\n");
}

#[test]
fn a_run_says_what_it_saw_at_once_and_keeps_it_and_judges_as_without() {
    let script = "import os\nif False:\n    open('/etc/shadow')\nprint('hi')\n";
    let plain = Run::new().file("x.py", script).run(&["python3", "x.py"]);
    let seen = Run::new()
        .option("--scan")
        .file("x.py", script)
        .run(&["python3", "x.py"]);
    seen.expect(
        seen.at("/static/findings/0/rule") == "reads-secret",
        "the finding is kept",
    );
    seen.expect(
        seen.at("/static/stands_on") == "text",
        "it says what it stands on",
    );
    seen.expect(
        seen.at("/verdict") == plain.at("/verdict"),
        "the verdict is the same",
    );
    seen.expect(
        seen.at("/risk_score") == plain.at("/risk_score"),
        "the score is the same",
    );
    seen.expect(
        seen.at("/is_safe") == plain.at("/is_safe"),
        "as safe as without",
    );
}

const IMPORTS: &str = "schema = \"turnkey.profile/v1\"\nname = \"careful\"\nextends = [\"python\"]\n\
                       [scan]\nallowed_imports = [\"json\", \"os.path\"]\n";

#[test]
fn modules_that_a_profile_allows_are_those_of_a_scan_and_of_a_run() {
    let directory = scratch();
    std::fs::write(directory.path().join("careful.toml"), IMPORTS).unwrap();
    let script = "import json, os.path, zlib\nprint('ran')\n";
    std::fs::write(directory.path().join("x.py"), script).unwrap();
    let refused = |page: &Value| {
        let findings = page["files"][0]["findings"].as_array().cloned();
        let says = findings.unwrap_or_default().into_iter();
        let says = says.map(|one| one["says"].to_string());
        says.filter(|says| says.contains("imports"))
            .collect::<Vec<_>>()
    };
    let by_profile = refused(&page(
        directory.path(),
        &["--profile", "./careful.toml", "x.py"],
    ));
    assert_eq!(by_profile.len(), 1, "{by_profile:?}");
    assert!(by_profile[0].contains("zlib"), "{by_profile:?}");
    let flags = [
        "--profile",
        "./careful.toml",
        "--allowed-imports",
        "json,os,zlib",
        "x.py",
    ];
    assert!(
        refused(&page(directory.path(), &flags)).is_empty(),
        "the flag counts"
    );
    assert!(refused(&page(directory.path(), &["--profile", "python", "x.py"])).is_empty());
    let ran = Run::new()
        .option("--scan --profile ./careful.toml")
        .file("careful.toml", IMPORTS)
        .file("x.py", script)
        .run(&["python3", "x.py"]);
    ran.expect_code(0);
    ran.expect(ran.stdout == "ran\n", "a look keeps nothing from running");
    let says = ran
        .at("/static/findings/0/says")
        .as_str()
        .unwrap_or_default()
        .to_owned();
    ran.expect(says.contains("zlib"), "the run looks by its profile");
    let wrong = scan(directory.path(), &["--profile", "nobody", "x.py"]);
    assert_eq!(wrong.status.code(), Some(125), "{wrong:?}");
}
