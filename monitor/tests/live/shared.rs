//! Programs that are loaded once: what one jail has of them, another one cannot take.

use std::os::fd::AsFd;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{Array, Map, MapData};
use aya::programs::BtfTracePoint;
use turnkey_abi::fault;
use turnkey_expectations::expected;
use turnkey_monitor::{Monitor, Tier, compile, shared};
use turnkey_policy::{EnforcementMode, Policy};

use super::faults::faulty;
use super::harness::{
    Group, OBJECT, chain, kill_reading, nothing_is_loaded, policy, python_path, rule, tier,
    unified_hierarchy,
};

const SECRET: &str = "/etc/passwd";

/// Loads the object in a BPF file system that only this test sees.
fn load(object: &[u8]) {
    nothing_is_loaded();
    shared::load(object, tier()).unwrap_or_else(|error| panic!("{}", chain(&error)));
}

/// A monitor on a group, by the programs that are loaded.
fn watch(object: &[u8], policy: &Policy, group: &Group) -> Monitor {
    let rules = compile(policy, tier()).expect("the policy compiles");
    let opened = Monitor::open(object, rules);
    let mut monitor = opened.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(monitor.is_shared(), "it is loaded");
    monitor
        .adopt(group.directory.as_fd(), group.id())
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    monitor
}

/// Runs a program in a group.
fn run(group: &Group, program: &str) -> Output {
    Command::new("/bin/sh")
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(group.path.join("cgroup.procs"))
        .args([python_path(), "-S", "-E", "-B", "-c", program])
        .stdin(Stdio::null())
        .output()
        .expect("a shell can be run")
}

const READ: &str = "print(open('/etc/passwd').read(4))";

/// The jails that the kernel knows.
fn known() -> Vec<u64> {
    let versions = shared::status(OBJECT).expect("it can be asked");
    let jails = versions.into_iter().filter_map(|version| version.jails);
    jails.flatten().map(|jail| jail.cgroup_id).collect()
}

#[test]
fn a_slot_whose_jail_outlives_its_watcher_is_nobody_elses() {
    load(OBJECT);
    let (first, second, third) = (Group::new(), Group::new(), Group::new());
    let forbids = policy(&kill_reading(SECRET));
    let allows = policy("");
    // As when the watcher is killed: nobody takes the rules out, and the lock is free.
    drop(watch(OBJECT, &forbids, &first));
    let next = watch(OBJECT, &allows, &second);
    assert_eq!(run(&second, READ).stdout, b"root\n", "the next one's rules");
    let seen = run(&first, READ);
    assert_eq!(
        seen.stdout, b"",
        "the rules of the first still act: {seen:?}"
    );
    assert!(known().contains(&first.id()), "and the kernel knows it");

    // Once it is gone, its slot is free.
    let gone = first.id();
    drop(first);
    let last = watch(OBJECT, &allows, &third);
    assert!(!known().contains(&gone), "forgotten with its group");
    assert_eq!(run(&third, READ).stdout, b"root\n", "the last one's rules");
    for monitor in [next, last] {
        monitor.finish(drop).expect("the evidence can be read");
    }
}

/// True when tracepoints call the programs.
fn are_called() -> bool {
    let versions = shared::status(OBJECT).expect("it can be asked");
    versions
        .iter()
        .any(|version| version.watching == Some(true))
}

/// The host pays for the programs at tracepoints only while a run is watched.
#[test]
fn programs_that_are_loaded_are_called_as_long_as_somebody_watches() {
    load(OBJECT);
    assert!(!are_called(), "nobody watches");
    let (first, second) = (Group::new(), Group::new());
    let forbids = policy(&kill_reading(SECRET));
    let [one, another] = [&first, &second].map(|group| watch(OBJECT, &forbids, group));
    for monitor in [one, another] {
        assert!(are_called(), "a run is watched");
        assert_eq!(run(&first, READ).stdout, b"", "the rule acts");
        drop(monitor);
    }
    assert!(!are_called(), "the last has gone");
    // Hooks of BPF LSM stay attached, and so do the rules of who was watched by them.
    let read: &[u8] = match tier() {
        Tier::Lsm => b"",
        Tier::Tracepoint => b"root\n",
    };
    assert_eq!(
        run(&first, READ).stdout,
        read,
        "the control: no tracepoint asks"
    );
    let third = Group::new();
    let last = watch(OBJECT, &forbids, &third);
    assert!(are_called(), "attached anew");
    assert_eq!(run(&third, READ).stdout, b"", "the rule acts");
    last.finish(drop).expect("the evidence can be read");
    assert!(!are_called(), "finished");
}

/// The folder of the object that [`load`] loads.
fn folder() -> std::path::PathBuf {
    let versions = shared::status(OBJECT).expect("it can be asked");
    let name = &versions.first().expect("it is loaded").name;
    std::path::Path::new("/sys/fs/bpf/turnkey").join(name)
}

