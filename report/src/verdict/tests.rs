//! Tests of the judgement on a run: status, exit code, verdict and score.

use super::super::fixture::clock;
use super::*;
use facts::Status as Own;
use proptest::prelude::*;

const EXITED: RunEnding = RunEnding {
    status: Own::Exited(0),
    condemned: false,
    killed_for_loss: false,
    limit: None,
    interrupted: None,
};

fn rule(id: &str, severity: Severity) -> Finding {
    own(id, severity, 1, "because")
}

fn facts<'a>(ending: &'a Ending, rules: &'a [Finding]) -> Facts<'a> {
    let limit = match ending {
        Ending::Ran(RunEnding { limit: Some(_), .. }) => Some("too much".to_owned()),
        _ => None,
    };
    Facts {
        ending,
        complete: true,
        watched: true,
        decoys: &[],
        weaker: false,
        lost: 0,
        unknown_symlinks: 0,
        rules,
        outsider: None,
        watchers: &[],
        sigsys: 0,
        limit,
        met: &[],
        disk: None,
        accepted: &[],
        clock: Box::leak(Box::new(clock())),
    }
}

fn judged(facts: &Facts<'_>) -> Verdict {
    verdict(facts, &findings(facts))
}

fn code(ran: RunEnding) -> u8 {
    exit_code(&Ending::Ran(ran), false, OnLoss::Mark)
}

#[test]
fn the_exit_code_is_the_commands_own_unless_something_ended_it() {
    assert_eq!(
        code(RunEnding {
            status: Own::Exited(7),
            ..EXITED
        }),
        7
    );
    assert_eq!(
        code(RunEnding {
            status: Own::Signaled(11),
            ..EXITED
        }),
        139
    );
    assert_eq!(
        code(RunEnding {
            status: Own::Unknown,
            interrupted: Some(2),
            ..EXITED
        }),
        130
    );
    assert_eq!(
        code(RunEnding {
            status: Own::Signaled(9),
            condemned: true,
            ..EXITED
        }),
        121
    );
    for (limit, expected) in [
        (Limit::Memory, 122),
        (Limit::Pids, 122),
        (Limit::Output, 122),
        (Limit::FileSize, 122),
        (Limit::Wall, 124),
        (Limit::CpuTime, 124),
    ] {
        assert_eq!(
            code(RunEnding {
                limit: Some(limit),
                ..EXITED
            }),
            expected,
            "{limit:?}"
        );
    }
}

#[test]
fn a_report_of_the_beginning_is_inconclusive_and_says_what_it_is() {
    let ending = Ending::Attached(AttachmentEnding {
        watching: true,
        ..AttachmentEnding::default()
    });
    let facts = Facts {
        complete: false,
        watched: false,
        ..facts(&ending, &[])
    };
    assert_eq!(status(&ending), Status::Watching);
    assert_eq!(judged(&facts), Verdict::Inconclusive);
    let [finding] = findings(&facts).try_into().unwrap();
    assert!(
        finding.reason.contains("when the watch began"),
        "{finding:?}"
    );
}

#[test]
fn nothing_ran_has_its_own_codes() {
    for (reason, expected) in [
        (NotStarted::Setup, 125),
        (NotStarted::NotExecutable, 126),
        (NotStarted::NotFound, 127),
    ] {
        let ending = Ending::NotStarted {
            reason,
            message: String::new(),
        };
        assert_eq!(exit_code(&ending, false, OnLoss::Fail), expected);
        assert_eq!(status(&ending), Status::SetupFailed);
        assert_eq!(judged(&facts(&ending, &[])), Verdict::Inconclusive);
    }
}

#[test]
fn what_went_on_with_less_is_never_clean() {
    let ending = Ending::Ran(EXITED);
    assert_eq!(judged(&facts(&ending, &[])), Verdict::Clean);
    let weaker = |rules| Facts {
        weaker: true,
        ..facts(&ending, rules)
    };
    assert_eq!(judged(&weaker(&[])), Verdict::Inconclusive);
    let high = [rule("rule", Severity::High)];
    assert_eq!(judged(&weaker(&high)), Verdict::Violated);
}

#[test]
fn lost_evidence_fails_the_run_only_when_the_profile_says_so() {
    let ending = Ending::Ran(RunEnding {
        status: Own::Exited(3),
        ..EXITED
    });
    assert_eq!(exit_code(&ending, true, OnLoss::Mark), 3);
    assert_eq!(exit_code(&ending, true, OnLoss::Fail), 120);
    assert_eq!(exit_code(&ending, false, OnLoss::Fail), 3);
    let killed = Ending::Ran(RunEnding {
        status: Own::Signaled(9),
        killed_for_loss: true,
        ..EXITED
    });
    assert_eq!(exit_code(&killed, true, OnLoss::Kill), 120);
    assert_eq!(status(&killed), Status::KilledByPolicy);
}

