//! The words of `audit`: what a probe asks, and what came of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The subject of a probe: seven that an analysis of a sandbox's security asks about, and what a program can use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Programs that can be run.
    Commands,
    /// Rights and calls that change the system.
    Privilege,
    /// Networks beyond the sandbox.
    OuterNetwork,
    /// Other processes of the host, and what they share.
    Neighbours,
    /// Facts and secrets of the host.
    Leaks,
    /// Ways for data to leave, or to stay.
    Upload,
    /// The walls themselves.
    Technology,
    /// Memory and processes.
    Limits,
}

impl Criterion {
    /// In the order of the table, each with its words.
    pub const ALL: [(Criterion, &'static str); 8] = [
        (Criterion::Commands, "commands"),
        (Criterion::Privilege, "privilege"),
        (Criterion::OuterNetwork, "outer network"),
        (Criterion::Neighbours, "neighbours"),
        (Criterion::Leaks, "leaks"),
        (Criterion::Upload, "upload"),
        (Criterion::Technology, "technology"),
        (Criterion::Limits, "limits"),
    ];
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The program can do it.
    Open,
    /// The program cannot, or it reached something of the sandbox's own.
    Stopped,
    /// The run was ended for it.
    Ended,
    /// The question stays open: no fact that could be asked answers it.
    Unknown,
}

/// The result, and the fact that it stands on: a value that was read, an error's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The result.
    pub outcome: Outcome,
    /// The fact.
    pub fact: String,
}

impl Finding {
    /// The program can do it.
    pub fn open(fact: impl Into<String>) -> Self {
        Self::new(Outcome::Open, fact)
    }

    /// The program cannot do it.
    pub fn stopped(fact: impl Into<String>) -> Self {
        Self::new(Outcome::Stopped, fact)
    }

    /// A probe that nothing answers.
    pub fn unknown(fact: impl Into<String>) -> Self {
        Self::new(Outcome::Unknown, fact)
    }

    /// A finding of this outcome.
    pub fn new(outcome: Outcome, fact: impl Into<String>) -> Self {
        let fact = fact.into();
        Self { outcome, fact }
    }
}

/// Success is open, every error stops.
impl<T: Into<String>, E: std::fmt::Display> From<Result<T, E>> for Finding {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(fact) => Finding::open(fact),
            Err(error) => Finding::stopped(error.to_string()),
        }
    }
}

/// A line of the probe's output, behind [`MARK`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The probe of this name begins.
    Begun(String),
    /// The probe of this name ended.
    Found(String, Finding),
    /// The end: every probe has been tried.
    Over,
}

/// The beginning of a line that is the probe's, whatever else a sandbox prints.
pub const MARK: &str = "turnkey-audit ";

/// Baits outside a sandbox, for the probe to reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bait {
    /// Random text: the content of every secret, and the beginning of whatever the probe sends.
    pub token: String,
    /// A directory below /tmp that everybody may write to, with the file `secret`, the socket `socket` and, for root alone,
    /// `private`.
    pub folder: PathBuf,
    /// A directory in the home of the caller, with the file `secret`; none where there is no home that can be written to.
    pub home: Option<PathBuf>,
    /// Listeners for TCP and UDP alike, with the host's own addresses.
    pub addresses: Vec<SocketAddr>,
    /// The name of an abstract socket, and of a file in /dev/shm.
    pub name: String,
    /// The id of a process of the caller's.
    pub neighbour: i32,
    /// The number of a descriptor that is open on a secret.
    pub descriptor: i32,
    /// The variable of the environment that holds a secret.
    pub variable: String,
    /// Links of /proc/self/ns outside.
    pub namespaces: BTreeMap<String, String>,
    /// Digests of the host's files that tell it from others, by their paths.
    pub host: BTreeMap<String, String>,
}

/// Namespaces that are compared.
pub const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// Files that tell a host from others.
pub const HOST_FACTS: [&str; 5] = [
    "/etc/passwd",
    "/proc/sys/kernel/hostname",
    "/etc/machine-id",
    "/proc/sys/kernel/random/boot_id",
    "/proc/cmdline",
];
