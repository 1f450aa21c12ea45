//! `turnkey run`: runs a command in a watched jail, writes its report, and tells what happened.

#[cfg(feature = "scan")]
mod look;
mod served;

use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use nix::sys::stat::{FileStat, fstat};
use turnkey_facts::Event;
use turnkey_jailer::Running;
use turnkey_policy::{JailLimits, Policy};
use turnkey_report::Report;
use turnkey_supervisor::export::{ExportTarget, WantedExport};
use turnkey_supervisor::files::{CallerOutput, OpenOutput, RunOutputs};
use turnkey_supervisor::layer::KeptLayer;
use turnkey_supervisor::sinks::FoundSink;
use turnkey_supervisor::{
    FinishedRun, LastPiece, RunDirectory, RunObserver, RunPlace, RunRequest, SettledPolicy, Sink,
    enter, standard_error, standard_output,
};

use crate::cli::RunArguments;
use crate::cmd::layers;
use crate::colour;
use crate::failure::Failure;
use crate::output;
use crate::progress::{self, ProgressLine};
use crate::terminal;

/// Runs the command and answers turnkey's exit status.
pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    #[cfg(not(feature = "scan"))]
    if arguments.scan {
        return Err(super::scan::left_out());
    }
    if arguments.die_with_parent {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
            .context("this process could not be tied to its parent")?;
    }
    if arguments.service.chosen() {
        return served::run(arguments);
    }
    let (report, events) = (arguments.report.as_deref(), arguments.events.as_deref());
    let outputs = RunOutputs::find(report, events, arguments.export.destination())?
        .and_sinks(arguments.sinks.find()?)?;
    let layer = layers::wanted(&arguments.layer)?;
    let entered = enter();
    let policy = arguments
        .overrides
        .over(&arguments.profile)
        .inspect_err(|_| tell_of_earlier(&outputs))?;
    let done = under(arguments, policy, (entered, outputs, layer), None)?;
    Ok(done.report.exit_code())
}

/// Says of a report that was there before that it is not of this run, which has none.
fn tell_of_earlier(outputs: &RunOutputs) {
    if let Some(report) = outputs.report.as_ref().filter(|report| report.is_there()) {
        let path = report.path().display();
        output::line(&format!("{path} is the report of an earlier run"));
    }
}

/// Another taker of every event.
pub type EventTaker<'t> = &'t mut dyn FnMut(&Event);

/// Runs the command under a policy, writes what was asked for and tells of it.
pub fn under(
    arguments: &RunArguments,
    policy: Policy,
    (entered, outputs, layer): (RunPlace, RunOutputs, Option<PathBuf>),
    taker: Option<EventTaker<'_>>,
) -> Result<FinishedRun, Failure> {
    let strictness = arguments.strictness.chosen();
    let directory = arguments.directory.chosen()?;
    let directory = RunDirectory {
        layer: layer.clone(),
        ..directory
    };
    let settled = SettledPolicy::new(policy, &arguments.command, &directory, strictness)?;
    outputs.require_unreachable(settled.policy())?;
    outputs.require_apart(settled.policy(), &directory)?;
    let takes_stdout = outputs.takes_stdout;
    let output = relayed_to(takes_stdout);
    let report_file = outputs.report.map(|report| opened("a report", report));
    let report_file = report_file.transpose()?;
    let export = match (arguments.export.destination(), outputs.export) {
        (Some((path, _)), Some(destination)) => {
            let scope = arguments.export.scope();
            Some(WantedExport::new(
                ExportTarget::Directory(destination),
                path,
                scope,
                settled.policy(),
            )?)
        }
        _ => None,
    };
    let events = outputs.events.map(begin_events);
    let sinks: anyhow::Result<_> = outputs.sinks.into_iter().map(FoundSink::open).collect();
    let terminal = terminal::wanted(arguments.terminal, takes_stdout);
    let terminal = terminal.context("could not copy the descriptors of the terminal")?;
    let has_terminal = terminal.is_some();
    let layer = layer.map(|path| KeptLayer::open(&path)).transpose();
    let layer = layer.map_err(anyhow::Error::from)?;
    let request = RunRequest {
        layer: layer.map(Arc::new),
        command: arguments.command.clone(),
        directory,
        output,
        terminal,
        capture: arguments.capture,
        syscalls: arguments.syscalls,
        redact: !arguments.no_redact,
        residence: arguments.residence.chosen(),
        events: events.transpose()?,
        sinks: sinks?,
        export,
        clock: None,
        served: None,
    };
    let mut observer = CallerTerminal {
        silent: arguments.quiet,
        // The whole screen is the program's.
        quiet: arguments.quiet || has_terminal,
        progress: None,
        taker,
    };
    #[cfg(feature = "scan")]
    let look = arguments
        .scan
        .then(|| look::at(arguments, &settled.policy().scan));
    let mut done = turnkey_supervisor::run(request, settled, entered, &mut observer)?;
    #[cfg(feature = "scan")]
    {
        done.report.static_look = look.flatten();
    }
    let written = write(&done.report, report_file);

    let colour = colour::wanted(arguments.colour, &std::io::stderr());
    tell_story(&done, arguments.quiet, colour);
    let unwritten = done.unwritten.take();
    require_written(&done.report, unwritten.into_iter().chain(written.err()))?;
    Ok(done)
}

