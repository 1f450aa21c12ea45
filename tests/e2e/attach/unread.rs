//! A watcher whose words and events nobody reads: the group is killed, and let go, all the same.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use turnkey_tests::{binary, eventually, finish, scratch};

use super::{Attached, Others, OthersGroup};

/// Acts until its pipe of events is full, and breaks a rule beside a sleeper, who makes no call of which he would die.
const FILLS: &str = "
import os, sys, time
for line in sys.stdin:
    if not line.startswith('go'): break
    if os.fork() == 0:
        time.sleep(600)
    for number in range(3000):
        try: os.unlink(f'/nowhere/{number}')
        except OSError: pass
    print('filled', flush=True)
    sys.stdin.readline()
    open('/etc/shadow').read()
";

fn is_populated(group: &OthersGroup) -> bool {
    let events = std::fs::read_to_string(group.path.join("cgroup.events"));
    events.expect("it is there").contains("populated 1")
}

/// Five seconds, as a reader is waited for so long.
#[test]
fn who_does_not_read_its_events_holds_no_group() {
    let (group, place) = (OthersGroup::new(), scratch());
    let pipe = place.path().join("events");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a new name");
    let mut open = OpenOptions::new();
    let _reader = open
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&pipe)
        .expect("a reader");
    let named = pipe.display().to_string();
    let attached = Attached::to(&["--cgroup", &group.name], &["--events", &named]);
    let mut others = Others::start_with(&group.path, FILLS, &[]);
    assert_eq!(others.ask("go"), "filled");
    let begun = Instant::now();
    assert_eq!(others.ask("go"), "", "it died of it");
    eventually("the sleeper dies as well", || !is_populated(&group));
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    others.end();
    let (_, report, told) = attached.end();
    assert_eq!(report["verdict"], "violated", "{told}");
    assert!(told.contains("nobody has read for 5 s"), "{told}");
}

#[test]
fn who_does_not_read_its_words_holds_no_group() {
    let (group, place) = (OthersGroup::new(), scratch());
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).expect("a pipe");
    let flags = nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).expect("a pipe");
    while nix::unistd::write(&writer, &[b'x'; 4096]).is_ok() {}
    nix::fcntl::fcntl(
        &writer,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()),
    )
    .expect("a pipe");
    let report = place.path().join("report.json");
    let mut command = Command::new(binary());
    command
        .args(["attach", "--cgroup", &group.name, "--report"])
        .arg(&report);
    command.stdin(Stdio::null()).stderr(writer);
    let child = command.spawn().expect("turnkey can be started");
    let watches = || std::fs::read_to_string(&report).is_ok_and(|text| text.contains("watching"));
    eventually("it watches", watches);
    let mut others = Others::start_with(&group.path, FILLS, &[]);
    assert_eq!(others.ask("go"), "filled");
    assert_eq!(others.ask("go"), "", "it died of it");
    eventually("the sleeper dies as well", || !is_populated(&group));
    others.end();
    let ends = || std::fs::read_to_string(&report).is_ok_and(|text| text.contains("\"violated\""));
    eventually("the report is written", ends);
    // The story waits for its reader, as that of every command does.
    drop(reader);
    finish(child);
}
