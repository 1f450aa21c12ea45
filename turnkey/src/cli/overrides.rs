//! Flags that mirror profile keys one to one.

use std::path::PathBuf;

use clap::Args;
use turnkey_policy::Overrides;

/// Flags over the profile.
#[derive(Debug, Args)]
pub struct OverrideArguments {
    /// enforce: rules act; observe: rules only speak
    #[arg(long, help_heading = "Policy", value_name = "MODE")]
    mode: Option<String>,
    /// Memory of the whole tree, such as 512M
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    memory: Option<String>,
    /// Swap of the whole tree
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    swap: Option<String>,
    /// Share of processor time, 100% is one processor
    #[arg(long, help_heading = "Limits", value_name = "PERCENT")]
    cpu: Option<String>,
    /// Processes and threads
    #[arg(long, help_heading = "Limits", value_name = "COUNT")]
    pids: Option<String>,
    /// Time on the wall clock, such as 10s
    #[arg(long, help_heading = "Limits", value_name = "DURATION")]
    wall: Option<String>,
    /// Processor time of the whole tree
    #[arg(long, help_heading = "Limits", value_name = "DURATION")]
    cpu_time: Option<String>,
    /// Bytes on standard output and error together
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    output: Option<String>,
    /// Bytes that are read from each disk in a second, such as 10M
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    io_read: Option<String>,
    /// Bytes that are written to each disk in a second
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    io_write: Option<String>,
    /// What can be written to /workspace before the writes are thrown away, such as 64M
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    disk: Option<String>,
    /// Bytes of one file
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    file_size: Option<String>,
    /// Bytes that --export writes
    #[arg(long, help_heading = "Limits", value_name = "SIZE")]
    export_size: Option<String>,
    /// Open descriptors of one process
    #[arg(long, help_heading = "Limits", value_name = "COUNT")]
    open_files: Option<String>,
    /// This directory is the jail's root, read-only, instead of the host's
    #[arg(long, help_heading = "Files", value_name = "DIR")]
    root: Option<PathBuf>,
    /// auto: show the directory that the command is installed in, and put it on PATH
    #[arg(long, help_heading = "Files", value_name = "WHAT")]
    toolchain: Option<String>,
    /// Show this path of the host, read-only
    #[arg(long, help_heading = "Files", value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Show this path of the host, writable
    #[arg(long, help_heading = "Files", value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A tmpfs
    #[arg(long, help_heading = "Files", value_name = "PATH=SIZE")]
    scratch: Vec<String>,
    /// overlay, read-only or none
    #[arg(long, help_heading = "Files", value_name = "MODE")]
    workdir_mode: Option<String>,
    /// none, loopback or allow
    #[arg(long, help_heading = "Network", value_name = "MODE")]
    network: Option<String>,
    /// Talk to this host over TCP, such as example.org:443; --network allow
    #[arg(long, help_heading = "Network", value_name = "HOST:PORT")]
    allow: Vec<String>,
    /// Pass this variable, or set it
    #[arg(long, help_heading = "Inside the jail", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Name of the user inside
    #[arg(long, help_heading = "Inside the jail", value_name = "NAME")]
    user: Option<String>,
    /// Host name inside
    #[arg(long, help_heading = "Inside the jail", value_name = "NAME")]
    hostname: Option<String>,
    /// What lost evidence means: mark, fail or kill
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
