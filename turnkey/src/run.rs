//! `turnkey run`: the flow, on one page. Policy, plan, rules, monitor, jail, loop, report.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use turnkey_jailer::{
    ChangedFile, Command, Exit, Host, JailError, LayerReport, Limit, Plan, Prepared, Status, Usage,
    Written, rootless,
};
use turnkey_monitor::Event;
use turnkey_monitor::behaviour::Judge;
use turnkey_policy::{Allowed, LoadError, Policy};

use crate::cli::{OverrideArguments, RunArguments};
use crate::gateway::{self, Gateway, List, Passage};
use crate::output::{Open, Output};
use crate::outputs::Outputs;
use crate::progress::Progress;
use crate::relay::{Relayed, Streams, Target};
use crate::report::{
    self, Aggregator, Captured, Clock, Ending, EventWriter, Evidence, Export, Inputs, NotStarted,
    Observations, Ran, Report,
};
use crate::supervise::{Supervisor, supervise};
use crate::watch::{self, EmptyGroup, Watch};
use crate::{
    accept, advice, clock, colour, elsewhere, export, filters, home, network, scope, start, tell,
    text_file, toolchain,
};

/// Why there is no run, before a report could be written.
#[derive(Debug)]
pub enum Failure {
    /// The profile or an override; rendered with the place in its text.
    Profile(Box<LoadError>),
    /// Anything else.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(error.into())
    }
}

/// Runs the command and answers turnkey's exit status.
pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let (report, events) = (arguments.report.as_deref(), arguments.events.as_deref());
    let outputs = Outputs::find(report, events, arguments.export.as_deref())?;
    let entered = enter();
    let policy = load(&arguments.profile, &arguments.overrides)?;
    let done = under(arguments, policy, (entered, outputs), None)?;
    Ok(done.report.exit_code())
}

/// The namespace of a caller without privileges, or why there is none.
pub type Entered = Result<(), rootless::RootlessError>;

/// Goes where the run is made from. Before anything is opened that is to be mounted: a file belongs to the mounts
/// it was opened among.
pub fn enter() -> Entered {
    // As the caller: in a namespace of their own they look like root, whom their manager does not know.
    if let Err(error) = scope::enter() {
        // Not a reason to stop: the groups are as strict where they are made now.
        tell::line(&format!(
            "the groups of this run are made without systemd's knowledge: {error:#}"
        ));
    }
    rootless::enter().map(drop)
}

/// What came of a run.
pub struct Done {
    /// The report, which is written already where that was asked for.
    pub report: Report,
    /// The numbers of the system calls that were made, where that was asked for.
    pub calls: Option<Vec<u32>>,
    /// Whom the policy allowed, each name with what it led to.
    pub allowed: Vec<Allowed>,
    /// What was passed on to them.
    pub passages: Vec<Passage>,
    /// Bytes on both of the program's outputs.
    pub output: u64,
}

/// Somebody else who is shown every event.
pub type Look<'l> = &'l mut dyn FnMut(&Event);

