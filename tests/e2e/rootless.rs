//! Runs without the monitor, and runs of a caller without privileges.

mod containers;
mod delegated;
mod processes;
mod ranges;

use turnkey_tests::{NOBODY, Run, as_nobody};

#[test]
fn unmonitored_runs_and_never_calls_it_clean() {
    let ran = Run::new()
        .option("--unmonitored")
        .python("print(1); raise SystemExit(7)");
    ran.expect_code(7);
    ran.expect(ran.stdout == "1\n", "the program ran");
    ran.expect(ran.at("/verdict") == "inconclusive", "nobody watched");
    ran.expect(ran.at("/is_safe") == false, "not safe");
    ran.expect(ran.at("/events/complete") == false, "no evidence");
    let monitor = ran
        .list("/enforcement")
        .iter()
        .find(|layer| layer["layer"] == "monitor")
        .expect("the monitor's layer is in the report");
    ran.expect(monitor["effective"] == "nothing", "no monitor");
    ran.expect(
        monitor["degraded"] == "not loaded: --unmonitored",
        "the reason is told",
    );
    ran.expect(
        ran.stderr.contains("less is enforced than was asked for"),
        "the terminal tells",
    );
}

#[test]
fn on_loss_asks_for_evidence_of_a_watched_run_only() {
    let run = || Run::new().option("--on-loss fail");
    // The control: a watched run loses nothing either.
    run().shell("true").expect_code(0);
    run().option("--unmonitored").shell("exit 3").expect_code(3);
}

#[test]
fn unmonitored_still_holds_every_other_layer() {
    let ran = Run::new()
        .option("--unmonitored")
        .shell("cat /etc/shadow; echo x > /usr/made; sleep 0.01");
    let proved = ran.list("/enforcement").iter();
    let without: Vec<_> = proved
        .filter(|layer| layer["proof"].is_null())
        .map(|layer| layer["layer"].as_str().unwrap_or_default())
        .collect();
    ran.expect(without == ["monitor"], "all others are proved");
    ran.expect(ran.stderr.contains("/usr/made"), "the write was tried");
    ran.expect(
        !std::path::Path::new("/usr/made").exists(),
        "the write had no effect",
    );
    ran.expect(ran.stdout.starts_with("root:!*"), "it read the decoy");
}

#[test]
fn an_unprivileged_caller_gets_the_jail() {
    let ran = Run::rootless().run(&["python3", "-c", "print(1)"]);
    ran.expect_code(0);
    ran.expect(ran.stdout == "1\n", "it printed 1");
    let unproved: Vec<_> = ran
        .list("/enforcement")
        .iter()
        .filter(|layer| layer["proof"].is_null())
        .map(|layer| layer["layer"].as_str().unwrap_or_default())
        .collect();
    let cannot = ["memory", "pids", "cpu", "monitor"];
    ran.expect(unproved == cannot, "all that can be had is proved");
    let told = ran
        .list("/enforcement")
        .iter()
        .filter(|layer| !layer["degraded"].is_null())
        .count();
    ran.expect(told == cannot.len(), "and what cannot is told");
    ran.expect(
        ran.stderr.contains("memory, pids, cpu: no control group"),
        "on the terminal as well",
    );
    ran.expect(ran.at("/verdict") == "inconclusive", "nobody watched");
}

#[test]
fn without_the_callers_word_an_unprivileged_run_ends_before_it_begins() {
    let ran = Run::new()
        .by_nobody()
        .shell("echo ran; echo x > /workspace/file");
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    let error = ran.at("/error").as_str().unwrap_or_default().to_owned();
    for part in [
        "memory, pids, cpu: no control group is delegated",
        "monitor: only privileges",
        "fix: run turnkey as root, or do without them and have the report say so: --best-effort",
    ] {
        ran.expect(error.contains(part), part);
        ran.expect(ran.stderr.contains(part), part);
    }
}

#[test]
fn a_profile_can_do_without_what_the_unprivileged_cannot_have() {
    let profile = r#"
schema = "turnkey.profile/v1"
name = "modest"
extends = ["untrusted"]

[enforcement]
required = ["user-namespace", "mount-namespace", "pid-namespace", "network-namespace", "root", "capabilities", "seccomp", "landlock"]
"#;
    let run = Run::new().by_nobody().file("modest.toml", profile);
    let ran = run.option("--profile modest.toml").shell("echo ran");
    ran.expect_code(0);
    ran.expect(ran.stdout == "ran\n", "it ran");
    let monitor = ran
        .list("/enforcement")
        .iter()
        .find(|layer| layer["layer"] == "monitor")
        .and_then(|layer| layer["degraded"].as_str())
        .unwrap_or_default();
    ran.expect(!monitor.is_empty(), "it was tried, and is told as missing");
    ran.expect(
        monitor != "not loaded: --unmonitored",
        "nobody asked for that",
    );
    ran.expect(ran.at("/verdict") == "inconclusive", "nobody watched");
}

