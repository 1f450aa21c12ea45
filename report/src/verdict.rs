//! The judgement on a run: status, exit code, verdict and score. Pure.
//!
//! # Verdict
//! The first of these that is true:
//!
//! 1. `violated`: the jail was killed by policy, or a violation of severity `high` or `critical`
//!    was seen, whatever was done about it. It is proven, even if other evidence is lost.
//! 2. `inconclusive`: nothing ran, the monitor did not watch from the first instruction to the
//!    end, as when it came to processes that were there before, an event is lost, a `SIGKILL` that is not turnkey's ended the run, or it went on by `--best-effort` with less
//!    than was asked for.
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
//! One finding of severity `high` makes a run `violated`, and so weighs more than half of the scale. Of [`super::preparation`], a rule's
//! finding is `low` at most.
//!
//! The findings of turnkey itself weigh in the same way: `turnkey:killed` (`high`: the jail was
//! killed and no event says why), `turnkey:evidence` (`medium`: something was not
//! seen), `turnkey:late` (`info`: processes were there before turnkey), `turnkey:outside` (`low`: a signal from outside ended a process of the jail, or a `SIGKILL` of which it is not known who sent it ended the run; of a group, a `SIGKILL` from outside), `turnkey:sigsys` (`medium`: the syscall filter ended a process), `turnkey:limit` (`low`: a
//! limit ended the run), `turnkey:disk` (`info`: the workspace could take no more) and those of [`super::met`] (`info`). The heaviest come first; one that would lift the sum over 100
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
//! | 124 | the wall clock or the CPU time ran out |
//! | 122 | another limit ended the run |
//! | 0 | of an attachment, whatever its processes ended with |
//! | 128+N | turnkey was asked to end by signal N, or the command died from it |
//! | the command's own | otherwise |
//!
//! When a file that was asked for cannot be written once the run is over, 121 and 120 stay, as nothing weighs more, and every other becomes
//! 125.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use turnkey_facts as facts;
use turnkey_facts::Limit;
use turnkey_policy::{AcceptedFinding, OnLoss, Severity};

use super::behaviour;
use super::clock::Clock;
use super::ending::{AttachmentEnding, Ending, NotStarted, RunEnding};
use super::model::{Finding, OtherWatcher, Report, Status, Verdict};
use super::terminal::signal_name;
use super::text::escape;

/// The prefix of the ids of turnkey's own findings.
const OWN: &str = "turnkey:";
const LIMIT: &str = "turnkey:limit";
const OUTSIDE: &str = "turnkey:outside";
const LATE: &str = "turnkey:late";
const SIGSYS: &str = "turnkey:sigsys";

/// All that verdict and score depend on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The end of the run.
    pub ending: &'a Ending,
    /// True when everything was seen.
    pub complete: bool,
    /// The monitor was there.
    pub watched: bool,
    /// Worthless files that the jail held.
    pub decoys: &'a [PathBuf],
    /// A layer is not in force, or not whole, in a run with `--best-effort`.
    pub weaker: bool,
    /// The number of events that are lost.
    pub lost: u64,
    /// The number of symlinks of the run of which it is not known where they lead: of a later call by one of their names neither is its file.
    pub unknown_symlinks: u64,
    /// One finding for every rule that was violated and every behaviour that was seen; the scores
    /// are not looked at.
    pub rules: &'a [Finding],
    /// The findings that the profile accepts, and the day that decides how long.
    pub accepted: &'a [AcceptedFinding],
    /// The start of the run.
    pub clock: &'a Clock,
    /// The process outside of the jail that ended one in it by a signal, unless it was turnkey.
    pub outsider: Option<&'a facts::Outsider>,
    /// Other turnkeys that watched the same processes.
    pub watchers: &'a [OtherWatcher],
    /// Processes that ended by `SIGSYS`.
    pub sigsys: u64,
    /// The sentence about the limit that ended the run, if one did.
    pub limit: Option<String>,
    /// One finding for each limit that the run met and went on after.
    pub met: &'a [Finding],
    /// The sentence about a workspace that is full.
    pub disk: Option<String>,
}

/// The end of the run, in one word.
pub fn status(ending: &Ending) -> Status {
    let ran = match ending {
        Ending::NotStarted { .. } => return Status::SetupFailed,
        Ending::Attached(attached) => return attached_status(attached),
        Ending::Ran(ran) => ran,
    };
    match ran.limit {
        _ if ran.condemned || ran.killed_for_loss => Status::KilledByPolicy,
        Some(Limit::Memory) => Status::OutOfMemory,
        Some(Limit::Wall | Limit::CpuTime) => Status::TimedOut,
        Some(Limit::Pids | Limit::Output | Limit::FileSize) => Status::LimitExceeded,
        None if ran.interrupted.is_some() => Status::Signaled,
        None => match ran.status {
            facts::Status::Exited(_) => Status::Exited,
            facts::Status::Signaled(_) | facts::Status::Unknown => Status::Signaled,
        },
    }
}

