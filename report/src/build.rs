//! The report of a run, put together from all that is known of it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use turnkey_analysis::behaviour::{BehaviourEngine, End};
use turnkey_facts as facts;
use turnkey_facts::{Change, LayerReport, Limit, MetLimit};
use turnkey_policy::Policy;

use turnkey_facts::{Passage, SinkholeTraffic};

use super::act::KINDS;
use super::aggregate::{Aggregator, Observations};
use super::behaviour;
use super::clock::Clock;
use super::ending::{Ending, Evidence, NotStarted, RunEnding};
use super::export::Export;
use super::kept::Kept;
use super::limit;
use super::met::{self, FailedAtLimits};
use super::model;
use super::model::{
    Attachment, ChangedFile, Events, Exit, Finding, Host, Layer, Limits, LoweredLimit, Omitted,
    OtherWatcher, Output, Process, Profile, Report, Schema, Usage, Verdict,
};
use super::passages;
use super::processes::escape_all;
use super::sinkhole;
use super::text::escape;
use super::verdict::{self, Facts};

/// All that a report is made of.
#[derive(Debug)]
pub struct ReportInputs<'a> {
    /// The policy that was enforced.
    pub policy: &'a Policy,
    /// The start of the run.
    pub clock: Clock,
    /// Names the run.
    pub id: String,
    /// The program and its arguments, as bytes.
    pub command: &'a [Vec<u8>],
    /// The caller goes on with fewer layers than the policy requires.
    pub best_effort: bool,
    /// The machine.
    pub host: Host,
    /// The group that was watched, where no command was started.
    pub attached: Option<Attachment>,
    /// Other turnkeys that watched the same processes.
    pub watchers: Vec<OtherWatcher>,
    /// The number of those beyond.
    pub watchers_unlisted: u64,
    /// The way in which the run ended.
    pub ending: Ending,
    /// The resources that the run used; `None` when nothing ran.
    pub usage: Option<facts::Usage>,
    /// The layers of the jail and the monitor's own, in the order to show them.
    pub enforcement: &'a [LayerReport],
    /// The limits that the kernel held by refusing more.
    pub met: &'a [MetLimit],
    /// With `--capture`.
    pub stdout: Option<Captured>,
    /// With `--capture`.
    pub stderr: Option<Captured>,
    /// The files that the run changed in its overlay.
    pub files_changed: &'a [facts::ChangedFile],
    /// The number of files that it changed beyond those.
    pub files_unlisted: u64,
    /// The fill level of the overlay's writable side; `None` without one.
    pub written: Option<facts::Written>,
    /// With `--export`.
    pub export: Option<Export>,
    /// With a layer.
    pub kept: Option<Kept>,
    /// The traffic passed on to hosts that the policy allows.
    pub passages: &'a [Passage],
    /// The traffic that a sinkhole took; `None` without one.
    pub sinkhole: Option<&'a SinkholeTraffic>,
    /// Secrets in it are not to be shown.
    pub redacts: bool,
    /// The numbers of the system calls that were made, where that was asked for.
    pub calls: Option<&'a [u32]>,
    /// The evidence that the monitor can vouch for.
    pub evidence: Evidence,
    /// The limits that are not as the profile has them.
    pub lowered: &'a [LoweredLimit],
    /// The aggregated events.
    pub observations: Observations,
    /// The detectors of behaviours, with what they saw.
    pub engine: BehaviourEngine,
}

impl<'a> ReportInputs<'a> {
    /// A run that was not started, and of which there is nothing to tell yet.
    pub fn of_nothing(policy: &'a Policy, clock: Clock, id: String, host: Host) -> Self {
        Self {
            policy,
            clock,
            id,
            command: &[],
            best_effort: false,
            host,
            attached: None,
            watchers: Vec::new(),
            watchers_unlisted: 0,
            ending: Ending::NotStarted {
                reason: NotStarted::Setup,
                message: String::new(),
            },
            usage: None,
            enforcement: &[],
            met: &[],
            stdout: None,
            stderr: None,
            files_changed: &[],
            files_unlisted: 0,
            written: None,
            export: None,
            kept: None,
            passages: &[],
            sinkhole: None,
            redacts: true,
            calls: None,
            evidence: Evidence::default(),
            lowered: &[],
            observations: Aggregator::new(policy, clock).finish(),
            engine: BehaviourEngine::new(policy),
        }
    }
}

