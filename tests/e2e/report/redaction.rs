//! Credentials in what a program was given and named, and none of them in what is told of it.

use turnkey_tests::{Ran, Run};

/// Put together here, so that nobody who looks for real ones finds it.
fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5".repeat(4))
}

/// Opens a private key below a folder that is named like a credential, connects to a socket of such a name,
/// and starts a program with one behind a flag.
fn run(option: &[&str]) -> Ran {
    let token = token();
    let program = format!(
        "import socket, subprocess, sys\n\
         print(sys.argv[1], flush=True)\n\
         subprocess.run(['true', '--password', 'hunter2', 'https://bob:{token}@host/'])\n\
         try: socket.socket(socket.AF_UNIX).connect('/run/{token}')\n\
         except OSError: pass\n\
         open('/srv/{token}/.ssh/id_rsa')"
    );
    let run = option.iter().fold(Run::new(), |run, it| run.option(it));
    let run = run.with_events().option("--capture").file("x.py", &program);
    run.run(&["python3", "x.py", &token])
}

#[test]
fn credentials_are_redacted_and_decisions_stay() {
    let (redacted, kept) = (run(&[]), run(&["--no-redact"]));
    for ran in [&redacted, &kept] {
        // The rule has seen the path as it was.
        ran.expect_code(121);
        ran.expect(
            ran.at("/violations/0/rule") == "private-key",
            "the rule that killed",
        );
        ran.expect(ran.at("/verdict") == "violated", "the verdict");
        // Captured output is the program's own word.
        ran.expect(
            ran.at("/stdout/text") == &*format!("{}\n", token()),
            "the output",
        );
    }
    let told = |ran: &Ran| {
        let mut report = ran.report.clone();
        report["stdout"].take();
        let events: Vec<String> = ran.events.iter().map(ToString::to_string).collect();
        (report.to_string(), events.join("\n"))
    };
    let (report, events) = told(&kept);
    for whole in [&report, &events] {
        assert!(
            whole.contains(&token()) && whole.contains("hunter2"),
            "the control: {whole}"
        );
    }
    let (report, events) = told(&redacted);
    for whole in [&report, &events, &redacted.stderr] {
        assert!(
            !whole.contains(&token()) && !whole.contains("hunter2"),
            "{whole}"
        );
        assert!(
            whole.contains("/srv/[redacted: github-token]/.ssh/id_rsa"),
            "{whole}"
        );
    }
    assert!(
        events.contains("\"--password\",\"[redacted: secret]\",\"https://bob:[redacted: "),
        "{events}"
    );
    assert!(
        events.contains("unix:/run/[redacted: github-token]"),
        "{events}"
    );
    assert!(
        report.contains("unix:/run/[redacted: github-token]"),
        "{report}"
    );
    // As many rows as with everything in them.
    for list in [
        "/violations",
        "/processes",
        "/network_attempts",
        "/findings",
    ] {
        let rows = (redacted.list(list).len(), kept.list(list).len());
        assert_eq!(rows.0, rows.1, "{list}");
    }
}
