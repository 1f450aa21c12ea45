//! `turnkey monitor`: the eBPF programs that stay in the kernel.

use clap::{Args, Subcommand};

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
