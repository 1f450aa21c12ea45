//! An attachment, on one page: a control group that others fill is put under rules, watched, and let go.
//!
//! Nothing of a jail is made: the monitor is all there is. No rule of an attachment acts without its watcher: the programs are called as
//! long as some process watches a group of that level, and whoever watches forgets the groups of those that were killed.

pub mod group;
pub mod guard;
pub mod host_names;
pub mod limits;
mod residents;
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
use self::guard::{Guard, GuardProgram};
use self::limits::{GroupLimits, LimitedGroup};
use self::residents::Residents;
use self::watch::watch;
use crate::event_sink::{EventSink, EventSummary, RunObserver};
use crate::monitor_handle::MonitorHandle;
use crate::run::tell_of_monitor;
use crate::service::UserFile;
use crate::sinks::OpenSink;
use crate::{advice, clock, machine};

/// One attachment that is asked for.
pub struct AttachmentRequest {
    /// The group.
    pub group: ForeignGroup,
    /// The process of a runtime that has not started its program: it counts as if it were not there yet.
    pub before_program: Option<u32>,
    /// The root directory that this runtime is about to give its program, as the host names it.
    pub root: Option<std::path::PathBuf>,
    /// The time after which the group is let go; without one, when no process of it is left or this process is asked to end.
    pub at_most: Option<Duration>,
    /// Hides credentials in the report and the events.
    pub redact: bool,
    /// The residence of the monitor's programs that have to be loaded.
    pub residence: Residence,
    /// Takes every event, as JSON Lines.
    pub events: Option<File>,
    /// Limits on the group for as long as it is watched.
    pub limits: GroupLimits,
    /// Kills the group when this process ends without letting it go.
    pub guard: Option<GuardProgram>,
    /// Are told of each finding at once, and of the verdict.
    pub sinks: Vec<OpenSink>,
}

/// The result of an attachment.
pub struct FinishedAttachment {
    /// The report.
    pub report: Report,
    /// The reason why not every event could be written.
    pub unwritten: Option<anyhow::Error>,
    /// Stays until the caller lets it go, when the report is written: with it dropped, the group is killed.
    pub guard: Option<Guard>,
}

/// Takes the report of an attachment that begins, to be kept until there is another: whoever finds it knows that turnkey still watches,
/// or was killed.
pub type BeginningTaker<'t> = &'t mut dyn FnMut(&Report) -> anyhow::Result<()>;

/// Times that the rings are read at the end, at most, before it is asked who is missed: all that waits there then is taken.
const ROUNDS: usize = 64;

/// The longest time that a reader of the events may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Parts of a jail that an attachment does not give, for its report.
const NOT_GIVEN: [&str; 3] = [
    "namespaces, a root of its own, seccomp, Landlock: what the rules do not speak of is not held back",
    "a wall around the group: a process that may write to cgroup.procs can leave it",
    "descriptors, mappings and connections from before, also of a process that is moved into the group: no rule is asked about them",
];

/// The same of an attachment that sets no limits.
const NO_LIMITS: &str = "limits: those of the group are its maker's";