/// Runs the command under a policy.
pub fn under(
    arguments: &RunArguments,
    mut policy: Policy,
    (entered, outputs): (Entered, Outputs),
    look: Option<Look<'_>>,
) -> Result<Done, Failure> {
    let program = arguments.command.first().cloned().unwrap_or_default();
    let brought_in = toolchain::bring_in(&mut policy, &program, arguments.workdir.as_deref())?;
    home::settle(&mut policy, arguments.workdir.as_deref());
    let resolved = network::resolve(&mut policy);
    outputs.require_unreachable(&policy)?;
    let streams = to(&outputs);
    let report_file = outputs.report.map(|report| opened("a report", report));
    let report_file = report_file.transpose()?;
    let wanted = export::Wanted::from(arguments, outputs.export, &policy)?;
    let clock = clock::now();
    let events = outputs.events.map(|events| {
        let started = opened("events", events)?.start();
        started.context("could not write events")
    });
    let events = events.transpose()?;
    let mut watcher = Watcher::new((events, arguments.no_redact), &policy, clock, look);

    let outcome = entered
        .map_err(anyhow::Error::from)
        .and(resolved)
        .and_then(|()| attempt(arguments, &policy, (wanted.as_ref(), streams), &mut watcher));
    let outcome = outcome.unwrap_or_else(|error| {
        let message = advice::explain_run(&error, &policy, &program, arguments.workdir.as_deref());
        Outcome::not_started(&error, &message)
    });
    let (seen, unwritten) = watcher.finish(outcome.evidence.records);
    let calls = outcome.calls.clone();
    let passages = outcome.passages.clone();
    let output = outcome
        .streams
        .iter()
        .flatten()
        .map(|stream| stream.total)
        .sum();
    let mut report = outcome.report(arguments, &policy, clock, seen)?;
    report.brought_in = brought_in.iter().flat_map(toolchain::Need::told).collect();
    elsewhere::note(&mut report);
    if !arguments.no_redact {
        report = report::redact::report(report).context("could not redact the report")?;
    }
    let written = write(&report, report_file);

    tell_story(&report, arguments);
    // What was asked for and could not be written is turnkey's own failure, whatever the program
    // did; it has been told above.
    unwritten.and(written)?;
    Ok(Done {
        report,
        calls,
        allowed: policy.allow,
        passages,
        output,
    })
}

fn write(report: &Report, file: Option<Open>) -> anyhow::Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    let mut text = Vec::new();
    report::json::write(report, &mut text)?;
    file.write(&text).context("could not write the report")
}

/// Why nothing ran, and what an export lacks, are told even to those who want to hear nothing.
fn tell_story(report: &Report, arguments: &RunArguments) {
    let quiet = arguments.quiet;
    let colour = colour::wanted(arguments.colour, &std::io::stderr());
    let mut text = Vec::new();
    // Into memory, which does not fail.
    let _ = match &report.export {
        Some(export) if quiet && report.error.is_none() => export.tell(true, &mut text),
        None if quiet && report.error.is_none() => Ok(()),
        _ => report::terminal::story(report, &mut text, colour),
    };
    tell::text(&String::from_utf8_lossy(&text));
}

const NO_RELAYS: &str = "could not start the threads that pass the program's streams on";

/// The run itself. Whatever fails, everything made so far is cleared away by its owner's drop.
fn attempt(
    arguments: &RunArguments,
    policy: &Policy,
    (wanted, targets): (Option<&export::Wanted>, [Target; 2]),
    watcher: &mut Watcher<'_>,
) -> anyhow::Result<Outcome> {
    // First of all: the kernel's programs take a hundred files.
    gateway::make_room();
    let streams = Streams::open().context("could not make the pipes to the program")?;
    let (inside, outside) = streams.split();
    let again = start::copies(&inside)?;
    let (plan, mut watch, prepared) = make_ready(policy, arguments, inside)?;
    let policy = &plan.policy;
    let confining = prepared.start()?;
    // While the jail's first process confines itself.
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let mut relays = Streams::relay(
        outside,
        targets,
        (policy.limits.output, arguments.capture),
        &tell,
    )
    .context(NO_RELAYS)?;
    let mut held = start::held(confining, &plan, &mut watch, again)?;
    watch.know_files(&held)?;
    if arguments.syscalls {
        watch.note_calls();
    }
    watch.adopt(held.cgroup())?;
    relays.feed().context(NO_RELAYS)?;
    let gateway = Gateway::start(held.take_listeners(), list(&plan))
        .context("could not start the thread that passes the program's connections on")?;
    let supervisor = Supervisor::new().context("could not start the loop that watches the jail")?;
    let progress = Progress::start(&policy.limits, arguments.quiet);
    let mut running = held.release()?;
    let mut see = |event: &Event| {
        progress.saw(event.repeated);
        watcher.see(event)
    };
    let mut course = supervise(
        supervisor,
        &mut running,
        &mut watch,
        policy,
        told,
        &mut see,
        &progress,
    )?;

    if course.limit.is_none() {
        course.limit = running.exceeded();
    }
    let exit = running.finish()?;
    let (output, error) = relays.finish();
    drop(progress);
    let passages = gateway.finish(course.ended_by_itself() && !watch.condemned());
    tell_of_lost_output(&output);
    // Everything inside is dead: what the kernel holds now is all there will be.
    let condemned = watch.condemned();
    course.killed_for_loss |= watch.condemned_for_loss();
    let calls = arguments
        .syscalls
        .then(|| watch.calls())
        .transpose()?
        .flatten();
    let (monitor, evidence) = watch.finish(|event| {
        watcher.see(&event);
    })?;
    if let Some(source) = course.exec_failed {
        let program = arguments.command[0].to_string_lossy().into_owned();
        return Err(JailError::ExecFailed { program, source }.into());
    }
    if exit.status == Status::Signaled(nix::libc::SIGXFSZ) {
        course.limit.get_or_insert(Limit::FileSize);
    }
    let export = wanted.map(|wanted| wanted.take(&exit, policy));
    let ran = Ran {
        status: exit.status,
        condemned: condemned || course.killed_for_behaviour,
        killed_for_loss: course.killed_for_loss,
        limit: course.limit,
        interrupted: course.interrupted,
    };
    let outcome = Outcome::ran(ran, exit, monitor, evidence, [output, error]);
    Ok(Outcome {
        export,
        calls,
        passages,
        ..outcome
    })
}

