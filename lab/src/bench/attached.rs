//! Attachments that watch groups in which nobody works, so that what they cost everybody else is measured.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::stage::BenchStage;

/// The time for the kernel to let go of a group whose last process has ended.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Groups, each in the one before it, a process that waits in each, and who watches it. They end with this.
pub struct Attachments(Vec<Attachment>);

struct Attachment {
    group: PathBuf,
    waits: Child,
    watches: Child,
}

/// Watches as many levels of the groups' tree, and waits until turnkey says so.
pub fn start(stage: &BenchStage, levels: usize) -> Result<Attachments> {
    let hierarchy = hierarchy()?;
    let mut group = hierarchy.join(format!("bench-{}", std::process::id()));
    let mut attachments = Attachments(Vec::new());
    for _ in 0..levels {
        fs::create_dir(&group).context("cannot make a control group")?;
        let waits = Command::new("sleep").arg("infinity").spawn()?;
        fs::write(group.join("cgroup.procs"), waits.id().to_string())?;
        let path = Path::new("/").join(group.strip_prefix(&hierarchy)?);
        let watches = watch(stage, &path)?;
        attachments.0.push(Attachment {
            group: group.clone(),
            waits,
            watches,
        });
        group.push("below");
    }
    Ok(attachments)
}

/// The place where the hierarchy of version 2 is mounted.
fn hierarchy() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let unified = lines.find(|line| line.get(2) == Some(&"cgroup2"));
    Ok(unified
        .context("control groups of version 2 are not mounted")?
        .swap_remove(1)
        .into())
}

fn watch(stage: &BenchStage, group: &Path) -> Result<Child> {
    let mut command = Command::new(stage.turnkey());
    command
        .args(["attach", "--cgroup"])
        .arg(group)
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("turnkey is not there")?;
    let said = child.stderr.take().context("it is a pipe")?;
    let mut said = BufReader::new(said).lines();
    if !said.any(|line| line.is_ok_and(|line| line.contains("watching"))) {
        bail!("turnkey attach ended: {}", child.wait()?);
    }
    // It is to end by itself, so somebody reads what else it says.
    std::thread::spawn(move || said.count());
    Ok(child)
}

impl Drop for Attachments {
    fn drop(&mut self) {
        for attachment in self.0.iter_mut().rev() {
            let _ = attachment.waits.kill();
            let _ = attachment.waits.wait();
        }
        // Who watches lets go when nobody is left.
        for attachment in self.0.iter_mut().rev() {
            let _ = attachment.watches.wait();
            let started = Instant::now();
            while fs::remove_dir(&attachment.group).is_err() && started.elapsed() < PATIENCE {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }
}
