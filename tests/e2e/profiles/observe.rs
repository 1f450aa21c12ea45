//! `observe`: no rule stops anything, everything is told, and the jail holds all the same.

use std::net::TcpListener;

use turnkey_tests::{Ran, Run};

use super::{passed, told, under};

/// A rule spoke, nothing was killed, and the program went on to its end.
#[track_caller]
fn lived(ran: &Ran, rule: &str) {
    told(ran, rule);
    ran.expect_code(0);
    ran.expect(ran.at("/status") == "exited", "by itself");
    ran.expect(ran.stdout.ends_with("survived\n"), "it went on");
    let mut actions = ran
        .violations()
        .iter()
        .map(|violation| &violation["action"]);
    ran.expect(actions.all(|action| action == "log"), "rules only speak");
}

#[test]
fn a_script_passes_with_every_program_recorded() {
    let ran = under("observe")
        .with_events()
        .shell("echo b a | tr ' ' '\\n' | sort; /bin/true");
    passed(&ran, "a\nb\n");
    let started: Vec<_> = ran
        .list("/processes")
        .iter()
        .map(|process| &process["exe"]["path"])
        .collect();
    for program in ["/usr/bin/tr", "/usr/bin/sort", "/usr/bin/true"] {
        ran.expect(started.iter().any(|exe| *exe == program), program);
    }
    ran.expect(ran.at("/events/complete") == true, "nothing is missing");
}

#[test]
fn a_program_passes_with_every_file_recorded() {
    let program = "open('out', 'w').write('x'); print(open('out').read())";
    let ran = under("observe").run(&["/usr/bin/python3", "-c", program]);
    passed(&ran, "x\n");
    let mut told = ran.list("/file_operations").iter();
    ran.expect(
        told.any(|file| file["path"] == "/workspace/out"),
        "the file is told",
    );
}

#[test]
fn a_compiler_passes() {
    let run = under("observe").file("a.c", "int main(void) { return 0; }");
    passed(&run.shell("gcc a.c && ./a.out && echo built"), "built\n");
}

#[test]
fn who_reads_passwords_lives_and_sees_the_decoy_alone() {
    let real = std::fs::read_to_string("/etc/shadow").expect("a test runs as root");
    let first = real
        .lines()
        .next()
        .expect("the control: root reads it outside")
        .to_owned();
    let ran = under("observe").shell("cat /etc/shadow; echo survived");
    lived(&ran, "credential-file");
    ran.expect(
        !ran.stdout.contains(&first),
        "what is real stays out of reach",
    );
}

#[test]
fn who_connects_lives_and_reaches_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let script = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2> /dev/null; echo survived");
    listener.set_nonblocking(true).expect("it can be set");
    turnkey_tests::outside("/bin/bash", &["-c", &script]);
    assert!(listener.accept().is_ok(), "the control: somebody came");
    let ran = under("observe").run(&["/bin/bash", "-c", &script]);
    ran.expect(listener.accept().is_err(), "nobody came");
    lived(&ran, "network-connect");
}

#[test]
fn who_stays_in_the_shell_lives_and_changes_nothing_of_the_host() {
    let run: Run = under("observe").file(".bashrc", "as it was\n");
    let ran = run.shell("echo alias >> .bashrc; wc -l < .bashrc; echo survived");
    lived(&ran, "shell-startup");
    ran.expect(
        ran.stdout.starts_with("2\n"),
        "the control: inside it was changed",
    );
    let kept = std::fs::read_to_string(ran.directory.path().join(".bashrc")).expect("there");
    ran.expect(kept == "as it was\n", "outside it is as it was");
}

#[test]
fn who_looks_into_another_process_lives_and_does_not() {
    let program = "import ctypes, os, time
child = os.fork()
if child == 0: time.sleep(5); os._exit(0)
print(ctypes.CDLL(None, use_errno=True).ptrace(16, child, 0, 0)); os.kill(child, 9); print('survived')";
    let (_, control) = turnkey_tests::outside("/usr/bin/python3", &["-c", program]);
    assert_eq!(control, "0\nsurvived\n", "the control: outside one can");
    let ran = under("observe").run(&["/usr/bin/python3", "-c", program]);
    ran.expect(ran.stdout.starts_with("-1\n"), "refused all the same");
    lived(&ran, "process-injection");
}
