//! Flags of the command line that override keys of the profile, one to one.

/// The overrides of the command line. Every text has the form of the profile's key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--memory SIZE`: `limits.memory`
    pub memory: Option<String>,
    /// `--swap SIZE`: `limits.swap`
    pub swap: Option<String>,
    /// `--cpu PERCENT`: `limits.cpu`
    pub cpu: Option<String>,
    /// `--pids COUNT`: `limits.pids`
    pub pids: Option<String>,
    /// `--wall DURATION`: `limits.wall`
    pub wall: Option<String>,
    /// `--cpu-time DURATION`: `limits.cpu_time`
    pub cpu_time: Option<String>,
    /// `--output SIZE`: `limits.output`
    pub output: Option<String>,
    /// `--io-read SIZE`: `limits.io_read`
    pub io_read: Option<String>,
    /// `--io-write SIZE`: `limits.io_write`
    pub io_write: Option<String>,
    /// `--disk SIZE`: `limits.disk`
    pub disk: Option<String>,
    /// `--file-size SIZE`: `limits.file_size`
    pub file_size: Option<String>,
    /// `--open-files COUNT`: `limits.open_files`
    pub open_files: Option<String>,
    /// `--export-size SIZE`: `limits.export_size`
    pub export_size: Option<String>,
    /// `--root DIR`: `filesystem.root`. Absolute.
    pub root: Option<String>,
    /// `--toolchain WHAT`: `filesystem.toolchain`
    pub toolchain: Option<String>,
    /// `--read PATH`, any number: `filesystem.read`. Absolute: the command resolves relative
    /// ones, as nothing here knows the current directory.
    pub read: Vec<String>,
    /// `--write PATH`, any number: `filesystem.write`. Absolute.
    pub write: Vec<String>,
    /// `--scratch PATH=SIZE`, any number: `filesystem.scratch`
    pub scratch: Vec<String>,
    /// `--workdir-mode MODE`: `filesystem.workdir.mode`
    pub workdir_mode: Option<String>,
    /// `--network MODE`: `network.mode`
    pub network: Option<String>,
    /// `--allow HOST:PORT`, any number: `network.allow`, and the mode `allow`
    pub allow: Vec<String>,
    /// `--env NAME`, any number: `env.pass`; `--env NAME=VALUE`: `env.set`
    pub env: Vec<String>,
    /// `--user NAME`: `identity.user`
    pub user: Option<String>,
    /// `--hostname NAME`: `identity.hostname`
    pub hostname: Option<String>,
    /// `--mode MODE`: `enforcement.mode`
    pub mode: Option<String>,
    /// `--on-loss WHAT`: `enforcement.on_loss`
    pub on_loss: Option<String>,
}