/// Watches a group under a policy until it ends or is let go, and tells what happened. `beginning` is handed a report before anything
/// is watched, and one with what was found.
///
/// # Errors
/// When no report can be made. An attachment that could not be made has one, which says why.
pub fn attach(
    mut request: AttachmentRequest,
    mut policy: Policy,
    observer: &mut dyn RunObserver,
    beginning: BeginningTaker<'_>,
) -> anyhow::Result<FinishedAttachment> {
    // What the homes of others hold is not looked at, and counts as there.
    policy.settle_home(&[], &|_| true);
    let clock = clock::now();
    let events = request.events.take();
    // A group whose watcher waits for somebody would be killed late, and let go never.
    let events = events.map(|file| UserFile::new(file, None).within(PATIENCE));
    let events = (events, request.redact);
    let mut sink = EventSink::new(events, &policy, clock, observer);
    let sinks = (std::mem::take(&mut request.sinks), request.redact);
    sink.alert(sinks, &policy, &[], None)?;
    let mut teller = Teller {
        policy: &policy,
        clock,
        id: sink.id().to_owned(),
        redact: request.redact,
        beginning,
    };
    let mut guard = None;
    let outcome =
        require(&policy).and_then(|()| attempt(&request, &mut teller, &mut sink, &mut guard));
    sink.observer.ended();
    let outcome = outcome.unwrap_or_else(|error| {
        // Nobody watches any more, and nobody let go: where there is a guard, it kills.
        guard = None;
        AttachmentOutcome::not_made(&error)
    });
    let mut seen = sink.finish(outcome.evidence.records);
    let unwritten = seen.unwritten.take();
    let alerts = seen.alerts.take();
    let mut report = teller.report(outcome, seen)?;
    if let Some(alerts) = alerts {
        report.sinks = alerts.conclude(&report);
    }
    Ok(FinishedAttachment {
        report,
        unwritten,
        guard,
    })
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
    teller: &mut Teller<'_>,
    sink: &mut EventSink<'_>,
    guard: &mut Option<Guard>,
) -> anyhow::Result<AttachmentOutcome> {
    let group = &request.group;
    group.claim();
    let mut limits = LimitedGroup::plan(group, request.limits)?;
    let mut monitor = MonitorHandle::open_tree(teller.policy, group, request.residence)?;
    monitor.require_no_files()?;
    tell_of_monitor(&monitor, sink.observer);
    let canaries = group
        .canary_group()
        .context("the monitor could not be tried")?;
    monitor.prove_in(&canaries)?;
    drop(canaries);

    let watched = watch::prepare(group, &monitor, request.at_most)?;
    // From here on a signal that asks for an end is waited for, and lets the group go.
    teller.begin(&attachment(request, &limits))?;
    *guard = match &request.guard {
        Some(program) => Some(Guard::start(program, group)?),
        None => None,
    };
    limits.enforce()?;
    let was_populated = group.is_populated();
    monitor.adopt_tree(group)?;
    if let Some(program) = monitor.number()? {
        sink.watches(&group.directory()?, program);
    }
    // After the adoption: what is made between the two is watched, and told twice at worst.
    let mut attached = attachment(request, &limits);
    let (mut processes, groups_below) = group.processes()?;
    sink.name_files(&processes, request.root.as_deref());
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
    attached.found = found;
    attached.found_count = found_count;
    attached.groups_below = groups_below;
    if found_count == 0 {
        sink.await_program(teller.policy, request.before_program);
    }
    teller.begin(&attached)?;
    sink.attached(&attached);

    let begun = std::time::Instant::now();
    let mut residents = Residents::default();
    let course = watch(
        watched,
        (group, had_processes),
        guard,
        &mut monitor,
        (&mut *sink, &mut residents),
    )?;
    let mut take = |event| {
        residents.see(&event);
        sink.see(&event);
    };
    // Who is missed is looked for while the ends of those in the group are still told. What a living group makes meanwhile is taken
    // below.
    let _ = (0..ROUNDS).all(|_| monitor.drain(&mut take));
    let absent = residents.absent(group);
    let let_go = group.is_populated();
    // Of a group in which nobody was, no end of a process shows that the programs looked.
    if let_go || !course.had_processes {
        monitor.detach()?;
    }
    attached.seconds = begun.elapsed().as_secs_f64();
    let condemned = monitor.condemned() || course.killed_for_behaviour;
    let killed_for_loss = course.killed_for_loss || monitor.condemned_for_loss();
    attached.interference = course.interference;
    let (layer, evidence) = monitor.finish(|event| {
        residents.see(&event);
        sink.see(&event);
    })?;
    attached.left = residents.left(&absent, &evidence);
    Ok(AttachmentOutcome {
        ending: Ending::Attached(AttachmentEnding {
            condemned,
            killed_for_loss,
            watching: false,
            let_go,
            found: attached.found_count,
            left: attached.left,
        }),
        attached: Some(attached),
        enforcement: vec![layer],
        evidence,
    })
}

/// The attachment as it is known before anything was looked at.
fn attachment(request: &AttachmentRequest, limits: &LimitedGroup<'_>) -> Attachment {
    let name = request.group.name().as_os_str();
    let no_limits = request.limits.is_empty().then_some(NO_LIMITS);
    let not_given = NOT_GIVEN.into_iter().chain(no_limits);
    Attachment {
        group: escape(std::os::unix::ffi::OsStrExt::as_bytes(name)),
        since: clock::now().started_at(),
        seconds: 0.0,
        found: Vec::new(),
        found_count: 0,
        groups_below: 0,
        left: 0,
        limits: limits.settings().to_vec(),
        required: request.guard.is_some(),
        interference: None,
        not_given: not_given.map(str::to_owned).collect(),
    }
}

/// Makes the reports of one attachment.
struct Teller<'t> {
    policy: &'t Policy,
    clock: Clock,
    id: String,
    redact: bool,
    beginning: BeginningTaker<'t>,
}

/// The observer of what has not begun.
struct NoObserver;

impl RunObserver for NoObserver {}

impl Teller<'_> {
    /// Hands over a report that has nothing of what is going to happen.
    fn begin(&mut self, attached: &Attachment) -> anyhow::Result<()> {
        let outcome = AttachmentOutcome {
            ending: Ending::Attached(AttachmentEnding {
                watching: true,
                found: attached.found_count,
                ..AttachmentEnding::default()
            }),
            attached: Some(attached.clone()),
            enforcement: Vec::new(),
            evidence: Evidence::default(),
        };
        let mut nobody = NoObserver;
        let nothing = EventSink::new((None, false), self.policy, self.clock, &mut nobody);
        let report = self.report(outcome, nothing.finish(None))?;
        (self.beginning)(&report)
    }

    fn report(&self, outcome: AttachmentOutcome, seen: EventSummary) -> anyhow::Result<Report> {
        let report = Report::build(ReportInputs {
            ending: outcome.ending,
            attached: outcome.attached,
            watchers: seen.watchers.0,
            watchers_unlisted: seen.watchers.1,
            enforcement: &outcome.enforcement,
            evidence: outcome.evidence,
            observations: seen.observations,
            engine: seen.engine,
            ..ReportInputs::of_nothing(self.policy, self.clock, self.id.clone(), machine::host()?)
        });
        match self.redact {
            true => redact::report(report).context("could not redact the report"),
            false => Ok(report),
        }
    }
}
