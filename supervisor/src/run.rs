//! One run, on one page: policy, plan, jail, monitor, loop, report.

use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use turnkey_facts::Passage;
use turnkey_jailer::layer::KeptLayer;
use turnkey_jailer::{Confining, JailError, Plan, Prepared, ShiftedClock};
use turnkey_monitor::Residence;
use turnkey_policy::{AllowedHost, NetworkMode};
use turnkey_report::Report;

use crate::connections::JailConnections;
use crate::directory::RunDirectory;
use crate::event_sink::{EventSink, RunObserver};
use crate::export::WantedExport;
use crate::finish::{RunOutcome, finish};
use crate::monitor_handle::MonitorHandle;
use crate::place::RunPlace;
use crate::prepare::{ReadyJail, prepare};
use crate::relay::{
    self, LastPiece, RelayedStream, Sink, StreamRelays, standard_error, standard_output,
};
use crate::service::{ServedCaller, UserFile};
use crate::settle::SettledPolicy;
use crate::sinkhole::{self, Authority};
use crate::sinks::OpenSink;
use crate::supervise::{SupervisionLoop, supervise};
use crate::terminal::Terminal;
use crate::{advice, attach, clock, layer, open_files, publish};

/// One run that is asked for.
pub struct RunRequest {
    /// The program and its arguments; the first word is looked up in the jail.
    pub command: Vec<OsString>,
    /// The directory that appears as /workspace, and where in it the program starts.
    pub directory: RunDirectory,
    /// Takes what the program writes to its standard output, and to its standard error.
    pub output: [Sink; 2],
    /// Gives the program a terminal of the jail's own, which shows on this one; [`RunRequest::output`] takes nothing then.
    pub terminal: Option<Terminal>,
    /// Keeps both outputs in the report as well.
    pub capture: bool,
    /// Tells in the report which system calls were made: every call of the host takes a little longer meanwhile.
    pub syscalls: bool,
    /// Hides credentials in the report and the events.
    pub redact: bool,
    /// The residence of the monitor's programs that this run has to load.
    pub residence: Residence,
    /// Takes every event, as JSON Lines.
    pub events: Option<File>,
    /// Are told of each finding at once, and of the verdict.
    pub sinks: Vec<OpenSink>,
    /// Shows what earlier runs have written below what this one writes, and takes that in the end.
    pub layer: Option<Arc<KeptLayer>>,
    /// Brings the workspace out when the program has ended.
    pub export: Option<WantedExport>,
    /// The clock of the program, where it is not the host's. The program is followed by ptrace(2) then, and is slower for it.
    pub clock: Option<ShiftedClock>,
    /// The user for whom a privileged process makes this run, by whose rights alone it looks at paths of the host that are named.
    pub served: Option<ServedCaller>,
}

impl RunRequest {
    /// A run of `command` as `turnkey run -- COMMAND` makes it.
    pub fn new(command: Vec<OsString>) -> RunRequest {
        RunRequest {
            command,
            directory: RunDirectory::default(),
            output: [standard_output(), standard_error()],
            terminal: None,
            capture: false,
            syscalls: false,
            redact: true,
            residence: Residence::Kernel,
            events: None,
            sinks: Vec::new(),
            layer: None,
            export: None,
            clock: None,
            served: None,
        }
    }

    /// Looks at files of the host, or starts who writes to them, by the rights of whom the run is for.
    pub(crate) fn by_its_rights<T>(&self, look: impl FnOnce() -> T) -> anyhow::Result<T> {
        match &self.served {
            None => Ok(look()),
            Some(served) => Ok(served.user.with_rights(look)?),
        }
    }
}

/// Told by the run that leaves them.
const STAYS: &str = "the monitor's programs stay in the kernel, so that later runs start faster; nothing calls them while no run is \
                     watched (`turnkey monitor unload` removes them, --leave-nothing leaves none)";

