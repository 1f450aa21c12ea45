//! The service that makes runs for the ordinary user, as long as starts by it are measured.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::stage::BenchStage;

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

    /// A command that asks it.
    pub fn asked_by(&self, mut command: Command) -> Command {
        command.env("TURNKEY_SOCKET_DIR", &self.directory);
        command
    }
}

impl Drop for BenchService {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
