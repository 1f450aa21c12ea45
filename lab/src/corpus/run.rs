//! One program, run without the jail and in it, with what can be seen of it from outside.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Under;
use super::answer::Answer;
use super::effect::EffectEvidence;
use super::ground::Ground;
use super::program::{Aim, CorpusProgram, STARTUP};
use super::sinks::{SinkMark, Sinks};
use crate::programs;

/// Without the jail.
const PATIENCE: Duration = Duration::from_secs(15);

/// Without the jail, for what takes memory, or puts together what it sends: that takes time.
const MORE_PATIENCE: Duration = Duration::from_secs(90);

/// In the jail, whose own clock ends a program after a minute.
const JAIL_PATIENCE: Duration = Duration::from_secs(90);

/// The user of programs without the jail: nobody, who owns nothing.
const NOBODY: u32 = 65534;

/// The time that a packet that was sent may take until it is counted.
const COUNTED: Duration = Duration::from_millis(100);

/// The time between two questions whether one arrived.
const ASK: Duration = Duration::from_millis(20);

/// The time between two looks at memory.
const LOOK: Duration = Duration::from_millis(5);

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct CorpusObservation {
    /// The status; `None` when it was killed or took too long.
    pub exit: Option<i32>,
    /// The evidence from outside meanwhile.
    pub evidence: EffectEvidence,
    /// The end of what was printed on standard error.
    pub error: String,
    /// The words of turnkey about it; nothing without the jail.
    pub answer: Answer,
}

impl CorpusObservation {
    /// True when it ran to its end and printed what its author wanted.
    pub fn passed(&self, program: &CorpusProgram) -> bool {
        let printed = String::from_utf8_lossy(&self.evidence.stdout);
        let expected = program.expected.as_deref();
        self.exit == Some(0) && expected.is_none_or(|text| printed.contains(text))
    }
}

/// All that runs share.
pub struct Hall<'a> {
    /// The turnkey that is looked at.
    pub turnkey: &'a Path,
    /// The planted files.
    pub ground: &'a Ground,
    /// The servers that the programs want to talk to.
    pub sinks: &'a Sinks,
    /// Held while a program runs whose effect is seen at a place that others have an effect at, too.
    pub turn: Mutex<()>,
}

impl Hall<'_> {
    /// By a user without privileges, over what is planted.
    pub fn control(&self, program: &CorpusProgram) -> Result<CorpusObservation> {
        let shared = matches!(
            program.aim,
            Aim::Post(_) | Aim::Fetch(_) | Aim::Alias(_) | Aim::Send
        );
        let turn = shared.then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let stage = CorpusStage::new(program)?;
        let mut command = Command::new(program.language.interpreter());
        command.arg("program").uid(NOBODY).gid(NOBODY);
        let patience = match program.aim {
            Aim::Memory | Aim::Send => MORE_PATIENCE,
            _ => PATIENCE,
        };
        let seen = self.play(&stage, program, command, patience)?;
        if matches!(program.aim, Aim::Alias(_)) {
            self.ground.restore()?;
        }
        drop(turn);
        Ok(seen)
    }

    /// In a jail. What arrives outside meanwhile is laid to it, whoever sent it: nobody may have.
    pub fn jailed(&self, program: &CorpusProgram, under: Under) -> Result<CorpusObservation> {
        let stage = CorpusStage::new(program)?;
        let report = stage.backstage("report.json");
        let mut command = Command::new(self.turnkey);
        command
            .args([
                "run",
                "--quiet",
                "--profile",
                under.profile(program.language),
            ])
            .arg("--report")
            .arg(&report)
            .args(["--", program.language.interpreter(), "program"]);
        let mut seen = self.play(&stage, program, command, JAIL_PATIENCE)?;
        let report = programs::read_report(&report)
            .with_context(|| format!("{}: {}", program.name(), seen.error))?;
        let resolved = program
            .aim
            .path()
            .and_then(|path| fs::canonicalize(path).ok());
        let resolved = resolved.as_deref().and_then(Path::to_str);
        seen.answer = Answer::from_report(&report, &program.aim, resolved);
        seen.evidence.peak = seen.answer.peak;
        Ok(seen)
    }

    fn play(
        &self,
        stage: &CorpusStage,
        program: &CorpusProgram,
        mut command: Command,
        patience: Duration,
    ) -> Result<CorpusObservation> {
        let (output, errors) = (stage.backstage("stdout"), stage.backstage("stderr"));
        programs::alike(&mut command, &stage.workdir())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?);
        let mark = self.sinks.mark()?;
        let child = command.spawn().context("cannot start a program")?;
        let peak = matches!(program.aim, Aim::Memory).then(|| Peak::of_process(child.id()));
        let exit = match program.aim {
            Aim::Send => self.finish_or_arrive(child, mark, patience)?,
            _ => programs::finish(child, patience)?,
        };
        let mut evidence = EffectEvidence {
            stdout: fs::read(&output)?,
            peak: peak.map_or(0, Peak::end),
            startup: (self.ground.startup().to_vec(), fs::read(STARTUP)?),
            ..EffectEvidence::default()
        };
        self.sinks.since(mark, &mut evidence)?;
        Ok(CorpusObservation {
            exit,
            evidence,
            error: programs::last_line(&fs::read(&errors)?),
            answer: Answer::default(),
        })
    }

    /// Waits for the end of who sends packets, or for the first of them: some wait forever for an
    /// answer, and some send ten thousand.
    fn finish_or_arrive(
        &self,
        mut child: Child,
        mark: SinkMark,
        patience: Duration,
    ) -> Result<Option<i32>> {
        let started = Instant::now();
        let mut seen = EffectEvidence::default();
        while seen.packets == 0 && started.elapsed() < patience {
            if let Some(status) = child.try_wait()? {
                // Nobody answers a packet, so the program may have ended before it is counted.
                thread::sleep(COUNTED);
                return Ok(status.code());
            }
            thread::sleep(ASK);
            self.sinks.since(mark, &mut seen)?;
        }
        end(&mut child)
    }
}

