//! An attachment, on one page: a control group that others fill is put under rules, watched, and let go.
//!
//! Nothing of a jail is made: the monitor is all there is. No rule of an attachment acts without its watcher: the programs are called as
//! long as some process watches a group of that level, and whoever watches forgets the groups of those that were killed.

pub mod group;
mod survey;
mod watch;

use std::fs::File;
use std::time::Duration;

use anyhow::Context;
use turnkey_facts::LayerReport;
use turnkey_monitor::Residence;
use turnkey_policy::{Layer, NetworkMode, Policy};
use turnkey_report::{
    Attachment, AttachmentEnding, Clock, Ending, Evidence, NotStarted, Report, ReportInputs,
    by_reason, escape, redact,
};

use self::group::ForeignGroup;
use self::watch::watch;
use crate::event_sink::{EventSink, RunObserver};
use crate::monitor_handle::MonitorHandle;
use crate::sinks::OpenSink;
use crate::{advice, clock, machine};

/// One attachment that is asked for.
pub struct AttachmentRequest {
    /// The group.
    pub group: ForeignGroup,
    /// The process of a runtime that has not started its program: it counts as if it were not there yet.
    pub before_program: Option<u32>,
    /// The time after which the group is let go; without one, when no process of it is left or this process is asked to end.
    pub at_most: Option<Duration>,
    /// Hides credentials in the report and the events.
    pub redact: bool,
    /// The residence of the monitor's programs that have to be loaded.
    pub residence: Residence,
    /// Takes every event, as JSON Lines.
    pub events: Option<File>,
    /// Are told of each finding at once, and of the verdict.
    pub sinks: Vec<OpenSink>,
}

/// The result of an attachment.
pub struct FinishedAttachment {
    /// The report.
    pub report: Report,
    /// The reason why not every event could be written.
    pub unwritten: Option<anyhow::Error>,
}

/// Parts of a jail that an attachment does not give, for its report.
const NOT_GIVEN: [&str; 4] = [
    "namespaces, a root of its own, seccomp, Landlock: what the rules do not speak of is not held back",
    "limits: those of the group are its maker's",
    "a wall around the group: a process that may write to cgroup.procs can leave it",
    "descriptors, mappings and connections from before, also of a process that is moved into the group: no rule is asked about them",
];

/// Watches a group under a policy until it ends or is let go, and tells what happened.
///
/// # Errors
/// When no report can be made. An attachment that could not be made has one, which says why.
pub fn attach(
    mut request: AttachmentRequest,
    mut policy: Policy,
    observer: &mut dyn RunObserver,
) -> anyhow::Result<FinishedAttachment> {
    // What the homes of others hold is not looked at, and counts as there.
    policy.settle_home(&[], &|_| true);
    let clock = clock::now();
    let events = (request.events.take(), request.redact);
    let mut sink = EventSink::new(events, &policy, clock, observer);
    let sinks = (std::mem::take(&mut request.sinks), request.redact);
    sink.alert(sinks, &policy, &[])?;
    let outcome = require(&policy).and_then(|()| attempt(&request, &policy, &mut sink));
    sink.observer.ended();
    let outcome = outcome.unwrap_or_else(|error| AttachmentOutcome::not_made(&error));
    told(outcome, &request, &policy, sink)
}

/// The outcome of an attachment, or of one that was not made.
struct AttachmentOutcome {
    ending: Ending,
    attached: Option<Attachment>,
    enforcement: Vec<LayerReport>,
    evidence: Evidence,
}

impl AttachmentOutcome {
    fn not_made(error: &anyhow::Error) -> AttachmentOutcome {
        AttachmentOutcome {
            ending: Ending::NotStarted {
                reason: NotStarted::Setup,
                message: advice::explain(error),
            },
            attached: None,
            enforcement: Vec::new(),
            evidence: Evidence::default(),
        }
    }
}

/// Refuses a policy that asks for what processes of others cannot be given.
fn require(policy: &Policy) -> anyhow::Result<()> {
    let required = policy.enforcement.required.iter();
    let others = required.filter(|layer| **layer != Layer::Monitor);
    let others: Vec<_> = others
        .map(|layer| {
            (
                layer.name(),
                "processes that others started cannot be given it",
            )
        })
        .collect();
    if !others.is_empty() {
        let named: Vec<String> = by_reason(others.into_iter())
            .into_iter()
            .map(|(names, reason)| format!("{names}: {reason}"))
            .collect();
        anyhow::bail!(
            "the profile `{}` requires more than a monitor: {}; use --profile container, service or runner, or write \
             `required = [\"monitor\"]` under [enforcement]",
            policy.name,
            named.join("; ")
        );
    }
    anyhow::ensure!(
        policy.network.mode == NetworkMode::Host,
        "the profile `{}` asks for a network of its own, and an attachment makes none: write `mode = \"host\"` under \
         [network], and rules on connect, bind and send for what is not to be reached",
        policy.name
    );
    Ok(())
}

