//! From the end of a run to its report: one carrier of facts on the way.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::Context;
use nix::libc::{SIGKILL, SIGXFSZ};
use turnkey_facts::{
    ChangedFile, LayerReport, Limit, MetLimit, Outsider, Passage, Publication, SinkholeTraffic,
    Status, Usage, Written,
};
use turnkey_jailer::{JailError, JailExit};
use turnkey_report::{
    Captured, Ending, Evidence, Export, Kept, NotStarted, Report, ReportInputs, RunEnding,
    ServedFor, redact,
};

use crate::event_sink::{EventSink, EventSummary};
use crate::relay::RelayedStream;
use crate::run::{FinishedRun, RunRequest};
use crate::settle::SettledPolicy;
use crate::supervise::RunCourse;
use crate::toolchain::ToolchainNeed;
use crate::{caller_variables, machine, missing_hint, programs_left, repository_left};

/// The outcome of a run, or of one that did not start.
pub struct RunOutcome {
    ending: Ending,
    usage: Option<Usage>,
    met: Vec<MetLimit>,
    enforcement: Vec<LayerReport>,
    changed: Vec<ChangedFile>,
    changed_unlisted: u64,
    written: Option<Written>,
    evidence: Evidence,
    streams: Option<[RelayedStream; 2]>,
    /// The files brought out of the workspace.
    pub export: Option<Export>,
    /// The layer that has taken what was written.
    pub kept: Option<Kept>,
    /// The numbers of the calls that were made.
    pub calls: Option<Vec<u32>>,
    /// The traffic that the gateway passed on.
    pub passages: Vec<Passage>,
    /// The traffic that the sinkhole took; `None` without one.
    pub sinkhole: Option<SinkholeTraffic>,
    /// The ports that led to the program.
    pub published: Vec<Publication>,
    /// The reason why the caller did not get all of the program's output, where it wanted it.
    pub lost_output: Option<anyhow::Error>,
}

impl RunOutcome {
    /// A run that took place; `condemned` says that the kernel has killed the jail for a rule.
    pub fn ran(
        course: &RunCourse,
        condemned: bool,
        exit: JailExit,
        (monitor, mut evidence): (LayerReport, Evidence),
        streams: [RelayedStream; 2],
    ) -> RunOutcome {
        // What turnkey sends is its caller's will, or the end of the run.
        let own = |outsider: &Outsider| outsider.pid == std::process::id();
        evidence.outsider = evidence.outsider.filter(|outsider| !own(outsider));
        let met = own_limit(&exit).filter(|_| course.ended_by_itself());
        let ran = RunEnding {
            status: exit.status,
            condemned: condemned || course.killed_for_behaviour,
            killed_for_loss: course.killed_for_loss,
            limit: course.limit.or(met),
            interrupted: course.interrupted,
        };
        let mut enforcement = exit.enforcement;
        enforcement.push(monitor);
        RunOutcome {
            usage: Some(exit.usage),
            met: exit.met,
            enforcement,
            changed: exit.changed,
            changed_unlisted: exit.changed_unlisted,
            written: exit.written,
            evidence,
            streams: Some(streams),
            ..RunOutcome::of(Ending::Ran(ran))
        }
    }

    /// A run that did not start, and `message` for people.
    pub fn not_started(error: &anyhow::Error, message: String) -> RunOutcome {
        let reason = match error.downcast_ref::<JailError>() {
            Some(JailError::NotFound(_)) => NotStarted::NotFound,
            Some(JailError::NotExecutable(_) | JailError::ExecFailed { .. }) => {
                NotStarted::NotExecutable
            }
            _ => NotStarted::Setup,
        };
        RunOutcome::of(Ending::NotStarted { reason, message })
    }

    fn of(ending: Ending) -> RunOutcome {
        RunOutcome {
            ending,
            usage: None,
            met: Vec::new(),
            enforcement: Vec::new(),
            changed: Vec::new(),
            changed_unlisted: 0,
            written: None,
            evidence: Evidence::default(),
            streams: None,
            export: None,
            kept: None,
            calls: None,
            passages: Vec::new(),
            sinkhole: None,
            published: Vec::new(),
            lost_output: None,
        }
    }
}