/// Ends a child and whoever is in the process group that it leads.
fn end(child: &mut Child) -> Result<Option<i32>> {
    let group = format!("-{}", child.id());
    let mut kill = Command::new("kill");
    // Nobody may be left of it.
    let _ = kill
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status();
    Ok(child.wait()?.code())
}

/// The directory of one run.
struct CorpusStage(tempfile::TempDir);

impl CorpusStage {
    /// With the program in it, for everybody to read and nobody to change.
    fn new(program: &CorpusProgram) -> Result<Self> {
        let folder = tempfile::tempdir().context("no room for a program")?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let stage = Self(folder);
        fs::create_dir(stage.workdir())?;
        fs::write(stage.workdir().join("program"), &program.code)?;
        Ok(stage)
    }

    fn workdir(&self) -> PathBuf {
        self.0.path().join("workdir")
    }

    /// The path of a file that is nobody's business inside.
    fn backstage(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Looks at how much memory a process has, for as long as it lives.
struct Peak {
    done: mpsc::Sender<()>,
    looker: thread::JoinHandle<u64>,
}

impl Peak {
    fn of_process(pid: u32) -> Self {
        let (done, waiting) = mpsc::channel::<()>();
        let looker = thread::spawn(move || {
            let mut most = 0;
            while waiting.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                let status = fs::read_to_string(format!("/proc/{pid}/status"));
                most = most.max(status.map_or(0, |status| high_water(&status)));
            }
            most
        });
        Self { done, looker }
    }

    fn end(self) -> u64 {
        drop(self.done);
        self.looker.join().unwrap_or_default()
    }
}

/// In bytes.
fn high_water(status: &str) -> u64 {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_in_bytes() {
        let status = "Name:\tx\nVmPeak:\t   9 kB\nVmHWM:\t   12 kB\nVmRSS:\t 3 kB\n";
        assert_eq!(high_water(status), 12 * 1024);
        assert_eq!(high_water("Name:\tx\n"), 0);
    }

    #[test]
    fn memory_that_is_taken_is_seen() {
        let script = "x = b'x' * (64 << 20); import time; time.sleep(1)";
        let mut child = Command::new(programs::PYTHON)
            .args(["-c", script])
            .spawn()
            .expect("python3");
        let peak = Peak::of_process(child.id());
        child.wait().expect("its end");
        assert!(peak.end() > 64 << 20);
    }
}
