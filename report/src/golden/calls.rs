//! Golden tests of calls that the filter refuses, and of actors that nobody knows.

use turnkey_facts::Kind;

use super::*;

/// A call that the filter refuses, and no rule speaks of.
fn refused_by_filter(name: &str, errno: i32) -> Kind {
    Kind::Refused {
        nr: turnkey_policy::syscalls::number(name).unwrap_or(500),
        on: None,
        args: [0, 0x5412, 0],
        errno,
    }
}

#[test]
fn a_call_that_no_rule_speaks_of_is_told_with_the_group_that_allows_it() {
    let mut policy = policy();
    policy.syscalls.allow.insert("ioctl");
    let mut story = Story::command(&["answer"]);
    for _ in 0..3 {
        story.push(2, refused_by_filter("getppid", libc::EPERM));
    }
    story.push(2, refused_by_filter("sync", libc::EPERM));
    story.push(2, refused_by_filter("ioctl", libc::EPERM));
    story.push(2, refused_by_filter("future", libc::ENOSYS));
    // Asked in passing, and answered like by a kernel without NUMA.
    story.push(2, refused_by_filter("mbind", libc::ENOSYS));
    let report = Report::build(inputs(&policy, &story));
    json(&report);
    let rows = report.refused_calls.iter();
    let told: Vec<_> = rows
        .map(|row| (row.syscall.as_str(), row.count, row.for_arguments))
        .collect();
    let expected = [
        ("getppid", 3, false),
        ("sync", 1, false),
        ("ioctl", 1, true),
        ("syscall 500", 1, false),
    ];
    assert_eq!(told, expected);
    assert_eq!(report.events.seen["refused"], 7, "and one that is no row");
    assert_eq!(report.refused_calls[0].errno.as_deref(), Some("EPERM"));
    assert_eq!(report.refused_calls[0].first_exec_id, Some(1));
    assert_eq!(
        report.refused_calls[3].advice.as_deref(),
        Some("no profile can allow it: it is none of the syscalls that turnkey knows")
    );
    // Programs do without what looks as if their kernel did not have it.
    assert_eq!(
        terminal(&report),
        "\
turnkey: refused, and the program did without: getppid (3 times), sync, ioctl; --report FILE tells more
turnkey: clean — exited 0 in 0.21 s
"
    );
    let mut failed = report.clone();
    failed.exit_code = Some(1);
    assert_eq!(
        terminal(&failed),
        "\
turnkey: blocked: calling getppid (EPERM) (3 times)
  by          python3 (pid 2): answer
  stopped by  seccomp: the profile does not allow that syscall
  to allow    in a profile: [syscalls] allow = [\"getppid\"], or \"@self\" for its like
turnkey: blocked: calling sync (EPERM)
  by          python3 (pid 2): answer
  stopped by  seccomp: the profile does not allow that syscall
  to allow    no profile can allow it: it writes out the disks of the whole host
turnkey: blocked: calling ioctl (EPERM)
  by          python3 (pid 2): answer
  stopped by  seccomp: it refuses these arguments of that syscall
  to allow    no profile can allow it with these arguments; with others the profile allows the call
turnkey: blocked: 1 more; --report FILE lists them
turnkey: clean — exited 1 in 0.21 s
"
    );
    let page = super::super::formats::html::document(&report);
    assert!(page.contains("System calls refused") && page.contains("@self"));
}

#[test]
fn a_program_that_fails_has_its_last_refused_call_told() {
    let told = |exit_code, calls: &[&str]| {
        let mut story = Story::command(&["answer"]);
        for call in calls {
            story.push(2, refused_by_filter(call, libc::ENOSYS));
        }
        let policy = policy();
        let mut report = Report::build(inputs(&policy, &story));
        report.exit_code = Some(exit_code);
        terminal(&report)
    };
    const RINGS: &str = "turnkey: blocked: calling io_uring_setup (ENOSYS)";
    assert!(told(1, &["future", "io_uring_setup"]).contains(RINGS));
    assert!(
        !told(0, &["io_uring_setup"]).contains(RINGS),
        "it did without"
    );
    let later = told(1, &["io_uring_setup", "future"]);
    assert!(
        !later.contains(RINGS) && later.contains("calling syscall 500"),
        "it went on"
    );
    // The C library falls back from it, whatever the program fails of.
    assert!(!told(1, &["clone3"]).contains("blocked"));
}

/// Watchers of files try fanotify(7) first: one that went on with other files did not fail of that.
#[test]
fn a_call_that_a_program_has_another_way_for_is_told_where_it_ended_with_it() {
    for (call, goes_on, told) in [
        ("fanotify_init", true, false),
        ("fanotify_init", false, true),
        ("sync", true, true),
    ] {
        let mut story = Story::command(&["tsc", "--noEmit"]);
        story.push(2, refused_by_filter(call, libc::EPERM));
        if goes_on {
            story.push(2, opened("/workspace/index.ts"));
        }
        let mut report = Report::build(inputs(&policy(), &story));
        report.exit_code = Some(2);
        let said = terminal(&report).contains(&format!("blocked: calling {call}"));
        assert_eq!(said, told, "{call}, {goes_on}");
        assert_eq!(report.refused_calls.len(), 1, "it is in the report");
    }
}

#[test]
fn who_is_not_known_is_said_where_rules_ask() {
    let said = super::super::unknown::WORDS;
    let escape_by = |exe: &[&str]| turnkey_policy::Rule {
        exe: exe
            .iter()
            .map(|exe| turnkey_policy::Glob::parse(exe).unwrap())
            .collect(),
        ..policy().rules[ESCAPE].clone()
    };
    // Rules of another kind of attempt, or of none at all, do not ask.
    let elsewhere = turnkey_policy::Rule {
        on: [AttemptKind::Bpf].into(),
        ..escape_by(&["/usr/bin/cat"])
    };
    for (rule, told) in [(elsewhere, false), (escape_by(&["/usr/bin/cat"]), true)] {
        let mut policy = policy();
        policy.rules.push(rule);
        let mut story = Story::command(&["python3", "escape.py"]);
        story.decided(
            2,
            refused("ptrace", AttemptKind::Ptrace),
            ESCAPE,
            RuleAction::Log,
        );
        story.by_nobody_known();
        let report = Report::build(inputs(&policy, &story));
        assert_eq!(report.violations[0].actor_unknown, told);
        assert_eq!(terminal(&report).contains(said), told);
        assert_eq!(json(&report).contains("actor_unknown"), told);
        assert_eq!(
            super::super::formats::html::document(&report).contains(said),
            told
        );
    }
}

#[test]
fn a_file_that_is_not_known_is_said() {
    let said = super::super::unknown::file_words(AttemptKind::Ptrace);
    assert!(!super::super::unknown::file_words(AttemptKind::Open).contains(said));
    for told in [false, true] {
        let mut story = Story::command(&["python3", "escape.py"]);
        let attempt = refused("ptrace", AttemptKind::Ptrace);
        story.decided(2, attempt, ESCAPE, RuleAction::Log);
        if told {
            story.about_no_known_file();
        }
        let report = Report::build(inputs(&policy(), &story));
        assert_eq!(report.violations[0].file_unknown, told);
        assert_eq!(terminal(&report).contains(said), told);
        assert_eq!(json(&report).contains("file_unknown"), told);
        let page = super::super::formats::html::document(&report);
        assert_eq!(page.contains(said), told);
    }
}
