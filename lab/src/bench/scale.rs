//! Many jails: how many in a second, how long each takes then, and what those that live cost.

use std::cell::RefCell;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::alive;
use super::findings::{Findings, FindingsBlock, Section, digits};
use super::floor::{Floor, WATCHED};
use super::peers::{BUBBLEWRAP, Present};
use super::plots;
use super::rounds::{BenchExtent, Contestant, Phase, Results, play};
use super::served::BenchService;
use super::stage::{BenchStage, timed};
use super::start::{SERVED, turnkey};
use super::statistics::{Ratio, quantile};
use crate::command;

const TRUE: [&str; 1] = ["/bin/true"];
const TURNKEY: &str = "turnkey, warm";
const BARE: &str = "bare";
const AT_ONCE: [usize; 4] = [1, 2, 4, 8];
/// As the goal has it.
const GOAL: usize = 4;

/// The size of the measurement.
#[derive(Clone, Copy)]
pub struct Size {
    /// Of the rounds of jails at once.
    pub extent: BenchExtent,
    /// The time for which jails are started in one measurement.
    pub window: Duration,
    /// At most so many live at once.
    pub alive: usize,
    /// At most so many mounts are added to the host's.
    pub mounts: usize,
    /// So many starts are timed for a point of a curve.
    pub starts: usize,
}

/// Measures it.
pub fn measure(
    stage: &BenchStage,
    size: Size,
    peers: &[Present],
    floor: &Floor,
    findings: &mut Findings,
) -> Result<()> {
    let mut blocks = vec![FindingsBlock::text(
        "Callers who start `/bin/true` again and again, so many at once: jails in a second, and how long each took. *Through the service* each run has a new workspace, and ends \
         when its report is read and verified.",
    )];
    blocks.extend(rates(stage, size, peers, floor, findings)?);
    blocks.extend(crowd(stage, size, findings)?);
    blocks.extend(mounts(stage, size, peers, floor)?);
    findings.sections.push(Section {
        title: "Scale",
        blocks,
    });
    Ok(())
}

/// The times that a caller waited for each of its jails, by contestant.
type Waits = RefCell<Vec<(String, Vec<f64>)>>;

fn rates(
    stage: &BenchStage,
    size: Size,
    peers: &[Present],
    floor: &Floor,
    findings: &mut Findings,
) -> Result<Vec<FindingsBlock>> {
    let waits = Waits::default();
    let service = BenchService::start(stage)?;
    let mut contestants = Vec::new();
    for at_once in AT_ONCE {
        for (who, phase, make) in starters(stage, peers, floor, &service) {
            let name = format!("{who}, {at_once} at once");
            let (waits, key) = (&waits, name.clone());
            contestants.push(Contestant::new(name, phase, move || {
                let (rate, waited) = rate(&*make, at_once, size.window)?;
                waits.borrow_mut().push((key.clone(), waited));
                Ok(rate)
            }));
        }
    }
    let results = play(&mut contestants, size.extent, |phase| stage.enter(phase))?;
    let ours = format!("{TURNKEY}, {GOAL} at once");
    let theirs = format!("{BUBBLEWRAP}, {GOAL} at once");
    findings.keep("scale.rate", results.ratio(&ours, &theirs));
    let least = format!("{WATCHED}, {GOAL} at once");
    findings.keep("scale.floor", results.ratio(&least, &theirs));
    let served = format!("{SERVED}, {GOAL} at once");
    findings.keep("scale.served", results.ratio(&served, &theirs));
    drop(contestants);
    Ok(vec![rate_table(&results, &waits.into_inner())])
}

/// Starts a jail, and says what it took.
type Start<'a> = Box<dyn FnMut() -> Result<f64> + Send + 'a>;
type Starter<'a> = (String, Phase, Box<dyn Fn() -> Result<Start<'a>> + 'a>);

fn by_command<'a>(mut command: Command) -> Start<'a> {
    Box::new(move || timed(&mut command))
}