/// Output that was kept.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The bytes that were kept: the first ones.
    pub bytes: Vec<u8>,
    /// The number of bytes read in all.
    pub total: u64,
}

impl Report {
    /// Judges the run and puts the report together.
    pub fn build(mut inputs: ReportInputs<'_>) -> Self {
        let attempts = &mut inputs.observations.network_attempts;
        passages::add(attempts, inputs.passages, &inputs.clock);
        let telling = (&inputs.clock, inputs.redacts);
        let sinkhole = inputs
            .sinkhole
            .map(|traffic| sinkhole::told(traffic, &inputs.observations, telling));
        let disk = inputs.written.as_ref().and_then(limit::disk);
        let (met, limit) = (met_findings(&inputs), limit_words(&inputs));
        let events = events(&inputs.evidence, &inputs.ending, &inputs.observations);
        let exit = turnkey_exit_code(&inputs, &events);
        let end = run_end(&inputs, disk.as_ref(), sinkhole.as_ref());
        let found = behaviour::findings(inputs.engine.finish(&end), &inputs.clock);
        inputs.observations.findings.extend(found);
        let (policy, ending, observations) = (inputs.policy, &inputs.ending, &inputs.observations);
        let facts = Facts {
            ending,
            complete: events.complete,
            watched: inputs.evidence.watched,
            decoys: &policy.filesystem.decoys,
            weaker: inputs.best_effort && inputs.enforcement.iter().any(is_weaker),
            lost: events.lost.values().sum(),
            unknown_symlinks: observations.unknown_symlinks,
            rules: &observations.findings,
            sigsys: sigsys(&observations.processes, ending),
            outsider: inputs.evidence.outsider.as_ref(),
            watchers: &inputs.watchers,
            limit,
            met: &met,
            disk,
            accepted: &policy.accepted,
            clock: &inputs.clock,
        };
        let findings = verdict::findings(&facts);
        let verdict = verdict::verdict(&facts, &findings);
        let (exit_code, signal) = own_end(ending);
        Self {
            schema: Schema::Report1,
            started_at: inputs.clock.started_at(),
            command: escape_all(inputs.command),
            profile: Profile {
                name: policy.name.clone(),
                // Those that a profile builds on are read before it.
                file: policy
                    .files
                    .last()
                    .map(|file| escape(file.as_os_str().as_bytes())),
                sha256: policy.sha256.clone(),
                mode: Some(policy.enforcement.mode),
            },
            host: Host {
                kernel: escape(inputs.host.kernel.as_bytes()),
                arch: escape(inputs.host.arch.as_bytes()),
            },
            status: verdict::status(ending),
            exit_code,
            signal,
            error: error(ending),
            verdict,
            risk_score: findings.iter().map(|finding| finding.score).sum(),
            findings,
            is_safe: verdict == Verdict::Clean,
            usage: inputs.usage.as_ref().map(usage),
            limits: inputs.usage.as_ref().map(|_| limits(&policy.limits)),
            enforcement: inputs.enforcement.iter().map(layer).collect(),
            files_changed: inputs.files_changed.iter().map(changed).collect(),
            events: Events {
                // Of what processes did before they were found, nothing is known.
                complete: events.complete && !came_late(ending),
                ..events
            },
            on_host: Vec::new(),
            on_host_to_write: Vec::new(),
            repository_left: None,
            programs_left: Vec::new(),
            variables_left: Vec::new(),
            served: None,
            brought_in: Vec::new(),
            published: Vec::new(),
            sinkhole,
            sinks: Vec::new(),
            mounts_hidden: Vec::new(),
            terminal: false,
            static_look: None,
            exit,
            export: inputs.export,
            kept: inputs.kept,
            attached: inputs.attached,
            watchers: inputs.watchers,
            id: inputs.id,
            stdout: inputs.stdout.map(output),
            stderr: inputs.stderr.map(output),
            omitted: Omitted {
                files_changed: inputs.files_unlisted,
                watchers: inputs.watchers_unlisted,
                ..inputs.observations.omitted
            },
            violations: inputs.observations.violations,
            processes: inputs.observations.processes,
            file_operations: inputs.observations.file_operations,
            network_attempts: inputs.observations.network_attempts,
            refused_calls: inputs.observations.refused_calls,
            syscalls: inputs.calls.map(syscalls),
        }
    }
}

