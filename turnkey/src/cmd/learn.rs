//! `turnkey learn`: runs a command in a jail whose rules only log, and writes the profile that would have
//! allowed what it did, and nothing that looks dangerous.

mod calls;
mod contacts;
mod draft;
mod limits;
mod network;
pub mod places;
mod runs;
pub mod seen;
#[cfg(test)]
mod tests;
mod text;
pub mod varied;
pub mod witness;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use turnkey_jailer::host::own_addresses;
use turnkey_monitor::Tier;
use turnkey_policy::{AttemptKind, Endpoint, EnforcementMode, NetworkMode, Overrides, Policy};

use crate::cli::{
    ColourWhen, ExportArguments, LayerArguments, LearnArguments, ResidenceArguments, RunArguments,
    ServiceArguments, SinkArguments, StrictnessArguments,
};
use turnkey_supervisor::files::RunOutputs;
use turnkey_supervisor::files::{CallerOutput, OpenOutput};
use turnkey_supervisor::{FinishedRun, RunDirectory, RunPlace, enter, required_layers};

use crate::cmd::run;
use crate::failure::Failure;
use crate::output;
use draft::{DraftSources, ProfileDraft};
use limits::MeasuredUsage;
use network::ContactFacts;
use runs::LearnedRuns;
use seen::SeenUses;
use text::ProfileText;
use turnkey_report::{Status, escape, quote, shortened};
use turnkey_supervisor::{files, toolchain};

/// Runs the command and writes what was learned; answers the command's own status.
pub fn learn(arguments: LearnArguments) -> Result<u8, Failure> {
    required_layers::require_watcher("learn")?;
    let (mut place, out) = ProfileTarget::find(&arguments)?;
    let inputs = runs::inputs(&arguments)?;
    let command = in_words(&arguments.command);
    let mut outputs =
        RunOutputs::find(arguments.report.as_deref(), None, None)?.and_profile(Some(out))?;
    let entered = enter();
    let flags = arguments
        .overrides
        .resolve()
        .context("could not tell the current directory")?;
    let below = below(&arguments, &flags)?;
    let policy = below.policy.clone().with_mode(EnforcementMode::Observe);
    let mut run_arguments = as_run(arguments);
    let installations = installations(
        &policy,
        &run_arguments.command[0],
        &run_arguments.directory.chosen()?,
    )?;
    let mut seen = SeenUses::default();
    outputs.require_unreachable(&policy)?;
    let out = outputs.profile.take().map(CallerOutput::open).transpose();
    place.out = out.with_context(|| format!("could not write {}", place.named()))?;
    let mut runs = LearnedRuns::default();
    let mut entered = Some(entered);
    for input in &inputs {
        input.hand_in()?;
        seen.begin_run();
        run_arguments.command.clone_from(&input.command);
        let entered = entered.take().unwrap_or_else(RunPlace::entered_before);
        let done = run::under(
            &run_arguments,
            policy.clone(),
            (entered, of_one_run(&mut outputs), None),
            Some(&mut |event| seen.note_event(event)),
        )
        .map_err(Failure::of_turnkey)?;
        if done.report.status == Status::SetupFailed {
            return Ok(done.report.exit_code());
        }
        require_whole(&done, &seen)?;
        runs.add(done);
    }

    let around = around(&flags, &runs, &below.policy, &seen)?;
    let sources = DraftSources {
        seen: &seen,
        policy: &below.policy,
        calls: &runs.calls,
        around: &around,
        is_added_to: below.added_to.is_some(),
        installations: &installations,
    };
    let (text, draft) = compose(&below, &sources, &runs.usage, &command, &flags, &place)?;
    let named = place.named();
    place.write(&text)?;
    tell_summary(&named, &draft, below.added_to.is_some());
    Ok(runs.code)
}

/// Characters of the command that the profile repeats: a line of a profile has an end.
const COMMAND: usize = 400;

/// The command as the profile repeats it.
fn in_words(command: &[OsString]) -> String {
    let words = command.iter();
    let words = words.map(|word| quote(&escape(word.as_encoded_bytes())));
    shortened(&words.collect::<Vec<_>>().join(" "), COMMAND)
}