/// The result of a run.
pub struct FinishedRun {
    /// The report.
    pub report: Report,
    /// The numbers of the system calls that were made, where that was asked for.
    pub calls: Option<Vec<u32>>,
    /// The peers that the policy allowed, each name with what it led to.
    pub allowed: Vec<AllowedHost>,
    /// The traffic passed on to them.
    pub passages: Vec<Passage>,
    /// Bytes on both of the program's outputs.
    pub output: u64,
    /// The end of standard output and of standard error.
    pub last: [Option<LastPiece>; 2],
    /// The reason why not every event, or not all of the program's output, could be written.
    pub unwritten: Option<anyhow::Error>,
}

/// Runs a command under a settled policy.
///
/// # Errors
/// When no report can be made. A run that could not start has one, which says why.
pub fn run(
    mut request: RunRequest,
    settled: SettledPolicy,
    entered: RunPlace,
    observer: &mut dyn RunObserver,
) -> anyhow::Result<FinishedRun> {
    if let Some(notice) = entered.notice() {
        observer.notice(&notice);
    }
    let clock = clock::now();
    let user = request.served.as_ref().map(|served| served.user);
    let events = request.events.take();
    let events = (events.map(|file| UserFile::new(file, user)), request.redact);
    let (settled, names) = settled.apart_from_names();
    let policy = settled.policy();
    let mut sink = EventSink::new(events, policy, clock, observer);
    let sinks = (std::mem::take(&mut request.sinks), request.redact);
    let served = user.map(|user| user.user);
    sink.alert(sinks, policy, &request.command, served)?;
    let can_start = entered.privileges().map_err(anyhow::Error::from);
    let outcome = can_start
        .and(names)
        .and_then(|()| attempt(&request, &settled, &mut sink));
    sink.observer.ended();
    let outcome = outcome.unwrap_or_else(|error| {
        let message = request.by_its_rights(|| {
            let place = (&request.directory, request.layer.as_deref());
            advice::explain_run(&error, policy, &request.command, place)
        });
        // Without the rights there is no more to say than what failed.
        let message = message.unwrap_or_else(|_| advice::explain(&error));
        RunOutcome::not_started(&error, message)
    });
    finish(outcome, &request, &settled, sink)
}

const NO_RELAYS: &str = "could not start the threads that pass the program's streams on";

