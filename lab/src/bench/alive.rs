//! Jails that live side by side, and what turnkey's own processes cost for each.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::stage::BenchStage;
use super::start::turnkey;
use super::work;

/// The command of the jailed programs, which lasts longer than anybody looks.
const SLEEP: [&str; 2] = ["/bin/sleep", "500"];
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The time for which CPU time is counted.
const IDLE: Duration = Duration::from_secs(3);
/// Of /proc/PID/stat; the same on every Linux of the CPUs that turnkey knows.
const TICKS_A_SECOND: f64 = 100.0;

/// For each jail.
#[derive(Debug)]
pub struct Costs {
    /// Mebibytes of turnkey's processes, shared pages divided by how many share them.
    pub memory: f64,
    /// Mebibytes of the rings' pages that are mapped.
    pub rings: f64,
    /// Mebibytes that the host has less.
    pub host: f64,
    /// Seconds of CPU time in a second.
    pub cpu: f64,
}

/// Jails that live.
pub struct Crowd<'a> {
    stage: &'a BenchStage,
    jails: Vec<Child>,
    available: f64,
}

impl<'a> Crowd<'a> {
    /// None yet.
    pub fn new(stage: &'a BenchStage) -> Result<Crowd<'a>> {
        work::prepare(stage, 0)?;
        Ok(Crowd {
            stage,
            jails: Vec::new(),
            available: available()?,
        })
    }

    /// Starts jails until there are so many, and waits until all programs sleep.
    pub fn grow(&mut self, to: usize) -> Result<()> {
        let profile = work::profile(self.stage);
        while self.jails.len() < to {
            let words = turnkey(self.stage, &["--profile", &profile], &SLEEP);
            self.jails.push(self.stage.as_root(&words).spawn()?);
        }
        let started = Instant::now();
        while self.sleeping()? < to {
            for jail in &mut self.jails {
                if let Some(status) = jail.try_wait()? {
                    bail!("one of {to} jails did not stay: {status}");
                }
            }
            if started.elapsed() > PATIENCE {
                bail!("{} of {to} jails after {PATIENCE:?}", self.sleeping()?);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn sleeping(&self) -> Result<usize> {
        let family = self.family()?;
        Ok(family
            .iter()
            .filter(|process| process.name == "sleep")
            .count())
    }

    /// All processes of the jails, with turnkey's own.
    fn family(&self) -> Result<Vec<JailProcess>> {
        let all = processes()?;
        let mut known: BTreeSet<u32> = self.jails.iter().map(Child::id).collect();
        // Children are younger than their parents, but numbers start over at the limit.
        loop {
            let children = all.iter().filter(|process| known.contains(&process.parent));
            let more: Vec<u32> = children.map(|process| process.id).collect();
            let before = known.len();
            known.extend(more);
            if known.len() == before {
                break;
            }
        }
        Ok(all
            .into_iter()
            .filter(|process| known.contains(&process.id))
            .collect())
    }

    /// The costs of the jails now.
    pub fn costs(&self) -> Result<Costs> {
        let family = self.family()?;
        let ours = || family.iter().filter(|process| process.name != "sleep");
        let (mut memory, mut rings) = (0.0, 0.0);
        let mut known = BTreeSet::new();
        for process in ours() {
            let of = |file: &str| {
                let text = fs::read_to_string(format!("/proc/{}/{file}", process.id));
                text.context("a jail is gone")
            };
            // Who has the rings at the same addresses has the same memory, as the keeper has turnkey's: a copy is without them.
            if !known.insert(of("maps")?) {
                continue;
            }
            let (own, ring) = resident(&of("smaps")?);
            memory += own;
            rings += ring;
        }
        let before: f64 = ours().map(|process| process.ticks).sum();
        std::thread::sleep(IDLE);
        let later = self.family()?;
        let later = later.iter().filter(|process| process.name != "sleep");
        let ticks = later.map(|process| process.ticks).sum::<f64>() - before;
        let jails = f64::from(u32::try_from(self.jails.len())?);
        Ok(Costs {
            memory: memory / jails,
            rings: rings / jails,
            host: (self.available - available()?) / jails,
            cpu: ticks / TICKS_A_SECOND / IDLE.as_secs_f64() / jails,
        })
    }

    /// Ends all of them, as a terminal would.
    pub fn end(mut self) -> Result<()> {
        let ids = self.jails.iter().map(|jail| jail.id().to_string());
        let ids: Vec<_> = ids.collect();
        Command::new("kill").arg("-TERM").args(ids).status()?;
        for jail in &mut self.jails {
            jail.wait()?;
        }
        self.jails.clear();
        Ok(())
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        // Only after an error. Nothing outlives a turnkey that is killed.
        for jail in &mut self.jails {
            let _ = jail.kill();
            let _ = jail.wait();
        }
    }
}

/// One line of the process table.
struct JailProcess {
    id: u32,
    parent: u32,
    name: String,
    ticks: f64,
}

fn processes() -> Result<Vec<JailProcess>> {
    let entries = fs::read_dir("/proc").context("no process table")?;
    // Whoever is gone meanwhile has no line.
    let texts =
        entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    Ok(texts.filter_map(|text| parsed(&text)).collect())
}

/// Number, name in brackets, state, parent, and further on the times in user mode and in the kernel.
fn parsed(text: &str) -> Option<JailProcess> {
    let (id, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let rest: Vec<&str> = rest.split(' ').collect();
    let ticks = |index: usize| rest.get(index)?.parse::<f64>().ok();
    Some(JailProcess {
        id: id.parse().ok()?,
        parent: rest.get(1)?.parse().ok()?,
        name: name.to_owned(),
        ticks: ticks(11)? + ticks(12)?,
    })
}

/// Mebibytes of /proc/PID/smaps: what is mapped of maps of the kernel's programs, and everything else first.
fn resident(text: &str) -> (f64, f64) {
    let (mut own, mut rings, mut is_ring) = (0.0, 0.0, false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Pss:") {
            let kibibytes = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
            *(if is_ring { &mut rings } else { &mut own }) += kibibytes / 1024.0;
        } else if line
            .split(' ')
            .next()
            .is_some_and(|word| word.contains('-'))
        {
            is_ring = line.contains("bpf-map") || line.contains("bpf_ringbuf");
        }
    }
    (own, rings)
}

/// Mebibytes that the host could still give.
fn available() -> Result<f64> {
    let text = fs::read_to_string("/proc/meminfo").context("no word on memory")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kibibytes.context("no word on what is available")? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_blanks() {
        let text = "77 (a) (b c) S 1 77 77 0 -1 0 1 2 3 4 30 12 0 0 20";
        let process = parsed(text).expect("a process");
        assert_eq!(
            (process.id, process.parent, &*process.name),
            (77, 1, "a) (b c")
        );
        assert!((process.ticks - 42.0).abs() < 1e-9);
    }

    #[test]
    fn rings_are_told_from_the_rest() {
        let text = "7f00-7f10 rw-s 00000000 00:0e 12 anon_inode:bpf-map\nSize: 64 kB\nPss:       2048 kB\n\
                    7f20-7f30 r-xp 00000000 fe:00 9 /usr/bin/turnkey\nPss:        512 kB\nPss_Dirty: 512 kB\n";
        let (own, rings) = resident(text);
        assert!(
            (own - 0.5).abs() < 1e-9 && (rings - 2.0).abs() < 1e-9,
            "{own} {rings}"
        );
    }
}
