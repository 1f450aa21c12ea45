//! Many runs through the service, one after another: the last ones as the first ones, in time and in memory.

use std::fs;
use std::sync::Mutex;

use anyhow::{Context, Result};

use super::findings::{Findings, FindingsBlock, Section, digits};
use super::rounds::Phase;
use super::served::BenchService;
use super::stage::BenchStage;
use super::statistics::{Ratio, quantile};

const TRUE: [&str; 1] = ["/bin/true"];
/// The callers that ask at the same time.
const CALLERS: usize = 4;
/// The runs are looked at in so many parts.
const PARTS: usize = 10;

/// A part of the runs.
struct Part {
    /// The runs before its end.
    runs: usize,
    /// The seconds that each took, in no order.
    took: Vec<f64>,
    /// The service after it, with those who stand ready.
    takes: ServiceMemory,
}

/// The use that the service makes of memory.
struct ServiceMemory {
    /// Of the listener's own, KiB.
    listener: u32,
    /// Of those who stand ready, KiB.
    ready: u32,
    /// Files that the listener has open.
    files: usize,
}

/// Measures it, with so many runs that count, after a tenth of them that do not.
pub fn measure(stage: &BenchStage, runs: usize, findings: &mut Findings) -> Result<()> {
    stage.enter(Phase::Loaded)?;
    let service = BenchService::start(stage)?;
    let size = runs / PARTS;
    played(stage, &service, size)?;
    let mut parts = Vec::new();
    for number in 1..=PARTS {
        let took = played(stage, &service, size)?;
        let takes = ServiceMemory::look(&service)?;
        let runs = number * size;
        parts.push(Part { runs, took, takes });
    }
    let (first, last) = (&parts[0], &parts[PARTS - 1]);
    let halves = quantile(&last.took, 0.5).zip(quantile(&first.took, 0.5));
    let ratio = halves.map(|(last, first)| Ratio::exact(last / first));
    findings.keep("flat.latency", ratio);
    let more = f64::from(last.takes.listener) - f64::from(first.takes.listener);
    findings.keep("flat.memory", Some(Ratio::exact(more)));
    findings.sections.push(Section {
        title: "Many runs through the service",
        blocks: vec![
            FindingsBlock::text(format!(
                "{runs} runs of `/bin/true` by {CALLERS} callers at once, each in a new workspace, from the client's start to the verified \
                 report, after {size} that do not count; in tenths:"
            )),
            table(&parts),
        ],
    });
    Ok(())
}

/// So many runs, by all callers together; what each took.
fn played(stage: &BenchStage, service: &BenchService, runs: usize) -> Result<Vec<f64>> {
    let took = Mutex::new(Vec::new());
    let callers = (0..CALLERS).map(|_| service.caller(stage, &TRUE));
    let callers = callers.collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let all = callers.into_iter().map(|mut caller| {
            let took = &took;
            scope.spawn(move || -> Result<()> {
                for _ in 0..runs / CALLERS {
                    let seconds = caller.run()?;
                    took.lock().expect("nobody panics").push(seconds);
                }
                Ok(())
            })
        });
        let all: Vec<_> = all.collect();
        let ends = all
            .into_iter()
            .map(|caller| caller.join().expect("it does not panic"));
        ends.collect::<Result<()>>()
    })?;
    Ok(took.into_inner().expect("nobody panics"))
}

impl ServiceMemory {
    fn look(service: &BenchService) -> Result<ServiceMemory> {
        let listener = service.process();
        let files = fs::read_dir(format!("/proc/{listener}/fd"))?.count();
        let children = format!("/proc/{listener}/task/{listener}/children");
        let children = fs::read_to_string(children)?;
        let ready = children.split_whitespace();
        // Who is gone meanwhile takes nothing.
        let ready = ready.filter_map(|pid| own_memory(pid).ok()).sum();
        let listener = own_memory(&listener.to_string())?;
        Ok(ServiceMemory {
            listener,
            ready,
            files,
        })
    }
}

/// The memory that is a process's own, KiB.
fn own_memory(pid: &str) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    number.context("the kernel does not tell a process's memory")
}

fn table(parts: &[Part]) -> FindingsBlock {
    let head = [
        "runs",
        "half within",
        "99 of 100 within",
        "the listener's own",
        "of those who stand ready",
        "files it has open",
    ];
    let rows = parts.iter().filter_map(|part| {
        let milliseconds =
            |share| quantile(&part.took, share).map(|it| format!("{} ms", digits(it * 1e3)));
        Some(vec![
            part.runs.to_string(),
            milliseconds(0.5)?,
            milliseconds(0.99)?,
            format!("{} KiB", part.takes.listener),
            format!("{} KiB", part.takes.ready),
            part.takes.files.to_string(),
        ])
    });
    FindingsBlock::table(&head, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_part() {
        let part = |runs| Part {
            runs,
            took: vec![0.01, 0.02, 0.03],
            takes: ServiceMemory {
                listener: 900,
                ready: 4000,
                files: 12,
            },
        };
        let text = table(&[part(1000), part(2000)]).markdown();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("| 1000 | 20.0 ms |"), "{text}");
        assert!(text.contains("| 900 KiB | 4000 KiB | 12 |"), "{text}");
    }

    #[test]
    fn a_process_has_memory_of_its_own() {
        assert!(own_memory("self").expect("it is there") > 0);
        assert!(own_memory("0").is_err());
    }
}
