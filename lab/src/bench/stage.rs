//! The place of all measurements: a mount namespace with a BPF file system, a user and a folder of its own, all
//! of which leave with the command.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::attached::{self, Attachments};
use super::bpftrace;
use super::rounds::Phase;
use crate::command;

/// The user whom others are run as: the last of the ids that Debian gives to people. It exists only in here.
const USER: u32 = 59999;
const ROOT: u32 = 0;

/// The search path of what is measured, which finds nothing else of our environment.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The place, and who may be there.
pub struct BenchStage {
    folder: TempDir,
    phase: Cell<Option<Phase>>,
    bpftrace: RefCell<Option<bpftrace::RunningBpftrace>>,
    attachments: RefCell<Option<Attachments>>,
}

/// The folder where bpftrace looks for tracepoints, on hosts that have not mounted it.
const TRACEPOINTS: &str = "/sys/kernel/debug/tracing/events";

fn mount_tracepoints() -> Result<()> {
    if Path::new(TRACEPOINTS).exists() {
        return Ok(());
    }
    let mut mount = Command::new("mount");
    command::check(mount.args(["-t", "debugfs", "debugfs", "/sys/kernel/debug"]))
}

impl BenchStage {
    /// With a copy of turnkey that everybody may execute.
    pub fn new(turnkey: &Path) -> Result<BenchStage> {
        let folder = tempfile::tempdir().context("no room to measure in")?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let stage = BenchStage {
            folder,
            phase: Cell::new(None),
            bpftrace: RefCell::new(None),
            attachments: RefCell::new(None),
        };
        fs::copy(turnkey, stage.turnkey()).context("cannot copy turnkey")?;
        for folder in [stage.home(), stage.workdir()] {
            fs::create_dir(&folder)?;
            chown(&folder, Some(USER), Some(USER))?;
        }
        stage.add_user()?;
        let mut mount = Command::new("mount");
        command::check(mount.args(["-t", "bpf", "-o", "mode=0700", "bpf", "/sys/fs/bpf"]))?;
        mount_tracepoints()?;
        Ok(stage)
    }

    /// Some refuse to serve a user whom no file names.
    fn add_user(&self) -> Result<()> {
        let home = self.home();
        let lines = [
            (
                "/etc/passwd",
                format!(
                    "turnkey-bench:x:{USER}:{USER}::{}:/bin/sh\n",
                    home.display()
                ),
            ),
            ("/etc/group", format!("turnkey-bench:x:{USER}:\n")),
        ];
        for (number, (file, line)) in lines.iter().enumerate() {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
            let copy = self.path(&format!("accounts-{number}"));
            fs::write(&copy, text + line)?;
            command::check(Command::new("mount").arg("--bind").arg(&copy).arg(file))?;
        }
        Ok(())
    }

    /// The id of the ordinary user.
    pub fn user() -> u32 {
        USER
    }

    /// A file in the folder, by name. Everybody may read there, only root may write.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command that all this is about.
    pub fn turnkey(&self) -> PathBuf {
        self.path("turnkey")
    }

    /// The user's own.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The working directory of everything that is started. It is the user's, too.
    pub fn workdir(&self) -> PathBuf {
        self.path("work")
    }

    /// A file that the user may read.
    pub fn write(&self, path: &Path, text: &str) -> Result<()> {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// A folder of the user's.
    pub fn make_folder(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        chown(path, Some(USER), Some(USER)).context("cannot give it away")
    }

    /// Loads turnkey's programs for all runs, or takes them away; lets bpftrace or attachments watch, or ends them.
    pub fn enter(&self, phase: Phase) -> Result<()> {
        if self.phase.get() == Some(phase) {
            return Ok(());
        }
        // Should this fail, nobody knows what is loaded.
        self.phase.set(None);
        drop(self.bpftrace.take());
        drop(self.attachments.take());
        match phase {
            Phase::Loaded => self.monitor("load")?,
            Phase::OneLevel => self.attach(1)?,
            Phase::TwoLevels => self.attach(2)?,
            Phase::Unloaded => self.monitor("unload")?,
            Phase::Bpftrace => {
                self.monitor("unload")?;
                *self.bpftrace.borrow_mut() = Some(bpftrace::start(self, bpftrace::WATCH)?);
            }
        }
        self.phase.set(Some(phase));
        Ok(())
    }

    fn attach(&self, levels: usize) -> Result<()> {
        self.monitor("load")?;
        *self.attachments.borrow_mut() = Some(attached::start(self, levels)?);
        Ok(())
    }

    fn monitor(&self, what: &str) -> Result<()> {
        let output = Command::new(self.turnkey())
            .args(["monitor", what])
            .output()?;
        if !output.status.success() {
            bail!(
                "turnkey monitor {what}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// The command of these words, as the ordinary user. The start is the same for everybody: fork(2), two calls to
    /// change the user, execve(2).
    pub fn as_user<I: AsRef<OsStr>>(&self, words: &[I]) -> Command {
        self.command(words, USER)
    }

    /// The command of these words, as root.
    pub fn as_root<I: AsRef<OsStr>>(&self, words: &[I]) -> Command {
        self.command(words, ROOT)
    }

    fn command<I: AsRef<OsStr>>(&self, words: &[I], user: u32) -> Command {
        let (program, arguments) = words.split_first().expect("a program is always named");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .uid(user)
            .gid(user)
            .current_dir(self.workdir())
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Words of a command as they are printed: the folder's name differs from run to run.
    pub fn shown(&self, words: &[String]) -> String {
        let folder = self.folder.path().to_string_lossy();
        let quoted = words.iter().map(|word| {
            if word.contains([' ', '"', '$', '\n', '{', ';']) {
                format!("'{word}'")
            } else {
                word.clone()
            }
        });
        quoted
            .collect::<Vec<_>>()
            .join(" ")
            .replace(&*folder, "DIR")
    }
}

/// Seconds from the start of that command to its end, as its caller sees it.
pub fn timed(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    let status = command.status().context("cannot be started")?;
    let took = started.elapsed().as_secs_f64();
    if !status.success() {
        bail!("it failed: {status}, {command:?}");
    }
    Ok(took)
}

/// The output of that command, when it does what it is asked.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();
    let output = output.context("cannot be started")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let tail = errors
            .trim()
            .lines()
            .last()
            .unwrap_or("nothing said")
            .to_owned();
        bail!("{}: {tail}", output.status);
    }
    String::from_utf8(output.stdout).context("it printed what is no text")
}