/// The run itself. Whatever fails, everything made so far is cleared away by its owner's drop.
fn attempt(
    request: &RunRequest,
    settled: &SettledPolicy,
    sink: &mut EventSink<'_>,
) -> anyhow::Result<RunOutcome> {
    let policy = settled.policy();
    if let Some(layer) = &request.layer {
        layer::require_apart(layer, policy, &request.directory)?;
    }
    // First of all: the kernel's programs take a hundred files.
    open_files::raise_limit();
    // A port that is taken is told before anything is made.
    let ports = publish::take(&policy.network.publish)?;
    let streams = relay::open(request.terminal.as_ref());
    let (inside, outside) = streams.context("could not make the pipes to the program")?;
    let again = attach::copies(&inside)?;

    let ReadyJail {
        plan,
        mut monitor,
        prepared,
    } = prepare(settled, request, inside)?;

    let is_watched = monitor.watches();
    if let Some(layer) = &request.layer {
        layer::require_watched(layer, is_watched)?;
    }
    tell_of_monitor(&monitor, sink.observer);

    let (confining, authority) = start(prepared, &plan, request)?;
    // While the jail's first process confines itself.
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let captured = match (request.capture, &request.served) {
        (false, _) => 0,
        (true, None) => usize::MAX,
        (true, Some(_)) => relay::MOST_CAPTURED,
    };
    let limit = (policy.limits.output, captured);
    // A thread keeps the rights that its maker has at that moment: what is passed on is written by those of whom it is for.
    let start = || StreamRelays::start(outside, request.output.clone(), limit, &tell);
    let mut relays = request.by_its_rights(start)?.context(NO_RELAYS)?;
    let mut held = attach::held(confining, &plan, &mut monitor, again)?;
    attach::adopt(&held, &mut monitor, request.syscalls)?;
    if let (Some(program), Some(groups)) = (monitor.number()?, held.cgroup()) {
        sink.watches(groups.path(), program);
    }

    let feed = || relays.feed(held.take_terminal());
    request.by_its_rights(feed)?.context(NO_RELAYS)?;
    let memory = policy.limits.memory;
    let wanted = (ports, authority);
    let connections = JailConnections::open(&mut held, &plan, memory, wanted, sink.observer)?;
    let supervisor = SupervisionLoop::new(relays.window())
        .context("could not start the loop that watches the jail")?;
    sink.observer.started(&policy.limits);
    let mut running = held.release()?;
    let mut course = supervise(supervisor, &mut running, &mut monitor, policy, told, sink)?;

    if course.limit.is_none() {
        course.limit = running.exceeded();
    }
    let exit = running.finish()?;
    let mut streams = relays.finish();
    // Of standard error nobody could be told.
    let lost_output = lost(&mut streams[0]);
    let drain = course.ended_by_itself() && !monitor.condemned();
    let traffic = connections.finish(drain, policy);
    // Everything inside is dead: what the kernel holds now is all there will be.
    let condemned = monitor.condemned();
    course.killed_for_loss |= monitor.condemned_for_loss();
    let calls = request
        .syscalls
        .then(|| monitor.calls())
        .transpose()?
        .flatten();
    let (layer, evidence) = monitor.finish(|event| {
        sink.see(&event);
    })?;
    if let Some(source) = course.exec_failed {
        let program = request.command[0].to_string_lossy().into_owned();
        return Err(JailError::ExecFailed { program, source }.into());
    }
    let export = request.export.as_ref().map(|wanted| {
        wanted.take(
            &exit,
            policy,
            request.served.as_ref().map(|served| served.user),
        )
    });
    let was_killed = condemned || course.killed_for_behaviour || course.killed_for_loss;
    let kept = request.layer.as_ref().map(|layer| {
        let run = (was_killed, policy);
        match layer::spoilt(&sink.guarded, &evidence, run, &request.directory) {
            Some(reason) => layer::refused(layer, &reason),
            None => layer::keep(layer, &exit, policy, is_watched),
        }
    });
    let mut outcome = RunOutcome::ran(&course, condemned, exit, (layer, evidence), streams);
    (outcome.export, outcome.kept, outcome.calls) = (export, kept, calls);
    (outcome.passages, outcome.published) = (traffic.passages, traffic.published);
    outcome.sinkhole = traffic.sunk;
    outcome.lost_output = lost_output;
    Ok(outcome)
}

/// Tells why programs that are kept were not used, and that programs stay in the kernel.
pub(crate) fn tell_of_monitor(monitor: &MonitorHandle, observer: &mut dyn RunObserver) {
    if let Some(line) = monitor.distrusted() {
        observer.notice(&line);
    }
    if monitor.stays() {
        observer.remark(STAYS);
    }
}

/// Starts the jail, and makes the authority of its sinkhole, where it is to have one.
fn start(
    prepared: Prepared,
    plan: &Plan,
    request: &RunRequest,
) -> anyhow::Result<(Confining, Option<Authority>)> {
    if plan.policy.network.mode != NetworkMode::Sinkhole {
        return Ok((prepared.start()?, None));
    }
    let trusted = request.by_its_rights(|| sinkhole::trusted(plan))?;
    start_with_authority(prepared, trusted)
}

/// Starts the jail, and makes the authority of a sinkhole in it, which programs trust besides the `trusted` ones: when there is a process
/// of the jail, which so has no copy of the keys.
fn start_with_authority(
    prepared: Prepared,
    mut trusted: Vec<u8>,
) -> anyhow::Result<(Confining, Option<Authority>)> {
    let mut made = None;
    let confining = prepared.start_with(|| {
        let authority = made.insert(Authority::new());
        let certificate = authority.as_ref().map(Authority::certificate);
        trusted.extend(certificate.unwrap_or_default().as_bytes());
        trusted
    })?;
    Ok((confining, made.transpose()?))
}

/// The reason for which not all of an output has reached the caller. A reader that hung up wanted no more; a disk that is full is news.
fn lost(output: &mut RelayedStream) -> Option<anyhow::Error> {
    let error = match output.is_hung_up() {
        true => None,
        false => output.cut_off.take(),
    };
    Some(anyhow::Error::new(error?).context("not all of the program's output could be written"))
}
