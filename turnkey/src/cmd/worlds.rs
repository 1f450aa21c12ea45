//! `turnkey worlds`: runs a command in several worlds, and tells what it does otherwise in one of them.

mod acts;
mod compare;
mod date;
mod page;
mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use rustix::fs::{Mode, OFlags};
use time::OffsetDateTime;
use turnkey_jailer::ShiftedClock;
use turnkey_policy::{NetworkMode, Overrides, Policy};
use turnkey_report::{Report, Status, escape};
use turnkey_supervisor::files::{self, RunOutputs};
use turnkey_supervisor::{
    RunPlace, RunRequest, SettledPolicy, Sink, Strictness, enter, required_layers,
};

use crate::cli::WorldsArguments;
use crate::cmd::run::{self, CallerTerminal};
use crate::failure::Failure;
use crate::output;
use acts::RunActs;
use compare::{HereRuns, WorldDifference};
use page::{WorldRow, WorldsPage};
use world::{AGAIN, Dependence, HERE, SHIPPED, World};

/// The signals by which a caller ends turnkey, which passes them on to the program.
const INTERRUPTING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The exit status when the program does otherwise in a world.
const DIFFERS: u8 = 1;

/// Runs the command in each world, and prints the table to standard output.
pub fn worlds(arguments: &WorldsArguments) -> Result<u8, Failure> {
    let worlds = chosen(arguments)?;
    let now = OffsetDateTime::now_utc();
    for (name, world) in &worlds {
        ahead(world, now).with_context(|| format!("the world [{name}]"))?;
    }
    if arguments.list {
        return list(worlds);
    }
    let flags = arguments.overrides.resolve();
    let flags = flags.context("could not tell the current directory")?;
    let entered = enter();
    required_layers::require_watcher("worlds")?;
    let mut runner = WorldRunner {
        arguments,
        flags,
        entered: Some(entered),
        now,
    };
    empty_input().context("could not give the program an empty input")?;
    let rows = runner.run_all(worlds)?;
    let command = arguments.command.iter();
    let command = command.map(|word| escape(word.as_encoded_bytes()));
    let page = WorldsPage::new(command.collect(), rows.noise, &rows.rows);
    output::rendered(&page, arguments.json, |page, text| page.write(text))
        .and_then(|page| output::page(&page))
        .context("could not write what differs")?;
    Ok(if page.agrees() { 0 } else { DIFFERS })
}

/// Takes the caller's standard input away, which would be there for the first run alone.
fn empty_input() -> rustix::io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(nothing)
}

/// The worlds that are asked for, in the order of their file.
fn chosen(arguments: &WorldsArguments) -> anyhow::Result<Vec<(String, World)>> {
    let shipped = world::read(SHIPPED)?;
    let own = match &arguments.worlds {
        None => Vec::new(),
        Some(file) => {
            let named = || format!("the worlds of {} cannot be used", file.display());
            let text = files::read_text(&file.to_string_lossy()).map_err(anyhow::Error::msg);
            world::read(&text.with_context(named)?).with_context(named)?
        }
    };
    if arguments.names.is_empty() {
        return Ok(if arguments.worlds.is_some() {
            own
        } else {
            shipped
        });
    }
    // One of the file's own is meant rather than a shipped one of the same name.
    let known: Vec<_> = own.iter().chain(&shipped).collect();
    let found = arguments.names.iter().map(|name| {
        let found = known.iter().find(|(known, _)| known == name);
        let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
        let (name, world) = found.with_context(|| {
            format!(
                "there is no world {name:?}: name one of {}",
                names.join(", ")
            )
        })?;
        Ok((name.clone(), world.clone()))
    });
    found.collect()
}

fn list(worlds: Vec<(String, World)>) -> Result<u8, Failure> {
    let mut text = Vec::new();
    for (name, world) in worlds {
        let table = toml::to_string(&BTreeMap::from([(name, world)]));
        writeln!(
            text,
            "{}",
            table.context("could not write a world as TOML")?
        )
        .context("could not write the worlds")?;
    }
    output::page(&text).context("could not write the worlds")?;
    Ok(0)
}

fn ahead(world: &World, now: OffsetDateTime) -> anyhow::Result<i64> {
    let Some(text) = &world.date else {
        return Ok(0);
    };
    date::ahead(text, now).with_context(|| format!("`date` is {text:?}"))
}

/// All worlds that were run, `here` the first.
struct WorldRuns {
    rows: Vec<WorldRow>,
    noise: usize,
}

/// Runs one command in worlds, one after the other.
struct WorldRunner<'a> {
    arguments: &'a WorldsArguments,
    flags: Overrides,
    entered: Option<RunPlace>,
    now: OffsetDateTime,
}

