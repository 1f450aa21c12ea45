//! The sink of a run's events: the caller, the report, the detectors of behaviours, the file of `--events`.

mod before_program;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use turnkey_analysis::behaviour::BehaviourEngine;
use turnkey_facts::Event;
use turnkey_jailer::{CurrentUsage, Running, foreign};
use turnkey_policy::{JailLimits, Policy};
use turnkey_report::live::LiveRun;
use turnkey_report::{
    Aggregator, AlertWriter, Attachment, Clock, EventLines, EventWriter, KnownProcess,
    Observations, OtherWatcher,
};

use self::before_program::BeforeProgram;
use crate::attachment::host_names::HostNames;
use crate::layer::GuardedFiles;
use crate::live::{FollowerListener, LiveFeed, Visitor};
use crate::missing_hint::AdvisoryRule;
use crate::others::OtherWatchers;
use crate::service::UserFile;
use crate::sinks::{Alerts, OpenSink};
use crate::workspace_names::WorkspaceNames;
use crate::{clock, machine};

/// Follows a run while it lasts. Every method is called in the thread that called [`run`](crate::run()), and holds it up.
pub trait RunObserver {
    /// A line that people should know of: something was made in another way, or is lost.
    fn notice(&mut self, _line: &str) {}
    /// A line for those who want to know more: nothing is lost.
    fn remark(&mut self, _line: &str) {}
    /// The jail stands, and its program starts next.
    fn started(&mut self, _limits: &JailLimits) {}
    /// A group of others is under the rules from now on.
    fn attached(&mut self, _attachment: &Attachment) {}
    /// An event, in the order of the jail.
    fn event(&mut self, _event: &Event) {}
    /// The limits were looked at, which happens at least every 400 ms.
    fn tick(&mut self, _running: &Running) {}
    /// The jail is gone, with all that was in it, or it was never there.
    fn ended(&mut self) {}
}

/// The takers of one run's events.
pub struct EventSink<'o> {
    /// The caller, who follows the run.
    pub observer: &'o mut dyn RunObserver,
    aggregator: Aggregator,
    engine: BehaviourEngine,
    /// The rule that tells of paths that were asked about in vain.
    advisory: AdvisoryRule,
    /// The files that the next run on the same layer must not find by another name.
    pub guarded: GuardedFiles,
    writer: Option<EventWriter<BufWriter<UserFile>>>,
    failed: Option<std::io::Error>,
    clock: Clock,
    /// The name of the run.
    id: String,
    names: WorkspaceNames,
    alerts: Option<Alerts>,
    /// Other turnkeys that watch the same processes; `None` while this one does not.
    others: Option<OtherWatchers>,
    /// The events before the first program of an empty group; `None` once that is started, and in a run.
    before_program: Option<BeforeProgram>,
    /// The host's names of files; `None` in a run, whose tree is its own.
    host_names: Option<HostNames>,
}

/// The summary of a run's events.
pub struct EventSummary {
    /// For the report.
    pub observations: Observations,
    /// The behaviours that were recognised.
    pub engine: BehaviourEngine,
    /// The name of the run.
    pub id: String,
    /// The sinks and the followers, who are told of the verdict.
    pub alerts: Option<Alerts>,
    /// Other turnkeys that watched the same processes, and the number of those beyond.
    pub watchers: (Vec<OtherWatcher>, u64),
    /// The reason why not all of the events could be written.
    pub unwritten: Option<anyhow::Error>,
}

