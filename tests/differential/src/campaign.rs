//! One program after the other, for a while, and what came of it.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::compare::{BLIND, BUSY, Reached, count, disagreement};
use crate::enforce::escape;
use crate::generate::generate;
use crate::jail::{Bench, Way};
use crate::program::{Op, Program};

/// What was run.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many programs.
    pub programs: u64,
    /// How many calls the tracing instance saw in them.
    pub calls: u64,
    /// By class.
    pub reached: Reached,
    /// Programs that could not be looked at: the program was gone before.
    pub unseen: u64,
    /// In how many a text was told as unreadable that was there, once and not again.
    pub blind: u64,
    /// What did not agree.
    pub found: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

/// A program on which turnkey and the observers do not agree.
#[derive(Debug)]
pub struct Finding {
    /// Its name or number.
    pub name: String,
    /// How it was run.
    pub way: Way,
    /// The program.
    pub program: Program,
    /// In what they do not.
    pub what: String,
}

/// Four ways in turn: half of the programs are not stopped, as races need.
const WAYS: [Way; 4] = [
    way(false, false),
    way(false, true),
    way(true, false),
    way(true, true),
];

const fn way(enforces: bool, stops: bool) -> Way {
    Way {
        enforces,
        stops,
        has_loopback: false,
    }
}

/// The way in which the program of a number is run.
pub fn way_of(seed: u64) -> Way {
    Way {
        has_loopback: (seed / 4) % 4 == 3,
        ..WAYS[(seed % 4) as usize]
    }
}

/// More than that are a fault of the observers.
const MOST_UNSEEN: u64 = 10;

impl Summary {
    /// Runs a program and keeps what came of it; whether it agrees.
    pub fn add(&mut self, bench: &Bench, name: &str, program: &Program, way: Way) -> Result<bool> {
        let outcome = match bench.run(program, way) {
            Ok(outcome) => outcome,
            // A machine that is busy elsewhere can let a jail run out of its time before it begins.
            Err(error) if self.unseen < MOST_UNSEEN => {
                eprintln!("{name} was not seen: {error:#}");
                self.unseen += 1;
                return Ok(true);
            }
            Err(error) => return Err(error.context(name.to_owned())),
        };
        self.programs += 1;
        self.calls += outcome.calls.values().map(Vec::len).sum::<usize>() as u64;
        count(&outcome, &mut self.reached);
        let what = if way.enforces {
            escape(program, &outcome)
        } else {
            disagreement(program, &outcome)
        };
        let is_blind = what
            .as_ref()
            .is_some_and(|what| [BLIND, BUSY].iter().any(|blind| what.contains(blind)));
        if is_blind && !Self::is_again(bench, program, way)? {
            self.blind += 1;
            return Ok(true);
        }
        let agrees = what.is_none();
        self.found.extend(what.map(|what| Finding {
            name: name.to_owned(),
            way,
            program: program.clone(),
            what,
        }));
        Ok(agrees)
    }

    /// True when a program does not agree in one of a few tries more.
    fn is_again(bench: &Bench, program: &Program, way: Way) -> Result<bool> {
        for _ in 0..3 {
            let outcome = bench.run(program, way)?;
            if disagreement(program, &outcome).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs generated programs, from a number on, until the time is over and each way had its turn, or `stop` of them do not agree.
    pub fn generate(
        &mut self,
        bench: &Bench,
        from: u64,
        time: Duration,
        stop: usize,
    ) -> Result<()> {
        let started = Instant::now();
        for seed in from.. {
            let is_over = started.elapsed() >= time && self.programs >= WAYS.len() as u64;
            if is_over || self.found.len() >= stop {
                break;
            }
            let way = way_of(seed);
            self.add(bench, &format!("seed {seed}"), &generate(seed), way)?;
        }
        self.took += started.elapsed();
        Ok(())
    }

    /// Runs the programs that are kept in a folder, in each way.
    pub fn replay(&mut self, bench: &Bench, folder: &Path) -> Result<()> {
        let started = Instant::now();
        let mut kept: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        kept.sort_by_key(std::fs::DirEntry::path);
        for entry in kept {
            let program = read(&entry.path())?;
            for way in WAYS {
                self.add(bench, &entry.path().display().to_string(), &program, way)?;
            }
        }
        self.took += started.elapsed();
        Ok(())
    }
}

/// What comes out again in a few tries: one in some thousand programs does not agree once and never again, which a
/// long campaign tells and a test does not.
pub fn confirmed(bench: &Bench, finding: &Finding) -> Result<bool> {
    let mut again = Summary::default();
    for _ in 0..3 {
        again.add(bench, &finding.name, &finding.program, finding.way)?;
    }
    Ok(!again.found.is_empty())
}

/// A program that was kept.
pub fn read(path: &Path) -> Result<Program> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no program", path.display()))
}

/// The shortest program that still does not agree, as far as leaving out and making plain leads; with what is
/// wrong with it. A race does not come out the same each time: each is tried a few times.
pub fn shrink(bench: &Bench, finding: &Finding) -> Result<(Program, String)> {
    const TRIES: usize = 3;
    let (mut best, mut what) = (finding.program.clone(), finding.what.clone());
    let fails = |program: &Program| -> Result<Option<String>> {
        for _ in 0..TRIES {
            let mut summary = Summary::default();
            summary.add(bench, "shorter", program, finding.way)?;
            if let Some(found) = summary.found.pop() {
                return Ok(Some(found.what));
            }
        }
        Ok(None)
    };
    let mut chunk = best.size().div_ceil(2).max(1);
    loop {
        let mut from = 0;
        while from < best.size() {
            let shorter = best.without(from, chunk);
            match fails(&shorter)? {
                Some(still) => (best, what) = (shorter, still),
                None => from += chunk,
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    let plain = plain(&best);
    if let Some(still) = fails(&plain)? {
        (best, what) = (plain, still);
    }
    Ok((best, what))
}

/// Without repetitions, and without what stands in the upper half of the register of a number.
fn plain(program: &Program) -> Program {
    let mut plain = program.clone();
    for op in plain.strands.iter_mut().flatten() {
        if let Op::Call(call) = op {
            call.times = 1;
            call.high = 0;
        }
    }
    plain
}

impl Display for Summary {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            programs,
            calls,
            unseen,
            blind,
            ..
        } = self;
        let seconds = self.took.as_secs();
        let found = self.found.len();
        writeln!(
            out,
            "{programs} programs, {calls} calls, {seconds} s, {found} disagreements, {unseen} not seen, {blind} told blindly once"
        )?;
        let mut classes: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for ((class, success), count) in &self.reached {
            classes.entry(class).or_default()[usize::from(!success)] += count;
        }
        for (class, [success, failure]) in classes {
            writeln!(
                out,
                "{class:>12}: {success} with success, {failure} without"
            )?;
        }
        Ok(())
    }
}
