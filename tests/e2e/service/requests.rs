//! Requests that are none, and what a request may not ask for.

use std::process::Stdio;

use turnkey_tests::{Run, SERVED, Service};

use super::{ATTACK, as_served};

#[test]
fn a_request_that_is_none_is_refused_and_the_service_goes_on() {
    let service = Service::start("");
    let run = Run::new().file("x.py", ATTACK);
    let mut attack = as_served(&service, "python3", run.path());
    let output = attack
        .arg("x.py")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let mut lines = told.lines();
    assert_eq!(
        lines.next(),
        Some("the usual: ended"),
        "the control: {told}"
    );
    let mut count = 0;
    for line in lines {
        let (way, answer) = line.rsplit_once(": ").unwrap();
        let expected: &[&str] = match way {
            _ if way.starts_with("gone") => &["closed"],
            "the usual in memory"
            | "the usual in memory, read to its end"
            | "words of 1 MiB in memory" => &["ended"],
            "a layer" | "a sink" | "without a monitor" | "with what is there" | "every call"
            | "a port" => &["403"],
            _ => &["400"],
        };
        assert!(expected.contains(&answer), "{line}");
        count += 1;
    }
    assert_eq!(count, 77, "{told}");
    let ran = Run::new().served_at(&service.directory()).run(&["true"]);
    ran.expect_code(0);
    let makers = service.makers();
    assert!(!makers.is_empty(), "some stand ready");
    drop(service);
    Service::nothing_is_left(&makers);
}

#[test]
fn a_long_environment_and_long_arguments_come_whole() {
    let service = Service::start("");
    let run = Run::new().option("--quiet").served_at(&service.directory());
    let run = run.option("--env SAMPLE");
    let argument = "a".repeat(100 << 10);
    let script = "printf %s \"$SAMPLE$1$2\" | sha256sum";
    let mut command = run.command(&["sh", "-c", script, "sh", &argument, "end"]);
    let (long, sample) = ("x".repeat(100 << 10), "y".repeat(90 << 10));
    command
        .env("OTHER", &long)
        .env("MORE", &long)
        .env("SAMPLE", &sample);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let whole = format!("{sample}{argument}end");
    let mut control = std::process::Command::new("sha256sum");
    let control = control.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut control = control.unwrap();
    let mut into = control.stdin.take().unwrap();
    std::io::Write::write_all(&mut into, whole.as_bytes()).unwrap();
    drop(into);
    let expected = control.wait_with_output().unwrap().stdout;
    assert_eq!(told.as_bytes(), expected, "{output:?}");
}

#[test]
fn more_than_the_ceilings_is_refused_with_the_most_that_is_given() {
    let lines =
        "profiles = [\"untrusted\", \"python\"]\n[limits]\nmemory = \"300M\"\nwall = \"70s\"\n";
    let service = Service::start(lines);
    let run = |option: &str| {
        let run = Run::new().option("--quiet").served_at(&service.directory());
        match option {
            "" => run.run(&["true"]),
            option => run.option(option).run(&["true"]),
        }
    };
    run("").expect_code(0);
    run("--memory 300M --profile python").expect_code(0);
    for (option, words) in [
        ("--memory 301M", "--memory 300M at most"),
        ("--wall 71s", "--wall 70s at most"),
        ("--network host", "network mode host"),
        ("--allow 192.0.2.1:80", "network mode allow"),
        ("--write .", "write to its caller's files"),
        ("--root-mode overlay", "none that can be written"),
        ("--root /srv", "no root of the caller's"),
        ("--profile sealed", "but untrusted, python"),
    ] {
        let ran = run(option);
        ran.expect_code(125);
        ran.expect(ran.stderr.contains(words), option);
        // The fix that is told works, as far as the caller has the rights.
        ran.expect(ran.stderr.contains("--local"), "the way out");
    }
}

#[test]
fn a_profile_of_the_caller_s_own_is_not_taken() {
    let service = Service::start("");
    let run = Run::new().served_at(&service.directory());
    let ran = run.profile("[limits]\nmemory = \"64M\"\n").run(&["true"]);
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("no profile of a caller's"), "told");
}

#[test]
fn events_signals_and_a_terminal_are_the_caller_s() {
    let service = Service::start("");
    let ran = Run::new()
        .served_at(&service.directory())
        .with_events()
        .shell("cat /etc/shadow");
    ran.expect_code(121);
    let is_read = |event: &serde_json::Value| event["path"] == "/etc/shadow";
    ran.expect(ran.events.iter().any(is_read), "the event came out");

    let run = Run::new().option("--quiet").served_at(&service.directory());
    let mut shell = turnkey_tests::TerminalSession::open(run, &["bash", "--norc", "-i"]);
    shell.wait_for("$ ");
    shell.type_in("tty; stty size\r");
    shell.wait_for("/dev/pts/0\r\n");
    shell.wait_for("24 80\r\n");
    shell.type_in("exit 7\r");
    let scene = shell.end();
    assert_eq!(scene.code, Some(7), "{}", scene.shown);
    assert!(scene.is_restored);
    assert_eq!(scene.report["served"]["user"], SERVED);
}
