//! Flags that mirror profile keys one to one.

use std::path::PathBuf;

use clap::Args;
use turnkey_policy::Overrides;

/// Flags over the profile.
#[derive(Debug, Args)]
pub struct OverrideArguments {
    /// enforce: rules act; observe: rules only log
    #[arg(long, help_heading = "Policy", value_name = "MODE")]
    mode: Option<String>,
    /// Memory of the whole process tree, such as 512M
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    memory: Option<String>,
    /// Swap of the whole process tree
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    swap: Option<String>,
    /// Share of CPU time; 100% is one CPU
    #[arg(long, help_heading = "Limits", value_name = "PERCENT")]
    cpu: Option<String>,
    /// Processes and threads
    #[arg(long, help_heading = "Limits", value_name = "COUNT")]
    pids: Option<String>,
    /// Wall clock time, such as 10s
    #[arg(long, help_heading = "Limits", value_name = "DURATION")]
    wall: Option<String>,
    /// CPU time of the whole process tree
    #[arg(long, help_heading = "Limits", value_name = "DURATION")]
    cpu_time: Option<String>,
    /// Bytes on standard output and error together
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    output: Option<String>,
    /// Bytes read from each disk per second, such as 10M
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    io_read: Option<String>,
    /// Bytes written to each disk per second
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    io_write: Option<String>,
    /// Limit of the writes to /workspace, which are discarded, such as 64M
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    disk: Option<String>,
    /// Size of one file
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    file_size: Option<String>,
    /// Total size of the files that --export writes
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    export_size: Option<String>,
    /// Open file descriptors of one process
    #[arg(long, help_heading = "Limits", value_name = "COUNT")]
    open_files: Option<String>,
    /// Use this directory as the jail's root, read-only, instead of the host's system directories
    #[arg(long, help_heading = "Files", value_name = "DIR")]
    root: Option<PathBuf>,
    /// auto: show the installation that the command belongs to, and put it on PATH
    #[arg(long, help_heading = "Files", value_name = "WHAT")]
    toolchain: Option<String>,
    /// Make this path of the host visible, read-only
    #[arg(long, help_heading = "Files", value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Make this path of the host visible and writable
    #[arg(long, help_heading = "Files", value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Mount a tmpfs of this size
    #[arg(long, help_heading = "Files", value_name = "PATH=SIZE")]
    scratch: Vec<String>,
    /// The workspace: overlay, read-only or none
    #[arg(long, help_heading = "Files", value_name = "MODE")]
    workdir_mode: Option<String>,
    /// none, loopback, allow or host
    #[arg(long, help_heading = "Network", value_name = "MODE")]
    network: Option<String>,
    /// Allow TCP to this host and port, such as example.org:443; implies --network allow
    #[arg(long, help_heading = "Network", value_name = "HOST:PORT")]
    allow: Vec<String>,
    /// Pass this variable of the caller, or set it
    #[arg(long, help_heading = "Inside the jail", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// User name in the jail
    #[arg(long, help_heading = "Inside the jail", value_name = "NAME")]
    user: Option<String>,
    /// Host name in the jail
    #[arg(long, help_heading = "Inside the jail", value_name = "NAME")]
    hostname: Option<String>,
    /// On lost evidence: mark, fail or kill
    #[arg(long, help_heading = "Policy", value_name = "WHAT")]
    on_loss: Option<String>,
}

impl OverrideArguments {
    /// The flags in the form the policy takes them: paths made absolute, because only here is the
    /// current directory known.
    pub fn resolve(&self) -> std::io::Result<Overrides> {
        let flags = self;
        let absolute =
            |path: &PathBuf| Ok(std::path::absolute(path)?.to_string_lossy().into_owned());
        Ok(Overrides {
            memory: flags.memory.clone(),
            swap: flags.swap.clone(),
            cpu: flags.cpu.clone(),
            pids: flags.pids.clone(),
            wall: flags.wall.clone(),
            cpu_time: flags.cpu_time.clone(),
            output: flags.output.clone(),
            io_read: flags.io_read.clone(),
            io_write: flags.io_write.clone(),
            disk: flags.disk.clone(),
            file_size: flags.file_size.clone(),
            open_files: flags.open_files.clone(),
            export_size: flags.export_size.clone(),
            root: flags.root.as_ref().map(absolute).transpose()?,
            toolchain: flags.toolchain.clone(),
            read: flags
                .read
                .iter()
                .map(absolute)
                .collect::<std::io::Result<_>>()?,
            write: flags
                .write
                .iter()
                .map(absolute)
                .collect::<std::io::Result<_>>()?,
            scratch: flags.scratch.clone(),
            workdir_mode: flags.workdir_mode.clone(),
            network: flags.network.clone(),
            allow: flags.allow.clone(),
            env: flags.env.clone(),
            user: flags.user.clone(),
            hostname: flags.hostname.clone(),
            mode: flags.mode.clone(),
            on_loss: flags.on_loss.clone(),
        })
    }
}