/// The outputs for the next run: the report is that of the first, and the only one where it is asked for.
fn of_one_run(outputs: &mut RunOutputs) -> RunOutputs {
    RunOutputs {
        report: outputs.report.take(),
        takes_stdout: outputs.takes_stdout,
        ..RunOutputs::default()
    }
}

/// The profile that the run is held against, and the one that the text is added to.
struct BaseProfile {
    policy: Policy,
    /// The profile that is added to, and what it means.
    added_to: Option<(String, Policy)>,
    /// The name of the profile below, for a new one.
    base: String,
}

fn below(arguments: &LearnArguments, flags: &Overrides) -> Result<BaseProfile, Failure> {
    let Some(merge) = &arguments.merge else {
        return Ok(BaseProfile {
            policy: arguments.overrides.over(&arguments.profile)?,
            added_to: None,
            base: absolute(&arguments.profile)?,
        });
    };
    let name = merge.to_string_lossy().into_owned();
    let name = if turnkey_policy::is_file(&name) {
        name
    } else {
        format!("./{name}")
    };
    let policy = arguments.overrides.over(&name)?;
    let text = files::read_text(&name)
        .map_err(|error| anyhow::anyhow!("could not read {name}: {error}"))?;
    let bases = ProfileText::parse(&text)
        .map_err(anyhow::Error::from)?
        .bases();
    Ok(BaseProfile {
        policy: as_wide_as(policy.clone(), &bases, &name, flags)?,
        added_to: Some((text, policy)),
        base: name,
    })
}

/// The policy with what the profile narrows and no rule does as wide as in those it builds on: a
/// call that the filter refuses, or a limit that ends the run, would not be learned.
fn as_wide_as(
    policy: Policy,
    bases: &[String],
    name: &str,
    flags: &Overrides,
) -> Result<Policy, Failure> {
    if bases.is_empty() {
        return Ok(policy);
    }
    // Beside the profile, so that files are looked for where it looks for them.
    let wide = format!("{name}.bases.toml");
    let list: Vec<String> = bases.iter().map(|base| format!("{base:?}")).collect();
    let text = format!(
        "schema = \"{}\"\nname = \"bases\"\nextends = [{}]\n",
        turnkey_policy::SCHEMA,
        list.join(", ")
    );
    let read = |path: &str| match path == wide {
        true => Ok(text.clone()),
        false => files::read_text(path),
    };
    let base = turnkey_policy::load(&wide, &read, flags)
        .map_err(|error| Failure::Profile(Box::new(error)))?;
    let (mine, theirs) = (&policy.limits, &base.limits);
    let limits = turnkey_policy::JailLimits {
        memory: mine.memory.max(theirs.memory),
        pids: mine.pids.max(theirs.pids),
        wall: mine.wall.max(theirs.wall),
        cpu_time: mine.cpu_time.max(theirs.cpu_time),
        output: mine.output.max(theirs.output),
        ..mine.clone()
    };
    Ok(Policy {
        limits,
        syscalls: base.syscalls,
        ..policy
    })
}

/// A shipped name stays; a file is found from wherever the new profile lies.
fn absolute(profile: &str) -> anyhow::Result<String> {
    if !turnkey_policy::is_file(profile) {
        return Ok(profile.to_owned());
    }
    let path = std::path::absolute(profile).context("could not tell the current directory")?;
    Ok(path.to_string_lossy().into_owned())
}

/// The directories of its own installation that the command brings along.
fn installations(
    policy: &Policy,
    program: &OsStr,
    directory: &RunDirectory,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let need = toolchain::bring_in(&mut policy.clone(), program, directory)?;
    let prefixes = need.into_iter().flat_map(|need| need.prefixes);
    Ok(prefixes
        .map(|prefix| prefix.into_os_string().into_encoded_bytes())
        .collect())
}

fn as_run(arguments: LearnArguments) -> RunArguments {
    RunArguments {
        die_with_parent: false,
        profile: arguments.profile,
        report: arguments.report,
        events: None,
        sinks: SinkArguments::default(),
        scan: false,
        capture: false,
        no_redact: false,
        colour: ColourWhen::Auto,
        syscalls: true,
        export: ExportArguments::default(),
        layer: LayerArguments::default(),
        quiet: arguments.quiet,
        terminal: arguments.terminal,
        strictness: StrictnessArguments::default(),
        service: ServiceArguments::default(),
        residence: ResidenceArguments::default(),
        directory: arguments.directory,
        overrides: arguments.overrides,
        command: arguments.command,
    }
}

