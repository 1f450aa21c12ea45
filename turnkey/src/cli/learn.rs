//! `turnkey learn`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{DirectoryArguments, OverrideArguments, TerminalArguments};

/// The codes of `learn`.
pub const LEARN_CODES: &str = "Exit codes:
  0-119     the command's own status, and the profile is written; of several runs, the first status
            that is not 0
  125       turnkey failed, the run was ended early, or some of it was not recorded: no profile is
            written
  126, 127  command not executable, not found
  128+N     the command died from signal N by itself, and the profile is written";

/// `turnkey learn`.
#[derive(Debug, Args)]
pub struct LearnArguments {
    /// The profile that the new one extends: a shipped one, as `turnkey profiles` lists them, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "untrusted")]
    pub profile: String,
    /// Write the profile to this file instead of learned.toml; -: to standard output
    #[arg(long, value_name = "FILE|-")]
    pub out: Option<PathBuf>,
    /// Add what the run did to this profile, and keep the rest of it
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub merge: Option<PathBuf>,
    /// Run the command N times, for each input: names that differ from run to run become patterns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub times: u16,
    /// Run the command with this file as its standard input, or its path in place of {}; once for each --input
    #[arg(long = "input", value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// Write the JSON report of the run to this file; -: to standard output
    #[arg(long, value_name = "FILE|-")]
    pub report: Option<PathBuf>,
    /// No verdict line and no explanation on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// Flags that say if the program gets a terminal.
    #[command(flatten)]
    pub terminal: TerminalArguments,
    /// The directory that the program works in.
    #[command(flatten)]
    pub directory: DirectoryArguments,
    /// Flags over the profile, which the new one keeps but for limits.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command and its arguments, from the first word that is no option; -- before it is optional
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
