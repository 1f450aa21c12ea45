//! Limits that a run met and went on after, as findings: what was refused is the program's to handle, and the reader's to know.

use turnkey_facts::{Event, Kind, Limit, MetLimit, Usage};
use turnkey_policy::{JailLimits, Severity};

use super::clock::Clock;
use super::limit::{self, size};
use super::model::{EvidenceStep, Finding, StepProcess};
use super::text::escape;

/// Writes that failed because a file would have grown over the limit of its size.
#[derive(Clone, Debug, Default)]
pub struct CutWrites {
    count: u64,
    first: Option<EvidenceStep>,
}

impl CutWrites {
    /// Takes in an event; true when it tells of nothing else.
    pub fn note(&mut self, event: &Event, clock: &Clock) -> bool {
        let (errno, tells_nothing_else) = match event.kind {
            Kind::Refused { errno, on, .. } => (errno, on.is_none()),
            Kind::Change { errno, .. } => (errno, false),
            _ => return false,
        };
        if errno != libc::EFBIG {
            return false;
        }
        self.count += 1 + event.repeated;
        self.first.get_or_insert_with(|| EvidenceStep {
            time: Some(clock.date(event.time_ns)),
            process: Some(StepProcess {
                pid: event.task.jail_pid,
                comm: escape(&event.task.comm),
            }),
            what: "was to write more than a file may hold".to_owned(),
        });
        tells_nothing_else
    }

    fn finding(&self, limits: &JailLimits) -> Option<Finding> {
        let first = self.first.clone()?;
        let writes = counted(self.count, "write", "writes");
        let (most, more) = (size(limits.file_size), limit::twice(limits.file_size));
        let reason = format!(
            "file size: {writes} failed at {most} with EFBIG or SIGXFSZ; allow more with --file-size {more}"
        );
        Some(Finding {
            evidence: vec![first],
            ..finding("turnkey:file-size", self.count, reason)
        })
    }
}

/// A finding for each limit that was met, except the one that ended the run.
pub fn findings(
    (met, cut): (&[MetLimit], &CutWrites),
    ended_by: Option<Limit>,
    limits: &JailLimits,
    usage: &Usage,
) -> Vec<Finding> {
    let survived = met.iter().filter(|met| Some(met.limit) != ended_by);
    let cut = (ended_by != Some(Limit::FileSize)).then(|| cut.finding(limits));
    survived
        .filter_map(|met| kept_by_kernel(met, limits, usage))
        .chain(cut.flatten())
        .collect()
}

/// The limits of groups; any other that is passed ends the run.
fn kept_by_kernel(met: &MetLimit, limits: &JailLimits, usage: &Usage) -> Option<Finding> {
    let by = limit::seconds(met.after);
    let (id, words) = match met.limit {
        Limit::Pids => {
            let peak = usage.pids_peak.map(|peak| format!("{peak} of "));
            let (all, more) = (limits.pids, limits.pids.saturating_mul(2));
            let refused = counted(met.count, "was", "were");
            let words = format!(
                "tasks: {}{all} at once; {refused} refused with EAGAIN, the first within {by}; allow more with --pids {more}",
                peak.unwrap_or_default()
            );
            ("turnkey:pids", words)
        }
        Limit::Memory => {
            let killed = counted(met.count, "process", "processes");
            let (all, more) = (size(limits.memory), limit::twice(limits.memory));
            let words = format!(
                "memory: {all} were used up; the kernel killed {killed}, the first within {by}, and the command lived on; allow more with --memory {more}"
            );
            ("turnkey:memory", words)
        }
        _ => return None,
    };
    Some(finding(id, met.count, words))
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn finding(id: &str, count: u64, reason: String) -> Finding {
    Finding {
        id: id.to_owned(),
        severity: Severity::Info,
        score: 0,
        count,
        technique: None,
        reason,
        evidence: Vec::new(),
        accepted: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn words(met: &[MetLimit], ended_by: Option<Limit>) -> Vec<String> {
        let usage = Usage {
            pids_peak: Some(50),
            ..Usage::default()
        };
        let limits = JailLimits::default();
        let found = findings((met, &CutWrites::default()), ended_by, &limits, &usage);
        found.into_iter().map(|one| one.reason).collect()
    }

    #[test]
    fn count_time_and_flag_are_named() {
        let after = Duration::from_millis(1200);
        let met = [
            MetLimit {
                limit: Limit::Pids,
                count: 3,
                after,
            },
            MetLimit {
                limit: Limit::Memory,
                count: 1,
                after,
            },
        ];
        let expected = [
            "tasks: 50 of 50 at once; 3 were refused with EAGAIN, the first within 1.20 s; allow more with --pids 100",
            "memory: 256 MiB were used up; the kernel killed 1 process, the first within 1.20 s, and the command lived on; allow more with --memory 512M",
        ];
        assert_eq!(words(&met, None), expected);
        assert_eq!(words(&met, Some(Limit::Memory)), expected[..1]);
    }
}