#[test]
fn the_unprivileged_callers_workspace_is_an_overlay() {
    let run = Run::rootless().file("kept", "as it was\n");
    let ran = run.shell("cat kept && echo changed > kept && echo new > made && rm -f kept && ls");
    ran.expect_code(0);
    ran.expect(ran.stdout == "as it was\nmade\n", "it could write inside");
    let kept = std::fs::read_to_string(ran.directory.path().join("kept"));
    ran.expect(
        kept.unwrap_or_default() == "as it was\n",
        "the host's is untouched",
    );
    ran.expect(!ran.directory.path().join("made").exists(), "no new file");
    let changed: Vec<_> = ran
        .list("/files_changed")
        .iter()
        .map(|file| (file["path"].clone(), file["change"].clone()))
        .collect();
    let expected = [("kept", "deleted"), ("made", "added")];
    ran.expect(
        changed == expected.map(|(path, change)| (path.into(), change.into())),
        "the report lists the changes",
    );
}

/// The callers own files, which the same number could write outside of the jail.
#[test]
fn the_callers_other_files_are_out_of_reach() {
    let other = turnkey_tests::scratch();
    let file = other.path().join("own");
    std::fs::write(&file, "private\n").unwrap();
    for path in [other.path(), &file] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let script = format!("cat {0}; echo broken > {0}", file.display());
    // The control: outside of the jail the same user reads and writes it.
    let (_, outside) = as_nobody(
        "sh",
        &[
            "-c",
            &format!("cat {0}; echo private > {0}", file.display()),
        ],
    );
    assert_eq!(outside, "private\n");
    let ran = Run::rootless().shell(&script);
    ran.expect(ran.stdout.is_empty(), "not read");
    ran.expect(ran.stderr.contains("own"), "it was tried");
    let content = std::fs::read_to_string(&file).unwrap();
    ran.expect(content == "private\n", "not written");
}

#[test]
fn results_come_out_as_the_callers_own() {
    let run = Run::rootless();
    let place = run.path().join("out");
    let run = run.option("--export out");
    let ran = run.shell("echo result > made && chmod 600 made && ln -s /etc/passwd link");
    ran.expect_code(0);
    let made = place.join("made");
    let content = std::fs::read_to_string(&made).unwrap_or_default();
    ran.expect(content == "result\n", "the file came out");
    let metadata = made.metadata().unwrap();
    let owner = std::os::unix::fs::MetadataExt::uid(&metadata);
    ran.expect(owner == NOBODY, "and belongs to the caller");
    let link = std::fs::read_link(place.join("link")).unwrap();
    ran.expect(
        link == std::path::Path::new("/etc/passwd"),
        "a link is a link",
    );
}

/// Makes 200 processes, and tells how many could be.
pub const FORKS: &str = "
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, error.errno, flush=True)
time.sleep(20)
";

#[test]
fn an_unprivileged_fork_bomb_is_bounded_and_ended() {
    // Somebody else's jail and the caller's own processes count for themselves.
    let mut sleepers: Vec<_> = (0..12).map(|_| sleeper()).collect();
    let ran = Run::rootless().option("--pids 10").python(FORKS);
    let alive = sleepers
        .iter_mut()
        .filter_map(|child| child.try_wait().ok())
        .filter(Option::is_none)
        .count();
    for mut child in sleepers {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    ran.expect(alive == 12, "the caller's own processes live");
    ran.expect_code(122);
    // 11 tasks in all: the jail's init and the program among them.
    ran.expect(ran.stdout == "9 11\n", "the kernel refused, EAGAIN");
    ran.expect(ran.at("/status") == "limit_exceeded", "and it was ended");
    ran.expect(ran.stderr.contains("tasks: 11 of 10 at once"), "in words");
}

fn sleeper() -> std::process::Child {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new("sleep");
    let command = command.arg("60").uid(NOBODY).gid(NOBODY);
    command.spawn().expect("a program of the host")
}

/// Four processes that together hold more than is allowed, and none alone.
const HOGS: &str = "
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = b'x' * (24 << 20)
        time.sleep(20)
        os._exit(0)
time.sleep(20)
";

#[test]
fn memory_of_the_whole_tree_is_looked_at() {
    let ran = Run::rootless().option("--memory 64M").python(HOGS);
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "out of memory");
    ran.expect(ran.stderr.contains("memory: used "), "in words");
    ran.expect(ran.stderr.contains("of 64 MiB"), "with the limit");
    ran.expect(ran.took.as_secs() < 15, "soon");
}

