//! Watchers that are killed behind one of the calls by which they change what all watchers share: whoever comes next finds and
//! removes what is left of them.

use std::fs::File;
use std::process::Command;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::Value;
use turnkey_expectations::expected;
use turnkey_tests::{binary, nothing_is_loaded};

use super::{Attached, OthersGroup};
use crate::tracer::start_stopped;

/// A change of what all watchers share, by a call of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// bpf(2), `BPF_MAP_UPDATE_ELEM`.
    Update,
    /// The same for a key that must be new: the group itself.
    Enter,
    /// bpf(2), `BPF_MAP_DELETE_ELEM`.
    Delete,
    /// Of a file or directory in the BPF file system, or of control groups.
    Remove,
}

/// Commands of bpf(2), and the flag of a key that must be new: `linux/bpf.h`.
const UPDATE: u64 = 2;
const DELETE: u64 = 3;
const NOEXIST: i64 = 1;
/// The place of the flags in what an update is handed.
const FLAGS: usize = 24;

impl Change {
    /// The change by the call that a process is in.
    fn current(pid: Pid) -> Option<Change> {
        let registers = ptrace::getregs(pid).expect("it has stopped");
        let flags = || {
            let place = usize::try_from(registers.rsi).expect("an address") + FLAGS;
            ptrace::read(pid, std::ptr::without_provenance_mut(place)).expect("its arguments")
        };
        match i64::try_from(registers.orig_rax).expect("a number") {
            libc::SYS_bpf if registers.rdi == UPDATE && flags() == NOEXIST => Some(Change::Enter),
            libc::SYS_bpf if registers.rdi == UPDATE => Some(Change::Update),
            libc::SYS_bpf if registers.rdi == DELETE => Some(Change::Delete),
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => Some(Change::Remove),
            _ => None,
        }
    }
}

/// Has a watcher take the group and let it go; the changes that its first thread has made, up to the one of that number,
/// behind which it is killed.
fn changes_until(last: usize, group: &OthersGroup) -> Vec<Change> {
    let mut command = Command::new(binary());
    command.args(["attach", "--cgroup", &group.name, "--for", "10ms"]);
    let nothing = || File::options().write(true).open("/dev/null");
    let pid = start_stopped(&command, [(); 2].map(|()| nothing().expect("it is there")));
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC;
    ptrace::seize(pid, options).expect("a child can be traced");
    kill(pid, Signal::SIGCONT).expect("a child can be signalled");
    let (mut changes, mut is_inside) = (Vec::new(), false);
    loop {
        let signal = match waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it is a child") {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return changes,
            WaitStatus::PtraceSyscall(_) => {
                is_inside = !is_inside;
                changes.extend(Change::current(pid).filter(|_| !is_inside));
                if changes.len() == last {
                    kill(pid, Signal::SIGKILL).expect("a child can be signalled");
                }
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            _ => None,
        };
        // Killed meanwhile: its end is told next.
        let _ = ptrace::syscall(pid, signal);
    }
}

/// The ids of the groups that the kernel holds rules for, of all versions.
fn watched() -> Vec<u64> {
    let mut status = Command::new(binary());
    let told = status.args(["monitor", "status", "--json"]).output();
    let told = told.expect("turnkey can be started");
    let page: Value = serde_json::from_slice(&told.stdout).expect("it is JSON");
    let versions = page["versions"].as_array().expect("a list").iter();
    let jails = versions.flat_map(|version| version["jails"].as_array().expect("a list"));
    jails
        .filter_map(|jail| jail["cgroup_id"].as_u64())
        .collect()
}

/// A watcher that comes and goes, of programs that are loaded.
fn next_comes(group: &OthersGroup) {
    let attached = Attached::to(&["--cgroup", &group.name], &["--for", "10ms"]);
    let (code, report, said) = attached.end();
    assert_eq!(code, 0, "{said}");
    let monitor = report["enforcement"][0]["effective"].as_str();
    let monitor = monitor.expect("words");
    assert!(monitor.contains("programs loaded before"), "{monitor}");
}

/// Files of a slot, and its directory.
const OF_SLOT: usize = 5;

/// The changes behind which by day a watcher is killed: that which makes the group known, and those in the middle of a slot's removal.
fn by_day(all: &[Change]) -> Vec<usize> {
    let places = |meant: Change| (0..all.len()).filter(move |place| all[*place] == meant);
    let removals: Vec<_> = places(Change::Remove).collect();
    let of_slot = &removals[removals.len() - OF_SLOT..];
    let enter = places(Change::Enter);
    enter.chain(of_slot[..3].iter().copied()).collect()
}

/// Kills a watcher behind each of the changes that are meant of all that one makes. Nothing of it is left when the next has come: in
/// another group, and then in the same one.
fn kill_behind(meant: impl Fn(&[Change]) -> Vec<usize>) {
    nothing_is_loaded();
    let [group, other] = [OthersGroup::new(), OthersGroup::new()];
    // As many others as slots stay made: the next slot is made, and removed.
    let others: Vec<_> = (0..4).map(|_| OthersGroup::new()).collect();
    let watch = |group: &OthersGroup| Attached::to(&["--cgroup", &group.name], &[]);
    let watchers: Vec<_> = others.iter().map(watch).collect();
    let theirs = watched();
    assert_eq!(theirs.len(), watchers.len());
    let all = changes_until(usize::MAX, &group);
    assert!(all.contains(&Change::Enter), "{all:?}");
    for place in meant(&all) {
        let changes = changes_until(place + 1, &group);
        next_comes(&other);
        assert_eq!(watched(), theirs, "killed behind the last of {changes:?}");
        next_comes(&group);
    }
    for watcher in watchers {
        watcher.let_go();
        assert_eq!(watcher.end().0, 0);
    }
}

#[test]
fn what_a_watcher_leaves_that_is_killed_in_the_middle_goes_with_the_next() {
    kill_behind(by_day);
}

expected!(
    what_a_watcher_leaves_that_is_killed_anywhere_goes_with_the_next: at_night,
    "three watchers for each of some forty calls; `attach::killed::` in the middle of two steps"
);
#[test]
fn what_a_watcher_leaves_that_is_killed_anywhere_goes_with_the_next() {
    kill_behind(|all| (0..all.len()).collect());
}
