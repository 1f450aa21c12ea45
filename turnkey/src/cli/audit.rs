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
    /// Measure this sandbox: a command of a shell that runs what stands behind it. The probe is turnkey's own program, by its
    /// path on this host; where `{probe}` stands in the command, that is the path, and only the probe's arguments are added
    #[arg(long = "in", value_name = "COMMAND")]
    pub sandboxes: Vec<String>,
    /// Measure `turnkey run` under this profile
    #[arg(long = "profile", value_name = "PROFILE")]
    pub profiles: Vec<String>,
    /// Measure nothing but the sandboxes that are named: without any, the place where it is called is measured; with this
    /// flag it stands beside them as well
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