/// The limit that the command itself died of, though nobody ended the run for it: what the kernel's memory killer takes
/// is ended by `SIGKILL`, and without its command, or its first process, a jail is over.
fn own_limit(exit: &JailExit) -> Option<Limit> {
    match exit.status {
        Status::Signaled(SIGXFSZ) => Some(Limit::FileSize),
        Status::Signaled(SIGKILL) | Status::Unknown if exit.usage.oom_kills > 0 => {
            Some(Limit::Memory)
        }
        _ => None,
    }
}

/// The report of a run, with all else that its caller may want of it.
pub fn finish(
    mut outcome: RunOutcome,
    request: &RunRequest,
    settled: &SettledPolicy,
    sink: EventSink<'_>,
) -> anyhow::Result<FinishedRun> {
    let policy = settled.policy();
    let clock = sink.clock();
    let mut seen = sink.finish(outcome.evidence.records);
    let unwritten = outcome.lost_output.take();
    let unwritten = seen.unwritten.take().or(unwritten);
    let alerts = seen.alerts.take();
    let streams = outcome.streams.iter().flatten();
    let output = streams.map(|stream| stream.total).sum();
    let last = outcome.streams.as_ref();
    let last = last.map_or([None; 2], |streams| {
        streams.each_ref().map(|stream| stream.last)
    });
    let (calls, passages) = (outcome.calls.clone(), outcome.passages.clone());
    let published = turnkey_report::published(&outcome.published);
    let mut report = build(outcome, request, settled, clock, seen)?;
    let needed = settled
        .brought_in()
        .into_iter()
        .flat_map(ToolchainNeed::told);
    report.brought_in = needed.collect();
    report.published = published;
    report.served = request.served.as_ref().map(|served| ServedFor {
        user: served.user.user,
        group: served.user.group,
        lowered: served.lowered.clone(),
    });
    let hidden = || request.directory.mounts_hidden(policy);
    report.mounts_hidden = request.by_its_rights(hidden)?;
    report.terminal = request.terminal.is_some() && report.error.is_none();
    request.by_its_rights(|| {
        missing_hint::note(&mut report, policy, &request.directory);
        repository_left::note(&mut report, &request.directory);
        programs_left::note(&mut report, policy, &request.directory);
        caller_variables::note(&mut report, policy, &request.directory.environment);
    })?;
    if request.redact {
        report = redact::report(report).context("could not redact the report")?;
    }
    if let Some(alerts) = alerts {
        report.sinks = alerts.conclude(&report);
    }
    Ok(FinishedRun {
        report,
        calls,
        allowed: policy.network.allow.clone(),
        passages,
        output,
        last,
        unwritten,
    })
}

fn build(
    outcome: RunOutcome,
    request: &RunRequest,
    settled: &SettledPolicy,
    clock: turnkey_report::Clock,
    seen: EventSummary,
) -> anyhow::Result<Report> {
    let capture = |relayed: RelayedStream| Captured {
        bytes: relayed.kept,
        total: relayed.total,
    };
    let [stdout, stderr] = match outcome.streams.filter(|_| request.capture) {
        Some(streams) => streams.map(|relayed| Some(capture(relayed))),
        None => [None, None],
    };
    let bytes = |argument: &OsString| argument.as_bytes().to_vec();
    let lowered = request.served.as_ref();
    Ok(Report::build(ReportInputs {
        policy: settled.policy(),
        best_effort: settled.strictness() == crate::Strictness::BestEffort,
        clock,
        id: seen.id,
        command: &request.command.iter().map(bytes).collect::<Vec<_>>(),
        host: machine::host()?,
        ending: outcome.ending,
        attached: None,
        watchers: seen.watchers.0,
        watchers_unlisted: seen.watchers.1,
        usage: outcome.usage,
        enforcement: &outcome.enforcement,
        met: &outcome.met,
        stdout,
        stderr,
        files_changed: &outcome.changed,
        files_unlisted: outcome.changed_unlisted,
        written: outcome.written,
        evidence: outcome.evidence,
        export: outcome.export,
        kept: outcome.kept,
        passages: &outcome.passages,
        sinkhole: outcome.sinkhole.as_ref(),
        redacts: request.redact,
        calls: outcome.calls.as_deref(),
        lowered: lowered.map_or(&[], |caller| &caller.lowered),
        observations: seen.observations,
        engine: seen.engine,
    }))
}
