//! `turnkey monitor`: the eBPF programs that stay in the kernel.

use clap::{Args, Subcommand};
use turnkey_supervisor::Residence;

/// The residence of programs that a run or an attachment has to load.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ResidenceArguments {
    /// Unload the monitor's eBPF programs after the run; programs that were loaded before are used and stay
    #[arg(long, help_heading = "Policy")]
    leave_nothing: bool,
}

impl ResidenceArguments {
    /// The residence that was chosen.
    pub fn chosen(self) -> Residence {
        match self.leave_nothing {
            true => Residence::Process,
            false => Residence::Kernel,
        }
    }
}

/// `turnkey monitor`.
#[derive(Debug, Subcommand)]
pub enum MonitorCommand {
    /// Load the programs for all runs, until the next boot or `unload`.
    Load,
    /// List the loaded programs and the monitored jails; exit code 1 when this version's programs are not loaded.
    Status(StatusArguments),
    /// Unload the programs. Running jails stay monitored.
    Unload(UnloadArguments),
}

/// `turnkey monitor status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// For programs: one JSON object, schema turnkey.monitor/v1
    #[arg(long)]
    pub json: bool,
}

/// `turnkey monitor unload`.
#[derive(Debug, Args)]
pub struct UnloadArguments {
    /// Unload the programs of every version
    #[arg(long)]
    pub all: bool,
}
