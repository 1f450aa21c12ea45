//! bpftrace: one of those that we are compared with, and the witness of what the kernel does.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::stage::Stage;

/// Prints every open, exec and connect of the user without privileges, as evidence would have it.
pub const WATCH: &str = r#"tracepoint:syscalls:sys_enter_openat /uid == USER/ { printf("%llu %d open %s\n", nsecs, pid, str(args->filename)); }
tracepoint:syscalls:sys_enter_execve /uid == USER/ { printf("%llu %d exec %s\n", nsecs, pid, str(args->filename)); }
tracepoint:syscalls:sys_enter_connect /uid == USER/ { printf("%llu %d connect\n", nsecs, pid); }"#;

/// It compiles its program first.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const READY: &str = "ready";

/// One that runs; it ends with this.
pub struct Running {
    child: Child,
    output: PathBuf,
}

/// Its words for that script.
pub fn words(script: &str) -> Vec<String> {
    let script = script.replace("USER", &Stage::user().to_string());
    ["bpftrace".into(), "-e".into(), script].into()
}

/// Starts it, and waits until all its probes are attached.
pub fn start(stage: &Stage, script: &str) -> Result<Running> {
    let output = stage.path("bpftrace.out");
    let script = format!("{script}\nBEGIN {{ printf(\"{READY}\\n\"); }}");
    let mut words = words(&script);
    // Into a file of its own choice it would write in blocks, and only at its end.
    words.splice(1..1, ["-B".into(), "line".into()]);
    let mut command = stage.as_root(&words);
    let file = File::create(&output).context("no room for what bpftrace prints")?;
    let child = command
        .stdout(file)
        .spawn()
        .context("bpftrace is not there")?;
    let mut running = Running { child, output };
    running.wait_until_ready()?;
    Ok(running)
}

impl Running {
    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.printed().lines().any(|line| line == READY) {
            if let Some(status) = self.child.try_wait()? {
                bail!("bpftrace ended: {status}");
            }
            if started.elapsed() > PATIENCE {
                bail!("bpftrace has attached nothing after {PATIENCE:?}");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody asks what it saw, or it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
