//! What a run shows: status, exit code, verdict and score. Pure.
//!
//! # Verdict
//! The first of these that is true:
//!
//! 1. `violated`: the jail was killed by policy, or a violation of severity `high` or `critical`
//!    was seen, whatever was done about it. It is proven, even if other evidence is lost.
//! 2. `inconclusive`: nothing ran, the monitor did not watch from the first instruction to the
//!    end, an event is lost, or a `SIGKILL` that is not turnkey's ended the run.
//! 3. `suspicious`: a violation of severity `low` or `medium`, a limit that ended the run, or a
//!    process ended by `SIGSYS`.
//! 4. `clean`. Violations of severity `info` are worth knowing and no reason for suspicion.
//!
//! # Score
//! The sum of the findings, at most 100. There is one finding for each rule that was violated,
//! however often, and it adds the weight of the rule's severity:
//!
//! | `info` | `low` | `medium` | `high` | `critical` |
//! |---|---|---|---|---|
//! | 0 | 10 | 25 | 60 | 90 |
//!
//! One finding of severity `high` makes a run `violated`, and so weighs more than half of the scale.
//!
//! The findings of turnkey itself weigh in the same way: `turnkey:killed` (`high`: the jail was
//! killed and no event says why), `turnkey:evidence` (`medium`: something was not
//! seen), `turnkey:outside` (`low`: a `SIGKILL` that is not turnkey's ended the run before its end), `turnkey:sigsys` (`medium`: the syscall filter ended a process), `turnkey:limit` (`low`: a
//! limit ended the run) and `turnkey:disk` (`info`: the workspace could take no more). The heaviest come first; one that would lift the sum over 100
//! adds only the rest, so that the scores always add up.
//!
//! # Exit code
//! The first of these that is true:
//!
//! | code | when |
//! |---|---|
//! | 125, 126, 127 | nothing ran: turnkey failed, the command is not executable, not found |
//! | 121 | killed by policy |
//! | 120 | evidence is lost and `on_loss` is `fail` or `kill`; a run that nobody watched loses none |
//! | 124 | the wall clock or the processor time ran out |
//! | 122 | another limit ended the run |
//! | 128+N | turnkey was asked to end by signal N, or the command died from it |
//! | the command's own | otherwise |

use turnkey_jailer as jailer;
use turnkey_jailer::Limit;
use turnkey_policy::{Accepted, OnLoss, Severity};

use super::behaviour;
use super::clock::Clock;
use super::ending::{Ending, NotStarted, Ran};
use super::model::{Finding, Status, Verdict};

/// How the ids of turnkey's own findings begin.
const OWN: &str = "turnkey:";
const LIMIT: &str = "turnkey:limit";
const OUTSIDE: &str = "turnkey:outside";
const SIGSYS: &str = "turnkey:sigsys";

/// All that verdict and score depend on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// How the run ended.
    pub ending: &'a Ending,
    /// Everything was seen.
    pub complete: bool,
    /// The monitor was there.
    pub watched: bool,
    /// How many events are lost.
    pub lost: u64,
    /// One finding for every rule that was violated and every behaviour that was seen; the scores
    /// are not looked at.
    pub rules: &'a [Finding],
    /// What the profile accepts, and the day that decides how long.
    pub accepted: &'a [Accepted],
    /// When the run began.
    pub clock: &'a Clock,
    /// Processes that ended by `SIGSYS`.
    pub sigsys: u64,
    /// The sentence about the limit that ended the run, if one did.
    pub limit: Option<String>,
    /// The sentence about a workspace that is full.
    pub disk: Option<String>,
}

/// How the run ended, in one word.
pub fn status(ending: &Ending) -> Status {
    let Ending::Ran(ran) = ending else {
        return Status::SetupFailed;
    };
    match ran.limit {
        _ if ran.condemned || ran.killed_for_loss => Status::KilledByPolicy,
        Some(Limit::Memory) => Status::OutOfMemory,
        Some(Limit::Wall | Limit::CpuTime) => Status::TimedOut,
        Some(Limit::Pids | Limit::Output | Limit::FileSize) => Status::LimitExceeded,
        None if ran.interrupted.is_some() => Status::Signaled,
        None => match ran.status {
            jailer::Status::Exited(_) => Status::Exited,
            jailer::Status::Signaled(_) | jailer::Status::Unknown => Status::Signaled,
        },
    }
}

