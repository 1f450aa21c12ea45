//! Programs of others that are run in the jail and outside: where they are read from, how they are started, and how they end.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::command;

/// The same interpreter at both places, whatever else is on the PATH.
pub const PYTHON: &str = "/usr/bin/python3";

/// The programs of a file of the corpus: one JSON object a line.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty());
    let programs: serde_json::Result<Vec<_>> = lines.map(serde_json::from_str).collect();
    programs.with_context(|| format!("{} is not one program a line", path.display()))
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

/// The report that a run left.
pub fn read_report(report: &Path) -> Result<Value> {
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

/// The machine that the figures were taken on.
pub fn machine() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let python = command::output(Command::new(PYTHON).arg("--version"))?;
    let cpus = std::thread::available_parallelism()?;
    Ok(format!(
        "Linux {}, {}, {cpus} CPUs",
        kernel.trim(),
        python.trim()
    ))
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

    #[test]
    fn a_file_has_a_program_on_each_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("programs.jsonl");
        fs::write(&file, "{\"id\": \"mbpp/1\"}\n\n").expect("written");
        let programs: Vec<Value> = read(&file).expect("one program");
        assert_eq!(programs.len(), 1);
        fs::write(&file, "nonsense").expect("written");
        assert!(read::<Value>(&file).is_err());
    }
}