fn syscalls(numbers: &[u32]) -> Vec<String> {
    let name = |number: &u32| {
        let known = turnkey_policy::syscalls::name(*number);
        known.map_or_else(|| format!("syscall {number}"), str::to_owned)
    };
    let mut names: Vec<String> = numbers.iter().map(name).collect();
    names.sort();
    names
}

/// The facts about a run that is over, for the detectors of behaviours.
fn run_end(
    inputs: &ReportInputs<'_>,
    disk: Option<&String>,
    sinkhole: Option<&model::Sinkhole>,
) -> End {
    let mut end = behaviour::end(
        inputs.policy,
        &inputs.ending,
        inputs.usage.as_ref(),
        inputs.met,
        disk,
        inputs.files_changed,
    );
    end.sent = sinkhole.map(sinkhole::sent_secrets).unwrap_or_default();
    if let Ending::Ran(_) = inputs.ending {
        let insisted = inputs.observations.failed.insisted(&inputs.policy.limits);
        end.reached.extend(insisted);
    }
    end
}

/// The exit code of turnkey itself. A script that goes on after a 0 must find all that it asked for; any other code already says
/// that the run was not what it should be.
fn turnkey_exit_code(inputs: &ReportInputs<'_>, events: &Events) -> u8 {
    // Where nobody was to watch, nothing is lost: the policy or the caller did without.
    let lost = inputs.evidence.watched && !events.complete;
    let exit = verdict::exit_code(&inputs.ending, lost, inputs.policy.enforcement.on_loss);
    let export = inputs.export.as_ref();
    let kept = inputs.kept.as_ref();
    let is_missing = export.is_some_and(|export| !export.complete)
        || kept.is_some_and(|kept| kept.error.is_some());
    match is_missing && exit == 0 {
        true => 125,
        false => exit,
    }
}

/// A gap in `seq` that the monitor's own counters do not explain is a loss as well.
fn events(evidence: &Evidence, ending: &Ending, observations: &Observations) -> Events {
    let mut lost = evidence.lost.clone();
    lost.retain(|_, count| *count > 0);
    let explained: u64 = lost.values().sum();
    if observations.missing > explained {
        *lost.entry("unknown".to_owned()).or_default() += observations.missing - explained;
    }
    let complete = evidence.watched
        && lost.is_empty()
        && !ending.killed_for_loss()
        && verdict::left(ending) == 0;
    Events {
        seen: seen(observations, &lost),
        lost,
        complete,
    }
}

fn came_late(ending: &Ending) -> bool {
    matches!(ending, Ending::Attached(attached) if attached.found > 0)
}

/// The acts that events told of, and those of the same kinds that are lost, by kind.
fn seen(observations: &Observations, lost: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let told = observations.seen.iter();
    let mut seen: BTreeMap<String, u64> = told
        .map(|(kind, count)| ((*kind).to_owned(), *count))
        .collect();
    for (kind, count) in lost
        .iter()
        .filter(|(kind, _)| KINDS.contains(&kind.as_str()))
    {
        *seen.entry(kind.clone()).or_default() += count;
    }
    seen
}

/// The number of processes that the syscall filter ended. The command's own end is known even
/// without an event of it.
fn sigsys(processes: &[Process], ending: &Ending) -> u64 {
    let ended = processes
        .iter()
        .filter(|process| process.exit == Some(Exit::Signal(libc::SIGSYS)));
    let own = matches!(
        ending,
        Ending::Ran(RunEnding {
            status: facts::Status::Signaled(libc::SIGSYS),
            ..
        })
    );
    let ended = u64::try_from(ended.count()).unwrap_or(u64::MAX);
    ended.max(u64::from(own))
}

fn limit_words(inputs: &ReportInputs<'_>) -> Option<String> {
    let Ending::Ran(RunEnding {
        limit: Some(limit), ..
    }) = inputs.ending
    else {
        return None;
    };
    let usage = inputs.usage.unwrap_or_default();
    let limits = &inputs.policy.limits;
    let words = match limit {
        Limit::Memory => limit::with_files(
            limit::words(limit, limits, &usage),
            limits,
            inputs.written.as_ref(),
        ),
        _ => limit::words(limit, limits, &usage),
    };
    Some(limit::as_given(words, inputs.lowered))
}