/// From a part of what a program does no profile can be learned.
fn require_whole(done: &FinishedRun, seen: &SeenUses) -> anyhow::Result<()> {
    let report = &done.report;
    match report.status {
        Status::Exited | Status::Signaled => {}
        Status::TimedOut => bail!(
            "the run met its time limit before its end, and nothing was learned: give it more with --wall or --cpu-time"
        ),
        Status::OutOfMemory => bail!(
            "the run met its limit of memory before its end, and nothing was learned: give it more with --memory"
        ),
        _ => bail!(
            "the run was ended before its time, as told above, and nothing was learned: give it more with the flag of that limit"
        ),
    }
    ensure!(
        report.events.complete,
        "not everything that the program did was seen, and nothing was learned: run it again, with fewer things at once"
    );
    let omitted = seen.omitted + seen.contacts.omitted;
    ensure!(
        omitted == 0,
        "the program did more different things than can be kept, {omitted} of them in vain, and nothing was learned: let it do less at a time, and add the rest with --merge"
    );
    Ok(())
}

/// Names that are looked up of those a program has asked for.
const MOST_NAMES: usize = 64;

/// The facts about the network that the run has talked through.
fn around(
    flags: &Overrides,
    runs: &LearnedRuns,
    policy: &Policy,
    seen: &SeenUses,
) -> anyhow::Result<ContactFacts> {
    // These questions have left the host before, by the program itself.
    let asked = seen.contacts.asked.iter();
    let asked = asked.filter(|(_, by)| policy.network.mode == NetworkMode::Host && by.succeeded);
    let names = asked.take(MOST_NAMES).filter_map(|(name, _)| {
        let found = turnkey_supervisor::names::look_up(name).ok()?;
        Some((name.clone(), found))
    });
    let written = flags.texts("allow").filter_map(Endpoint::parse);
    Ok(ContactFacts {
        allowed: runs.allowed.clone(),
        flags: written.map(|to| to.to_string()).collect(),
        names: names.collect(),
        own: own_addresses()?,
        passages: runs.passages.clone(),
        is_mode_given: ["network", "allow"]
            .iter()
            .any(|flag| flags.texts(flag).next().is_some()),
    })
}

/// The text, folded as little as fits the kernel's table.
fn compose(
    below: &BaseProfile,
    sources: &DraftSources<'_>,
    measured: &MeasuredUsage,
    command: &str,
    flags: &Overrides,
    place: &ProfileTarget,
) -> Result<(String, ProfileDraft), Failure> {
    let mut level = 0;
    loop {
        let draft = draft::draft(sources, level);
        let text = write(below, sources, measured, command, flags, place, &draft)
            .context("the profile cannot be written")?;
        let policy = reread(place, &text)?;
        let fits =
            [Tier::Tracepoint, Tier::Lsm].map(|tier| turnkey_monitor::compile(&policy, tier));
        match fits.into_iter().find_map(Result::err) {
            None => {
                let stopped = draft::stopped_by(&policy, sources);
                // The text is ours: this would be a mistake of ours, too.
                if let Some(first) = stopped.first() {
                    return Err(anyhow::anyhow!(
                        "the learned profile would stop what it was learned from, {} things, the first: {first}",
                        stopped.len()
                    )
                    .into());
                }
                return Ok((text, draft));
            }
            Some(_) if level < places::LEVELS => level += 1,
            Some(error) => {
                let error = anyhow::Error::from(error);
                return Err(error
                    .context("what was learned does not fit, however far it is folded")
                    .into());
            }
        }
    }
}