expected!(a_program_that_is_called_twice_is_waited_for: on BY_TIER);
/// From Linux 6.10 on the kernel calls a program once for each link, also for that of a run that was just killed.
#[test]
fn a_program_that_is_called_twice_is_waited_for() {
    load(OBJECT);
    let program = folder().join("programs/sched_process_fork");
    let program = BtfTracePoint::from_pin(program);
    let mut other = program.expect("the program is pinned");
    let link = other.attach().expect("nobody has attached it");

    // As a killed run leaves it: a number without a link.
    let held = MapData::from_pin(folder().join("held")).expect("the numbers are pinned");
    let mut numbers: Array<_, u32> = Map::Array(held).try_into().expect("an array");
    // The doubt is behind those of links to tracepoints.
    for index in 0..7 {
        numbers.set(index, u32::MAX, 0).expect("it can be written");
    }
    let group = Group::new();
    let begun = Instant::now();
    let proved = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(LEAVING);
            other.detach(link).expect("it is attached");
        });
        let rules = compile(&policy(""), tier()).expect("the policy compiles");
        let mut monitor = Monitor::open(OBJECT, rules).expect("it waits where the kernel does");
        monitor.canary(group.directory.as_fd(), group.id())
    });
    proved.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(begun.elapsed() >= LEAVING, "only when one act is told once");
}

/// Time that the links of another take to go.
const LEAVING: Duration = Duration::from_millis(300);

/// Takes away every group that stands for loaded programs, until it is told to end; how many those were.
fn take_groups_away(end: &AtomicBool) -> usize {
    let mut taken = 0;
    while !end.load(Ordering::Relaxed) {
        let groups = std::fs::read_dir(unified_hierarchy()).expect("cgroup v2 is mounted");
        let anchor = groups.flatten().filter(|group| {
            let name = group.file_name();
            name.to_string_lossy().starts_with("turnkey.")
        });
        taken += anchor
            .filter(|group| std::fs::remove_dir(group.path()).is_ok())
            .count();
    }
    taken
}

expected!(
    a_group_that_somebody_else_takes_away_keeps_nobody_from_loading: not_on WHOLE_MONITOR,
    "loads the programs four times, which takes an emulated CPU minutes; groups are made \
     and taken away alike on every kernel"
);
expected!(
    a_group_that_somebody_else_takes_away_keeps_nobody_from_loading: at_night,
    "loads and unloads in turns; needs the machine for itself"
);
/// Loads in other mount namespaces have other locks, and the same control groups.
#[test]
fn a_group_that_somebody_else_takes_away_keeps_nobody_from_loading() {
    nothing_is_loaded();
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let others = scope.spawn(|| take_groups_away(&end));
        for _ in 0..4 {
            let loaded = shared::load(OBJECT, tier());
            let unloaded = shared::unload(Some(&OBJECT.into()));
            end.store(loaded.is_err() || unloaded.is_err(), Ordering::Relaxed);
            loaded.unwrap_or_else(|error| panic!("{}", chain(&error)));
            unloaded.unwrap_or_else(|error| panic!("{}", chain(&error)));
        }
        end.store(true, Ordering::Relaxed);
        let taken = others.join().expect("it ends when it is told to");
        assert!(taken >= 4, "the control: {taken} were taken away");
    });
}

/// Only as much of a table is written as its rules need. What larger ones have left behind it means nothing.
#[test]
fn a_slot_acts_on_the_rules_of_its_jail_and_on_none_that_it_had_before() {
    load(OBJECT);
    let many: String = (0..200)
        .map(|number| {
            let path = format!("path = [\"/etc/**/secret-{number}*\", \"/etc/passwd\"]");
            rule(&format!("many-{number}"), "open", "kill", &path)
        })
        .collect();
    let few = kill_reading("/etc/group");
    let read = |path: &str| format!("print(open('{path}').read(4))");
    for (rules, forbidden) in [(&many, SECRET), (&few, "/etc/group"), (&many, SECRET)] {
        for path in [SECRET, "/etc/group"] {
            let group = Group::new();
            let monitor = watch(OBJECT, &policy(rules), &group);
            let seen = run(&group, &read(path));
            let expected = if path == forbidden { "" } else { "root\n" };
            let read = String::from_utf8_lossy(&seen.stdout);
            assert_eq!(read, expected, "{path}: {seen:?}");
            let mut decided = 0;
            let evidence = monitor.finish(|event| decided += u32::from(event.decision.is_some()));
            evidence.expect("the evidence can be read");
            assert_eq!(decided > 0, path == forbidden, "{path}");
        }
    }
}

/// The hooks work in memory that all jails have together. Here none of it is given back.
#[test]
fn m21_a_jail_that_takes_all_the_work_memory_it_can_leaves_enough_to_others() {
    if tier() == Tier::Tracepoint {
        // Its programs are not entered again while they run, and have their own.
        return;
    }
    let object = faulty(fault::KEEP);
    load(&object);
    let (greedy, other) = (Group::new(), Group::new());
    let denies = policy(&rule(
        "secret",
        "open",
        "deny",
        "path = [\"/etc/passwd\"]\naccess = [\"read\"]",
    ));
    let observes = denies.clone().with_mode(EnforcementMode::Observe);
    let taker = watch(&object, &observes, &greedy);
    let seen = run(&greedy, "for _ in range(600): open('/dev/null').close()");
    assert!(seen.status.success(), "{seen:?}");

    let monitor = watch(&object, &denies, &other);
    let program = "try: open('/etc/passwd')\nexcept PermissionError: print('denied')";
    let seen = run(&other, program);
    assert_eq!(seen.stdout, b"denied\n", "{seen:?}");
    assert!(!monitor.condemned(), "it has all that it needs");
    let evidence = monitor.finish(drop).expect("the evidence can be read");
    assert_eq!(evidence.faults, 0, "{evidence:?}");
    let evidence = taker.finish(drop).expect("the evidence can be read");
    assert!(evidence.faults > 100, "the control: {evidence:?}");
}
