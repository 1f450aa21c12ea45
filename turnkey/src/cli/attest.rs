//! `turnkey attest` and `turnkey verify`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::attestation::{WantedStatus, WantedVerdict};

/// The codes of `turnkey attest`.
pub const ATTEST_CODES: &str = "Exit codes:
  0    the attestation was written, whatever it says
  125  the key, the report or a subject cannot be read, or the attestation could not be written";

/// The codes of `turnkey verify`.
pub const VERIFY_CODES: &str = "Exit codes:
  0    everything that was asked for holds
  1    something does not: another key or subject, a report too old, another verdict; one sentence each
  125  the key or a subject cannot be read, or the file is no attestation";

/// `turnkey attest`.
#[derive(Debug, Args)]
pub struct AttestArguments {
    /// The Ed25519 key that signs, PKCS#8 in PEM, which only its owner may read
    #[arg(long, value_name = "KEY.pem")]
    pub key: PathBuf,
    /// The report of the run, of `turnkey run --report`
    #[arg(long, value_name = "REPORT.json")]
    pub report: PathBuf,
    /// The result of the gate, of `turnkey gate -o`
    #[arg(long, value_name = "GATE.json")]
    pub gate: Option<PathBuf>,
    /// A file or directory that the attestation is about; without one, the report itself
    #[arg(long = "subject", value_name = "FILE|DIR")]
    pub subjects: Vec<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE|-", default_value = "-")]
    pub out: PathBuf,
}

/// `turnkey verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// A public key that must have signed the attestation; repeatable: every one must have
    #[arg(long = "key", value_name = "PUB.pem", required = true)]
    pub keys: Vec<PathBuf>,
    /// A file or directory that must be a subject of the attestation, as it is now
    #[arg(long = "subject", value_name = "FILE|DIR")]
    pub subjects: Vec<PathBuf>,
    /// The time since the start of the run, at most: a number with s, m or h
    #[arg(long, value_name = "DURATION", value_parser = turnkey_policy::duration)]
    pub max_age: Option<Duration>,
    /// The worst verdict that is accepted
    #[arg(long, value_enum, default_value = "clean")]
    pub verdict: WantedVerdict,
    /// The exit code that the command must have ended with
    #[arg(long, value_name = "CODE|any", default_value = "0")]
    pub exit_code: WantedStatus,
    /// Require the result of a gate that passed. Without this flag the result may be missing, but one that is there must have passed
    #[arg(long)]
    pub gate: bool,
    /// The whole id of the commit that the gate must have judged
    #[arg(long, value_name = "ID")]
    pub commit: Option<String>,
    /// The attestation; - for standard input
    #[arg(value_name = "ATTESTATION")]
    pub attestation: PathBuf,
}