fn met_findings(inputs: &ReportInputs<'_>) -> Vec<Finding> {
    let ended_by = match inputs.ending {
        Ending::Ran(RunEnding { limit, .. }) => limit,
        Ending::NotStarted { .. } | Ending::Attached(_) => None,
    };
    let failed = match inputs.ending {
        // Its limits are somebody else's.
        Ending::Attached(_) => &FailedAtLimits::default(),
        Ending::Ran(_) | Ending::NotStarted { .. } => &inputs.observations.failed,
    };
    let met = (inputs.met, failed);
    let usage = inputs.usage.unwrap_or_default();
    let mut findings = met::findings(met, ended_by, &inputs.policy.limits, &usage);
    for finding in &mut findings {
        finding.reason = limit::as_given(std::mem::take(&mut finding.reason), inputs.lowered);
    }
    findings
}

fn own_end(ending: &Ending) -> (Option<u8>, Option<i32>) {
    match ending {
        Ending::Ran(RunEnding {
            status: facts::Status::Exited(code),
            ..
        }) => (Some(*code), None),
        Ending::Ran(RunEnding {
            status: facts::Status::Signaled(signal),
            ..
        }) => (None, Some(*signal)),
        Ending::Ran(RunEnding {
            status: facts::Status::Unknown,
            ..
        })
        | Ending::NotStarted { .. }
        | Ending::Attached(_) => (None, None),
    }
}

fn error(ending: &Ending) -> Option<String> {
    match ending {
        Ending::NotStarted { message, .. } => Some(lines(message)),
        Ending::Ran(_) | Ending::Attached(_) => None,
    }
}

/// Turnkey's own words, in which only the breaks between lines are meant.
fn lines(message: &str) -> String {
    let lines: Vec<String> = message
        .lines()
        .map(|line| escape(line.as_bytes()))
        .collect();
    lines.join("\n")
}

fn usage(usage: &facts::Usage) -> Usage {
    Usage {
        wall_seconds: usage.wall.as_secs_f64(),
        user_seconds: usage.user.map(|time| time.as_secs_f64()),
        system_seconds: usage.system.map(|time| time.as_secs_f64()),
        throttled_seconds: usage.throttled.map(|time| time.as_secs_f64()),
        memory_peak_bytes: usage.memory_peak,
        swap_peak_bytes: usage.swap_peak,
        pids_peak: usage.pids_peak,
        oom_kills: usage.oom_kills,
        io_read_bytes: usage.io_read,
        io_written_bytes: usage.io_written,
        context_switches: usage.context_switches,
    }
}

fn limits(limits: &turnkey_policy::JailLimits) -> Limits {
    Limits {
        wall_seconds: limits.wall.as_secs_f64(),
        cpu_seconds: limits.cpu_time.as_secs_f64(),
        cpu_percent: limits.cpu,
        memory_bytes: limits.memory,
        swap_bytes: limits.swap,
        pids: limits.pids.into(),
        output_bytes: limits.output,
        disk_bytes: limits.disk,
        file_size_bytes: limits.file_size,
        open_files: limits.open_files.into(),
    }
}

fn is_weaker(report: &LayerReport) -> bool {
    report.degraded.is_some()
}

fn layer(report: &LayerReport) -> Layer {
    let optional = |text: &Option<String>| text.as_ref().map(|text| escape(text.as_bytes()));
    Layer {
        layer: report.layer,
        requested: escape(report.requested.as_bytes()),
        effective: escape(report.effective.as_bytes()),
        proof: optional(&report.proof),
        degraded: optional(&report.degraded),
    }
}

fn changed(file: &facts::ChangedFile) -> ChangedFile {
    let change = match file.change {
        Change::Added => model::Change::Added,
        Change::Modified => model::Change::Modified,
        Change::Deleted => model::Change::Deleted,
    };
    ChangedFile {
        path: escape(&file.path),
        change,
        size: file.size,
        sha256: file.sha256.clone(),
        scrambled: file.content == facts::ContentFate::Scrambled,
    }
}

/// Captured output stays as it is: it is a value, and [`super::json`] writes it safely.
fn output(captured: Captured) -> Output {
    let Captured { mut bytes, total } = captured;
    let truncated = u64::try_from(bytes.len()).unwrap_or(u64::MAX) < total;
    if truncated {
        bytes.truncate(whole_characters(&bytes));
    }
    let (text, base64) = match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(STANDARD.encode(bytes.as_bytes()))),
    };
    Output {
        text,
        base64,
        bytes: total,
        truncated,
    }
}

/// The length without a last character that the bound of the capture cut in two.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