impl WorldRunner<'_> {
    fn run_all(&mut self, worlds: Vec<(String, World)>) -> Result<WorldRuns, Failure> {
        let here = World::default();
        let first = self.run(HERE, &here)?;
        let again = self.run(AGAIN[0], &here)?;
        let mut runs = HereRuns(
            [&first, &again]
                .map(|report| RunActs::from_report(report, &here))
                .into(),
        );
        let mode = self.policy(&here)?.network.mode;
        let mut rows = vec![self.row(
            HERE.to_owned(),
            here,
            Some(first),
            WorldDifference::default(),
        )?];
        for (name, world) in worlds {
            let is_here =
                world.differs_in() == [Dependence::Network] && world.network_mode() == Some(mode);
            if is_here {
                rows.push(self.row(name, world, None, WorldDifference::default())?);
                continue;
            }
            let report = self.run(&name, &world)?;
            let difference = self.difference(&mut runs, &name, &world, &report)?;
            rows.push(self.row(name, world, Some(report), difference)?);
        }
        let noise = runs.noise();
        Ok(WorldRuns { rows, noise })
    }

    /// The difference of a world; where there is one, the world is run once more, and here for the third time, and what was chance
    /// falls away.
    fn difference(
        &mut self,
        here: &mut HereRuns,
        name: &str,
        world: &World,
        report: &Report,
    ) -> Result<WorldDifference, Failure> {
        let mut runs = vec![RunActs::from_report(report, world)];
        let mut difference = here.difference(world, &runs);
        if !difference.is_empty() {
            let again = self.run(&format!("{name}-again"), world)?;
            runs.push(RunActs::from_report(&again, world));
            difference = here.difference(world, &runs);
        }
        if !difference.is_empty() && here.0.len() < 1 + AGAIN.len() {
            let again = self.run(AGAIN[1], &World::default())?;
            here.0.push(RunActs::from_report(&again, &World::default()));
            difference = here.difference(world, &runs);
        }
        Ok(difference)
    }

    fn row(
        &self,
        name: String,
        world: World,
        report: Option<Report>,
        difference: WorldDifference,
    ) -> anyhow::Result<WorldRow> {
        Ok(WorldRow {
            date: date::shown(ahead(&world, self.now)?, self.now),
            name,
            world,
            report,
            difference,
        })
    }

    /// The policy of a world: the profile, the flags, and the world over both.
    fn policy(&self, world: &World) -> Result<Policy, Failure> {
        let given = turnkey_policy::flags().flat_map(|flag| {
            let texts = self.flags.texts(flag.name);
            texts.map(|text| (flag.name, text.to_owned()))
        });
        let flags = Overrides::from_flags(given.chain(world.flags()))?;
        let mut policy = turnkey_policy::load(&self.arguments.profile, &files::read_text, &flags)
            .map_err(|error| Failure::Profile(Box::new(error)))?;
        for (path, content) in &world.files {
            let path = world.place(path);
            policy.filesystem.decoys.push(path.clone());
            policy.filesystem.planted.insert(path, content.clone());
        }
        let decoys = world.decoys.iter().map(|path| world.place(path));
        policy.filesystem.decoys.extend(decoys);
        Ok(policy)
    }

    fn run(&mut self, name: &str, world: &World) -> Result<Report, Failure> {
        let policy = self.policy(world)?;
        let clock = ShiftedClock {
            // A moment is one for each run, however long those before have taken.
            ahead: ahead(world, OffsetDateTime::now_utc())?,
            wall: (world.patient != Some(true)).then_some(policy.limits.wall),
            is_answered: matches!(policy.network.mode, NetworkMode::Allow | NetworkMode::Host),
        };
        let command = &self.arguments.command;
        let directory = self.arguments.directory.chosen()?;
        let report_file = self.report_file(name);
        let outputs = RunOutputs::find(report_file.as_deref(), None, None)?;
        let settled = SettledPolicy::new(policy, command, &directory, Strictness::Whole)?;
        outputs.require_unreachable(settled.policy())?;
        outputs.require_apart(settled.policy(), &directory)?;
        let file = outputs.report.map(|report| run::opened("a report", report));
        let file = file.transpose()?;
        let nowhere: Sink = Arc::new(|_: &[u8]| Ok(()));
        let request = RunRequest {
            directory,
            output: [Arc::clone(&nowhere), nowhere],
            residence: self.arguments.residence.chosen(),
            clock: Some(clock),
            ..RunRequest::new(command.clone())
        };
        let entered = self.entered.take().unwrap_or_else(RunPlace::entered_before);
        let mut observer = CallerTerminal::silent(true);
        let done = turnkey_supervisor::run(request, settled, entered, &mut observer)?;
        run::write(&done.report, file)?;
        require_seen(&done.report).with_context(|| format!("the world [{name}]"))?;
        Ok(done.report)
    }

    fn report_file(&self, name: &str) -> Option<PathBuf> {
        let directory = self.arguments.report_dir.as_ref()?;
        Some(directory.join(format!("{name}.json")))
    }
}

/// Refuses a run that was seen in part: from that nothing can be concluded.
fn require_seen(report: &Report) -> anyhow::Result<()> {
    if report.status == Status::SetupFailed {
        let error = report.error.as_deref().unwrap_or("nothing ran");
        let lines: Vec<_> = error.lines().map(str::trim).collect();
        bail!(lines.join("; "));
    }
    let is_asked = |signal: &i32| INTERRUPTING.contains(signal);
    ensure!(
        report.status != Status::Signaled || !report.signal.as_ref().is_some_and(is_asked),
        "the run was interrupted, or the program asked itself to end; nothing is concluded"
    );
    ensure!(
        report.events.complete,
        "not everything that the program did was seen, and nothing is concluded: run it again, with fewer things at once"
    );
    Ok(())
}
