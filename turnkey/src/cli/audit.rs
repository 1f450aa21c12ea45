//! `turnkey audit`.

use clap::Args;

/// The examples of `audit`.
pub const AUDIT_HELP: &str = "Exit codes:
  0    every sandbox was measured
  1    at least one of them did not run the probe; the others were measured
  125  turnkey failed

Examples:
  turnkey audit                                           the place where it is called
  turnkey audit --profile untrusted --profile sealed      profiles of turnkey's
  turnkey audit --in 'bwrap --ro-bind / / --unshare-all'  another sandbox; the probe is its last arguments
  turnkey audit --in 'docker run --rm -v {probe}:/probe debian /probe'";

/// `turnkey audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Measure this sandbox, a shell command that runs the arguments after it. The path of the probe (turnkey's own program)
    /// and its arguments are appended; `{probe}` in the command is replaced by that path, and then only the arguments are appended
    #[arg(long = "in", value_name = "COMMAND")]
    pub sandboxes: Vec<String>,
    /// Measure `turnkey run` under this profile
    #[arg(long = "profile", value_name = "PROFILE")]
    pub profiles: Vec<String>,
    /// Measure the environment of this call as well; without --in and --profile it is all that is measured
    #[arg(long)]
    pub here: bool,
    /// For programs: one JSON object, schema turnkey.audit/v1
    #[arg(long)]
    pub json: bool,
}

/// The probe of `audit`, inside a sandbox.
#[derive(Debug, Args)]
pub struct AuditProbeArguments {
    /// Baits outside for it to reach, as JSON
    pub bait: String,
    /// Names of probes that are left out: they ended an earlier run
    pub skip: Vec<String>,
}