fn starters<'a>(
    stage: &'a BenchStage,
    peers: &'a [Present],
    floor: &Floor,
    service: &'a BenchService,
) -> Vec<Starter<'a>> {
    let mut all: Vec<Starter> = vec![(
        BARE.into(),
        Phase::Unloaded,
        Box::new(|| Ok(by_command(stage.as_user(&TRUE)))),
    )];
    if let Some(peer) = peers.iter().find(|peer| peer.name == BUBBLEWRAP) {
        all.push((
            peer.name.into(),
            Phase::Unloaded,
            Box::new(|| peer.command(stage, &TRUE).map(by_command)),
        ));
    }
    let words = floor.watched_words(&TRUE);
    all.push((
        WATCHED.into(),
        Phase::Loaded,
        Box::new(move || Ok(by_command(stage.as_root(&words)))),
    ));
    let words = turnkey(stage, &[], &TRUE);
    all.push((
        TURNKEY.into(),
        Phase::Loaded,
        Box::new(move || Ok(by_command(stage.as_root(&words)))),
    ));
    all.push((
        SERVED.into(),
        Phase::Loaded,
        Box::new(|| {
            let mut caller = service.caller(stage, &TRUE)?;
            Ok(Box::new(move || caller.run()))
        }),
    ));
    all
}

