//! The runs of one call: one for each `--input`, as often as `--times` says, and what they come to together.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::fs::{Mode, OFlags};
use turnkey_facts::Passage;
use turnkey_policy::{AllowedHost, syscalls};
use turnkey_supervisor::{FinishedRun, files};

use super::limits::MeasuredUsage;
use crate::cli::LearnArguments;

/// The words that stand for the path of an input.
const PLACEHOLDER: &[u8] = b"{}";

/// The command of a run, and its standard input.
pub struct RunInput {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The file, and the offset that each run begins at; none for what the caller hands in.
    stdin: Option<(File, u64)>,
}

impl RunInput {
    /// Makes the file this process's standard input, which is the one of the next run.
    pub fn hand_in(&self) -> anyhow::Result<()> {
        let Some((file, offset)) = &self.stdin else {
            return Ok(());
        };
        let mut at = file;
        at.seek(SeekFrom::Start(*offset))
            .and_then(|_| Ok(rustix::stdio::dup2_stdin(file)?))
            .context("could not hand in the standard input")
    }
}

/// The runs that are asked for, in order.
pub fn inputs(arguments: &LearnArguments) -> anyhow::Result<Vec<RunInput>> {
    let times = usize::from(arguments.times);
    let count = times * arguments.inputs.len().max(1);
    ensure!(
        count == 1 || arguments.report.is_none(),
        "--report is of one run, and --times and --input ask for {count}: leave it out, or learn from one run at a time with --merge"
    );
    let mut inputs = Vec::new();
    for _ in 0..times {
        match arguments.inputs.as_slice() {
            [] => inputs.push(RunInput {
                command: arguments.command.clone(),
                stdin: callers(count)?,
            }),
            files => {
                for file in files {
                    inputs.push(of_file(&arguments.command, file, count)?);
                }
            }
        }
    }
    Ok(inputs)
}

fn of_file(command: &[OsString], path: &Path, count: usize) -> anyhow::Result<RunInput> {
    let named = command.iter().map(|word| with_path(word, path));
    let named: Vec<_> = named.collect();
    let stdin = match named == command {
        true => Some((
            opened(path).with_context(|| format!("could not open --input {}", path.display()))?,
            0,
        )),
        false => callers(count)?,
    };
    Ok(RunInput {
        command: named,
        stdin,
    })
}

/// The word with the path in each place that is meant for it.
fn with_path(word: &OsStr, path: &Path) -> OsString {
    let (mut rest, mut made) = (word.as_bytes(), Vec::new());
    let is_there = |bytes: &[u8]| {
        let mut windows = bytes.windows(PLACEHOLDER.len());
        windows.position(|window| window == PLACEHOLDER)
    };
    while let Some(at) = is_there(rest) {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(path.as_os_str().as_bytes());
        rest = &rest[at + PLACEHOLDER.len()..];
    }
    made.extend_from_slice(rest);
    OsString::from_vec(made)
}

/// A regular file, which alone can be read once more by the next run.
fn opened(path: &Path) -> anyhow::Result<File> {
    let file = files::open(path)?;
    let is_file = file.metadata()?.is_file();
    ensure!(
        is_file,
        "it is no regular file, which each run can read from its beginning: name one"
    );
    Ok(file)
}

/// The caller's own input, for one run as it is; each of several begins where the first does, and has no terminal.
fn callers(count: usize) -> anyhow::Result<Option<(File, u64)>> {
    if count == 1 {
        return Ok(None);
    }
    let stdin = io::stdin();
    let mut file = File::from(stdin.as_fd().try_clone_to_owned()?);
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        let offset = file.stream_position()?;
        return Ok(Some((file, offset)));
    }
    if !stdin.is_terminal() && !kind.is_char_device() {
        bail!(
            "standard input can be read once, and {count} runs are asked for: name a file with --input, or hand in nothing with < /dev/null"
        );
    }
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    Ok(Some((nothing?.into(), 0)))
}

/// The sum of the runs so far.
#[derive(Default)]
pub struct LearnedRuns {
    /// The first exit status that is not 0.
    pub code: u8,
    /// Names of the system calls that were made.
    pub calls: BTreeSet<&'static str>,
    /// The most that a run took.
    pub usage: MeasuredUsage,
    /// The peers that the policy allowed, each name with what it led to.
    pub allowed: Vec<AllowedHost>,
    /// The traffic passed on to them.
    pub passages: Vec<Passage>,
}

impl LearnedRuns {
    /// Adds a run that was seen as a whole.
    pub fn add(&mut self, done: FinishedRun) {
        if self.code == 0 {
            self.code = done.report.exit_code();
        }
        self.usage.raise(&measured(&done));
        let made = done.calls.into_iter().flatten();
        self.calls.extend(made.filter_map(syscalls::name));
        for host in done.allowed {
            let known = self.allowed.contains(&host);
            self.allowed.extend((!known).then_some(host));
        }
        self.passages.extend(done.passages);
    }
}

fn measured(done: &FinishedRun) -> MeasuredUsage {
    let usage = done.report.usage.as_ref();
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let cpu = usage.and_then(|usage| Some(usage.user_seconds? + usage.system_seconds?));
    MeasuredUsage {
        memory: usage.and_then(|usage| usage.memory_peak_bytes),
        pids: usage.and_then(|usage| usage.pids_peak),
        wall: seconds(usage.map_or(0.0, |usage| usage.wall_seconds)),
        cpu_time: cpu.map(seconds),
        output: done.output,
    }
}
