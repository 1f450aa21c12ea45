//! Bad input: a clear error that names the place and the fix, status 125, nothing left behind.

use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, binary, scratch};

expected!(
    not_on[ORDINARY_6_12],
    "bad command lines and profiles are refused before the kernel is asked"
);

fn refused(options: &str, program: &[&str]) -> Ran {
    let run = Run::new();
    let run = if options.is_empty() {
        run
    } else {
        run.option(options)
    };
    let ran = run.run(program);
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(
        std::fs::read_dir(ran.directory.path()).is_ok_and(|mut entries| entries.next().is_none()),
        "nothing left behind",
    );
    ran
}

#[test]
fn an_unknown_profile_is_named() {
    let ran = refused("--profile untrustd", &["true"]);
    ran.expect(
        ran.stderr.contains("untrustd") && ran.stderr.contains("untrusted"),
        "the likely name",
    );
}

#[test]
fn an_unknown_key_is_shown_where_it_stands() {
    let directory = turnkey_tests::scratch();
    let profile = directory.path().join("mine.toml");
    std::fs::write(&profile, "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n\n[limits]\nmemry = \"1G\"\n").unwrap();
    let ran = refused(&format!("--profile {}", profile.display()), &["true"]);
    ran.expect(ran.stderr.contains("memry"), "the key");
    ran.expect(ran.stderr.contains("memory"), "the likely key");
    ran.expect(ran.stderr.contains(":6:"), "the line");
}

#[test]
fn a_bad_size_names_its_flag() {
    let ran = refused("--memory lots", &["true"]);
    ran.expect(ran.stderr.contains("--memory"), "the flag");
}

#[test]
fn a_report_of_an_earlier_run_is_told_from_that_of_one_that_never_was() {
    let directory = scratch();
    let report = directory.path().join("report.json");
    let named = report.display();
    std::fs::write(&report, "earlier").unwrap();
    let mut command = Command::new(binary());
    command
        .args(["run", "--profile", "nope", "--report"])
        .arg(&report)
        .args(["--", "true"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains(&format!("{named} is the report of an earlier run")),
        "{said}"
    );
    assert_eq!(std::fs::read(&report).unwrap(), b"earlier");
}

#[test]
fn a_missing_command_is_usage() {
    let output = Command::new(turnkey_tests::binary())
        .arg("run")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("COMMAND"));
}