#[test]
fn a_file_that_could_not_be_written_hides_no_kill_and_no_loss() {
    let code = code_of_unwritten;
    assert_eq!(code(Status::KilledByPolicy, None, 121), 121);
    assert_eq!(code(Status::KilledByPolicy, None, 120), 120);
    assert_eq!(code(Status::Exited, Some(0), 120), 120, "evidence is lost");
    // Of a program that says so itself, and of everything that weighs less.
    assert_eq!(code(Status::Exited, Some(121), 121), 125);
    assert_eq!(code(Status::Exited, Some(120), 120), 125);
    assert_eq!(code(Status::Exited, Some(0), 0), 125);
    assert_eq!(code(Status::TimedOut, None, 124), 125);
    assert_eq!(code(Status::SetupFailed, None, 127), 125);
    assert_eq!(code(Status::Ended, None, 0), 125);
}

#[test]
fn a_kill_by_policy_is_never_hidden_by_anything_else() {
    let ending = Ending::Ran(RunEnding {
        status: Own::Signaled(9),
        condemned: true,
        limit: Some(Limit::Memory),
        interrupted: Some(15),
        killed_for_loss: true,
    });
    assert_eq!(exit_code(&ending, false, OnLoss::Fail), 121);
    assert_eq!(status(&ending), Status::KilledByPolicy);
    assert_eq!(
        judged(&Facts {
            complete: false,
            lost: 9,
            ..facts(&ending, &[])
        }),
        Verdict::Violated
    );
}

#[test]
fn the_status_names_the_limit() {
    let status = |limit| {
        status(&Ending::Ran(RunEnding {
            limit: Some(limit),
            ..EXITED
        }))
    };
    assert_eq!(status(Limit::Memory), Status::OutOfMemory);
    assert_eq!(status(Limit::Wall), Status::TimedOut);
    assert_eq!(status(Limit::CpuTime), Status::TimedOut);
    assert_eq!(status(Limit::Pids), Status::LimitExceeded);
}

#[test]
fn the_verdict_follows_the_worst_violation() {
    let ending = Ending::Ran(EXITED);
    for (severity, expected) in [
        (Severity::Info, Verdict::Clean),
        (Severity::Low, Verdict::Suspicious),
        (Severity::Medium, Verdict::Suspicious),
        (Severity::High, Verdict::Violated),
        (Severity::Critical, Verdict::Violated),
    ] {
        let rules = [rule("first", Severity::Info), rule("worst", severity)];
        assert_eq!(judged(&facts(&ending, &rules)), expected, "{severity:?}");
    }
    assert_eq!(judged(&facts(&ending, &[])), Verdict::Clean);
}

#[test]
fn a_limit_or_a_filtered_process_is_suspicious() {
    let ending = Ending::Ran(RunEnding {
        limit: Some(Limit::Wall),
        ..EXITED
    });
    assert_eq!(judged(&facts(&ending, &[])), Verdict::Suspicious);
    let ending = Ending::Ran(RunEnding {
        status: Own::Signaled(libc::SIGSYS),
        ..EXITED
    });
    assert_eq!(
        judged(&Facts {
            sigsys: 1,
            ..facts(&ending, &[])
        }),
        Verdict::Suspicious
    );
}

#[test]
fn the_score_counts_each_rule_once_and_stops_at_100() {
    let ending = Ending::Ran(RunEnding {
        limit: Some(Limit::Wall),
        ..EXITED
    });
    let mut often = rule("scan", Severity::Medium);
    often.count = 1000;
    let rules = [often, rule("shadow", Severity::Critical)];
    let scores: Vec<_> = findings(&facts(&ending, &rules))
        .into_iter()
        .map(|f| (f.id, f.score))
        .collect();
    let expected = [("shadow", 90), ("scan", 10), ("turnkey:limit", 0)];
    assert_eq!(scores, expected.map(|(id, score)| (id.to_owned(), score)));
}

#[test]
fn one_grave_finding_is_more_than_half_of_the_scale() {
    let ending = Ending::Ran(EXITED);
    for severity in [Severity::High, Severity::Critical] {
        let rules = [rule("grave", severity)];
        let facts = facts(&ending, &rules);
        let score: u32 = findings(&facts).iter().map(|finding| finding.score).sum();
        assert!(score > 50, "{severity:?}");
        assert_eq!(judged(&facts), Verdict::Violated);
    }
}

