//! One program in a directory of its own, run in the jail or outside.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

/// The same interpreter at both places, whatever else is on the PATH.
pub const PYTHON: &str = "/usr/bin/python3";

/// A program that takes longer hangs: none of the corpus takes more than a few seconds.
const PATIENCE: Duration = Duration::from_secs(50);

/// The user of programs outside: nobody, who owns nothing.
const NOBODY: u32 = 65534;

/// The place where a program is run.
#[derive(Clone, Copy)]
pub enum MbppPlace<'a> {
    /// By this turnkey.
    Jail(&'a Path),
    /// By a user without privileges.
    Outside,
}

/// The directory of one program.
pub struct MbppStage {
    workdir: tempfile::TempDir,
    /// The folder of what is nobody's business inside.
    backstage: tempfile::TempDir,
}

impl MbppStage {
    /// With the program in it, for everybody to read and nobody to change.
    pub fn new(code: &str) -> Result<MbppStage> {
        let stage = MbppStage {
            workdir: tempfile::tempdir().context("no room for a program")?,
            backstage: tempfile::tempdir().context("no room for a report")?,
        };
        fs::set_permissions(stage.workdir.path(), Permissions::from_mode(0o755))?;
        fs::write(stage.workdir.path().join("program.py"), code)?;
        Ok(stage)
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct MbppObservation {
    /// The status; `None` when it was killed or took too long.
    pub exit: Option<i32>,
    /// From start to end.
    pub took: Duration,
    /// Of a run in the jail.
    pub report: Option<Value>,
    /// The end of what was printed on standard error.
    pub error: String,
}

/// Runs the program of the stage to its end.
pub fn play(stage: &MbppStage, place: MbppPlace) -> Result<MbppObservation> {
    let report = stage.backstage.path().join("report.json");
    let errors = stage.backstage.path().join("stderr");
    let mut command = words(place, &report);
    alike(&mut command, stage.workdir.path())
        .stdout(Stdio::null())
        .stderr(File::create(&errors)?);
    let started = Instant::now();
    let child = command.spawn().context("cannot start a program")?;
    let exit = finish(child, PATIENCE)?;
    let took = started.elapsed();
    let text = fs::read(&errors)?;
    let report = match place {
        MbppPlace::Jail(_) => Some(read(&report)?),
        MbppPlace::Outside => None,
    };
    Ok(MbppObservation {
        exit,
        took,
        report,
        error: last_line(&text),
    })
}

/// Sets what is the same for a program in the jail and outside: where it is, what it is told of the world,
/// nothing to read, and a process group of its own.
pub fn alike<'a>(command: &'a mut Command, workdir: &Path) -> &'a mut Command {
    command
        .current_dir(workdir)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        // As under the profile `python`.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .process_group(0)
        .stdin(Stdio::null())
}

fn words(place: MbppPlace, report: &Path) -> Command {
    let mut command;
    match place {
        MbppPlace::Outside => {
            command = Command::new(PYTHON);
            command.uid(NOBODY).gid(NOBODY);
        }
        MbppPlace::Jail(turnkey) => {
            command = Command::new(turnkey);
            command.args(["run", "--quiet", "--profile", "python", "--report"]);
            command.arg(report).args(["--", PYTHON]);
        }
    }
    command.arg("program.py");
    command
}

/// The report that a run left.
pub fn read(report: &Path) -> Result<Value> {
    let text = fs::read(report).context("turnkey left no report")?;
    serde_json::from_slice(&text).context("the report is no JSON")
}

/// The last line of a program's output, which is why it failed.
pub fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().last().unwrap_or_default().to_owned()
}

/// Waits for the end without asking again and again, which would cost time; but not forever: then the
/// child dies, with everybody in the process group that it must lead. The status is `None` then.
pub fn finish(mut child: Child, patience: Duration) -> Result<Option<i32>> {
    let group = format!("-{}", child.id());
    let (done, waiting) = mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if waiting.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
    });
    let status = child.wait().context("cannot wait for a program")?;
    drop(done);
    let _ = guard.join();
    Ok(status.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_what_python_says() {
        assert_eq!(
            last_line(b"Traceback\n  File\nAssertionError\n"),
            "AssertionError"
        );
        assert_eq!(last_line(b""), "");
    }
}
