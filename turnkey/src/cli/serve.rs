//! `turnkey serve`, and the flags by which `run` uses it.

use std::path::{Path, PathBuf};

use clap::Args;

/// The end of the help of `serve`.
pub const SERVE_HELP: &str = "Exit codes:
  0    the service was asked to end, or --check found no error
  125  the service cannot run; the message says why

Examples:
  turnkey serve --check                        what this host and the configuration give
  turnkey serve                                serve the group of the socket, until SIGTERM
  turnkey run --service -- python3 untrusted.py   as a user of that group";

/// `turnkey serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The configuration file, instead of /etc/turnkey/serve.toml; without that file the defaults apply, which --check prints
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The directory of the socket, made where it is not there, instead of what TURNKEY_SOCKET_DIR names, or /run/turnkey
    #[arg(long, value_name = "DIR")]
    pub socket_dir: Option<PathBuf>,
    /// Print the effective configuration, the tier, the permitted callers, and each missing layer with its fix; then exit
    #[arg(long)]
    pub check: bool,
}

/// The process that makes one run of a service.
#[derive(Debug, Args)]
pub struct ServeRunArguments {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The service's process, with which this one ends
    #[arg(long, value_name = "PID")]
    pub service: i32,
    /// The nice value of a run, in the place of the one of whoever stands ready
    #[arg(long, allow_hyphen_values = true)]
    pub nice: i32,
    /// Keep the monitor's programs attached: runs follow one another
    #[arg(long)]
    pub after_a_run: bool,
}

/// The choice between the service and this process.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Policy")]
pub struct ServiceArguments {
    /// Ask the service of this host, which root has started by `turnkey serve`, to make the run: a caller without privileges gets every
    /// layer
    #[arg(long, overrides_with = "local")]
    service: bool,
    /// Make the run in this process, even where /etc/turnkey/use-service selects the service
    #[arg(long, overrides_with = "service")]
    local: bool,
}

/// The file by which an administrator has every run of other users made by the service.
pub const USE_SERVICE: &str = "/etc/turnkey/use-service";

impl ServiceArguments {
    /// True when the service is to make the run.
    pub fn chosen(self) -> bool {
        let asked = || !nix::unistd::geteuid().is_root() && Path::new(USE_SERVICE).exists();
        self.service || !self.local && asked()
    }
}
