//! Limits that a program meets and lives on after: the run goes on, and the report says what was refused, and how often.

use serde_json::Value;
use turnkey_tests::{Ran, Run};

fn finding<'a>(ran: &'a Ran, id: &str) -> Option<&'a Value> {
    ran.list("/findings").iter().find(|one| one["id"] == id)
}

/// Shows that the run went on after a limit, which is told with its count and its flag, and speaks against nobody.
fn is_told(ran: &Ran, id: &str, flag: &str) {
    let Some(told) = finding(ran, id) else {
        return ran.expect(false, id);
    };
    let reason = told["reason"].as_str().unwrap_or_default();
    ran.expect(told["count"].as_u64() > Some(0), "with its count");
    ran.expect(
        told["severity"] == "info" && ran.at("/risk_score") == 0,
        "without score",
    );
    ran.expect(ran.at("/verdict") == "clean", "clean");
    ran.expect(reason.contains(flag), "with the flag that raises it");
    ran.expect(ran.stderr.contains(reason), "on the terminal, too");
}

/// Starts more threads than there may be tasks, and goes on without the last.
const THREADS: &str = "import threading, time
threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(40)]
try:
    for thread in threads: thread.start()
except RuntimeError: print('one too many', flush=True)
time.sleep(0.3)
print('goes on')";

#[test]
fn a_refused_task_is_the_programs_to_handle() {
    let ran = Run::new().option("--pids 20").python(THREADS);
    ran.expect_code(0);
    ran.expect(ran.stdout == "one too many\ngoes on\n", "it went on");
    is_told(&ran, "turnkey:pids", "--pids 40");
    let killed = Run::new()
        .option("--pids 20 --on-pids kill")
        .python(THREADS);
    killed.expect_code(122);
    killed.expect(!killed.stdout.contains("goes on"), "the control is killed");
    let roomy = Run::new().option("--pids 100").python(THREADS);
    roomy.expect(roomy.stdout == "goes on\n", "nobody is refused with room");
    roomy.expect(finding(&roomy, "turnkey:pids").is_none(), "nor told so");
}

/// Has a child take more memory than there is, and goes on.
const CHILD: &str = "import subprocess, sys, time
child = subprocess.run([sys.executable, '-c', 'bytearray(200 << 20)'])
time.sleep(0.3)
print('child', child.returncode)";

#[test]
fn a_child_killed_for_memory_is_its_parents_to_handle() {
    let ran = Run::new().option("--memory 64M").python(CHILD);
    ran.expect_code(0);
    ran.expect(ran.stdout == "child -9\n", "the child alone was killed");
    is_told(&ran, "turnkey:memory", "--memory 128M");
    let killed = Run::new()
        .option("--memory 64M --on-memory kill")
        .python(CHILD);
    killed.expect_code(122);
    killed.expect(killed.stdout.is_empty(), "the control is killed whole");
}

#[test]
fn a_cut_file_is_told_whoever_cuts_it() {
    let child = "head -c 2M /dev/zero > f; true";
    let ignores = "python3 -c 'open(\"f\", \"wb\").write(b\"x\" * (2 << 20))'; true";
    let sparse = "python3 -c 'import os; os.truncate(os.open(\"f\", 66), 2 << 20)'; true";
    for script in [child, ignores, sparse] {
        let ran = Run::new().option("--file-size 1M").shell(script);
        ran.expect_code(0);
        is_told(&ran, "turnkey:file-size", "--file-size 2M");
        let roomy = Run::new().option("--file-size 3M").shell(script);
        roomy.expect(finding(&roomy, "turnkey:file-size").is_none(), "not cut");
    }
}

/// Makes fifty of them, and goes on without the last.
fn fifty(make: &str) -> String {
    format!(
        "import os, socket
kept = []
for _ in range(50):
    try: kept.append({make})
    except OSError: pass
os.closerange(3, 60)
print(len(kept))"
    )
}

#[test]
fn open_files_that_are_too_many_are_told_whatever_opens_them() {
    for make in [
        "open('/dev/null')",
        "os.pipe()",
        "os.dup(1)",
        "socket.socket()",
        "os.memfd_create('m')",
    ] {
        let script = fifty(make);
        let ran = Run::new().option("--open-files 40").python(&script);
        ran.expect_code(0);
        ran.expect(ran.stdout != "50\n", "not all of them");
        is_told(&ran, "turnkey:open-files", "--open-files 80");
        let roomy = Run::new().option("--open-files 200").python(&script);
        roomy.expect(roomy.stdout == "50\n", "all of them with room");
        let told = finding(&roomy, "turnkey:open-files");
        roomy.expect(told.is_none(), "nor told so");
    }
    let insists = fifty("os.dup(1)").replace("range(50)", "range(600)");
    let ran = Run::new().option("--open-files 40").python(&insists);
    let found = finding(&ran, "behaviour:exhaustion");
    ran.expect(found.is_some(), "who insists");
}

#[test]
fn a_write_without_room_is_told() {
    let script = "head -c 3M /dev/zero > /tmp/f; true";
    let ran = Run::new().option("--scratch /tmp=1M").shell(script);
    ran.expect_code(0);
    is_told(&ran, "turnkey:room", "--scratch /tmp=SIZE");
    let roomy = Run::new().option("--scratch /tmp=8M").shell(script);
    roomy.expect(finding(&roomy, "turnkey:room").is_none(), "with room");
}

#[test]
fn who_insists_on_more_tasks_is_a_fork_bomb() {
    let insists = "import os, time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
    except OSError: pass";
    let ran = Run::new().option("--pids 20").python(insists);
    ran.expect_code(0);
    ran.expect(
        finding(&ran, "behaviour:fork-bomb").is_some(),
        "named for what it is",
    );
    ran.expect(
        finding(&ran, "behaviour:exhaustion").is_none(),
        "one word for one thing",
    );
}
