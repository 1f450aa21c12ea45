//! Courses of acts as findings, and findings that the profile accepts.

use std::collections::BTreeMap;
use std::time::Duration;

use turnkey_analysis::behaviour::{End, Found, Step};
use turnkey_facts::{Change, ChangedFile, ContentFate, Limit, MetLimit, Usage};
use turnkey_policy::{AcceptedFinding, JailLimits, Policy, Severity};

use super::clock::Clock;
use super::ending::{Ending, RunEnding};
use super::limit;
use super::model::{Acceptance, EvidenceStep, Finding, StepProcess};
use super::text::escape;
use super::units::seconds;

/// The prefix of the ids of such findings.
pub const PREFIX: &str = "behaviour:";

/// True when a finding is a course of acts.
pub fn is_one(finding: &Finding) -> bool {
    finding.id.starts_with(PREFIX)
}

/// The facts about the end of a run that detectors need.
pub fn end(
    policy: &Policy,
    ending: &Ending,
    usage: Option<&Usage>,
    met: &[MetLimit],
    disk: Option<&String>,
    changed: &[ChangedFile],
) -> End {
    let Ending::Ran(ran) = ending else {
        return End::default();
    };
    let unknown = Usage::default();
    let usage = usage.unwrap_or(&unknown);
    let limits = &policy.limits;
    let full = ran
        .limit
        .filter(|limit| matches!(limit, Limit::Memory | Limit::Pids));
    let mut reached: Vec<String> = full
        .map(|limit| limit::words(limit, limits, usage))
        .map(without_advice)
        .into_iter()
        .collect();
    let bombed = met.iter().find(|met| is_bomb(met, limits));
    let refused = met
        .iter()
        .find(|met| met.limit == Limit::Pids && !is_bomb(met, limits));
    let insisted = met.iter().filter(|met| {
        ran.limit != Some(met.limit) && !is_bomb(met, limits) && insists(met, ran.limit.is_some())
    });
    reached.extend(insisted.map(|met| without_advice(limit::words(met.limit, limits, usage))));
    reached.extend(disk.cloned().map(without_advice));
    let of_fate = |fate| paths(changed, |file| file.content == fate);
    End {
        reached,
        bombed: bombed.map(|met| bomb_words(met, limits)),
        refused_tasks: refused.map(|met| bomb_words(met, limits)),
        idle: idle(ran, limits, usage),
        scrambled: of_fate(ContentFate::Scrambled),
        replaced: of_fate(ContentFate::Replaced),
        kept: of_fate(ContentFate::Kept),
        levelled: levelled(changed),
        emptied: paths(changed, |file| {
            file.content == ContentFate::Replaced && file.size == Some(0)
        }),
        gone: paths(changed, |file| file.change == Change::Deleted),
        backdated: paths(changed, |file| file.backdated),
        sent: Vec::new(),
    }
}

/// The paths of the changed files of which this is true.
fn paths(changed: &[ChangedFile], is_one: impl Fn(&ChangedFile) -> bool) -> Vec<String> {
    let files = changed.iter().filter(|file| is_one(file));
    files.map(|file| escape(&file.path)).collect()
}

/// The most files that were there and have the same content now.
fn levelled(changed: &[ChangedFile]) -> Vec<String> {
    let mut by_content: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for file in changed {
        if let (ContentFate::Replaced, Some(content)) = (file.content, &file.sha256) {
            let alike = by_content.entry(content).or_default();
            alike.push(escape(&file.path));
        }
    }
    let most = by_content.into_values().max_by_key(Vec::len);
    most.unwrap_or_default()
}

/// True when as many tasks again were refused as there may be, and more than a few shells are that wait, and try again some times each.
fn is_bomb(met: &MetLimit, limits: &JailLimits) -> bool {
    const WAITING: u32 = 32;
    met.limit == Limit::Pids && met.count >= u64::from(limits.pids.max(WAITING))
}

fn bomb_words(met: &MetLimit, limits: &JailLimits) -> String {
    format!("tasks: {} refused beyond {}", met.count, limits.pids)
}

/// True when a program went on taking memory that it was refused: several of its processes were killed; or it met any
/// limit before another one ended the run.
fn insists(met: &MetLimit, was_ended: bool) -> bool {
    const KILLED: u64 = 5;
    was_ended || (met.limit != Limit::Pids && met.count >= KILLED)
}

/// The words on what happened; what to do about it is said by the finding of the limit.
fn without_advice(words: String) -> String {
    words.split(';').next().unwrap_or_default().to_owned()
}

/// The clock ended it, and it had used less than a hundredth of the time. In a short one it may have waited for its input.
fn idle(ran: &RunEnding, limits: &JailLimits, usage: &Usage) -> Option<String> {
    let used = usage.user? + usage.system?;
    const SHORT: Duration = Duration::from_secs(5);
    let idle = ran.limit == Some(Limit::Wall) && used * 100 < limits.wall && limits.wall >= SHORT;
    idle.then(|| {
        format!(
            "did nothing for nearly all of {}: it used {} of a CPU",
            seconds(limits.wall),
            seconds(used)
        )
    })
}

/// The findings made of the recognised behaviours, without scores.
pub fn findings(found: Vec<Found>, clock: &Clock) -> impl Iterator<Item = Finding> {
    found.into_iter().map(|found| Finding {
        id: format!("{PREFIX}{}", found.behaviour),
        severity: found.behaviour.severity(),
        score: 0,
        count: found.count,
        technique: Some(found.behaviour.technique().to_owned()),
        reason: found.behaviour.about().to_owned(),
        evidence: found.steps.iter().map(|one| step(one, clock)).collect(),
        accepted: None,
    })
}

/// The line of a profile for whoever meant such a course of acts; none for what no program should do, and for other findings.
pub fn to_allow(finding: &Finding) -> Option<String> {
    let name = finding.id.strip_prefix(PREFIX)?;
    let is_meant = finding.severity < Severity::Critical;
    is_meant.then(|| format!("[behaviour] {name} = \"off\""))
}

fn step(step: &Step, clock: &Clock) -> EvidenceStep {
    EvidenceStep {
        time: step.time_ns.map(|time| clock.date(time)),
        process: step.process.as_ref().map(|(pid, comm)| StepProcess {
            pid: *pid,
            comm: escape(comm),
        }),
        what: escape(&step.what),
    }
}

/// Notes on each finding what the profile says of it, as long as it holds.
pub fn accept(findings: &mut [Finding], accepted: &[AcceptedFinding], clock: &Clock) {
    for finding in findings {
        let said = accepted.iter().find(|one| one.finding == finding.id);
        finding.accepted = said.map(|one| Acceptance {
            why: escape(one.why.as_bytes()),
            until: one.until.to_string(),
            expired: clock.day() > one.until,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_shells_that_wait_are_no_bomb_however_few_tasks_there_may_be() {
        let is_bomb = |count, pids| {
            let limits = JailLimits {
                pids,
                ..crate::fixture::policy().limits
            };
            let met = MetLimit {
                limit: Limit::Pids,
                count,
                after: std::time::Duration::ZERO,
            };
            super::is_bomb(&met, &limits)
        };
        assert!(!is_bomb(15, 2) && !is_bomb(31, 1) && !is_bomb(49, 50));
        assert!(is_bomb(32, 2) && is_bomb(50, 50));
    }
}