/// The attachment itself. Whatever fails, the programs leave the kernel with their owner's drop.
fn attempt(
    request: &AttachmentRequest,
    policy: &Policy,
    sink: &mut EventSink<'_>,
) -> anyhow::Result<AttachmentOutcome> {
    let group = &request.group;
    group.claim();
    let mut monitor = MonitorHandle::open_tree(policy, group, request.residence)?;
    monitor.require_no_files()?;
    let beside = group.beside().context("the monitor could not be tried")?;
    monitor.prove_beside(&beside)?;
    drop(beside);

    let watched = watch::prepare(group, &monitor, request.at_most)?;
    let was_populated = group.is_populated();
    monitor.adopt_tree(group)?;
    // After the adoption: what is made between the two is watched, and told twice at worst.
    let since = clock::now();
    let (mut processes, groups_below) = group.processes()?;
    let had_processes = was_populated || !processes.is_empty();
    processes.retain(|process| Some(*process) != request.before_program);
    let found_count = u64::try_from(processes.len()).unwrap_or(u64::MAX);
    // One that went from group to group while they were listed was there all the same.
    let hidden = was_populated && found_count == 0 && request.before_program.is_none();
    let found_count = found_count + u64::from(hidden);
    let (found, known): (Vec<_>, Vec<_>) = survey::survey(processes)
        .into_iter()
        .map(|process| (process.found, process.known))
        .unzip();
    known
        .into_iter()
        .flatten()
        .for_each(|process| sink.know(process));
    let mut attached = Attachment {
        group: escape(std::os::unix::ffi::OsStrExt::as_bytes(
            group.name().as_os_str(),
        )),
        since: since.started_at(),
        seconds: 0.0,
        found,
        found_count,
        groups_below,
        not_given: NOT_GIVEN.map(str::to_owned).to_vec(),
    };
    if found_count == 0 {
        sink.await_program();
    }
    sink.attached(&attached);

    let begun = std::time::Instant::now();
    let course = watch(watched, (group, had_processes), &mut monitor, sink)?;
    let let_go = group.is_populated();
    if let_go {
        monitor.detach()?;
    }
    attached.seconds = begun.elapsed().as_secs_f64();
    let condemned = monitor.condemned() || course.killed_for_behaviour;
    let killed_for_loss = course.killed_for_loss || monitor.condemned_for_loss();
    let (layer, evidence) = monitor.finish(|event| {
        sink.see(&event);
    })?;
    Ok(AttachmentOutcome {
        ending: Ending::Attached(AttachmentEnding {
            condemned,
            killed_for_loss,
            let_go,
            found: attached.found_count,
        }),
        attached: Some(attached),
        enforcement: vec![layer],
        evidence,
    })
}

fn told(
    outcome: AttachmentOutcome,
    request: &AttachmentRequest,
    policy: &Policy,
    sink: EventSink<'_>,
) -> anyhow::Result<FinishedAttachment> {
    let clock: Clock = sink.clock();
    let mut seen = sink.finish(outcome.evidence.records);
    let unwritten = seen.unwritten.take();
    let alerts = seen.alerts.take();
    let report = Report::build(ReportInputs {
        policy,
        best_effort: false,
        clock,
        id: seen.id,
        command: &[],
        host: machine::host()?,
        ending: outcome.ending,
        attached: outcome.attached,
        usage: None,
        enforcement: &outcome.enforcement,
        met: &[],
        stdout: None,
        stderr: None,
        files_changed: &[],
        files_unlisted: 0,
        written: None,
        evidence: outcome.evidence,
        export: None,
        kept: None,
        passages: &[],
        calls: None,
        observations: seen.observations,
        engine: seen.engine,
    });
    let mut report = match request.redact {
        true => redact::report(report).context("could not redact the report")?,
        false => report,
    };
    if let Some(alerts) = alerts {
        report.sinks = alerts.conclude(&report);
    }
    Ok(FinishedAttachment { report, unwritten })
}
