//! systemd-journald itself, with a socket and files of the test's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use turnkey_tests::{eventually, outside, scratch};

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// A journal that lives in mounts of its own, and keeps its files in memory.
pub struct Journal {
    daemon: Child,
    place: tempfile::TempDir,
}

impl Journal {
    /// Starts it, where the machine has it.
    pub fn start() -> Option<Journal> {
        if !Path::new(JOURNALD).exists() || !Path::new("/etc/machine-id").exists() {
            return None;
        }
        let place = scratch();
        let (socket, log) = (place.path().join("socket"), place.path().join("log"));
        for directory in [&socket, &log] {
            std::fs::create_dir(directory).expect("a new name");
        }
        // Its places are fixed: they are mounted over for it alone.
        let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal \
                      && mount --bind \"$0\" /run/systemd/journal && mount --bind \"$1\" /run/log/journal && exec \"$2\"";
        let daemon = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .args([&socket, &log])
            .arg(JOURNALD)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare can be run");
        let journal = Journal { daemon, place };
        eventually("the journal listens", || journal.socket().exists());
        Some(journal)
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("socket/socket")
    }

    /// The entries of a run, in their order.
    pub fn entries(&self, run: &str) -> Vec<Value> {
        let directory = self.place.path().join("log");
        let directory = directory.to_str().expect("UTF-8");
        let matched = format!("TURNKEY_RUN={run}");
        let mut entries = Vec::new();
        eventually("the verdict is in the journal", || {
            let options = [
                "--directory",
                directory,
                "-o",
                "json",
                "--all",
                "--no-pager",
                &matched,
            ];
            let (_, text) = outside("journalctl", &options);
            let entry = |line| serde_json::from_str(line).expect("each entry is JSON");
            entries = text.lines().map(entry).collect::<Vec<Value>>();
            let last = entries.last();
            last.is_some_and(|entry| entry.get("TURNKEY_VERDICT").is_some())
        });
        entries
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
