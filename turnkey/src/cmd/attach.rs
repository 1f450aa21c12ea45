//! `turnkey attach`: watches a control group that others fill, and tells what happened in it.

mod detach;
mod guard;
mod target;
mod watcher_file;

pub use self::guard::run_guard;
use self::watcher_file::{ReportFile, begin_events};
use std::time::Duration;

use anyhow::Context;
use turnkey_facts::Event;
use turnkey_policy::Overrides;
use turnkey_report::{Attachment, Report};
use turnkey_supervisor::RunObserver;
use turnkey_supervisor::attachment::limits::GroupLimits;
use turnkey_supervisor::attachment::{self, AttachmentRequest};
use turnkey_supervisor::files::{self, RunOutputs};
use turnkey_supervisor::sinks::FoundSink;

use super::run::{require_written, write};
use crate::cli::AttachArguments;
use crate::colour;
use crate::failure::Failure;
use crate::output;

/// Watches the group and answers turnkey's exit status.
pub fn attach(arguments: &AttachArguments) -> Result<u8, Failure> {
    if arguments.detach {
        detach::require_files(arguments)?;
        return Ok(detach::detach()?);
    }
    if arguments.detached {
        nix::unistd::setsid().context("no session could be made")?;
    }
    let (report, events) = (arguments.report.as_deref(), arguments.events.as_deref());
    let outputs = RunOutputs::find(report, events, None)?.and_sinks(arguments.sinks.find()?)?;
    let mode = arguments.mode.iter().map(|mode| ("mode", mode.as_str()));
    let overrides = Overrides::from_flags(mode).context("the flags could not be taken")?;
    let policy = turnkey_policy::load(&arguments.profile, &files::read_text, &overrides)
        .map_err(|error| Failure::Profile(Box::new(error)))?;
    outputs.require_beside_inputs(&policy)?;
    let group = target::find(&arguments.target)?;
    let mut report_file = ReportFile::open(outputs.report, arguments)?;
    let events = outputs.events;
    let events = events.map(|events| begin_events(events, arguments));
    let sinks: anyhow::Result<_> = outputs.sinks.into_iter().map(FoundSink::open).collect();
    let request = AttachmentRequest {
        group,
        before_program: arguments.target.pid.filter(|_| arguments.before_program),
        root: arguments.rootfs.clone(),
        at_most: arguments.at_most,
        redact: !arguments.no_redact,
        residence: arguments.residence.chosen(),
        events: events.transpose()?,
        limits: GroupLimits {
            memory: arguments.memory,
            pids: arguments.pids,
            cpus: arguments.cpus,
        },
        guard: arguments.required.then(guard::guard_program),
        sinks: sinks?,
    };
    let mut observer = Follower {
        quiet: arguments.quiet,
        detached: arguments.detached,
    };
    let mut beginning = |report: &Report| report_file.begin(report);
    let mut done = attachment::attach(request, policy, &mut observer, &mut beginning)?;
    let written = write(&done.report, report_file.into_output());
    // Last: a group without its whole report is one whose watcher was killed.
    if let Some(guard) = done.guard.take() {
        guard.let_go();
    }
    tell_story(&done.report, arguments);
    let unwritten = done.unwritten.take();
    require_written(&done.report, unwritten.into_iter().chain(written.err()))?;
    Ok(done.report.exit_code())
}

/// The longest time that somebody may take to read a line, who would otherwise have the group wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says when the group is taken: whoever starts something then knows that it is watched.
struct Follower {
    quiet: bool,
    /// In the background, with a caller who waits until the group is taken.
    detached: bool,
}

impl RunObserver for Follower {
    fn notice(&mut self, line: &str) {
        output::text_within(&output::as_line(line), PATIENCE);
    }

    fn attached(&mut self, attachment: &Attachment) {
        if !self.quiet {
            tell_of_watch(attachment, self.detached);
        }
        if self.detached {
            detach::tell_that_it_watches();
        }
    }

    fn event(&mut self, _event: &Event) {}
}

fn tell_of_watch(attachment: &Attachment, detached: bool) {
    let found = match attachment.found_count {
        0 => "no process is in it yet".to_owned(),
        1 => "1 process was there before".to_owned(),
        count => format!("{count} processes were there before"),
    };
    let end = match detached {
        true => format!("; kill {} lets it go", std::process::id()),
        false => String::new(),
    };
    let line = format!("turnkey: watching {}; {found}{end}\n", attachment.group);
    output::text_within(&line, PATIENCE);
}

fn tell_story(report: &Report, arguments: &AttachArguments) {
    let colour = colour::wanted(arguments.colour, &std::io::stderr());
    let mut text = Vec::new();
    // Into memory, which does not fail.
    let _ = match arguments.quiet && report.error.is_none() {
        true => turnkey_report::terminal::lost_alerts(report, &mut text),
        false => turnkey_report::terminal::story(report, &mut text, colour),
    };
    output::text(&String::from_utf8_lossy(&text));
}
