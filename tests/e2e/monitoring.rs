//! The kernel sees, decides and kills; the report says what and why.

use turnkey_tests::{Run, eventually};

const READ_SHADOW: &str = "import sys
text = open('/etc/shadow').read()
print('content:', text)
sys.stdout.flush()";

#[test]
fn reading_shadow_is_killed_and_explained() {
    let ran = Run::new()
        .file("attack.py", READ_SHADOW)
        .run(&["python3", "attack.py"]);
    ran.expect_code(121);
    ran.expect(ran.at("/status") == "killed_by_policy", "killed_by_policy");
    ran.expect(ran.at("/verdict") == "violated", "violated");
    ran.expect(ran.at("/is_safe") == false, "not safe");
    let violation = ran.violations().first().cloned().unwrap_or_default();
    ran.expect(violation["path"] == "/etc/shadow", "the path");
    ran.expect(violation["action"] == "kill", "the action");
    ran.expect(violation["severity"] == "critical", "the severity");
    ran.expect(
        violation["technique"]
            .as_str()
            .is_some_and(|technique| technique.starts_with("T1")),
        "the technique",
    );
    ran.expect(
        violation["rule"]
            .as_str()
            .is_some_and(|rule| !rule.is_empty()),
        "the rule",
    );
    ran.expect(violation.to_string().contains("attack.py"), "the process");
    ran.expect(!ran.stdout.contains("content:"), "no byte of it came out");
    ran.expect(ran.stderr.contains("/etc/shadow"), "and people are told");
}

#[test]
fn observing_lets_it_run_and_reports_the_same() {
    let ran = Run::new().option("--mode observe").python(READ_SHADOW);
    ran.expect_code(0);
    ran.expect(ran.stdout.contains("content:"), "it ran to its end");
    let violation = ran.violations().first().cloned().unwrap_or_default();
    ran.expect(violation["path"] == "/etc/shadow", "the same path");
    ran.expect(violation["action"] == "log", "only logged");
}

#[test]
fn a_file_that_is_not_there_was_tried_all_the_same() {
    let ran = Run::new().python("open('/root/.ssh/id_rsa')");
    ran.expect_code(121);
    let violation = ran.violations().first().cloned().unwrap_or_default();
    ran.expect(
        violation["path"] == "/root/.ssh/id_rsa",
        "the attempt is named",
    );
}

#[test]
fn a_relative_attempt_on_a_missing_file_is_seen() {
    let ran = Run::new().shell("cd /tmp && cat ../root/.aws/credentials; echo survived");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("survived"), "the shell died too");
}

#[test]
fn the_whole_jail_dies_with_the_offender() {
    let program = "import os, time
if os.fork() == 0:
    open('/etc/shadow')
    os._exit(0)
time.sleep(2)
print('parent lived', flush=True)";
    let ran = Run::new().python(program);
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("parent lived"), "the parent died too");
}

#[test]
fn strict_allows_no_second_program() {
    let ran = Run::new()
        .option("--profile strict")
        .python("import os; os.system('cat /etc/passwd')");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("root:"), "nothing was read");
    let outside_strict = Run::new().python("import os; os.system('cat /etc/passwd')");
    outside_strict.expect_code(0);
    outside_strict.expect(
        outside_strict.stdout.contains("jail:"),
        "the control: allowed by untrusted",
    );
}

#[test]
fn j19_m11_a_program_in_memory_is_not_run() {
    let program = "import os
fd = os.memfd_create('payload')
os.write(fd, open('/bin/echo', 'rb').read())
os.execve(fd, ['echo', 'fileless'], {})";
    let ran = Run::new().python(program);
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("fileless"), "it never ran");
    let control = Run::new().option("--mode observe").python(program);
    control.expect(
        control.stdout.contains("fileless"),
        "the control: without the rule it does",
    );
}

#[test]
fn m28_what_seccomp_refuses_is_still_seen() {
    let program = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno(), flush=True)";
    let ran = Run::new().option("--mode observe").python(program);
    ran.expect(ran.stdout == "-1 1\n", "refused with EPERM");
    ran.expect(
        ran.violations()
            .iter()
            .any(|violation| violation.to_string().contains("ptrace")),
        "and reported",
    );
}

#[test]
fn mounting_is_killed() {
    let program = "import ctypes
libc = ctypes.CDLL(None)
libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)
print('still here', flush=True)";
    let ran = Run::new().python(program);
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("still here"), "dead at once");
}

