//! `turnkey report`.

use std::path::PathBuf;

use clap::Args;

use super::ColourWhen;

/// The codes of `turnkey report`.
pub const EXIT_CODES: &str = "Exit codes:
  0    the report was rendered, whatever its verdict
  125  the file is no report that this version can read, or the output could not be written";

/// `turnkey report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A report of `turnkey run --report FILE`; - for standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// The format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,
    /// The absolute path of the repository, which SARIF places are relative to; /workspace is it in any case
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    pub source_root: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE|-")]
    pub out: Option<PathBuf>,
    /// Colour in the text
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    pub colour: ColourWhen,
}

/// The form that `turnkey report` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// The text that `run` printed on the terminal
    Text,
    /// The report as JSON, as this version writes it: turnkey.report/v1
    Json,
    /// One page for a browser, which loads nothing from elsewhere
    Html,
    /// SARIF 2.1.0, for code hosts and viewers of static analysis results
    Sarif,
    /// OCSF 1.5.0, one Detection Finding per line, for SIEMs
    Ocsf,
    /// JUnit XML, for build servers: a suite for the run, a case for each finding
    Junit,
    /// A profile that extends that of the run and allows what it was refused, except by critical rules
    Profile,
}

fn absolute(path: &str) -> Result<PathBuf, &'static str> {
    match path.starts_with('/') {
        true => Ok(path.into()),
        false => {
            Err("reports name absolute paths, so name the repository by one, such as \"$PWD\"")
        }
    }
}