/// The number of jails in a second, and how long each took.
fn rate<'a>(
    make: &dyn Fn() -> Result<Start<'a>>,
    at_once: usize,
    window: Duration,
) -> Result<(f64, Vec<f64>)> {
    let commands: Result<Vec<Start>> = (0..at_once).map(|_| make()).collect();
    let waits = Mutex::new(Vec::new());
    let started = Instant::now();
    let caller = |mut start: Start<'a>| -> Result<()> {
        while started.elapsed() < window {
            let took = start()?;
            waits.lock().expect("nobody panics").push(took);
        }
        Ok(())
    };
    let (commands, caller) = (commands?, &caller);
    std::thread::scope(|scope| {
        let callers = commands
            .into_iter()
            .map(|command| scope.spawn(move || caller(command)));
        let callers: Vec<_> = callers.collect();
        let ends = callers
            .into_iter()
            .map(|caller| caller.join().expect("it does not panic"));
        ends.collect::<Result<()>>()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let waits = waits.into_inner().expect("nobody panics");
    Ok((f64::from(u32::try_from(waits.len())?) / seconds, waits))
}

fn rate_table(results: &Results, waits: &[(String, Vec<f64>)]) -> FindingsBlock {
    let rows = results.all().filter_map(|(name, _)| {
        let rate = results.summary(name)?;
        let all = waits.iter().filter(|(known, _)| known == name);
        let all: Vec<f64> = all.flat_map(|(_, waited)| waited).copied().collect();
        let milliseconds =
            |share| quantile(&all, share).map(|it| format!("{} ms", digits(it * 1e3)));
        let between = format!("{} – {}", digits(rate.low), digits(rate.high));
        Some(vec![
            name.to_owned(),
            digits(rate.median),
            between,
            milliseconds(0.5)?,
            milliseconds(0.99)?,
        ])
    });
    FindingsBlock::table(
        &[
            "",
            "a second",
            "middle half",
            "half within",
            "99 of 100 within",
        ],
        rows.collect(),
    )
}

/// Jails that live, and what starting another one takes beside them.
fn crowd(stage: &BenchStage, size: Size, findings: &mut Findings) -> Result<Vec<FindingsBlock>> {
    stage.enter(Phase::Loaded)?;
    let steps = [0, 10, 25, 50, 100].map(|percent| size.alive * percent / 100);
    let mut crowd = alive::Crowd::new(stage)?;
    let mut starts = Vec::new();
    for living in steps {
        crowd.grow(living)?;
        let own = by_command(stage.as_root(&turnkey(stage, &[], &TRUE)));
        let took = start(own, size.starts)?;
        starts.push((count(living)?, took));
    }
    let costs = crowd.costs()?;
    crowd.end()?;
    findings.keep("scale.memory", Some(Ratio::exact(costs.memory)));
    let rows = vec![
        vec![
            "memory of turnkey's processes for each, besides the rings".into(),
            format!("{} MiB", digits(costs.memory)),
        ],
        vec![
            "the rings of each, as far as they are mapped and used".into(),
            format!("{} MiB", digits(costs.rings)),
        ],
        vec![
            "what the host has less for each, all in all, with the program and the kernel's share"
                .into(),
            format!("{} MiB", digits(costs.host)),
        ],
        vec![
            "CPU time of turnkey for each, a second, while its program sleeps".into(),
            format!("{} µs", digits(costs.cpu * 1e6)),
        ],
    ];
    let lines = [(TURNKEY.to_owned(), starts)];
    Ok(vec![
        FindingsBlock::text(format!(
            "{} jails alive at once, each with a sleeping program:",
            size.alive
        )),
        FindingsBlock::table(&["", ""], rows),
        FindingsBlock::text(
            "A warm start of `/bin/true` beside so many jails that live, in milliseconds:",
        ),
        points("jails", &lines),
        plots::lines(
            "start-jails",
            "Warm start of /bin/true, milliseconds",
            "jails that live",
            &lines,
        )?,
    ])
}

/// Starts beside more and more mounts of the host.
fn mounts(
    stage: &BenchStage,
    size: Size,
    peers: &[Present],
    floor: &Floor,
) -> Result<Vec<FindingsBlock>> {
    let folder = stage.path("mounts");
    let service = BenchService::start(stage)?;
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut there = 0;
    for percent in [0, 10, 50, 100] {
        let wanted = size.mounts * percent / 100;
        add_mounts(&folder, there, wanted)?;
        there = wanted;
        let at = count(wanted)?;
        for (index, (who, phase, make)) in starters(stage, peers, floor, &service)
            .into_iter()
            .enumerate()
        {
            stage.enter(phase)?;
            let point = (at, start(make()?, size.starts)?);
            match lines.get_mut(index) {
                Some((_, points)) => points.push(point),
                None => lines.push((who, vec![point])),
            }
        }
    }
    let mut unmount = Command::new("umount");
    command::check(unmount.args(["--recursive", "--lazy"]).arg(&folder))?;
    Ok(vec![
        FindingsBlock::text(
            "A start copies the host's mounts into a namespace of its own. With so many more of them, in milliseconds:",
        ),
        points("mounts more", &lines),
        plots::lines(
            "start-mounts",
            "Start of /bin/true, milliseconds",
            "mounts more",
            &lines,
        )?,
    ])
}

/// The same as its picture: a row for each number.
fn points(number: &str, lines: &[(String, Vec<(f64, f64)>)]) -> FindingsBlock {
    let names = lines.iter().map(|(name, _)| &**name);
    let head: Vec<&str> = std::iter::once(number).chain(names).collect();
    let first = lines.first().map_or(&[][..], |(_, points)| points);
    let rows = first.iter().enumerate().map(|(row, (at, _))| {
        let cells = lines.iter().filter_map(|(_, points)| points.get(row));
        let cells = cells.map(|(_, value)| digits(*value));
        std::iter::once(format!("{at:.0}")).chain(cells).collect()
    });
    FindingsBlock::table(&head, rows.collect())
}

/// Mounts of nothing, one in each of so many folders.
fn add_mounts(folder: &std::path::Path, from: usize, to: usize) -> Result<()> {
    let mut script = String::new();
    if from == 0 && !folder.exists() {
        script += "mkdir \"$1\" && mount -t tmpfs tmpfs \"$1\" && mkdir \"$1/of\"\n";
    }
    script += "number=$2; while [ $number -lt $3 ]; do mkdir \"$1/$number\"; \
               mount --bind \"$1/of\" \"$1/$number\" || exit 1; number=$((number + 1)); done\n";
    let numbers = [from, to].map(|number| number.to_string());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(folder).args(numbers);
    let status = shell.status().context("no shell")?;
    if !status.success() {
        bail!("cannot mount in {}", folder.display());
    }
    Ok(())
}

/// The median of so many starts, in milliseconds.
fn start(mut start: Start<'_>, times: usize) -> Result<f64> {
    let all: Result<Vec<f64>> = (0..times).map(|_| start()).collect();
    quantile(&all?, 0.5)
        .map(|it| it * 1e3)
        .context("nothing was started")
}

fn count(number: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_points_has_a_column_for_each_line() {
        let lines = [
            ("a".to_owned(), vec![(0.0, 1.5), (100.0, 2.5)]),
            ("b".to_owned(), vec![(0.0, 3.0), (100.0, 4.0)]),
        ];
        let expected =
            "| jails | a | b |\n|---|---|---|\n| 0 | 1.50 | 3.00 |\n| 100 | 2.50 | 4.00 |\n";
        assert_eq!(points("jails", &lines).markdown(), expected);
    }
}