/// Turnkey's own exit code: see the module's table.
pub fn exit_code(ending: &Ending, lost: bool, on_loss: OnLoss) -> u8 {
    let ran = match ending {
        Ending::NotStarted { reason, .. } => return not_started(*reason),
        Ending::Ran(ran) => ran,
    };
    match ran.limit {
        _ if ran.condemned => 121,
        _ if ran.killed_for_loss || (lost && on_loss != OnLoss::Mark) => 120,
        Some(Limit::Wall | Limit::CpuTime) => 124,
        Some(Limit::Memory | Limit::Pids | Limit::Output | Limit::FileSize) => 122,
        None => own_code(ran),
    }
}

fn not_started(reason: NotStarted) -> u8 {
    match reason {
        NotStarted::Setup => 125,
        NotStarted::NotExecutable => 126,
        NotStarted::NotFound => 127,
    }
}

fn own_code(ran: &Ran) -> u8 {
    let signal = match (ran.interrupted, ran.status) {
        (Some(signal), _) | (None, jailer::Status::Signaled(signal)) => signal,
        (None, jailer::Status::Exited(code)) => return code,
        // It died with the jail; nothing but SIGKILL ends a jail.
        (None, jailer::Status::Unknown) => libc::SIGKILL,
    };
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// What the run shows: see the module's list.
pub fn verdict(facts: &Facts<'_>, findings: &[Finding]) -> Verdict {
    let counting = || findings.iter().filter(|finding| finding.counts());
    let seen = counting().filter(|finding| !finding.id.starts_with(OWN));
    let worst = seen.map(|finding| finding.severity).max();
    let own = |id: &str| counting().any(|finding| finding.id == id);
    let condemned = matches!(
        facts.ending,
        Ending::Ran(Ran {
            condemned: true,
            ..
        })
    );
    if condemned || worst >= Some(Severity::High) {
        Verdict::Violated
    } else if !facts.complete || matches!(facts.ending, Ending::NotStarted { .. }) || own(OUTSIDE) {
        Verdict::Inconclusive
    } else if worst >= Some(Severity::Low) || own(LIMIT) || own(SIGSYS) {
        Verdict::Suspicious
    } else {
        Verdict::Clean
    }
}

/// Everything that speaks against the run, the heaviest first, with the scores that add up.
pub fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = facts.rules.to_vec();
    findings.extend(own_findings(facts));
    // Stable: what weighs the same stays in the order in which it was seen.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    behaviour::accept(&mut findings, facts.accepted, facts.clock);
    let mut left = 100;
    for finding in findings.iter_mut().filter(|finding| finding.counts()) {
        finding.score = weight(finding.severity).min(left);
        left -= finding.score;
    }
    findings
}

/// What turnkey itself has to say.
fn own_findings(facts: &Facts<'_>) -> Vec<Finding> {
    let Ending::Ran(ran) = facts.ending else {
        return Vec::new();
    };
    let unexplained = ran.condemned && facts.rules.is_empty();
    let killed = unexplained.then(|| {
        own(
            "turnkey:killed",
            Severity::High,
            1,
            "the jail was killed by policy, and no event names the rule",
        )
    });
    let evidence = (!facts.complete).then(|| {
        let reason = match facts.lost {
            _ if !facts.watched => "nobody watched the run: no rule was asked".to_owned(),
            0 => "the monitor did not see the whole run".to_owned(),
            lost => format!("{lost} events are lost"),
        };
        own(
            "turnkey:evidence",
            Severity::Medium,
            facts.lost.max(1),
            &reason,
        )
    });
    let outside = cut_short(ran).map(|words| own(OUTSIDE, Severity::Low, 1, words));
    let sigsys = (facts.sigsys > 0).then(|| {
        let reason = "ended by SIGSYS, as the filter ends what calls the kernel through another architecture's table";
        own(SIGSYS, Severity::Medium, facts.sigsys, reason)
    });
    let limit = facts
        .limit
        .as_ref()
        .map(|words| own(LIMIT, Severity::Low, 1, words));
    let disk = facts
        .disk
        .as_ref()
        .map(|words| own("turnkey:disk", Severity::Info, 1, words));
    [killed, evidence, outside, sigsys, limit, disk]
        .into_iter()
        .flatten()
        .collect()
}