#[test]
fn a_kill_without_an_event_is_still_a_finding() {
    let ending = Ending::Ran(RunEnding {
        condemned: true,
        ..EXITED
    });
    let findings = findings(&Facts {
        complete: false,
        lost: 3,
        ..facts(&ending, &[])
    });
    let ids: Vec<_> = findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["turnkey:killed", "turnkey:evidence"]);
    assert_eq!(findings[1].reason, "3 events are lost");
}

#[test]
fn symlinks_that_nobody_remembers_are_no_lost_events_and_leave_a_run_open() {
    let ending = Ending::Ran(EXITED);
    let facts = Facts {
        unknown_symlinks: 2,
        ..facts(&ending, &[])
    };
    let findings = findings(&facts);
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].reason.starts_with("where 2 symlinks lead"),
        "{}",
        findings[0].reason
    );
    assert_eq!(super::verdict(&facts, &findings), Verdict::Inconclusive);
}

fn any_ran() -> impl Strategy<Value = RunEnding> {
    let status = prop_oneof![
        any::<u8>().prop_map(Own::Exited),
        (1..64).prop_map(Own::Signaled),
        Just(Own::Unknown)
    ];
    let limit = proptest::option::of(proptest::sample::select(vec![
        Limit::Memory,
        Limit::Pids,
        Limit::Wall,
    ]));
    (
        status,
        any::<bool>(),
        any::<bool>(),
        limit,
        proptest::option::of(1..64),
    )
        .prop_map(
            |(status, condemned, killed_for_loss, limit, interrupted)| RunEnding {
                status,
                condemned,
                killed_for_loss,
                limit,
                interrupted,
            },
        )
}

#[test]
fn who_reads_a_decoy_that_nobody_watched_can_know_what_it_was() {
    let ending = Ending::Ran(EXITED);
    let told = |names: &[&str]| {
        let decoys: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        let facts = Facts {
            complete: false,
            watched: false,
            decoys: &decoys,
            ..facts(&ending, &[])
        };
        findings(&facts).remove(0).reason
    };
    let words = "nobody watched the run: no rule was asked";
    assert_eq!(told(&[]), words);
    assert_eq!(
        told(&["/etc/shadow"]),
        format!("{words}, and who opened a decoy (/etc/shadow) is not known")
    );
    assert!(told(&["/1", "/2", "/3", "/4\x1b"]).contains("(/1, /2, /3, …)"));
    assert!(!told(&["/\x1b[2J"]).contains('\x1b'));
}

