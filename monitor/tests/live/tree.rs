//! A group that is nobody's jail, watched with all groups below it: what `turnkey attach` builds on.

use std::io::Read as _;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use turnkey_expectations::expected;
use turnkey_facts::{Event, Kind};
use turnkey_monitor::{Monitor, Origin, Residence, compile};

use super::harness::{
    Group, OBJECT, chain, kill_reading, nothing_is_loaded, policy, python_path, rule, tier,
};

expected!(on BY_TIER);

/// The level of the groups that these tests make, right below the hierarchy's root.
const LEVEL: NonZeroU32 = NonZeroU32::MIN;

const READ: &str = "print(open('/etc/passwd').read(4))";

/// The programs for a group at the level, not put to work yet.
fn open(residence: Residence, rules: &str, group: &Group) -> Monitor {
    let rules = compile(
        &policy(&format!("{rules}[network]\nmode = \"host\"\n")),
        tier(),
    );
    let rules = rules.expect("the policy compiles");
    let opened = Monitor::open_tree(residence, OBJECT, rules, (LEVEL, group.id()));
    opened.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn watch(rules: &str, group: &Group) -> Monitor {
    watch_by(Residence::Process, rules, group)
}

fn watch_by(residence: Residence, rules: &str, group: &Group) -> Monitor {
    let mut monitor = open(residence, rules, group);
    monitor
        .adopt(group.directory.as_fd(), group.id())
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    monitor
}

/// Runs a program in the group at `path`.
fn run(path: &Path, program: &str) -> Output {
    Command::new("/bin/sh")
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(path.join("cgroup.procs"))
        .args([python_path(), "-S", "-E", "-B", "-c", program])
        .stdin(Stdio::null())
        .output()
        .expect("a shell can be run")
}

/// A group below another, by its path; `Group` kills and removes the one above.
fn below(group: &Path, name: &str) -> PathBuf {
    let path = group.join(name);
    std::fs::create_dir(&path).expect("a group can be made below one's own");
    path
}

/// Attempts to open `path`, by the names that the program gave.
fn asked_for(events: &[Event], path: &str) -> usize {
    let is_it = |event: &&Event| match &event.kind {
        Kind::Open { raw, .. } => raw.bytes == path.as_bytes(),
        _ => false,
    };
    events.iter().filter(is_it).count()
}

#[test]
fn groups_below_belong_to_it_those_made_later_among_them() {
    let (watched, beside) = (Group::new(), Group::new());
    let early = below(&watched.path, "early");
    let seen = run(&early, READ);
    assert_eq!(seen.stdout, b"root\n", "the control: nobody watches");
    let later = early.join("later");
    for place in [&early, &later] {
        // A new one each time: what is condemned stays so, and no attempt after the first would be told.
        let mut monitor = watch(&kill_reading("/etc/passwd"), &watched);
        std::fs::create_dir_all(place).expect("a group can be made");
        let seen = run(&beside.path, READ);
        assert_eq!(seen.stdout, b"root\n", "one beside it is not watched");
        assert!(!monitor.condemned());
        let seen = run(place, READ);
        assert_eq!(seen.stdout, b"", "{}: {seen:?}", place.display());
        assert!(monitor.condemned());
        let mut events = Vec::new();
        while monitor.drain(|event| events.push(event)) {}
        let evidence = monitor.finish(|event| events.push(event));
        let evidence = evidence.expect("the evidence can be read");
        assert!(evidence.complete, "{evidence:?}");
        assert_eq!(asked_for(&events, "/etc/passwd"), 1, "{}", place.display());
    }
    for group in [&later, &early] {
        std::fs::remove_dir(group).expect("they are empty");
    }
}

#[test]
fn what_the_watcher_had_goes_with_it() {
    let watched = Group::new();
    let monitor = watch(&kill_reading("/etc/passwd"), &watched);
    assert_eq!(run(&watched.path, READ).stdout, b"", "the control");
    drop(monitor);
    assert_eq!(run(&watched.path, READ).stdout, b"root\n");
}

#[test]
fn canaries_below_the_level_are_killed_and_refused() {
    let canary = Group::new();
    let leaf = below(&canary.path, "leaf");
    let mut monitor = open(Residence::Process, "", &canary);
    let directory = std::fs::File::open(&leaf).expect("it was just made");
    let proof = monitor.canary_below((canary.directory.as_fd(), canary.id()), directory.as_fd());
    proof.unwrap_or_else(|error| panic!("{}", chain(&error)));
    // The control: a group that is beside the one given, and not below it, proves nothing.
    let stranger = Group::new();
    let proof = monitor.canary_below(
        (canary.directory.as_fd(), canary.id()),
        stranger.directory.as_fd(),
    );
    assert!(proof.is_err(), "{proof:?}");
    std::fs::remove_dir(&leaf).expect("it is empty");
}

const SECRET: &str = "/etc/passwd";

/// Watched by programs that stay.
fn shared(rules: &str, group: &Group) -> Monitor {
    watch_by(Residence::Kernel, rules, group)
}

#[test]
fn attachments_of_a_level_share_programs_and_each_group_has_one_watcher_of_them() {
    nothing_is_loaded();
    let (first, second) = (Group::new(), Group::new());
    let forbids = shared(&kill_reading(SECRET), &first);
    assert!(matches!(forbids.origin(), Origin::LoadedToStay));
    let allows = shared("", &second);
    assert!(matches!(allows.origin(), Origin::Found));
    let beside = shared("", &first);
    assert!(
        matches!(beside.origin(), Origin::Alone(None)),
        "a second one of a group"
    );
    assert_eq!(run(&first.path, READ).stdout, b"", "its rules");
    assert_eq!(run(&second.path, READ).stdout, b"root\n", "its rules");
    for monitor in [forbids, allows, beside] {
        let mut events = Vec::new();
        let evidence = monitor
            .finish(|event| events.push(event))
            .expect("it answers");
        assert!(evidence.complete, "{evidence:?}");
        assert_eq!(asked_for(&events, SECRET), 1);
    }
}

#[test]
fn rules_of_a_killed_watcher_go_where_another_one_watches_that_level() {
    nothing_is_loaded();
    let (first, second) = (Group::new(), Group::new());
    let killed = shared(&kill_reading(SECRET), &first);
    let mut other = shared("", &second);
    // As by SIGKILL: nobody takes the rules out.
    drop(killed);
    assert_eq!(run(&first.path, READ).stdout, b"", "the control: they act");
    other.forget_orphans(OBJECT).expect("the kernel answers");
    assert_eq!(run(&first.path, READ).stdout, b"root\n", "nobody's rules");
    assert_eq!(run(&second.path, READ).stdout, b"root\n");
    let evidence = other.finish(drop).expect("it answers");
    assert!(
        evidence.complete && evidence.records > 0,
        "the other one's are whole: {evidence:?}"
    );
}

/// Names are what the kernel's hooks are asked about on either tier, as far as the kernel has them.
#[test]
fn what_hooks_ask_goes_with_the_last_watcher_too() {
    nothing_is_loaded();
    let (group, directory) = (Group::new(), tempfile::tempdir().expect("room for a test"));
    let file = directory.path().join("guarded");
    let remove = || {
        std::fs::write(&file, "").expect("a test can write");
        let program = format!("import os\nos.unlink('{}')\nprint('lives')", file.display());
        run(&group.path, &program).stdout
    };
    let guarded = format!("path = [\"{}\"]", file.display());
    let rules = rule("name", "unlink", "kill", &guarded);
    let watched = shared(&rules, &group);
    assert_eq!(remove(), b"", "the control");
    watched.finish(drop).expect("it answers");
    // As by SIGKILL: nobody takes the rules out.
    drop(shared(&rules, &group));
    assert_eq!(remove(), b"lives\n");
    let again = shared(&rules, &group);
    assert_eq!(remove(), b"", "who comes next attaches them anew");
    again.finish(drop).expect("it answers");
}

#[test]
fn who_comes_next_takes_the_rules_of_all_out_who_were_killed() {
    nothing_is_loaded();
    let groups = [Group::new(), Group::new()];
    drop(
        groups
            .each_ref()
            .map(|group| shared(&kill_reading(SECRET), group)),
    );
    let beside = Group::new();
    let next = shared("", &beside);
    for group in &groups {
        assert_eq!(run(&group.path, READ).stdout, b"root\n", "nobody's rules");
    }
    next.finish(drop).expect("it answers");
}

#[test]
fn a_group_is_let_go_whole_while_another_one_of_the_level_is_watched() {
    nothing_is_loaded();
    let (first, second) = (Group::new(), Group::new());
    let other = shared("", &second);
    for _ in 0..5 {
        let mut monitor = shared("", &first);
        let busy = "import os\n\
            for _ in range(50): open('/etc/passwd').close()\n\
            os.write(1, b'.')\n\
            while True: open('/etc/passwd').close()";
        let mut program = Command::new("/bin/sh")
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(first.path.join("cgroup.procs"))
            .args([python_path(), "-S", "-E", "-B", "-c", busy])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell can be run");
        let mut sign = [0];
        let output = program.stdout.as_mut().expect("it is a pipe");
        output.read_exact(&mut sign).expect("it is busy");
        monitor.detach().expect("the kernel answers");
        let evidence = monitor.finish(drop).expect("it answers");
        program.kill().expect("it runs");
        program.wait().expect("it is a child");
        assert!(evidence.complete && evidence.records > 10, "{evidence:?}");
    }
    other.finish(drop).expect("it answers");
}

/// As when it is killed between letting go and the end: the slot has other maps than those that are pinned.
#[test]
fn a_slot_whose_watcher_was_killed_while_it_let_go_is_made_anew() {
    nothing_is_loaded();
    let group = Group::new();
    let mut monitor = shared("", &group);
    monitor.detach().expect("the kernel answers");
    drop(monitor);
    let next = shared(&kill_reading(SECRET), &group);
    assert_eq!(run(&group.path, READ).stdout, b"", "its rules act");
    let mut events = Vec::new();
    let evidence = next.finish(|event| events.push(event)).expect("it answers");
    assert!(evidence.complete, "{evidence:?}");
    assert_eq!(asked_for(&events, SECRET), 1, "and it hears of it");
}
