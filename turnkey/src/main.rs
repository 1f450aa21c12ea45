//! The `turnkey` command.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test makes its own files")
)]

mod accept;
mod advice;
mod check;
mod cli;
mod clock;
mod colour;
mod diff;
mod doctor;
mod elsewhere;
mod explain;
mod export;
mod filters;
mod gateway;
mod home;
mod import;
mod input;
mod learn;
mod memory;
mod monitor;
mod network;
mod object;
mod output;
mod outputs;
mod pages;
mod profiles;
mod progress;
mod relay;
mod report;
mod retell;
mod run;
mod schema;
mod scope;
mod signals;
mod start;
mod stdin;
mod supervise;
mod tell;
mod text_file;
mod toml_text;
mod toolchain;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// turnkey itself failed, or a required layer could not be enforced; nothing ran.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    memory::settle();
    give_up_on_panic();
    answer()
}

/// Ends the process with turnkey's own status as soon as any thread panics: the standard library's, 101, would be the
/// program's, and a run that goes on without one of its threads would watch less than it says. The jail dies with its supervisor, and
/// the keeper clears away.
///
/// A panic may be about memory: so nothing here allocates, which the standard library's own hook does for its backtrace.
fn give_up_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let mut words = [0; 1024];
        let mut rest = &mut words[..];
        // What does not fit is cut off.
        let _ = writeln!(rest, "turnkey: internal error: {panic}");
        let left = rest.len();
        let length = words.len() - left;
        // Past the lock of standard error, which the panicking thread may hold.
        let _ = nix::unistd::write(std::io::stderr(), &words[..length]);
        memory::end(FAILED);
    }));
}

fn answer() -> ExitCode {
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&visible(error)),
    };
    let outcome = match arguments.command {
        cli::Command::Run(arguments) => run::run(&arguments),
        cli::Command::Profiles(arguments) => profiles::profiles(&arguments),
        cli::Command::Learn(arguments) => learn::learn(arguments),
        cli::Command::Report(arguments) => retell::report(&arguments),
        cli::Command::Diff(arguments) => diff::diff(&arguments),
        cli::Command::Check(arguments) => check::check(&arguments),
        cli::Command::Explain(arguments) => explain::explain(&arguments),
        cli::Command::Doctor(arguments) => doctor::doctor(&arguments),
        cli::Command::Import(arguments) => import::import(&arguments),
        cli::Command::Schema(arguments) => schema::schema(&arguments),
        cli::Command::Monitor(command) => monitor::monitor(&command),
        cli::Command::Completions(arguments) => pages::completions(&arguments),
        cli::Command::Man(arguments) => pages::man(&arguments),
        cli::Command::Version => pages::version(),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            tell(failure);
            ExitCode::from(FAILED)
        }
    }
}

fn tell(failure: run::Failure) {
    match failure {
        run::Failure::Profile(error) => tell::text(&format!("{:?}\n", miette::Report::new(*error))),
        run::Failure::Other(error) => tell::lines(&advice::explain(&error)),
    }
}

/// The same error about the same arguments with what is not printable in them escaped: clap repeats them.
fn visible(error: clap::Error) -> clap::Error {
    let arguments = std::env::args_os().map(|argument| report::escape(argument.as_encoded_bytes()));
    match error.use_stderr() {
        true => cli::Arguments::try_parse_from(arguments)
            .err()
            .unwrap_or(error),
        false => error,
    }
}

/// Nothing was asked for: what a shell and other commands mean by this status.
const NOTHING_ASKED: u8 = 2;

/// clap's own status for bad usage is 2, which here would be the command's. Who names no command cannot take it
/// for one.
fn usage(error: &clap::Error) -> ExitCode {
    // When stdout or stderr is closed there is nobody left to tell.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => ExitCode::from(NOTHING_ASKED),
        _ if error.use_stderr() => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}