/// All of the jail that needs no process, and the monitor, which has shown that it acts.
fn make_ready(
    policy: &Policy,
    arguments: &RunArguments,
    streams: [OwnedFd; 3],
) -> anyhow::Result<(Plan, Watch, Prepared)> {
    let strictness = arguments.strictness.chosen();
    let policy = &accept::without(policy, strictness);
    let planned = || {
        let plan = plan(
            policy,
            strictness,
            &arguments.command,
            arguments.workdir.as_deref(),
        )?;
        accept::require(&plan)?;
        Ok(plan)
    };
    if !watch::is_optional(policy) {
        return make_ready_at_once(policy, planned, streams);
    }
    let plan = planned()?;
    let may_have_group = !plan.host.hierarchies.closed;
    let mut watch = Watch::open(&plan.policy, (strictness, may_have_group))?;
    let plan = for_whom(plan, watch.watches());
    let prepared = plan.prepare_with(streams, filters::of, |_| ())?;
    let group = prepared.cgroup().map(EmptyGroup::of).transpose()?;
    watch.prove(&plan.policy, group.as_ref())?;
    Ok((plan, watch, prepared))
}

/// Both at the same time, where the jail is the same whether the monitor can be had or not: each takes milliseconds,
/// and neither needs more of the other than its empty group.
fn make_ready_at_once(
    policy: &Policy,
    planned: impl FnOnce() -> anyhow::Result<Plan>,
    streams: [OwnedFd; 3],
) -> anyhow::Result<(Plan, Watch, Prepared)> {
    thread::scope(|scope| {
        let (show, shown) = mpsc::channel();
        let body = move || {
            let mut watch = Watch::open(policy, (accept::Strictness::Whole, true))?;
            // Nobody shows one when there will be no jail, which is told as what it is.
            if let Ok(group) = shown.recv() {
                watch.prove(policy, Option::transpose(group)?.as_ref())?;
            }
            anyhow::Ok(watch)
        };
        // A host that has no thread left is an error and no panic.
        let watch = thread::Builder::new()
            .spawn_scoped(scope, body)
            .context("could not start the thread that opens the monitor")?;
        // Moved there, `show` is gone when no group can be shown any more, and nobody waits for one.
        let made = planned().map(move |plan| {
            // Here, and not there: what it starts lives no longer than the thread that started it.
            let prepared = plan.prepare_with(streams, filters::of, |groups| {
                // Who has failed meanwhile does not listen.
                let _ = show.send(groups.map(EmptyGroup::of));
            });
            (plan, prepared)
        });
        let watch = watch.join().unwrap_or_else(|panic| resume_unwind(panic));
        let (plan, prepared) = made?;
        // First the jail, which needs nothing of the monitor: where it cannot be made, its group is gone, and a
        // monitor that was still to prove itself there fails for that alone.
        let prepared = prepared?;
        Ok((plan, watch?, prepared))
    })
}

