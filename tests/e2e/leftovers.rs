//! Nothing outlives a run, however it ends.

use std::process::Stdio;

use turnkey_tests::{Run, as_nobody, eventually, traces};

/// The tests of this file look at the whole host, so they wait for one another and for the jails
/// of other tests to be gone.
fn alone() -> std::fs::File {
    let lock = std::fs::File::create(std::env::temp_dir().join("turnkey-tests-alone.lock"))
        .expect("a test can make a file");
    lock.lock().expect("a file can be locked");
    lock
}

#[test]
fn an_ordinary_run_leaves_nothing() {
    let _alone = alone();
    let ran = Run::new().shell("echo x > /tmp/file; echo y > made; sleep 0.05");
    let group = group_of(&ran);
    ran.expect_code(0);
    ran.expect(!group.is_empty(), "the run had a group of its own");
    eventually("its groups are gone", || {
        !traces().iter().any(|trace| trace.contains(&group))
    });
    ran.expect(
        std::fs::read_dir(ran.directory.path()).unwrap().count() == 0,
        "no file is left",
    );
}

#[test]
pub fn a_daemon_dies_with_its_jail() {
    let ran = Run::new().python(
        "import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print('daemon', flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(0.3)",
    );
    ran.expect_code(0);
    ran.expect(ran.stdout == "daemon\n", "the daemon ran");
    ran.expect(ran.took.as_secs() < 20, "nobody waited for it");
}

/// A run of a sleeper, started now.
fn start_sleeper(run: &Run, marker: &str) -> std::process::Child {
    let script = format!("sleep {marker} & exec sleep {marker}");
    let mut command = run.command(&["/bin/sh", "-c", &script]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("turnkey can be started")
}

/// Kills turnkey and waits for every trace of its jail to be gone.
fn kill_and_look(run: &Run, mut turnkey: std::process::Child, when: &str) {
    let mark = format!("turnkey-{}-", turnkey.id());
    turnkey.kill().expect("it can be killed");
    turnkey.wait().expect("it can be waited for");
    let what = format!("every group is gone, killed {when}");
    eventually(&what, || {
        !traces().iter().any(|trace| trace.contains(&mark))
    });
    let files = std::fs::read_dir(run.path())
        .expect("the directory is there")
        .count();
    assert_eq!(files, 0, "no file, killed {when}");
}

#[test]
fn j51_a_killed_turnkey_leaves_nothing() {
    let _alone = alone();
    let marker = format!("5{}", std::process::id());
    let run = Run::new();
    let begun = std::time::Instant::now();
    let turnkey = start_sleeper(&run, &marker);
    eventually("the program runs", || sleepers(&marker) == 2);
    let start = begun.elapsed();
    let mark = format!("turnkey-{}-", turnkey.id());
    let groups = traces()
        .iter()
        .filter(|trace| trace.contains(&mark))
        .count();
    assert!(groups >= 1, "the control: a running jail has groups");
    kill_and_look(&run, turnkey, "while the program runs");
    // Every part of the way there: most of what is made, is made in the last tenths.
    for percent in [0, 25, 50, 70, 80, 85, 90, 92, 94, 96, 98, 100, 105] {
        let run = Run::new();
        let turnkey = start_sleeper(&run, &marker);
        std::thread::sleep(start * percent / 100);
        kill_and_look(&run, turnkey, &format!("after {percent} % of a start"));
    }
    eventually("no sleeper is left", || sleepers(&marker) == 0);
}

/// A lock says that a group has an owner: with one, anybody could keep what is left from ever being removed.
#[test]
fn no_stranger_holds_a_lock_on_the_groups_of_a_jail() {
    let run = Run::new();
    let marker = format!("6{}", std::process::id());
    let mut turnkey = start_sleeper(&run, &marker);
    eventually("the program runs", || sleepers(&marker) == 2);
    let mark = format!("turnkey-{}-", turnkey.id());
    let groups: Vec<_> = traces()
        .into_iter()
        .filter(|trace| trace.contains(&mark))
        .collect();
    assert!(
        groups
            .iter()
            .any(|group| group.starts_with("/sys/fs/cgroup/")),
        "{groups:?}"
    );
    for group in groups
        .iter()
        .filter(|group| group.starts_with("/sys/fs/cgroup/"))
    {
        let [parent, group] = [group.rsplit_once('/').expect("a path").0, group];
        let lock = |directory| as_nobody("flock", &["--nonblock", "--shared", directory, "true"]).0;
        assert!(lock(parent).success(), "the control: {parent}");
        assert!(!lock(group).success(), "{group}");
    }
    turnkey.kill().expect("it can be killed");
    turnkey.wait().expect("it can be waited for");
}

#[test]
pub fn a_killed_turnkey_takes_every_process_with_it() {
    let run = Run::new();
    let marker = format!("3{}", std::process::id());
    let script = format!("setsid sleep {marker} & sleep {marker}");
    let mut child = run
        .command(&["/bin/sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("both sleepers are there", || sleepers(&marker) == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("no sleeper is left", || sleepers(&marker) == 0);
}

#[test]
fn an_interrupted_turnkey_ends_the_jail_and_says_so() {
    let run = Run::new();
    let marker = format!("4{}", std::process::id());
    let child = run
        .command(&["sleep", &marker])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the program runs", || sleepers(&marker) == 1);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let output = turnkey_tests::finish(child);
    assert_eq!(
        output.status.code(),
        Some(128 + 15),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn sleepers(marker: &str) -> usize {
    let wanted = format!("sleep\0{marker}\0");
    let processes = std::fs::read_dir("/proc")
        .expect("/proc is mounted")
        .flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line == wanted.as_bytes()).count()
}

/// The name of the jail's control group, from what the memory layer says of itself.
fn group_of(ran: &turnkey_tests::Ran) -> String {
    ran.at("/id").as_str().unwrap_or_default().to_owned()
}
