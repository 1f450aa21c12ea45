//! The service that makes runs for the ordinary user, as long as starts by it are measured, and its callers.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::stage::BenchStage;
use super::start::turnkey;

/// A service on a socket in the folder of the measurements; it ends when this is dropped.
pub struct BenchService {
    process: Child,
    directory: PathBuf,
}

impl BenchService {
    /// Starts it, and waits until it listens.
    pub fn start(stage: &BenchStage) -> Result<BenchService> {
        let directory = stage.path("sockets");
        let config = stage.path("serve.toml");
        stage.write(&config, &format!("group = \"{}\"\n", BenchStage::user()))?;
        let words = [
            stage.turnkey(),
            "serve".into(),
            "--config".into(),
            config,
            "--socket-dir".into(),
            directory.clone(),
        ];
        let process = stage.as_root(&words).spawn().context("no service")?;
        let service = BenchService { process, directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !service.directory.join("turnkey.fd.sock").exists() {
            ensure!(Instant::now() < deadline, "the service does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(service)
    }

    /// The listener's process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// A caller of this program, the ordinary user.
    pub fn caller(&self, stage: &BenchStage, program: &[&str]) -> Result<ServedCaller> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = stage.home().join(format!("caller-{number}"));
        stage.make_folder(&place)?;
        let report = place.join("report.json");
        let flags = ["--service", "--report", &report.to_string_lossy()].map(str::to_owned);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut command = stage.as_user(&turnkey(stage, &flags, program));
        command.env("TURNKEY_SOCKET_DIR", &self.directory);
        Ok(ServedCaller {
            command,
            workspaces: place.join("work"),
            report,
            runs: Cell::new(0),
        })
    }
}

impl Drop for BenchService {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A caller that has one run after another, each in a workspace of its own.
pub struct ServedCaller {
    command: Command,
    workspaces: PathBuf,
    report: PathBuf,
    runs: Cell<usize>,
}

impl ServedCaller {
    /// The seconds from the start of its client, before that connects, to the report, read and verified.
    pub fn run(&mut self) -> Result<f64> {
        let number = self.runs.get();
        self.runs.set(number + 1);
        let workspace = self.workspaces.with_extension(number.to_string());
        fs::create_dir(&workspace).context("no workspace")?;
        let user = Some(BenchStage::user());
        std::os::unix::fs::chown(&workspace, user, user)?;
        let _ = fs::remove_file(&self.report);
        self.command.current_dir(&workspace);
        let started = Instant::now();
        let status = self.command.status().context("no client")?;
        let report = fs::read(&self.report);
        let verified = report.context("no report").and_then(|text| verify(&text));
        let took = started.elapsed().as_secs_f64();
        ensure!(status.success(), "the client ends with {status}");
        verified?;
        clear(&workspace)?;
        Ok(took)
    }
}

fn clear(workspace: &Path) -> Result<()> {
    fs::remove_dir(workspace).context("something is left in a workspace")
}

/// The layers of a run under `untrusted` at least: what is not in a report has not been proved.
const LAYERS: usize = 10;

/// Requires a report of a clean run of this user's by the service, with a proof for each layer that says it is as strong as was asked for.
fn verify(text: &[u8]) -> Result<()> {
    let report: Value = serde_json::from_slice(text).context("the report is none")?;
    let is = |pointer: &str, wanted: Value| report.pointer(pointer) == Some(&wanted);
    ensure!(is("/verdict", "clean".into()), "it is not clean: {report}");
    ensure!(is("/exit_code", 0.into()), "its program failed: {report}");
    ensure!(is("/events/complete", true.into()), "not all was seen");
    ensure!(is("/served/user", BenchStage::user().into()), "not served");
    let layers = report["enforcement"].as_array().context("no layers")?;
    ensure!(layers.len() >= LAYERS, "{} layers", layers.len());
    for layer in layers {
        let name = &layer["layer"];
        if layer.get("degraded").is_some_and(|why| !why.is_null()) {
            bail!("{name} is weaker than asked for");
        }
        ensure!(layer["proof"].is_string(), "{name} has no proof");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let layer = |number: usize| serde_json::json!({"layer": number, "proof": "seen"});
        let mut report = serde_json::json!({
            "verdict": "clean", "exit_code": 0, "events": {"complete": true},
            "served": {"user": BenchStage::user(), "group": 1},
            "enforcement": (0..LAYERS).map(layer).collect::<Vec<_>>(),
        });
        change(&mut report);
        report.to_string().into_bytes()
    }

    #[test]
    fn a_report_counts_when_everything_in_it_is_proved() {
        assert!(verify(&report(|_| {})).is_ok());
        let changes: [fn(&mut Value); 6] = [
            |report| report["verdict"] = "violated".into(),
            |report| report["events"]["complete"] = false.into(),
            |report| report["served"] = Value::Null,
            |report| report["enforcement"][3]["degraded"] = "old kernel".into(),
            |report| report["enforcement"][3]["proof"] = Value::Null,
            |report| report["enforcement"] = serde_json::json!([]),
        ];
        for change in changes {
            assert!(verify(&report(change)).is_err());
        }
        assert!(verify(b"{").is_err());
    }
}