impl<'o> EventSink<'o> {
    /// Takes the events of a run under `policy`; they are written to `events`, with credentials hidden where `redact` says so.
    pub fn new(
        (events, redact): (Option<UserFile>, bool),
        policy: &Policy,
        clock: Clock,
        observer: &'o mut dyn RunObserver,
    ) -> EventSink<'o> {
        let writer = events.map(|file| {
            let writer = EventWriter::new(policy, clock, BufWriter::new(file));
            match redact {
                true => writer,
                false => writer.unredacted(),
            }
        });
        EventSink {
            observer,
            aggregator: Aggregator::new(policy, clock),
            engine: BehaviourEngine::new(policy),
            advisory: AdvisoryRule::from_policy(policy),
            guarded: GuardedFiles::from_policy(policy),
            writer,
            failed: None,
            clock,
            id: clock::run_id(),
            names: WorkspaceNames::from_policy(policy),
            alerts: None,
            others: None,
            before_program: None,
            host_names: None,
        }
    }

    /// Tells `sinks` and followers of findings and of the verdict, with credentials hidden where `redact` says so; `command` is empty for a
    /// group of others.
    ///
    /// # Errors
    /// When this machine has no name of its kernel.
    pub fn alert(
        &mut self,
        (sinks, redact): (Vec<OpenSink>, bool),
        policy: &Policy,
        command: &[OsString],
        served: Option<u32>,
    ) -> anyhow::Result<()> {
        let command: Vec<_> = command
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        let run = (self.id.clone(), machine::host()?);
        let writer = AlertWriter::new(policy, self.clock, run, &command);
        let lines = EventLines::new(policy, self.clock);
        let (writer, lines) = match redact {
            true => (writer, lines),
            false => (writer.unredacted(), lines.unredacted()),
        };
        let live = LiveRun {
            redacts: redact,
            served,
            ..LiveRun::new(policy, self.clock, self.id.clone(), command)
        };
        self.alerts = Some(Alerts::new(sinks, writer, LiveFeed::new(live, lines)));
        Ok(())
    }

    /// Lets others follow from now on. Called in a runtime. A run that nobody can follow is a run all the same, and its
    /// caller is told. `is_watched` says whether there will be events.
    pub fn listen(&mut self, is_watched: bool) -> Option<FollowerListener> {
        let live = &mut self.alerts.as_mut()?.live;
        live.run_mut().whole &= is_watched;
        let group = self.others.as_ref().map(OtherWatchers::group);
        let listening = FollowerListener::bind(&self.id, group);
        // From here on others find this run, and it them.
        self.others.iter_mut().for_each(OtherWatchers::look_first);
        let told = |error| {
            let line =
                format!("`turnkey top` and `turnkey events` will not find this run: {error}");
            self.observer.notice(&line);
        };
        listening.map_err(told).ok()
    }

    /// From here on the group in `directory` is watched, by the program of this number.
    pub fn watches(&mut self, directory: &Path, program: u32) {
        self.others = OtherWatchers::list(&self.id, directory, program);
    }

    /// Tells others that watch processes of the group that all of it is killed now.
    pub fn tell_of_kill(&self) {
        self.others.iter().for_each(OtherWatchers::tell_of_kill);
    }

    /// Looks who else watches now.
    pub fn look_at_others(&mut self) {
        self.others.iter_mut().for_each(OtherWatchers::look);
    }

    /// Takes in those who may follow, and hears those who say that they watch, too; `usage` is what the group uses now.
    pub fn join(&mut self, mut came: Vec<Visitor>, usage: impl FnOnce() -> Option<CurrentUsage>) {
        if let Some(others) = &mut self.others {
            came = came
                .into_iter()
                .filter_map(|stream| others.hear(stream))
                .collect();
        }
        if let Some(alerts) = &mut self.alerts {
            alerts.join(came, usage);
        }
    }

    /// Sends what followers take at once.
    pub fn flush(&mut self) {
        if let Some(alerts) = &mut self.alerts {
            alerts.live.flush();
        }
        foreign::close_dropped();
    }

    /// Tells the caller, and those who take alerts, of the group that is under the rules from now on.
    pub fn attached(&mut self, attachment: &Attachment) {
        self.observer.attached(attachment);
        if let Some(alerts) = &mut self.alerts {
            alerts.attached(attachment.clone());
        }
    }

    /// Keeps events from the detectors until the first program is started: whoever fills an empty group, such as a
    /// container's runtime, mounts and makes namespaces there for it. Rules are the kernel's, and act all the same. Where no
    /// program is started at all, the detectors get in the end what was not done to start one. `named` is the process that a runtime says
    /// is going to be the program.
    pub fn await_program(&mut self, policy: &Policy, named: Option<u32>) {
        self.before_program = Some(BeforeProgram::from_policy(policy, named));
    }

    /// Tells files of a violation by the host's names, too. These processes are there already; `root` is the root directory that a runtime
    /// among them is going to change to.
    pub fn name_files(&mut self, processes: &[u32], root: Option<&Path>) {
        self.host_names = HostNames::new(root);
        if let Some(names) = &mut self.host_names {
            processes.iter().for_each(|pid| names.know(*pid));
        }
    }

    /// Hands an event to the detectors, unless it is of a time before the first program.
    fn detect(&mut self, event: &Event) -> bool {
        let mut kills = false;
        if let Some(before) = &mut self.before_program {
            let Some(first) = before.take(event) else {
                return false;
            };
            self.before_program = None;
            for event in &first {
                kills |= self.engine.take_event(event);
            }
        }
        self.engine.take_event(event) || kills
    }

    /// The name of the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The clock of the run, read before it began.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes a process that was there before anybody watched.
    pub fn know(&mut self, process: KnownProcess) {
        self.aggregator.know(process);
    }

    /// Takes one event; whether the jail is to die of a behaviour that it completes.
    ///
    /// A full disk must not let the program go unwatched: the failure is kept and told at the end.
    pub fn see(&mut self, event: &Event) -> bool {
        let event = &*self.names.told(event);
        let asked = self.advisory.told(event);
        let event = asked.as_ref().unwrap_or(event);
        let before = self.before_program.as_ref();
        let told = before.map_or(Cow::Borrowed(event), |before| before.told(event));
        if let Some(names) = &mut self.host_names {
            names.note(event);
        }
        let violation = self.aggregator.push(&told).map(|violation| {
            let names = self.host_names.as_mut().zip(violation.path.as_deref());
            violation.host_path = names.and_then(|(names, path)| names.find(&event.task, path));
            violation.clone()
        });
        if let Some(alerts) = &mut self.alerts {
            alerts.live.event(event, self.aggregator.acting());
            violation
                .iter()
                .for_each(|violation| alerts.violation(violation));
        }
        self.guarded.note_event(event);
        self.observer.event(event);
        if let Some(writer) = &mut self.writer
            && self.failed.is_none()
        {
            // The report's own rows: the number of a process is the same in both, also of one that was there before.
            self.failed = writer.push(event, self.aggregator.acting()).err();
        }
        let kills = self.detect(event);
        if let Some(alerts) = &mut self.alerts {
            alerts.behaviours(&self.engine);
        }
        kills
    }

    /// Closes the file of events and sums them up; `records` is how many the kernel has made, where that is known.
    pub fn finish(mut self, records: Option<u64>) -> EventSummary {
        let before = self.before_program.take().unwrap_or_default();
        for event in before.rest() {
            self.engine.take_event(&event);
        }
        let finish = |writer: EventWriter<_>| writer.finish(records);
        let written = self.writer.map(finish).transpose().map(drop);
        let failed = self.failed.map_or(Ok(()), Err);
        let written = failed.and(written).context("could not write the events");
        EventSummary {
            observations: self.aggregator.finish(),
            engine: self.engine,
            id: self.id,
            alerts: self.alerts,
            watchers: self.others.map(OtherWatchers::finish).unwrap_or_default(),
            unwritten: written.err(),
        }
    }
}
