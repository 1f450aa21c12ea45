//! A service that gives less than was asked, or is gone: its caller is told, and has its terminal back.

use std::time::Instant;

use nix::sys::signal::Signal;
use turnkey_tests::{Run, Service, TerminalSession, outside};

#[test]
fn a_captured_stream_has_a_mebibyte_of_a_served_run() {
    let service = Service::start("");
    let captured = |bytes: usize| {
        let run = Run::new().option("--quiet --capture --output 4M");
        let program = format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let ran = run.served_at(&service.directory()).shell(&program);
        ran.expect(ran.stdout.len() == bytes, "it passes through whole");
        ran.expect(ran.at("/stdout/bytes") == bytes, "it is counted whole");
        let kept = ran.at("/stdout/text").as_str().map_or(0, str::len);
        (kept, ran.at("/stdout/truncated") == true)
    };
    const MOST: usize = 1 << 20;
    assert_eq!(captured(MOST), (MOST, false));
    assert_eq!(captured(MOST + 1), (MOST, true));
}

#[test]
fn a_service_that_is_killed_leaves_its_caller_the_terminal_as_it_was() {
    let mut service = Service::start("");
    let run = Run::new().option("--quiet --service");
    let mut command = run.command(&["bash", "--norc", "-i"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    let mut shell = TerminalSession::start(&command);
    let before = shell.settings();
    shell.wait_for("$ ");
    assert!(
        shell.settings() != before,
        "the control: the keys are the program's"
    );
    let makers = service.makers();
    service.end_by(Signal::SIGKILL);
    let scene = shell.end();
    assert_eq!(scene.code, Some(125), "{}", scene.shown);
    assert!(scene.is_restored, "{}", scene.shown);
    Service::nothing_is_left(&makers);
}

#[test]
fn a_caller_for_whom_the_host_has_no_process_is_told_and_the_next_is_served() {
    let service = Service::start("ready = 0\n");
    let pid = service.pid().to_string();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    let open: Vec<usize> = open
        .map(|one| {
            one.expect("it is there")
                .file_name()
                .to_string_lossy()
                .parse()
                .expect("a number")
        })
        .collect();
    // Of the connection, and of a look at who it is; a process takes as many once more.
    let most = (0..)
        .filter(|number| !open.contains(number))
        .nth(4)
        .expect("there are more");
    let limited = |most: &str| {
        let (code, said) = outside("prlimit", &["--pid", &pid, &format!("--nofile={most}:")]);
        assert!(code.success(), "{said}");
    };
    let usual = outside(
        "prlimit",
        &["--pid", &pid, "--nofile", "--noheadings", "--output=SOFT"],
    )
    .1;
    let run = || {
        Run::new()
            .option("--quiet")
            .served_at(&service.directory())
            .run(&["true"])
    };
    limited(&most.to_string());
    let ran = run();
    ran.expect_code(125);
    ran.expect(ran.stderr.contains("--local"), "told with a way out");
    limited(usual.trim());
    run().expect_code(0);
    let refused = service
        .log()
        .into_iter()
        .filter(|line| line["event"] == "refused");
    let codes: Vec<_> = refused.map(|line| line["code"].clone()).collect();
    assert_eq!(codes, [503]);
}

#[test]
fn refusals_of_one_user_leave_room_in_the_log_and_each_is_counted() {
    let mut service = Service::start("ready = 4\n");
    let place = turnkey_tests::callers_scratch();
    const REQUESTS: u64 = 250;
    let program = format!(
        "for _ in range({REQUESTS}):
    line = connect()
    line.send(b'none')
    answer(line)"
    );
    let began = Instant::now();
    super::talks(&service, place.path(), &program);
    let windows = 1 + began.elapsed().as_secs() / 10;
    let another = Run::new().option("--quiet --service");
    let mut another = another.command(&["true"]);
    another.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(another.status().expect("it can be started").success());
    // What was left out is told at the latest now.
    service.end_by(Signal::SIGTERM);
    let told = service.log();
    let of = |event: &'static str| told.iter().filter(move |line| line["event"] == event);
    let refused = of("refused").count() as u64;
    let left_out = of("left_out").filter(|line| line["user"] == turnkey_tests::SERVED);
    let left_out: u64 = left_out.filter_map(|line| line["lines"].as_u64()).sum();
    assert!(refused >= 100, "{refused}: those that have room are there");
    // A process that stands ready may be told of room that another is about to take.
    assert!(refused <= 104 * (windows + 1), "{refused} lines");
    assert_eq!(refused + left_out, REQUESTS, "{refused} and {left_out}");
    assert_eq!(of("ran").count(), 1, "another user's are all there");
}
