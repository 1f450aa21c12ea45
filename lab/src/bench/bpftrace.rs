//! bpftrace: one of those that we are compared with, and the witness of what the kernel does.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::stage::BenchStage;

/// Prints every open, exec and connect of the user without privileges, as evidence would have it.
pub const WATCH: &str = r#"tracepoint:syscalls:sys_enter_openat /uid == USER/ { printf("%llu %d open %s\n", nsecs, pid, str(args->filename)); }
tracepoint:syscalls:sys_enter_execve /uid == USER/ { printf("%llu %d exec %s\n", nsecs, pid, str(args->filename)); }
tracepoint:syscalls:sys_enter_connect /uid == USER/ { printf("%llu %d connect\n", nsecs, pid); }"#;

/// The time for bpftrace to start: it compiles its program first.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The words that the first and the last probe print once.
const READY: [&str; 2] = ["ready1", "ready2"];

/// One that runs; it ends with this.
pub struct RunningBpftrace {
    child: Child,
    output: PathBuf,
}

/// The words of the command for that script.
pub fn words(script: &str) -> Vec<String> {
    let script = script.replace("USER", &BenchStage::user().to_string());
    ["bpftrace".into(), "-e".into(), script].into()
}

/// Starts it, and waits until all its probes are attached.
pub fn start(stage: &BenchStage, script: &str) -> Result<RunningBpftrace> {
    let output = stage.path("bpftrace.out");
    // Probes are attached one after the other, from one end or the other.
    let script = format!("{}\n{script}\n{}", sign(READY[0]), sign(READY[1]));
    let mut words = words(&script);
    // Into a file of its own choice it would write in blocks, and only at its end.
    words.splice(1..1, ["-B".into(), "line".into()]);
    let mut command = stage.as_root(&words);
    let file = File::create(&output).context("no room for what bpftrace prints")?;
    let child = command
        .stdout(file)
        .spawn()
        .context("bpftrace is not there")?;
    let mut running = RunningBpftrace { child, output };
    running.wait_until_ready()?;
    Ok(running)
}

/// A probe that says that it is there. `BEGIN` would say so before the others are attached.
fn sign(word: &str) -> String {
    format!("interval:ms:20 /!@{word}/ {{ @{word} = 1; printf(\"{word}\\n\"); }}")
}

impl RunningBpftrace {
    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while !READY.iter().all(|sign| self.printed().contains(sign)) {
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

    /// Ends it, after it has printed all that it has seen.
    pub fn finish(mut self) -> Result<String> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status()?;
        self.child.wait()?;
        Ok(self.printed())
    }
}

impl Drop for RunningBpftrace {
    fn drop(&mut self) {
        // Nobody asks what it saw, or it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