/// Whom connections are held against.
fn list(plan: &Plan) -> List {
    List {
        allowed: plan.policy.allow.clone(),
        own: plan.host.addresses.clone(),
        memory: plan.policy.limits.memory,
    }
}

/// A reader that hung up wanted no more; a disk that is full is news.
fn tell_of_lost_output(output: &Relayed) {
    let failed = output.cut_off.as_ref();
    if let Some(error) = failed.filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
        tell::line(&format!(
            "not all of the program's output could be written: {error}"
        ));
    }
}

/// The policy of a profile and what the command line says over it.
pub fn load(profile: &str, overrides: &OverrideArguments) -> Result<Policy, Failure> {
    let overrides = overrides
        .resolve()
        .context("could not tell the current directory")?;
    turnkey_policy::load(profile, &text_file::read, &overrides)
        .map_err(|error| Failure::Profile(Box::new(error)))
}

/// What running `command` on this host takes; nothing is made yet.
pub fn plan(
    policy: &Policy,
    strictness: accept::Strictness,
    command: &[OsString],
    workdir: Option<&Path>,
) -> anyhow::Result<Plan> {
    let policy = accept::without(policy, strictness);
    let host = Host::probe(&policy)?;
    let plan = Plan::new(&policy, &host, self::command(command, workdir)?)?;
    let watched = accept::can_be_watched(strictness, &plan.host.ids);
    Ok(for_whom(plan, watched))
}

fn for_whom(plan: Plan, watched: bool) -> Plan {
    if watched { plan } else { plan.unwatched() }
}

fn opened(what: &str, output: Output) -> anyhow::Result<Open> {
    let path = output.path().display().to_string();
    let opened = output.open();
    opened.with_context(|| format!("could not write {what} to {path}"))
}

/// Where the program's two outputs go.
fn to(outputs: &Outputs) -> [Target; 2] {
    match outputs.takes_stdout {
        true => [Target::Error; 2],
        false => [Target::Output, Target::Error],
    }
}

/// What to run, from where: `.` unless a directory is named.
fn command(arguments: &[OsString], workdir: Option<&Path>) -> anyhow::Result<Command> {
    let workdir = workdir.unwrap_or(Path::new("."));
    let workdir = turnkey_jailer::paths::canonical(workdir).with_context(|| {
        let workdir = workdir.display();
        format!("could not open the working directory {workdir}; name another with --workdir DIR")
    })?;
    anyhow::ensure!(
        workdir.is_dir(),
        "the working directory {} is not a directory",
        workdir.display()
    );
    Ok(Command {
        arguments: arguments.to_vec(),
        environment: std::env::vars_os().collect(),
        workdir,
    })
}

/// What the events amount to, and what courses of acts they are.
type Seen = (Observations, Judge);

/// Everything that looks at events.
struct Watcher<'l> {
    look: Option<Look<'l>>,
    aggregator: Aggregator,
    judge: Judge,
    writer: Option<EventWriter<BufWriter<File>>>,
    failed: Option<std::io::Error>,
}

