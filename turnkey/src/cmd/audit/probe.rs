//! The probe: looks at the sandbox around it, and prints a line for each thing that it tries.
//!
//! Nothing that it tries changes a host that lets it: calls have arguments that the kernel refuses after it has asked for the
//! right, and what is written, sent or signalled goes to the bait that `turnkey audit` has laid out.

#![expect(
    clippy::disallowed_methods,
    reason = "the probe opens files by their names, as the programs do that it stands for"
)]

mod child;
mod commands;
mod leaks;
mod limits;
mod neighbours;
mod network;
mod privilege;
mod raw;
mod technology;
mod upload;

use std::io::Write;

pub use commands::LATER;
pub use leaks::digest;
pub use technology::namespace;
pub use upload::left_name;

use anyhow::Context;

use super::finding::{Bait, Criterion, Finding, Line, MARK};
use crate::cli::AuditProbeArguments;
use crate::failure::Failure;

/// One thing that is tried.
pub struct Probe {
    /// The subject.
    pub criterion: Criterion,
    /// The name, which messages to the outside have too.
    pub name: &'static str,
    /// The act, after "the program".
    pub does: &'static str,
    /// The outside sees the effect: what the program believes does not count.
    pub seen_outside: bool,
    /// Tries it.
    pub run: fn(&Bait) -> Finding,
}

impl Probe {
    const fn new(name: &'static str, does: &'static str, run: fn(&Bait) -> Finding) -> Self {
        Self {
            criterion: Criterion::Commands,
            name,
            does,
            seen_outside: false,
            run,
        }
    }

    const fn seen_outside(mut self) -> Self {
        self.seen_outside = true;
        self
    }

    const fn with_criterion(mut self, criterion: Criterion) -> Self {
        self.criterion = criterion;
        self
    }
}

/// Every probe, those first that take nothing from the ones after them.
pub fn all() -> Vec<Probe> {
    let parts = [
        technology::probes(),
        leaks::probes(),
        neighbours::probes(),
        network::probes(),
        upload::probes(),
        privilege::probes(),
        commands::probes(),
        limits::probes(),
    ];
    parts.into_iter().flatten().collect()
}

/// Tries everything but what is left out.
pub fn probe(arguments: &AuditProbeArguments) -> Result<u8, Failure> {
    let bait: Bait = serde_json::from_str(&arguments.bait)
        .context("the bait is no JSON of `turnkey audit`, which calls this command by itself")?;
    for probe in all() {
        if arguments.skip.iter().any(|name| name == probe.name) {
            continue;
        }
        say(&Line::Begun(probe.name.into()))?;
        let finding = (probe.run)(&bait);
        say(&Line::Found(probe.name.into(), finding))?;
    }
    say(&Line::Over)?;
    Ok(0)
}

fn say(line: &Line) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{MARK}{text}")?;
    output.flush()?;
    Ok(())
}
