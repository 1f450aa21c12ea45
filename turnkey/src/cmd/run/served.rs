//! A run that the service of this host makes: what is the caller's own is done here, before and after.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, ensure};
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::stat::Mode;
use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use turnkey_jailer::export::ExportDestination;
use turnkey_report::{Status, Stored, Unreadable};
use turnkey_supervisor::files::RunOutputs;
use turnkey_supervisor::service::export::{ExportLine, ExportReceiver};
use turnkey_supervisor::service::{self, RunOrder, ServedEnd, ServiceError};

use crate::cli::RunArguments;
use crate::cmd::{run, serve};
use crate::failure::Failure;
use crate::output;
use crate::terminal;

/// Has the service run the command, and answers its exit status.
pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    if let Some(flag) = serve::unserved(arguments) {
        let message =
            format!("the service does not do {flag}; leave it out, or run without it: --local");
        return Err(anyhow::Error::msg(message).into());
    }
    let (report, events) = (arguments.report.as_deref(), arguments.events.as_deref());
    let outputs = RunOutputs::find(report, events, arguments.export.destination())?;
    if outputs.report.is_some() || outputs.events.is_some() || outputs.export.is_some() {
        // What the program can write, no output of turnkey's may lie in.
        let policy = arguments.overrides.over(&arguments.profile)?;
        outputs.require_unreachable(&policy)?;
        outputs.require_apart(&policy, &arguments.directory.chosen()?)?;
    }
    let takes_stdout = outputs.takes_stdout;
    let report = outputs.report.map(|report| run::opened("a report", report));
    let report = report.transpose()?;
    let events = outputs.events.map(run::begin_events);
    let events: Option<File> = events.transpose()?;
    let directory = here()?;
    let receives = outputs.export.map(receive_export).transpose()?;
    let (receiver, export) = receives.unzip();
    let more = [
        events.as_ref().map(AsFd::as_fd),
        export.as_ref().map(AsFd::as_fd),
    ];
    let end = asked(arguments, takes_stdout, &directory, more);
    // Its other end is gone with the run, and this was the last copy.
    drop(export);
    let is_exported = receiver.map(ExportReceiver::finish);
    let end = end?;
    let is_whole = is_report_of(&end, is_exported)?;
    if let Some(file) = report {
        let written = file.write_as("the report", &end.report);
        written.map_err(|error| Failure::Unwritten {
            code: code_of_unwritten(&end),
            error: error.into(),
        })?;
    }
    match is_whole {
        true => Ok(end.code),
        false => Err(Failure::Unwritten {
            code: code_of_unwritten(&end),
            error: anyhow::Error::msg(
                "the export is not whole, though the service reports no gap in it",
            ),
        }),
    }
}

/// Requires that the service's answer is a report. True when that says of the export what this process knows; `is_exported` has where one
/// was asked for whether all of it was written.
fn is_report_of(end: &ServedEnd, is_exported: Option<bool>) -> anyhow::Result<bool> {
    let report = match Stored::read(&end.report) {
        // What is too large for whoever reads it later is one all the same.
        Err(Unreadable::TooLarge) => return Ok(is_exported != Some(false)),
        stored => stored.context("the service's answer is no report")?.report,
    };
    let has_no_gap = match &report.export {
        Some(export) => export.complete,
        // Of a program that was not started there is none.
        None => report.status != Status::SetupFailed,
    };
    Ok(is_exported != Some(false) || !has_no_gap)
}

/// The exit code when the report of a run could not be written.
fn code_of_unwritten(end: &ServedEnd) -> u8 {
    let stored = Stored::read(&end.report);
    stored.map_or(crate::FAILED, |stored| {
        stored.report.code_of_unwritten(end.code)
    })
}

/// Begins to take an export; the answer has the end of the connection that goes to the service.
fn receive_export(destination: ExportDestination) -> anyhow::Result<(ExportReceiver, OwnedFd)> {
    let failed = "could not begin to take an export";
    let (own, its) = ExportLine::pair().context(failed)?;
    let receiver = ExportReceiver::start(own, destination).context(failed)?;
    Ok((receiver, its))
}

fn here() -> anyhow::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    nix::fcntl::open(".", flags, Mode::empty()).context("could not open the current directory")
}

fn asked(
    arguments: &RunArguments,
    takes_stdout: bool,
    directory: &OwnedFd,
    more: [Option<BorrowedFd<'_>>; 2],
) -> anyhow::Result<ServedEnd> {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let output = match takes_stdout {
        true => stderr.as_fd(),
        false => stdout.as_fd(),
    };
    let mut descriptors: Vec<BorrowedFd<'_>> =
        vec![stdin.as_fd(), output, stderr.as_fd(), directory.as_fd()];
    descriptors.extend(more.into_iter().flatten());
    let has_terminal = has_terminal(arguments, takes_stdout);
    let order = order(arguments, has_terminal)?;
    let waits = |reason: &str| {
        if !arguments.quiet {
            output::line(&format!("waits for the service: {reason}"));
        }
    };
    let before = tcgetattr(&stdin).ok();
    if has_terminal && let Some(before) = &before {
        // A job in the background is stopped here, as it is where it takes the terminal itself.
        let _ = tcsetattr(&stdin, SetArg::TCSANOW, before);
    }
    let directory = service::socket_directory();
    let end = service::run(&directory, order, &descriptors, has_terminal, waits);
    if end.is_err() && tcgetpgrp(&stdin) == Ok(getpgrp()) {
        // Whoever would have given the terminal back may have been killed.
        let _ = before.map(|before| tcsetattr(&stdin, SetArg::TCSANOW, &before));
    }
    match &end {
        Err(ServiceError::Withdrawn(signal)) => die_from(*signal),
        Err(error @ ServiceError::Unanswered(signal)) => {
            output::line(&error.to_string());
            die_from(*signal);
        }
        _ => {}
    }
    Ok(end?)
}

/// True when the program is to have a terminal, which only this process can tell.
fn has_terminal(arguments: &RunArguments, takes_stdout: bool) -> bool {
    let by_itself = || !takes_stdout && terminal::is_interactive();
    arguments.terminal.chosen().unwrap_or_else(by_itself)
}

/// Ends this process by a signal that it holds back, as a run without the service that has not begun.
fn die_from(signal: Signal) {
    let _ = raise(signal);
    let _ = SigSet::from(signal).thread_unblock();
}

/// The words of this command, and whether the program is to have a terminal.
fn order(arguments: &RunArguments, has_terminal: bool) -> anyhow::Result<RunOrder> {
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    ensure!(
        words.first().is_some_and(|word| word == "run"),
        "the service makes runs alone"
    );
    if arguments.terminal.chosen().is_none() {
        let flag = match has_terminal {
            true => "--tty",
            false => "--no-tty",
        };
        words.insert(1, flag.into());
    }
    Ok(RunOrder {
        arguments: words,
        variables: std::env::vars_os().collect(),
    })
}
