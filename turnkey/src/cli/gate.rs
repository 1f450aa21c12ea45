//! `turnkey gate`.

use std::path::PathBuf;

use clap::Args;

/// The codes of `turnkey gate`.
pub const EXIT_CODES: &str = "Exit codes:
  0    pass
  1    fail: each finding is told
  120  inconclusive: a check could not be made, and nothing else failed
  125  turnkey failed: no such commit, no config in the base, an invalid config";

/// `turnkey gate`.
#[derive(Debug, Args)]
pub struct GateArguments {
    /// The config: a path in the repository, which is read as the base has it, or a file outside; by default turnkey.toml at
    /// the top of the repository
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The commit that is trusted, and that changes are compared with
    #[arg(long, value_name = "REF", default_value = "origin/HEAD")]
    pub base: String,
    /// The commit that is judged
    #[arg(long, value_name = "REF", default_value = "HEAD")]
    pub head: String,
    /// For programs: print the result as JSON, schema turnkey.gate/v1
    #[arg(long)]
    pub json: bool,
    /// Write the result as JSON to this file
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the findings to this file, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Write a comment for a code host to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    pub comment: Option<PathBuf>,
    /// Print a config with every key explained, to begin with, and do nothing else
    #[arg(long, conflicts_with_all = ["json", "out", "sarif", "comment"])]
    pub init: bool,
}
