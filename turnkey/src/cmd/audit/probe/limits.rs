//! Memory and processes: what can be used up.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;

use crate::cmd::audit::finding::{Bait, Criterion, Finding};

use super::Probe;
use super::child::{in_child, stays};

const MIB: usize = 1 << 20;
/// Memory that nobody's sandbox should give unasked, in MiB.
const MEMORY: usize = 1024;
/// Processes that nobody's sandbox should give unasked.
const PROCESSES: usize = 200;

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new("processes", "has 200 processes at the same time", processes),
        Probe::new("memory", "uses 1 GiB of memory", memory),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::Limits))
        .collect()
}

fn memory(_: &Bait) -> Finding {
    in_child(|| {
        let mut held: Vec<Vec<u8>> = Vec::new();
        while held.len() * 16 < MEMORY {
            let mut block = Vec::new();
            if block.try_reserve_exact(16 * MIB).is_err() {
                return Finding::stopped(format!("no more than {} MiB", held.len() * 16));
            }
            // Each page is one that the kernel has to give.
            block.resize(16 * MIB, 1);
            held.push(block);
        }
        Finding::open(format!("{MEMORY} MiB"))
    })
}

fn processes(_: &Bait) -> Finding {
    in_child(|| {
        let mut made = Vec::new();
        let mut stopped = None;
        while made.len() < PROCESSES {
            match stays() {
                Ok(process) => made.push(process),
                Err(error) => {
                    stopped = Some(format!("{error} after {}", made.len()));
                    break;
                }
            }
        }
        for process in &made {
            let _ = kill(*process, Signal::SIGKILL);
            let _ = waitpid(*process, None);
        }
        match stopped {
            Some(fact) => Finding::stopped(fact),
            None => Finding::open(format!("{PROCESSES} processes")),
        }
    })
}