/// Opens a file of the caller's.
pub fn opened(what: &str, output: CallerOutput) -> anyhow::Result<OpenOutput> {
    let path = output.path().display().to_string();
    let opened = output.open();
    opened.with_context(|| format!("could not write {what} to {path}"))
}

/// The longest time that a run which has told its end may hold its file of events.
const ENDING: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_millis(10);

/// Begins a file of events, which no other turnkey replaces as long as it is open.
pub fn begin_events(events: CallerOutput) -> anyhow::Result<File> {
    let path = events.path().display().to_string();
    let output = opened("events", events)?;
    let begun = Instant::now();
    loop {
        let started = output.start_unless_kept();
        if let Some(file) = started.with_context(|| format!("could not write events to {path}"))? {
            return Ok(file);
        }
        ensure!(
            begun.elapsed() < ENDING,
            "another turnkey writes its events to {path}; wait for its end, or name another file with --events"
        );
        std::thread::sleep(AGAIN);
    }
}

/// Writes the report, where it was asked for.
pub fn write(report: &Report, file: Option<OpenOutput>) -> anyhow::Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    Ok(file.write_as("the report", &turnkey_report::json::page(report)?)?)
}

/// Tells of all that was asked for and could not be written. That is turnkey's own failure, whatever the program did by itself; but who
/// acts on the exit code learns of a kill all the same.
pub fn require_written(
    report: &Report,
    unwritten: impl Iterator<Item = anyhow::Error>,
) -> Result<(), Failure> {
    let mut unwritten: Vec<_> = unwritten.collect();
    let Some(error) = unwritten.pop() else {
        return Ok(());
    };
    for error in unwritten {
        output::lines(&turnkey_supervisor::advice::explain(&error));
    }
    let code = report.code_of_unwritten(report.exit_code());
    Err(Failure::Unwritten { code, error })
}

/// The takers of the program's two outputs; where a report takes standard output, both go to standard error.
fn relayed_to(stdout_is_taken: bool) -> [Sink; 2] {
    let error = beside_the_progress_line(standard_error(), std::io::stderr().is_terminal());
    if stdout_is_taken {
        return [Arc::clone(&error), error];
    }
    let output = beside_the_progress_line(standard_output(), std::io::stdout().is_terminal());
    [output, error]
}

/// On a terminal there may be a line of turnkey's own, which makes way.
fn beside_the_progress_line(sink: Sink, is_terminal: bool) -> Sink {
    match is_terminal {
        true => Arc::new(move |bytes| progress::apart(bytes, || sink(bytes))),
        false => sink,
    }
}

/// The caller's terminal, on which a run shows how far it is.
pub struct CallerTerminal<'t> {
    /// As the caller wishes.
    silent: bool,
    /// Without a line of turnkey's own on the screen.
    quiet: bool,
    progress: Option<ProgressLine>,
    taker: Option<EventTaker<'t>>,
}

impl CallerTerminal<'_> {
    /// The terminal of a caller elsewhere, which shows no line of turnkey's own.
    pub fn silent(as_wished: bool) -> Self {
        CallerTerminal {
            silent: as_wished,
            quiet: true,
            progress: None,
            taker: None,
        }
    }
}

impl RunObserver for CallerTerminal<'_> {
    fn notice(&mut self, line: &str) {
        output::line(line);
    }

    fn remark(&mut self, line: &str) {
        if !self.silent {
            output::line(line);
        }
    }

    fn started(&mut self, limits: &JailLimits) {
        self.progress = Some(ProgressLine::start(limits, self.quiet));
    }

    fn event(&mut self, event: &Event) {
        if let Some(progress) = &self.progress {
            progress.saw(event.repeated);
        }
        if let Some(taker) = &mut self.taker {
            taker(event);
        }
    }

    fn tick(&mut self, running: &Running) {
        if let Some(progress) = &self.progress {
            progress.look(running);
        }
    }

    fn ended(&mut self) {
        self.progress = None;
    }
}

/// Tells the report; why nothing ran, and what an export lacks, even to those who want to hear nothing.
pub fn tell_story(done: &FinishedRun, quiet: bool, colour: bool) {
    let report = &done.report;
    let mut text = Vec::new();
    // Into memory, which does not fail.
    if quiet && report.error.is_none() {
        let _ = turnkey_report::terminal::lost_alerts(report, &mut text);
    }
    if let Some(kept) = report.kept.as_ref().filter(|_| quiet) {
        let _ = kept.tell(true, &mut text);
    }
    let _ = match &report.export {
        Some(export) if quiet && report.error.is_none() => export.tell(true, &mut text),
        None if quiet && report.error.is_none() => Ok(()),
        _ => turnkey_report::terminal::story(report, &mut text, colour),
    };
    // Its words begin a line of their own, whatever the program left.
    if !text.is_empty() && LastPiece::of_both(done.last, go_to_one_place()) {
        text.insert(0, b'\n');
    }
    output::text(&String::from_utf8_lossy(&text));
}

/// True when standard output and standard error are one file, pipe or terminal.
fn go_to_one_place() -> bool {
    let place = |stat: FileStat| (stat.st_dev, stat.st_ino);
    let [output, error] = [fstat(std::io::stdout()), fstat(std::io::stderr())];
    matches!((output.map(place), error.map(place)), (Ok(one), Ok(other)) if one == other)
}