/// Who is known to have ended a run explains a `SIGKILL`; any other one cut short what there was to see.
fn cut_short(ran: &Ran) -> Option<&'static str> {
    if ran.condemned || ran.killed_for_loss || ran.limit.is_some() || ran.interrupted.is_some() {
        return None;
    }
    match ran.status {
        jailer::Status::Unknown => Some(
            "the jail's first process was killed, and not by turnkey: by somebody or something outside of the jail, such as an              administrator or the host's out-of-memory killer; what the program would have done is not known",
        ),
        jailer::Status::Signaled(libc::SIGKILL) => Some(
            "the command was killed by SIGKILL, and not by turnkey: by a process of the jail, or from outside of it; what it              would have done is not known",
        ),
        _ => None,
    }
}

fn own(id: &str, severity: Severity, count: u64, reason: &str) -> Finding {
    Finding {
        id: id.to_owned(),
        severity,
        score: 0,
        count,
        technique: None,
        reason: reason.to_owned(),
        evidence: Vec::new(),
        accepted: None,
    }
}

/// What one finding adds to the score.
pub fn weight(severity: Severity) -> u32 {
    match severity {
        Severity::Info => 0,
        Severity::Low => 10,
        Severity::Medium => 25,
        Severity::High => 60,
        Severity::Critical => 90,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::clock;
    use super::*;
    use jailer::Status as Own;
    use proptest::prelude::*;

    const EXITED: Ran = Ran {
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
            Ending::Ran(Ran { limit: Some(_), .. }) => Some("too much".to_owned()),
            _ => None,
        };
        Facts {
            ending,
            complete: true,
            watched: true,
            lost: 0,
            rules,
            sigsys: 0,
            limit,
            disk: None,
            accepted: &[],
            clock: Box::leak(Box::new(clock())),
        }
    }

    fn judged(facts: &Facts<'_>) -> Verdict {
        verdict(facts, &findings(facts))
    }

    fn code(ran: Ran) -> u8 {
        exit_code(&Ending::Ran(ran), false, OnLoss::Mark)
    }

    #[test]
    fn the_exit_code_is_the_commands_own_unless_something_ended_it() {
        assert_eq!(
            code(Ran {
                status: Own::Exited(7),
                ..EXITED
            }),
            7
        );
        assert_eq!(
            code(Ran {
                status: Own::Signaled(11),
                ..EXITED
            }),
            139
        );
        assert_eq!(
            code(Ran {
                status: Own::Unknown,
                interrupted: Some(2),
                ..EXITED
            }),
            130
        );
        assert_eq!(
            code(Ran {
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
                code(Ran {
                    limit: Some(limit),
                    ..EXITED
                }),
                expected,
                "{limit:?}"
            );
        }
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
    fn lost_evidence_fails_the_run_only_when_the_profile_says_so() {
        let ending = Ending::Ran(Ran {
            status: Own::Exited(3),
            ..EXITED
        });
        assert_eq!(exit_code(&ending, true, OnLoss::Mark), 3);
        assert_eq!(exit_code(&ending, true, OnLoss::Fail), 120);
        assert_eq!(exit_code(&ending, false, OnLoss::Fail), 3);
        let killed = Ending::Ran(Ran {
            status: Own::Signaled(9),
            killed_for_loss: true,
            ..EXITED
        });
        assert_eq!(exit_code(&killed, true, OnLoss::Kill), 120);
        assert_eq!(status(&killed), Status::KilledByPolicy);
    }

    #[test]
    fn a_kill_by_policy_is_never_hidden_by_anything_else() {
        let ending = Ending::Ran(Ran {
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
            status(&Ending::Ran(Ran {
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
        let ending = Ending::Ran(Ran {
            limit: Some(Limit::Wall),
            ..EXITED
        });
        assert_eq!(judged(&facts(&ending, &[])), Verdict::Suspicious);
        let ending = Ending::Ran(Ran {
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
        let ending = Ending::Ran(Ran {
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
        let ending = Ending::Ran(Ran {
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

    fn any_ran() -> impl Strategy<Value = Ran> {
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
                |(status, condemned, killed_for_loss, limit, interrupted)| Ran {
                    status,
                    condemned,
                    killed_for_loss,
                    limit,
                    interrupted,
                },
            )
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

    fn accepted(id: &str, until: time::Date) -> Accepted {
        Accepted {
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
        let ending = Ending::Ran(Ran {
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
}
