//! `turnkey attach`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use turnkey_supervisor::sinks::{SinkTarget, TargetError};

use super::{ColourWhen, ResidenceArguments, SinkArguments};

/// The codes of `turnkey attach`, and examples.
pub const EXIT_CODES: &str = "Exit codes:
  0    the group ended, or the watch did; the status of its processes does not matter
  120  evidence was lost and the profile says on_loss = \"fail\"
  121  killed by policy
  125  turnkey failed, or could not attach, and nothing was watched; or a file such as that of
       --report could not be written at the end of a watch that is no 120 or 121, which stay

It watches until no process of the group is left, --for is over, or it is asked to end (Ctrl-C, SIGTERM). An empty group is
waited for.

Examples:
  turnkey attach --unit nginx.service --profile service     a service and all that it starts
  turnkey attach --container web --report web.json           a container of podman, docker, runc or crun
  turnkey attach --pid 4711 --mode observe --for 10m         the group of a process, rules only log
  turnkey attach --cgroup /jobs --required --pids 500        it does not outlive turnkey, and has limits meanwhile";

/// `turnkey attach`.
#[derive(Debug, Args)]
pub struct AttachArguments {
    /// The group.
    #[command(flatten)]
    pub target: AttachTarget,
    /// A shipped profile that asks for the monitor alone (container, service, runner), or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "container")]
    pub profile: String,
    /// enforce: rules act; observe: rules only log
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Stop watching after this time, such as 10m
    #[arg(long = "for", value_name = "DURATION", value_parser = turnkey_policy::duration)]
    pub at_most: Option<Duration>,
    /// Return as soon as the group is watched, and go on in the background until no process of it is left; needs --report
    #[arg(long, requires = "report")]
    pub detach: bool,
    /// The background of --detach: a session of its own
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub detached: bool,
    /// Kill the group when turnkey is killed while it watches, as by SIGKILL or the OOM killer
    #[arg(long)]
    pub required: bool,
    /// Memory of the group, such as 512M; the earlier limit is restored when the watch ends
    #[arg(long, value_name = "SIZE", value_parser = turnkey_policy::memory)]
    pub memory: Option<u64>,
    /// Processes and threads of the group; restored likewise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pids: Option<u32>,
    /// CPUs for the group, such as 1.5; restored likewise
    #[arg(long, value_name = "N", value_parser = turnkey_supervisor::attachment::limits::cpus)]
    pub cpus: Option<f64>,
    /// The process of --pid is a runtime's, which has not started its program: as if it were not there yet
    #[arg(long, hide = true, requires = "pid")]
    pub before_program: bool,
    /// The root directory that this runtime is going to give its program
    #[arg(long, hide = true, requires = "before_program", value_name = "DIR")]
    pub rootfs: Option<PathBuf>,
    /// The residence of the monitor's programs.
    #[command(flatten)]
    pub residence: ResidenceArguments,
    /// Write the JSON report to this file; -: to standard output
    #[arg(long, value_name = "FILE|-")]
    pub report: Option<PathBuf>,
    /// Write every event to this file, as JSON Lines
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// Receivers of alerts.
    #[command(flatten)]
    pub sinks: SinkArguments,
    /// Do not redact credentials in arguments, paths and addresses of the report and the events
    #[arg(long)]
    pub no_redact: bool,
    /// No verdict line and no explanation on standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// Colour on standard error
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    pub colour: ColourWhen,
}

/// `turnkey oci-hook`.
#[derive(Debug, Args)]
pub struct OciHookArguments {
    /// The profile of a container, unless its annotation dev.turnkey.profile chooses another one of --choice
    #[arg(long, value_name = "NAME|FILE", default_value = "container")]
    pub profile: String,
    /// A shipped profile that the annotation dev.turnkey.profile may choose; repeatable. A container
    /// whose annotation names any other profile is not started
    #[arg(long = "choice", value_name = "NAME")]
    pub choices: Vec<String>,
    /// The directory of the reports, each named for its container
    #[arg(long, value_name = "DIR", default_value = "/var/log/turnkey")]
    pub reports: PathBuf,
    /// Let a container run on unwatched when its watcher is killed; without this flag the container is killed, too
    #[arg(long)]
    pub may_outlive_watcher: bool,
    /// enforce: rules act; observe: rules only log. No container chooses it
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Tell each finding of a container at once, and its verdict, to a receiver as of `turnkey attach --to`; repeatable
    #[arg(long, value_name = "SINK", value_parser = sink)]
    pub to: Vec<String>,
    /// The file of the secret that signs what goes to webhooks
    #[arg(long, value_name = "FILE", requires = "to")]
    pub webhook_secret_file: Option<PathBuf>,
}

/// A receiver as it was written, which can be read.
fn sink(text: &str) -> Result<String, TargetError> {
    text.parse::<SinkTarget>().map(|_| text.to_owned())
}

/// `turnkey oci-runtime`.
#[derive(Debug, Args)]
pub struct OciRuntimeArguments {
    /// The real runtime: runc or crun
    #[arg(long, value_name = "PROGRAM", default_value = "runc")]
    pub runtime: PathBuf,
    /// The hook's own arguments.
    #[command(flatten)]
    pub hook: OciHookArguments,
    /// The runtime's options and command, behind --
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub words: Vec<OsString>,
}

/// The group that is attached to, by one of its names.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct AttachTarget {
    /// The group's path, as in /proc/PID/cgroup or below /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// The group that this process is in: the other processes of it are watched as well
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The group of a unit of systemd
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// The group of a container of podman, docker, runc or crun, by name or id
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,
}
