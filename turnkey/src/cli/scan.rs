//! `turnkey scan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ColourWhen;

/// The codes of `turnkey scan`.
pub const EXIT_CODES: &str = "Exit codes:
  0    the scripts were scanned, whatever was found
  1    --fail-at was given, and a script has that score or more, or was not looked at whole
  125  a file cannot be read, or is no script in a language that is known; or a command of --with failed: what
       turnkey itself found is printed all the same

Examples:
  turnkey scan setup.py                       what it would do, and the command that runs it in a fitting jail
  turnkey scan --fail-at 50 --sarif . > log   for a build: fails at a score of 50, and writes SARIF
  curl -s https://… | turnkey scan --language shell -";

/// `turnkey scan`.
#[derive(Debug, Args)]
pub struct ScanArguments {
    /// Python and shell scripts, directories with some, or - for standard input
    #[arg(required = true, value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// The language, instead of the one that the first line or the name tells
    #[arg(long, value_enum)]
    pub language: Option<ScanLanguage>,
    /// Modules that Python scripts may import; each other one is a finding
    #[arg(long, value_name = "MODULE,…", value_delimiter = ',')]
    pub allowed_imports: Option<Vec<String>>,
    /// The profile whose `scan.allowed_imports` are these modules, where the flag does not name them
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Also run this command, another scanner or a model that reviews code, by sh with the script on standard input; it prints
    /// turnkey.scan-findings/v1, see `turnkey schema scan-findings`
    #[arg(long, value_name = "CMD")]
    pub with: Vec<String>,
    /// Exit with 1 when a script has this score or more, by turnkey or by a command of --with, or could not be looked at whole
    #[arg(long, value_name = "SCORE", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub fail_at: Option<u32>,
    /// For programs: one JSON object, schema turnkey.scan/v1
    #[arg(long, conflicts_with = "sarif")]
    pub json: bool,
    /// For code hosts and viewers of static analysis results: SARIF 2.1.0
    #[arg(long)]
    pub sarif: bool,
    /// Colour in the text
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    pub colour: ColourWhen,
}

/// A language that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScanLanguage {
    /// Python 3
    Python,
    /// POSIX shell and bash
    Shell,
}