#[test]
fn what_is_written_counts_as_memory() {
    let script = "for i in 1 2 3; do head -c 10M /dev/zero > file$i; done; sleep 20";
    let ran = Run::rootless().option("--memory 24M").shell(script);
    ran.expect_code(122);
    ran.expect(ran.at("/status") == "out_of_memory", "out of memory");
}

#[test]
fn memory_that_is_shared_counts_once() {
    let ran = Run::rootless().option("--memory 64M").python(
        "
import os, time
held = b'x' * (24 << 20)
for _ in range(4):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
for _ in range(4):
    os.wait()
print('done')
",
    );
    ran.expect_code(0);
    ran.expect(ran.stdout == "done\n", "nobody was killed for it");
}

#[test]
fn cpu_time_of_the_whole_tree_is_looked_at() {
    let program = "
import os
os.fork(); os.fork()
while True:
    pass
";
    let ran = Run::rootless().option("--cpu-time 1s").python(program);
    ran.expect_code(124);
    ran.expect(ran.stderr.contains("CPU time: used "), "in words");
}

#[test]
fn a_daemon_of_an_unprivileged_jail_dies_with_it() {
    turnkey_tests::unprivileged(crate::leftovers::a_daemon_dies_with_its_jail);
}

#[test]
fn a_killed_unprivileged_turnkey_takes_every_process_with_it() {
    turnkey_tests::unprivileged(crate::leftovers::a_killed_turnkey_takes_every_process_with_it);
}

#[test]
fn turnkey_with_somebody_elses_rights_refuses() {
    use std::os::unix::fs::PermissionsExt;
    let directory = turnkey_tests::scratch();
    let copy = directory.path().join("turnkey");
    std::fs::copy(turnkey_tests::binary(), &copy).unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(directory.path(), mode(0o755)).unwrap();
    std::fs::set_permissions(&copy, mode(0o4755)).unwrap();
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new(&copy);
    let command = command.args(["run", "--", "true"]).uid(NOBODY).gid(NOBODY);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("set-user-ID"), "{said}");
}

#[test]
fn the_callers_own_processes_cannot_be_signalled() {
    let mut sleeper = sleeper();
    let pid = sleeper.id().to_string();
    // The control: the same user can outside.
    let mut other = self::sleeper();
    as_nobody("kill", &["-KILL", &other.id().to_string()]);
    assert_eq!(other.wait().unwrap().code(), None, "the control: killed");
    let ran = Run::rootless().shell(&format!("kill -KILL {pid}; kill -KILL -1; true"));
    let alive = sleeper.try_wait().unwrap().is_none();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    ran.expect(alive, "the caller's process lives");
}

#[test]
fn a_listener_of_the_host_is_out_of_an_unprivileged_jails_reach() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = format!(
        "import socket
try:
    socket.create_connection(('127.0.0.1', {port}), 2)
    print('connected')
except OSError as e:
    print('refused', e.errno)"
    );
    let (_, outside) = as_nobody("python3", &["-c", &program]);
    assert_eq!(outside, "connected\n", "the control");
    drop(listener.accept().unwrap());
    let ran = Run::rootless().python(&program);
    listener.set_nonblocking(true).unwrap();
    ran.expect(listener.accept().is_err(), "nobody came");
    // EACCES from Landlock, where the kernel's knows TCP; else there is no way to go, ENETUNREACH.
    let refused = ["refused 13\n", "refused 101\n"];
    ran.expect(refused.contains(&ran.stdout.as_str()), "refused");
}

/// The tests of other files that need no root run a second time, by nobody.
mod again {
    use turnkey_expectations::expected;

    expected!(
        not_on[ORDINARY_6_12],
        "the same tests run here as root; what is different without is the rest of \
         `rootless::`"
    );
    expected!(
        j23_j24_j28_j45_every_number_of_every_table_is_answered_as_the_table_says: at_night,
        "every number once more; `syscalls::j23_` has them by day, and other callers \
         `rootless::`"
    );

    macro_rules! by_nobody {
        ($($file:ident::$test:ident)*) => { $(
            #[test]
            fn $test() {
                turnkey_tests::unprivileged(crate::$file::$test);
            }
        )* };
    }

    crate::again::of_every_caller!(by_nobody);
    by_nobody! {
        filesystem::j09_a_mount_inside_a_read_only_directory_is_read_only_too
        kernel_objects::j38_nobody_is_made_to_wait_by_a_lease
        syscalls::j23_j24_j28_j45_every_number_of_every_table_is_answered_as_the_table_says
    }
}