impl<'l> Watcher<'l> {
    fn new(
        (events, no_redact): (Option<File>, bool),
        policy: &Policy,
        clock: Clock,
        look: Option<Look<'l>>,
    ) -> Watcher<'l> {
        let writer = events.map(|file| {
            let writer = EventWriter::new(policy, clock, BufWriter::new(file));
            match no_redact {
                true => writer.unredacted(),
                false => writer,
            }
        });
        Watcher {
            look,
            aggregator: Aggregator::new(policy, clock),
            judge: Judge::new(policy),
            writer,
            failed: None,
        }
    }

    /// Whether the jail is to die of a behaviour that this event completes.
    ///
    /// A full disk must not let the program go unwatched: the failure is kept and told at the end.
    fn see(&mut self, event: &Event) -> bool {
        self.aggregator.push(event);
        if let Some(look) = &mut self.look {
            look(event);
        }
        if let Some(writer) = &mut self.writer
            && self.failed.is_none()
        {
            self.failed = writer.push(event).err();
        }
        self.judge.see(event)
    }

    /// What was seen, and why not all of it could be written.
    fn finish(self, records: Option<u64>) -> (Seen, anyhow::Result<()>) {
        let finish = |writer: EventWriter<_>| writer.finish(records);
        let written = self.writer.map(finish).transpose().map(drop);
        let failed = self.failed.map_or(Ok(()), Err);
        let written = failed.and(written).context("could not write the events");
        ((self.aggregator.finish(), self.judge), written)
    }
}

/// What there is to report.
struct Outcome {
    ending: Ending,
    usage: Option<Usage>,
    enforcement: Vec<LayerReport>,
    changed: Vec<ChangedFile>,
    changed_unlisted: u64,
    written: Option<Written>,
    evidence: Evidence,
    streams: Option<[Relayed; 2]>,
    export: Option<Export>,
    calls: Option<Vec<u32>>,
    passages: Vec<Passage>,
}

impl Outcome {
    fn ran(
        ran: Ran,
        exit: Exit,
        monitor: LayerReport,
        evidence: Evidence,
        streams: [Relayed; 2],
    ) -> Outcome {
        let mut enforcement = exit.enforcement;
        enforcement.push(monitor);
        Outcome {
            ending: Ending::Ran(ran),
            usage: Some(exit.usage),
            enforcement,
            changed: exit.changed,
            changed_unlisted: exit.changed_unlisted,
            written: exit.written,
            evidence,
            streams: Some(streams),
            export: None,
            calls: None,
            passages: Vec::new(),
        }
    }

    fn not_started(error: &anyhow::Error, message: &str) -> Outcome {
        let reason = match error.downcast_ref::<JailError>() {
            Some(JailError::NotFound(_)) => NotStarted::NotFound,
            Some(JailError::NotExecutable(_) | JailError::ExecFailed { .. }) => {
                NotStarted::NotExecutable
            }
            _ => NotStarted::Setup,
        };
        Outcome {
            ending: Ending::NotStarted {
                reason,
                message: message.to_owned(),
            },
            usage: None,
            enforcement: Vec::new(),
            changed: Vec::new(),
            changed_unlisted: 0,
            written: None,
            evidence: Evidence::default(),
            streams: None,
            export: None,
            calls: None,
            passages: Vec::new(),
        }
    }

    fn report(
        self,
        arguments: &RunArguments,
        policy: &Policy,
        clock: Clock,
        (observations, judge): Seen,
    ) -> anyhow::Result<Report> {
        let uname = nix::sys::utsname::uname()?;
        let text = |field: &std::ffi::OsStr| field.to_string_lossy().into_owned();
        let capture = |relayed: Relayed| Captured {
            bytes: relayed.kept,
            total: relayed.total,
        };
        let [stdout, stderr] = match self.streams.filter(|_| arguments.capture) {
            Some(streams) => streams.map(|relayed| Some(capture(relayed))),
            None => [None, None],
        };
        let bytes = |argument: &OsString| argument.as_bytes().to_vec();
        Ok(Report::build(Inputs {
            policy,
            best_effort: arguments.strictness.best_effort,
            clock,
            id: clock::run_id(),
            command: &arguments.command.iter().map(bytes).collect::<Vec<_>>(),
            host: report::Host {
                kernel: text(uname.release()),
                arch: text(uname.machine()),
            },
            ending: self.ending,
            usage: self.usage,
            enforcement: &self.enforcement,
            stdout,
            stderr,
            files_changed: &self.changed,
            files_unlisted: self.changed_unlisted,
            written: self.written,
            evidence: self.evidence,
            export: self.export,
            passages: &self.passages,
            calls: self.calls.as_deref(),
            observations,
            judge,
        }))
    }
}
