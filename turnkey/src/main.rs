//! The `turnkey` command.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test makes its own files")
)]

mod attestation;
mod cli;
mod cmd;
mod colour;
mod failure;
mod output;
mod own_process;
mod progress;
mod strict_json;
mod terminal;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use failure::Failure;

/// turnkey itself failed, or a required layer could not be enforced; nothing ran.
pub const FAILED: u8 = 125;

fn main() -> ExitCode {
    own_process::settle_memory_and_signals();
    give_up_on_panic();
    answer()
}

/// Ends the process with turnkey's own status as soon as any thread panics: the standard library's, 101, would be the
/// program's, and a run that goes on without one of its threads would watch less than it says. The jail dies with its supervisor, and
/// the keeper clears away.
///
/// A terminal that the run has taken is given back first.
///
/// A panic may be about memory: so nothing here allocates, which the standard library's own hook does for its backtrace.
fn give_up_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        turnkey_supervisor::restore_all();
        let mut words = [0; 1024];
        let mut rest = &mut words[..];
        // What does not fit is cut off.
        let _ = writeln!(rest, "turnkey: internal error: {panic}");
        let left = rest.len();
        let length = words.len() - left;
        // Past the lock of standard error, which the panicking thread may hold.
        let _ = nix::unistd::write(std::io::stderr(), &words[..length]);
        own_process::end(FAILED);
    }));
}

fn answer() -> ExitCode {
    let arguments = match cli::CommandLine::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&visible(error)),
    };
    let outcome = match arguments.command {
        cli::TurnkeyCommand::Run(arguments) => cmd::run::run(&arguments),
        cli::TurnkeyCommand::Layers(arguments) => cmd::layers::layers(&arguments),
        cli::TurnkeyCommand::Attach(arguments) => cmd::attach::attach(&arguments),
        cli::TurnkeyCommand::AttachGuard => cmd::attach::run_guard(),
        cli::TurnkeyCommand::Top(arguments) => cmd::top::top(&arguments),
        cli::TurnkeyCommand::Events(arguments) => cmd::events::events(&arguments),
        cli::TurnkeyCommand::Serve(arguments) => cmd::serve::serve(&arguments),
        cli::TurnkeyCommand::ServeRun(arguments) => cmd::serve::make(&arguments),
        cli::TurnkeyCommand::OciHook(arguments) => cmd::oci_hook::oci_hook(&arguments),
        cli::TurnkeyCommand::OciRuntime(arguments) => cmd::oci_runtime::oci_runtime(&arguments),
        cli::TurnkeyCommand::Profiles(arguments) => cmd::profiles::profiles(&arguments),
        cli::TurnkeyCommand::Learn(arguments) => cmd::learn::learn(arguments),
        cli::TurnkeyCommand::Report(arguments) => cmd::report::report(&arguments),
        cli::TurnkeyCommand::Diff(arguments) => cmd::diff::diff(&arguments),
        cli::TurnkeyCommand::Worlds(arguments) => cmd::worlds::worlds(&arguments),
        cli::TurnkeyCommand::Attest(arguments) => cmd::attest::attest(&arguments),
        cli::TurnkeyCommand::Gate(arguments) => cmd::gate::gate(&arguments),
        cli::TurnkeyCommand::Verify(arguments) => cmd::verify::verify(&arguments),
        cli::TurnkeyCommand::Check(arguments) => cmd::check::check(&arguments),
        cli::TurnkeyCommand::Explain(arguments) => cmd::explain::explain(&arguments),
        cli::TurnkeyCommand::Doctor(arguments) => cmd::doctor::doctor(&arguments),
        cli::TurnkeyCommand::Audit(arguments) => cmd::audit::audit(&arguments),
        cli::TurnkeyCommand::AuditProbe(arguments) => cmd::audit::probe(&arguments),
        cli::TurnkeyCommand::Import(arguments) => cmd::import::import(&arguments),
        cli::TurnkeyCommand::Scan(arguments) => cmd::scan::scan(&arguments),
        cli::TurnkeyCommand::Schema(arguments) => cmd::schema::schema(&arguments),
        cli::TurnkeyCommand::Monitor(command) => cmd::monitor::monitor(&command),
        cli::TurnkeyCommand::Completions(arguments) => cmd::pages::completions(&arguments),
        cli::TurnkeyCommand::Man(arguments) => cmd::pages::man(&arguments),
        cli::TurnkeyCommand::Version => cmd::pages::version(),
    };
    turnkey_jailer::foreign::leave();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let code = failure.code();
            report(failure);
            ExitCode::from(code)
        }
    }
}

fn report(failure: Failure) {
    match failure {
        Failure::Profile(error) => output::text(&format!("{:?}\n", miette::Report::new(*error))),
        Failure::Unwritten { error, .. } | Failure::Other(error) => {
            output::lines(&turnkey_supervisor::advice::explain(&error));
        }
    }
}

/// The same error about the same arguments with what is not printable in them escaped: clap repeats them.
fn visible(error: clap::Error) -> clap::Error {
    let escaped = |argument: OsString| turnkey_report::escape(argument.as_encoded_bytes());
    let arguments: Vec<_> = std::env::args_os().map(escaped).collect();
    if !error.use_stderr() {
        return error;
    }
    let again = cli::CommandLine::try_parse_from(&arguments).err();
    let command = cli::CommandLine::command();
    cli::suggestion::corrected(again.unwrap_or(error), &command, &arguments)
}

/// The exit status of a call that asks for nothing: what a shell and other commands mean by it.
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