#[test]
fn an_unknown_flag_is_usage() {
    let output = Command::new(turnkey_tests::binary())
        .args(["run", "--memori", "1G", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--memory"));
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let ran = refused("--read /no/such/place", &["true"]);
    ran.expect(ran.stderr.contains("/no/such/place"), "the path");
}

#[test]
fn the_whole_host_is_no_working_directory() {
    for directory in ["/", "/etc"] {
        let ran = refused(&format!("--workdir {directory}"), &["true"]);
        ran.expect(ran.stderr.contains("--workdir"), "the fix");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_run() {
    let run = Run::new();
    let binary = turnkey_tests::binary();
    let output = Command::new(binary)
        .args([
            "run",
            "--report",
            "/no/such/directory/report.json",
            "--",
            "/bin/echo",
            "ran",
        ])
        .current_dir(run.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/directory/report.json"));
}

#[test]
fn an_unprivileged_caller_is_told_what_is_missing() {
    let run = Run::new();
    std::fs::set_permissions(
        run.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let copy = run.path().join("turnkey");
    std::fs::copy(turnkey_tests::binary(), &copy).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--",
        ])
        .arg(&copy)
        .args(["run", "--", "/bin/echo", "ran"])
        .current_dir(run.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty(), "nothing ran");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("root"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn turnkey(words: &[&str]) -> std::process::Output {
    let mut command = Command::new(turnkey_tests::binary());
    command
        .args(words)
        .output()
        .expect("turnkey can be started")
}

#[test]
fn the_command_needs_no_dashes_before_it() {
    let directory = turnkey_tests::scratch();
    let output = Command::new(turnkey_tests::binary())
        .args([
            "run",
            "-q",
            "--memory",
            "64M",
            "sh",
            "-c",
            "echo $0 $1",
            "-x",
            "--wall",
        ])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"-x --wall\n");
}

#[test]
fn who_asks_for_nothing_is_helped_and_that_is_bad_usage() {
    let bare = turnkey(&[]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(bare.stdout.is_empty());
    assert!(String::from_utf8_lossy(&bare.stderr).contains("Usage: turnkey"));
    for asked in ["help", "--help", "version", "--version"] {
        let output = turnkey(&[asked]);
        assert_eq!(output.status.code(), Some(0), "{asked}");
        assert!(output.stderr.is_empty(), "{asked}");
    }
    assert_eq!(turnkey(&["version"]).stdout, turnkey(&["--version"]).stdout);
}

#[test]
fn completions_and_manual_pages_are_made_from_the_command_line() {
    for shell in ["bash", "zsh", "fish"] {
        let output = turnkey(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("export-changes"),
            "{shell}"
        );
    }
    assert!(String::from_utf8_lossy(&turnkey(&["man"]).stdout).contains(".TH turnkey 1"));
    let directory = turnkey_tests::scratch();
    let place = directory.path();
    assert_eq!(
        turnkey(&["man", &place.display().to_string()])
            .status
            .code(),
        Some(0)
    );
    let page = std::fs::read_to_string(place.join("turnkey-run.1")).unwrap();
    assert!(
        page.contains("no\\-redact") && page.contains("Examples"),
        "{page}"
    );
    assert!(place.join("turnkey-monitor-load.1").is_file());
}

#[test]
fn what_is_thrown_away_is_said() {
    let ran = Run::new().shell("echo a > a; mkdir d; echo x > d/x; ln -s a '\u{1b}[2J'");
    ran.expect_code(0);
    ran.expect(
        ran.stderr
            .contains("3 files written in /workspace and thrown away: ")
            && ran.stderr.contains("d/x")
            && ran.stderr.contains("--export DIR")
            && !ran.stderr.contains('\u{1b}'),
        "what is lost",
    );
    let ran = Run::new()
        .file("docs/old/letter", "Dear reader")
        .file("kept", "as it is")
        .shell("rm -r docs; echo more >> kept");
    ran.expect(
        ran.stderr
            .contains("1 file written or changed in /workspace and thrown away: kept;")
            && ran.stderr.contains(
                "1 file or directory deleted in the jail, and still there outside: docs\n",
            ),
        "what was deleted in the jail alone",
    );
    let ran = Run::new().option("--quiet").shell("echo a > a");
    ran.expect(
        ran.stderr.is_empty(),
        "nothing is said to who wants to hear nothing",
    );
}

#[test]
fn who_is_ended_with_the_command_is_named() {
    let ran = Run::new().shell("sleep 100 & sleep 100 & sleep 0.2");
    ran.expect_code(0);
    ran.expect(
        ran.stderr.contains("2 processes were still running when the command ended, and ended with it: sleep, sleep"),
        "who was left",
    );
}

/// Whatever a library makes of it, the limit is named, or there is room for the whole run.
///
/// Below four files the loader cannot open turnkey's libraries, and says so itself.
#[test]
fn too_few_open_files_are_told() {
    let run = |limit: u32, how: &str| {
        let turnkey = binary().display().to_string();
        let line = format!("ulimit -n {limit}; exec {turnkey} run --quiet {how} -- true");
        let mut command = Command::new("sh");
        let output = command.args(["-c", &line]).output().expect("a shell");
        (
            output.status,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let unwatched = (4..64).step_by(4).map(|limit| (limit, "--unmonitored"));
    // There a library says ENOENT.
    let watched = [50].map(|limit| (limit, ""));
    for (limit, how) in unwatched.chain(watched) {
        let (status, told) = run(limit, how);
        let is_told = status.code() == Some(125) && told.contains("ulimit -n");
        assert!(
            is_told || status.success(),
            "{limit} {how}: {status}: {told}"
        );
    }
}

/// The name is asked for in vain, so no address of it is ever seen.
#[test]
fn who_needs_a_host_is_told_to_allow_it_by_its_name() {
    let ask = "import socket\ntry: socket.getaddrinfo('example.org', 443)\nexcept OSError: pass";
    let ran = Run::new().run(&["python3", "-c", ask, "https://user@example.org/x"]);
    ran.expect(
        ran.stderr.contains("to allow    --allow example.org:443\n"),
        "by its name",
    );
    let ran = Run::new().python(ask);
    ran.expect(
        ran.stderr
            .contains("to allow    --allow example.org:PORT ("),
        "by the name that was asked for, where no port was typed",
    );
}

#[test]
fn turnkeys_words_begin_a_line_of_their_own() {
    let told = |script: &str, redirected: &str| {
        let empty = scratch();
        let line = format!("\"$0\" run -- sh -c '{script}' {redirected}");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).arg(binary());
        let output = command.current_dir(empty.path()).output();
        let output = output.expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    };
    for (script, redirected, begins) in [
        ("printf x >&2", "", "x\nturnkey: "),
        ("echo x >&2", "", "x\nturnkey: "),
        // Elsewhere than turnkey's words: the caller gets what the program wrote, and no more.
        ("printf x", "", "xturnkey: "),
        ("printf x", "2>&1", "x\nturnkey: "),
        ("printf x; sleep 0.1; echo y >&2", "2>&1", "xy\nturnkey: "),
    ] {
        let told = told(script, redirected);
        assert!(told.starts_with(begins), "{script} {redirected}: {told:?}");
    }
}