proptest! {
    #[test]
    fn lost_evidence_is_never_clean(ran in any_ran(), lost in 0_u64..3) {
        let ending = Ending::Ran(ran);
        let facts = Facts { complete: false, lost, ..facts(&ending, &[]) };
        prop_assert_ne!(judged(&facts), Verdict::Clean);
        prop_assert_ne!(judged(&facts), Verdict::Suspicious);
    }

    #[test]
    fn only_a_clean_run_scores_nothing(ran in any_ran(), complete in any::<bool>(), severities in proptest::collection::vec(0_usize..5, 0..6)) {
        let all = [Severity::Info, Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
        let rules: Vec<_> = severities.iter().map(|index| rule("some", all[*index])).collect();
        let ending = Ending::Ran(ran);
        let facts = Facts { complete, ..facts(&ending, &rules) };
        let score: u32 = findings(&facts).iter().map(|finding| finding.score).sum();
        prop_assert!(score <= 100);
        prop_assert_eq!(score == 0, judged(&facts) == Verdict::Clean || killed_for_info(&facts));
    }
}

fn accepted(id: &str, until: time::Date) -> AcceptedFinding {
    AcceptedFinding {
        finding: id.to_owned(),
        why: "known".to_owned(),
        until,
    }
}

#[test]
fn an_accepted_finding_weighs_nothing_until_its_day_is_over() {
    let ending = Ending::Ran(EXITED);
    let rules = [rule("one", Severity::High), rule("other", Severity::Low)];
    let today = clock().day();
    let yesterday = today.previous_day().unwrap();
    for (until, verdict, score) in [
        (today, Verdict::Suspicious, 10),
        (yesterday, Verdict::Violated, 70),
    ] {
        let accepted = [accepted("one", until)];
        let facts = Facts {
            accepted: &accepted,
            ..facts(&ending, &rules)
        };
        let findings = findings(&facts);
        assert_eq!(super::verdict(&facts, &findings), verdict);
        let sum: u32 = findings.iter().map(|finding| finding.score).sum();
        assert_eq!(sum, score);
        let one = findings.iter().find(|finding| finding.id == "one").unwrap();
        let said = one.accepted.as_ref().unwrap();
        assert_eq!((said.why.as_str(), said.expired), ("known", until < today));
    }
}

#[test]
fn no_acceptance_makes_a_killed_jail_anything_but_violated() {
    let ending = Ending::Ran(RunEnding {
        condemned: true,
        ..EXITED
    });
    let rules = [rule("one", Severity::High)];
    let accepted = [accepted("one", clock().day())];
    let facts = Facts {
        accepted: &accepted,
        ..facts(&ending, &rules)
    };
    assert_eq!(judged(&facts), Verdict::Violated);
}

/// A rule of severity `info` that kills: the author's own contradiction.
fn killed_for_info(facts: &Facts<'_>) -> bool {
    let worst = facts.rules.iter().map(|finding| finding.severity).max();
    worst == Some(Severity::Info)
        && judged(facts) == Verdict::Violated
        && facts.complete
        && facts.limit.is_none()
}

#[test]
fn a_signal_from_outside_is_told_with_its_sender_and_leaves_nothing_clean() {
    let outsider = turnkey_facts::Outsider {
        signal: libc::SIGSEGV,
        target: 2,
        pid: 4711,
        uid: 1000,
        comm: *b"watch\x1bdog\0\0\0\0\0\0\0",
    };
    for status in [Own::Signaled(libc::SIGSEGV), Own::Exited(0)] {
        let ending = Ending::Ran(RunEnding { status, ..EXITED });
        let alone = facts(&ending, &[]);
        assert_eq!(judged(&alone), Verdict::Clean, "the control");
        let told = Facts {
            outsider: Some(&outsider),
            ..alone
        };
        assert_eq!(judged(&told), Verdict::Inconclusive);
        let words = &findings(&told)[0].reason;
        let expected = "process 2 of the jail was ended by SIGSEGV, which process 4711 of the host (`watch\\x1bdog`, user 1000)";
        assert!(words.starts_with(expected), "{words}");
    }
    let ending = Ending::Ran(RunEnding {
        interrupted: Some(libc::SIGTERM),
        ..EXITED
    });
    let told = Facts {
        outsider: Some(&outsider),
        ..facts(&ending, &[])
    };
    assert!(
        findings(&told).is_empty(),
        "turnkey was asked to end the run"
    );
}

/// Any other signal is how groups are ended every day.
#[test]
fn of_a_group_only_a_kill_from_outside_is_told() {
    let ending = Ending::Attached(AttachmentEnding::default());
    for (signal, verdict) in [
        (libc::SIGKILL, Verdict::Inconclusive),
        (libc::SIGTERM, Verdict::Clean),
    ] {
        let outsider = turnkey_facts::Outsider {
            signal,
            target: 1,
            pid: 4711,
            uid: 0,
            comm: *b"runc\0\0\0\0\0\0\0\0\0\0\0\0",
        };
        let told = Facts {
            outsider: Some(&outsider),
            ..facts(&ending, &[])
        };
        assert_eq!(judged(&told), verdict, "{signal}");
    }
}

#[test]
fn a_kill_by_another_watcher_is_told_and_leaves_nothing_clean() {
    let other = |killed| OtherWatcher {
        place: super::super::model::WatcherPlace::Above,
        group: "/system.slice".to_owned(),
        run: Some("6a1-2b".to_owned()),
        killed,
    };
    let ended = Ending::Attached(AttachmentEnding::default());
    let condemned = Ending::Attached(AttachmentEnding {
        condemned: true,
        ..AttachmentEnding::default()
    });
    let ran = Ending::Ran(EXITED);
    for (ending, killed, expected) in [
        (&ended, true, true),
        (&ran, true, true),
        (&ended, false, false),
        // One that has killed by itself has the reason itself.
        (&condemned, true, false),
    ] {
        let watchers = [other(killed)];
        let facts = Facts {
            watchers: &watchers,
            ..facts(ending, &[])
        };
        let findings = findings(&facts);
        let outside = findings.iter().find(|finding| finding.id == OUTSIDE);
        assert_eq!(outside.is_some(), expected, "{ending:?}");
        let named = outside.map(|finding| finding.reason.contains("run 6a1-2b on /system.slice"));
        assert_ne!(named, Some(false));
        assert_eq!(
            judged(&facts) == Verdict::Inconclusive,
            expected,
            "{ending:?}"
        );
    }
}
