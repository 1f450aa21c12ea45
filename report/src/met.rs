//! Limits that a run met and went on after, as findings: what was refused is the program's to handle, and the reader's to know.

use std::collections::BTreeMap;

use turnkey_facts::{Event, Kind, Limit, MetLimit, Usage};
use turnkey_policy::{JailLimits, Severity, syscalls};

use super::clock::Clock;
use super::limit;
use super::model::{EvidenceStep, Finding, StepProcess};
use super::text::escape;
use super::units::{counted, seconds, size};

/// A limit of which only the results of calls tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ToldByResult {
    FileSize,
    OpenFiles,
    Room,
}

impl ToldByResult {
    /// The limit that an event met, and whether it tells of nothing else.
    fn of(event: &Event) -> Option<(Self, bool)> {
        let (errno, tells_nothing_else) = match &event.kind {
            Kind::Refused { errno, on, .. } => (*errno, on.is_none()),
            Kind::Open { errno, .. } => (*errno, false),
            // inotify(7) answers so where there is no watch left, which is no matter of room.
            Kind::Change { errno, call, .. } if syscalls::name(call.nr) != Some(WATCH) => {
                (*errno, false)
            }
            _ => return None,
        };
        let limit = match errno {
            libc::EFBIG => Self::FileSize,
            libc::EMFILE => Self::OpenFiles,
            libc::ENOSPC => Self::Room,
            _ => return None,
        };
        Some((limit, tells_nothing_else))
    }

    fn act(self) -> &'static str {
        match self {
            Self::FileSize => "was to write more than a file may hold",
            Self::OpenFiles => "was to have more files open than a process may",
            Self::Room => "was to write where no room is left",
        }
    }

    fn id(self) -> &'static str {
        match self {
            Self::FileSize => "turnkey:file-size",
            Self::OpenFiles => "turnkey:open-files",
            Self::Room => "turnkey:room",
        }
    }

    fn words(self, count: u64, limits: &JailLimits) -> String {
        match self {
            Self::FileSize => {
                let writes = counted(count, "write", "writes");
                let (most, more) = (size(limits.file_size), limit::twice(limits.file_size));
                format!(
                    "file size: {writes} failed at {most} with EFBIG or SIGXFSZ; allow more with --file-size {more}"
                )
            }
            Self::OpenFiles => {
                let calls = counted(count, "call", "calls");
                let (most, more) = (limits.open_files, limits.open_files.saturating_mul(2));
                format!(
                    "open files: {calls} failed with EMFILE, as a process may have {most} open; allow more with --open-files {more}"
                )
            }
            Self::Room => {
                let calls = counted(count, "call", "calls");
                let more = limit::twice(limits.disk);
                format!(
                    "room: {calls} failed with ENOSPC; allow more with --disk {more} for /workspace, --scratch /tmp=SIZE for /tmp"
                )
            }
        }
    }
}

const WATCH: &str = "inotify_add_watch";

/// The calls that failed at limits of which only their results tell: how many by limit, and the first.
#[derive(Clone, Debug, Default)]
pub struct FailedAtLimits(BTreeMap<ToldByResult, (u64, EvidenceStep)>);

impl FailedAtLimits {
    /// Takes in an event; true when it tells of nothing else.
    pub fn note(&mut self, event: &Event, clock: &Clock) -> bool {
        let Some((limit, tells_nothing_else)) = ToldByResult::of(event) else {
            return false;
        };
        let first = || EvidenceStep {
            time: Some(clock.date(event.time_ns)),
            process: Some(StepProcess {
                pid: event.task.jail_pid,
                comm: escape(&event.task.comm),
            }),
            what: limit.act().to_owned(),
        };
        let (count, _) = self.0.entry(limit).or_insert_with(|| (0, first()));
        *count += 1 + event.repeated;
        tells_nothing_else
    }

    /// A program that goes on opening files that it may not have open: as many were refused as it may have. In words.
    pub fn insisted(&self, limits: &JailLimits) -> Option<String> {
        let (count, _) = self.0.get(&ToldByResult::OpenFiles)?;
        let most = limits.open_files;
        (*count >= u64::from(most)).then(|| format!("open files: {count} refused beyond {most}"))
    }

    fn findings(&self, limits: &JailLimits) -> impl Iterator<Item = Finding> {
        self.0.iter().map(|(limit, (count, first))| Finding {
            evidence: vec![first.clone()],
            ..finding(limit.id(), *count, limit.words(*count, limits))
        })
    }
}

/// A finding for each limit that was met, except the one that ended the run.
pub fn findings(
    (met, failed): (&[MetLimit], &FailedAtLimits),
    ended_by: Option<Limit>,
    limits: &JailLimits,
    usage: &Usage,
) -> Vec<Finding> {
    let survived = met.iter().filter(|met| Some(met.limit) != ended_by);
    let failed = failed.findings(limits).filter(|finding| {
        ended_by != Some(Limit::FileSize) || finding.id != ToldByResult::FileSize.id()
    });
    survived
        .filter_map(|met| kept_by_kernel(met, limits, usage))
        .chain(failed)
        .collect()
}

/// The limits of groups; any other that is passed ends the run.
fn kept_by_kernel(met: &MetLimit, limits: &JailLimits, usage: &Usage) -> Option<Finding> {
    let by = seconds(met.after);
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
        let found = findings((met, &FailedAtLimits::default()), ended_by, &limits, &usage);
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