fn write(
    below: &BaseProfile,
    sources: &DraftSources<'_>,
    measured: &MeasuredUsage,
    command: &str,
    flags: &Overrides,
    place: &ProfileTarget,
    draft: &ProfileDraft,
) -> Result<String, text::TextError> {
    let new = || text::skeleton(&place.name(), &below.base, command);
    let added_to = below.added_to.as_ref();
    let text = added_to.map_or_else(new, |(text, _)| text.clone());
    let added_to = added_to.map(|(_, policy)| policy);
    let mut profile = ProfileText::parse(&text)?;
    profile.keep_flags(flags)?;
    profile.let_talk(&draft.talk)?;
    let needs = limits::needs(measured);
    let policy = sources.policy;
    profile.limit(&needs, added_to.map(|policy| &policy.limits))?;
    let is_kept = |name: &str| added_to.is_some_and(|policy| policy.syscalls.allow.contains(name));
    let may_be_kept = |name: &str| policy.syscalls.allow.contains(name) && !is_kept(name);
    profile.keep_calls(&calls::kept(sources.calls, &may_be_kept))?;
    let stops_all = |on: AttemptKind| {
        let mut rules = policy.rules.iter();
        rules.any(|rule| {
            rule.on.contains(&on)
                && rule.path.is_empty()
                && rule.flags.is_empty()
                && rule.action >= turnkey_policy::RuleAction::Deny
        })
    };
    profile.write(
        draft,
        [!stops_all(AttemptKind::Open), !stops_all(AttemptKind::Exec)],
    )?;
    Ok(profile.text())
}

/// Reads a profile as those who use it do.
fn reread(place: &ProfileTarget, text: &str) -> Result<Policy, Failure> {
    let name = place.file_name();
    let read = |path: &str| match path == name {
        true => Ok(text.to_owned()),
        false => files::read_text(path),
    };
    turnkey_policy::load(&name, &read, &Overrides::default())
        .map_err(|error| Failure::Profile(Box::new(error)))
}

/// The place of the profile.
struct ProfileTarget {
    path: Option<PathBuf>,
    overwrite: bool,
    out: Option<OpenOutput>,
}

impl ProfileTarget {
    /// `learned.toml` unless something else is asked for; no file is overwritten but the one that is added to.
    fn find(arguments: &LearnArguments) -> anyhow::Result<(ProfileTarget, CallerOutput)> {
        let default = || {
            arguments
                .merge
                .clone()
                .unwrap_or_else(|| PathBuf::from("learned.toml"))
        };
        let path = arguments.out.clone().unwrap_or_else(default);
        let output = CallerOutput::find(&path)
            .with_context(|| format!("could not write {}", path.display()))?;
        let overwrite = arguments.merge.as_ref() == Some(&path);
        ensure!(
            overwrite || !output.is_there(),
            "{} is there already: name another file with --out, or add to it with --merge {0}",
            path.display()
        );
        let place = ProfileTarget {
            path: Some(path).filter(|path| path != Path::new("-")),
            overwrite,
            out: None,
        };
        Ok((place, output))
    }

    /// For "wrote …".
    fn named(&self) -> String {
        let path = self.path.as_ref();
        path.map_or("the profile".into(), |path| path.display().to_string())
    }

    /// The profile's name.
    fn name(&self) -> String {
        let stem = self.path.as_ref().and_then(|path| path.file_stem());
        stem.map_or_else(
            || "learned".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }

    /// As `run` takes it.
    fn file_name(&self) -> String {
        let path = self.path.as_deref().unwrap_or(Path::new("learned.toml"));
        let name = path.to_string_lossy().into_owned();
        if turnkey_policy::is_file(&name) {
            name
        } else {
            format!("./{name}")
        }
    }

    fn write(self, text: &str) -> anyhow::Result<()> {
        let named = self.named();
        let written = match self.out {
            Some(out) if self.overwrite => out.write(text.as_bytes()),
            Some(out) => out.write_new(text.as_bytes()),
            None => Ok(()),
        };
        written.with_context(|| format!("could not write {named}"))
    }
}

fn tell_summary(place: &str, draft: &ProfileDraft, is_added: bool) {
    // What was there before stays, and is not counted.
    let does = if is_added { "gains" } else { "allows" };
    let patterns: usize = draft.allowed.values().map(Vec::len).sum();
    let patterns = patterns + draft.trees.len();
    let to_decide = match draft.left_out.len() {
        0 => "nothing was left out".to_owned(),
        count => format!("{count} left out, to be decided on, at its end"),
    };
    let folded = match draft.level {
        0 | 1 => "",
        _ => "; the patterns are broad, as narrower ones do not fit the kernel's table",
    };
    let hosts = match draft.talk.hosts.len() {
        0 => String::new(),
        1 => " and one host".to_owned(),
        count => format!(" and {count} hosts"),
    };
    output::line(&format!(
        "learned: {place} {does} {patterns} patterns{hosts}; {to_decide}{folded}"
    ));
}
