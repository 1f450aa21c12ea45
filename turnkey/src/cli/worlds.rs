//! `turnkey worlds`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{DirectoryArguments, OverrideArguments, ResidenceArguments};

/// Stands behind the help.
pub const WORLDS_HELP: &str =
    "Shipped worlds: `turnkey worlds --list` prints them as a file of worlds.

Exit codes:
  0    the program does the same in every world
  1    it does otherwise in one of them
  125  a world is invalid, a run could not start, or not everything was seen

Examples:
  turnkey worlds -- python3 untrusted.py                    every shipped world
  turnkey worlds --world in-40-days --world ci -- ./job     two of them
  turnkey worlds --worlds mine.toml -- ./job                those of a file";

/// `turnkey worlds`.
#[derive(Debug, Args)]
pub struct WorldsArguments {
    /// A shipped profile, as `turnkey profiles` lists them, or a file
    #[arg(
        long,
        value_name = "NAME|FILE",
        default_value = "untrusted",
        help_heading = "Policy"
    )]
    pub profile: String,
    /// Run the command in this world only; repeatable. By default it runs in all worlds of --worlds, or in all shipped ones
    #[arg(long = "world", value_name = "NAME", help_heading = "Worlds")]
    pub names: Vec<String>,
    /// A file with worlds of your own, TOML
    #[arg(long, value_name = "FILE", help_heading = "Worlds")]
    pub worlds: Option<PathBuf>,
    /// Print the worlds that would be run, as a file of worlds, and run nothing
    #[arg(long, help_heading = "Worlds")]
    pub list: bool,
    /// For programs: one JSON object, schema turnkey.worlds/v1
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write the report of each run to this existing directory, as WORLD.json
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub report_dir: Option<PathBuf>,
    /// The residence of the monitor's programs.
    #[command(flatten)]
    pub residence: ResidenceArguments,
    /// The directory that the program works in.
    #[command(flatten)]
    pub directory: DirectoryArguments,
    /// Flags over the profile; a world wins over them.
    #[command(flatten)]
    pub overrides: OverrideArguments,
    /// The command and its arguments, from the first word that is no option; -- before it is optional
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "list",
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}