#[test]
fn the_process_tree_is_told() {
    let ran = Run::new().shell("true | /bin/cat; /bin/echo end");
    ran.expect_code(0);
    let programs: Vec<_> = ran
        .list("/processes")
        .iter()
        .map(|process| process["argv"].to_string())
        .collect();
    ran.expect(
        programs
            .iter()
            .any(|argv| argv.contains("/bin/echo") && argv.contains("end")),
        "echo with its argument",
    );
    ran.expect(programs.iter().any(|argv| argv.contains("cat")), "cat");
}

#[test]
fn every_layer_is_proved_in_the_report() {
    let ran = Run::new().shell("true");
    let layers = ran.list("/enforcement");
    ran.expect(layers.len() == 18, "eighteen layers");
    for layer in layers {
        ran.expect(
            layer["proof"]
                .as_str()
                .is_some_and(|proof| !proof.is_empty()),
            &layer.to_string(),
        );
        ran.expect(layer["degraded"].is_null(), &layer.to_string());
    }
}

#[test]
fn events_are_written_without_gaps() {
    let run = Run::new();
    let events = run.path().with_extension("events.jsonl");
    let ran = run
        .option(&format!("--events {}", events.display()))
        .shell("cat /etc/hostname");
    let text = std::fs::read_to_string(&events).unwrap();
    std::fs::remove_file(&events).unwrap();
    ran.expect_code(0);
    let sequence: Vec<u64> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"]
                .as_u64()
                .unwrap()
        })
        .collect();
    ran.expect(!sequence.is_empty(), "there are events");
    ran.expect(
        sequence.iter().copied().eq(0..sequence.len() as u64),
        "numbered from 0 without gaps",
    );
    ran.expect(text.contains("/etc/hostname"), "the open is there");
}

#[test]
fn hostile_names_cannot_steer_a_terminal_or_break_json() {
    let program = "import os
name = b'/root/.ssh/id_\\x1b[2J\\n\\xff\"'
open(name)";
    let ran = Run::new().python(program);
    ran.expect_code(121);
    ran.expect(
        !ran.stderr.contains('\u{1b}'),
        "no escape byte on the terminal",
    );
    ran.expect(!ran.report.is_null(), "the report parses");
    ran.expect(
        ran.violations()
            .first()
            .is_some_and(|violation| violation["path"].to_string().contains("\\\\x1b")),
        "escaped",
    );
}

#[test]
fn the_kill_needs_no_reader() {
    use nix::sys::signal::{Signal, kill};
    let shared = turnkey_tests::callers_scratch();
    let place = |name: &str| shared.path().join(name);
    let directory = shared.path().display();
    let script = format!(
        "echo x > {directory}/ready; sleep 1; cat /etc/shadow > {directory}/stolen; echo x > {directory}/alive; sleep 60"
    );
    let run = Run::new().option(&format!("--write {directory}"));
    let mut command = run.command(&["/bin/sh", "-c", &script]);
    let turnkey = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the program runs", || place("ready").exists());
    let pid = run.maker(&turnkey);
    kill(pid, Signal::SIGSTOP).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let stolen = std::fs::read(place("stolen")).unwrap_or_default();
    let alive = place("alive").exists();
    kill(pid, Signal::SIGCONT).unwrap();
    let output = turnkey_tests::finish(turnkey);
    assert!(stolen.is_empty(), "not a byte was read");
    assert!(
        !alive,
        "the shell died with its cat, though nobody in user space was awake"
    );
    assert_eq!(output.status.code(), Some(121));
}

#[test]
fn events_of_a_run_that_lives_are_replaced_by_no_other() {
    let first = Run::new();
    let events = first.path().with_extension("shared.jsonl");
    let option = format!("--quiet --events {}", events.display());
    let first = first.option(&option);
    let mut command = first.command(&["sh", "-c", "read x; cat /etc/hostname"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the first one writes", || events.exists());
    let second = Run::new().option(&option).shell("cat /etc/passwd");
    second.expect_code(125);
    let word = "name another file with --events";
    second.expect(second.stderr.contains(word), "told");
    drop(child.stdin.take());
    child.wait().unwrap();
    let text = std::fs::read_to_string(&events).unwrap();
    assert!(text.contains("/etc/hostname") && !text.contains("/etc/passwd"));
    // Its name is free from then on.
    let third = Run::new().option(&option).shell("cat /etc/passwd");
    third.expect_code(0);
    let text = std::fs::read_to_string(&events).unwrap();
    assert!(text.contains("/etc/passwd") && !text.contains("/etc/hostname"));
    std::fs::remove_file(&events).unwrap();
}