fn attached_status(attached: &AttachmentEnding) -> Status {
    if attached.condemned || attached.killed_for_loss {
        Status::KilledByPolicy
    } else if attached.watching {
        Status::Watching
    } else if attached.let_go {
        Status::Detached
    } else {
        Status::Ended
    }
}

/// Turnkey's own exit code: see the module's table.
pub fn exit_code(ending: &Ending, lost: bool, on_loss: OnLoss) -> u8 {
    let ran = match ending {
        Ending::NotStarted { reason, .. } => return not_started(*reason),
        Ending::Attached(attached) => {
            return attached_code(attached, lost && on_loss != OnLoss::Mark);
        }
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

impl Report {
    /// The exit code in the place of `code`, turnkey's own, when a file that was asked for could not be written once the run was over.
    /// The program's own 121 says nothing of a kill.
    pub fn code_of_unwritten(&self, code: u8) -> u8 {
        code_of_unwritten(self.status, self.exit_code, code)
    }
}

fn code_of_unwritten(status: Status, programs: Option<u8>, code: u8) -> u8 {
    let is_turnkeys = status == Status::KilledByPolicy || programs != Some(code);
    match code {
        120 | 121 if is_turnkeys => code,
        _ => 125,
    }
}

fn attached_code(attached: &AttachmentEnding, lost: bool) -> u8 {
    match attached.condemned {
        true => 121,
        false if attached.killed_for_loss || lost => 120,
        false => 0,
    }
}

fn not_started(reason: NotStarted) -> u8 {
    match reason {
        NotStarted::Setup => 125,
        NotStarted::NotExecutable => 126,
        NotStarted::NotFound => 127,
    }
}

fn own_code(ran: &RunEnding) -> u8 {
    let signal = match (ran.interrupted, ran.status) {
        (Some(signal), _) | (None, facts::Status::Signaled(signal)) => signal,
        (None, facts::Status::Exited(code)) => return code,
        // It died with the jail; nothing but SIGKILL ends a jail.
        (None, facts::Status::Unknown) => libc::SIGKILL,
    };
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The verdict: see the module's list.
pub fn verdict(facts: &Facts<'_>, findings: &[Finding]) -> Verdict {
    let counting = || findings.iter().filter(|finding| finding.counts());
    let seen = counting().filter(|finding| !finding.id.starts_with(OWN));
    let worst = seen.map(|finding| finding.severity).max();
    let own = |id: &str| counting().any(|finding| finding.id == id);
    if facts.ending.condemned() || worst >= Some(Severity::High) {
        Verdict::Violated
    } else if !facts.complete
        || facts.weaker
        || matches!(facts.ending, Ending::NotStarted { .. })
        || own(OUTSIDE)
        || own(LATE)
        || facts.unknown_symlinks > 0
    {
        Verdict::Inconclusive
    } else if worst >= Some(Severity::Low) || own(LIMIT) || own(SIGSYS) {
        Verdict::Suspicious
    } else {
        Verdict::Clean
    }
}

/// All findings that speak against the run, the heaviest first, with the scores that add up.
pub fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = facts.rules.to_vec();
    findings.extend(own_findings(facts));
    findings.extend_from_slice(facts.met);
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

/// A remark on decoys: who reads what one held takes it for a secret, unless somebody says what it was.
fn unwatched(decoys: &[PathBuf]) -> String {
    let words = "nobody watched the run: no rule was asked";
    let mut names: Vec<String> = decoys
        .iter()
        .take(DECOYS)
        .map(|path| escape(path.as_os_str().as_bytes()))
        .collect();
    if decoys.len() > DECOYS {
        names.push("…".to_owned());
    }
    match names.as_slice() {
        [] => words.to_owned(),
        names => format!(
            "{words}, and who opened a decoy ({}) is not known",
            names.join(", ")
        ),
    }
}

/// Decoys in one line.
const DECOYS: usize = 3;

/// The findings of turnkey itself.
fn own_findings(facts: &Facts<'_>) -> Vec<Finding> {
    if let Ending::NotStarted { .. } = facts.ending {
        return Vec::new();
    }
    let unexplained = facts.ending.condemned() && facts.rules.is_empty();
    let killed = unexplained.then(|| {
        own(
            "turnkey:killed",
            Severity::High,
            1,
            "killed by policy, and no event names the rule",
        )
    });
    let is_short = !facts.complete || facts.unknown_symlinks > 0;
    let evidence = is_short.then(|| {
        let reason = match facts.lost {
            _ if facts.complete => format!(
                "where {} symlinks lead that were made is not known, nor which files were changed by their names",
                facts.unknown_symlinks
            ),
            _ if is_beginning(facts.ending) => {
                "the report was written when the watch began: it has nothing of what happened"
                    .to_owned()
            }
            _ if !facts.watched => unwatched(facts.decoys),
            0 if left(facts.ending) > 0 => have_left(left(facts.ending)),
            lost if left(facts.ending) > 0 => {
                let left = have_left(left(facts.ending));
                format!("{lost} events are lost; {left}")
            }
            0 => "the monitor did not see the whole run".to_owned(),
            lost => format!("{lost} events are lost"),
        };
        own(
            "turnkey:evidence",
            Severity::Medium,
            facts.lost.max(left(facts.ending)).max(1),
            &reason,
        )
    });
    let outside = killed_by_another(facts.ending, facts.watchers)
        .or_else(|| cut_short(facts.ending, facts.outsider));
    let outside = outside.map(|words| own(OUTSIDE, Severity::Low, 1, &words));
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
    let late = late(facts.ending);
    [killed, evidence, outside, late, sigsys, limit, disk]
        .into_iter()
        .flatten()
        .collect()
}

/// True of a report that is written before anything has happened.
fn is_beginning(ending: &Ending) -> bool {
    matches!(
        ending,
        Ending::Attached(AttachmentEnding { watching: true, .. })
    )
}

/// The number of processes that left a group that was watched.
pub fn left(ending: &Ending) -> u64 {
    match ending {
        Ending::Attached(attached) => attached.left,
        Ending::NotStarted { .. } | Ending::Ran(_) => 0,
    }
}

fn have_left(count: u64) -> String {
    let who = match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    format!("{who} left the group for another one: no rule was asked about what was done there")
}

/// The finding on processes that were there before turnkey.
fn late(ending: &Ending) -> Option<Finding> {
    match ending {
        Ending::Attached(AttachmentEnding { found, .. }) if *found > 0 => Some(own(
            LATE,
            Severity::Info,
            *found,
            "processes were there before turnkey: what they had done, and what they hold open from before, no rule was asked about",
        )),
        _ => None,
    }
}

/// The words on another turnkey that has killed all, where this one did not: by its rules, not by these.
fn killed_by_another(ending: &Ending, watchers: &[OtherWatcher]) -> Option<String> {
    if ending.condemned() || ending.killed_for_loss() {
        return None;
    }
    let other = watchers.iter().find(|other| other.killed)?;
    Some(format!(
        "all was killed by another watcher, {}, whose report has the reason; what would have been done is not known",
        other.name()
    ))
}

/// The words on a signal that cut short what there was to see; `None` when nobody outside of the jail sent one, or
/// turnkey ended the run.
fn cut_short(ending: &Ending, outsider: Option<&facts::Outsider>) -> Option<String> {
    let ran = match ending {
        Ending::NotStarted { .. } => return None,
        Ending::Attached(attached) => return cut_short_of_others(*attached, outsider),
        Ending::Ran(ran) => ran,
    };
    if ran.condemned || ran.killed_for_loss || ran.limit.is_some() || ran.interrupted.is_some() {
        return None;
    }
    if let Some(outsider) = outsider {
        return Some(sent_by(outsider, "jail"));
    }
    let words = match ran.status {
        facts::Status::Unknown => Some(
            "the jail's first process was killed, and not by turnkey: by somebody or something outside of the jail, such as an administrator or the host's out-of-memory killer; what the program would have done is not known",
        ),
        facts::Status::Signaled(libc::SIGKILL) => Some(
            "the command was killed by SIGKILL, and not by turnkey: by a process of the jail, or from outside of it; what it would have done is not known",
        ),
        _ => None,
    };
    words.map(str::to_owned)
}

/// The same of a group. Any other signal from outside is how others end it every day, and lets a program finish what it does.
fn cut_short_of_others(
    attached: AttachmentEnding,
    outsider: Option<&facts::Outsider>,
) -> Option<String> {
    let by_turnkey = attached.condemned || attached.killed_for_loss;
    let killer = outsider.filter(|outsider| outsider.signal == libc::SIGKILL && !by_turnkey)?;
    Some(sent_by(killer, "group"))
}

/// The words on a signal from outside of the jail or group, with its sender.
fn sent_by(outsider: &facts::Outsider, place: &str) -> String {
    let whom = match outsider.target {
        1 => format!("the {place}'s first process"),
        target => format!("process {target} of the {place}"),
    };
    format!(
        "{whom} was ended by {}, which process {} of the host (`{}`, user {}) sent from outside of the {place}; what it would \
         have done is not known",
        signal_name(outsider.signal),
        outsider.pid,
        escape(outsider.name()),
        outsider.uid,
    )
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

/// The points that one finding adds to the score.
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
mod tests;
