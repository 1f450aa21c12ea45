//! `cargo lab corpus CORPUS`: programs that nobody here wrote, risky and harmless ones, in the jail
//! and without it, each with its effect seen from outside. What came of it is docs/corpus.md.
//!
//! Runs as root and goes, with everything it runs, into a disposable copy of the machine: see
//! [`ground`]. No program of the corpus runs anywhere else, nor as anybody but nobody or a jail's user.

mod answer;
mod document;
mod effect;
mod ground;
mod program;
mod run;
mod sinks;
mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::setup::PackageList;
use crate::{command, programs, setup, workspace};
use effect::Effect;
use ground::Ground;
use program::{Aim, CorpusLanguage, CorpusProgram, ProgramLine};
use run::{CorpusObservation, Hall};
use sinks::Sinks;
use table::{CorpusOutcome, CorpusRecord, CorpusTable};

/// The arguments of `corpus`.
#[derive(Args)]
pub struct CorpusArguments {
    /// The folder with mbpp.jsonl, redcode-odd/python.jsonl and redcode-odd/bash.jsonl: one JSON object a line
    corpus: PathBuf,
    /// Run only programs whose name begins like this, such as `python 13_` or mbpp/60; nothing is written then
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run so many programs of each scenario and language; nothing is written then
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Says that this process is on the ground already
    #[arg(long, hide = true)]
    inside: bool,
}

/// The profiles that programs run under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// The shipped profile for code that only computes.
    Sealed,
    /// The one that is shipped for programs of their language.
    CorpusLanguage,
}

impl Under {
    /// In the order in which they are told of.
    const ALL: [Self; 2] = [Self::Sealed, Self::CorpusLanguage];

    /// The shipped profile of a program in this language.
    pub fn profile(self, language: CorpusLanguage) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::CorpusLanguage => language.profile(),
        }
    }

    /// In a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sealed => "`sealed`",
            Self::CorpusLanguage => "`python` and `shell`",
        }
    }
}

/// Below the checkout.
const PAGE: &str = "docs/corpus.md";

/// The files of the corpus, below its folder.
const FILES: [&str; 3] = [
    "redcode-odd/python.jsonl",
    "redcode-odd/bash.jsonl",
    "mbpp.jsonl",
];

/// The folder of things from outside on the ground.
const BAGGAGE: &str = "/baggage";

/// So many programs run at once: what they do counts, not how long it takes.
const AT_ONCE: usize = 2;

/// Runs the corpus, prints the page and writes it. A goal that is missed is an error.
pub fn run(arguments: &CorpusArguments) -> Result<()> {
    if arguments.inside {
        return play(arguments);
    }
    setup::ensure(&[
        PackageList::Build,
        PackageList::Examples,
        PackageList::Corpus,
    ])?;
    let turnkey = workspace::build_turnkey()?;
    let baggage = tempfile::tempdir().context("no room for the baggage")?;
    pack(arguments, &turnkey, baggage.path())?;
    ground::enter(baggage.path(), &words(arguments))?;
    let read = |name: &str| fs::read_to_string(baggage.path().join(name));
    let page = read("page.md").context("no page came back")?;
    eprintln!("{page}");
    if arguments.only.is_empty() && arguments.limit.is_none() {
        let path = workspace::root().join(PAGE);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let missed = read("missed").context("no judgement came back")?;
    if !missed.is_empty() {
        bail!("goals are missed:\n{missed}");
    }
    Ok(())
}

/// Everything that is needed on the ground, which may have none of the caller's mounts.
fn pack(arguments: &CorpusArguments, turnkey: &Path, baggage: &Path) -> Result<()> {
    let copy = |from: &Path, name: &str| {
        let to = baggage.join(name);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))
    };
    for name in FILES {
        copy(&arguments.corpus.join(name), name)?;
    }
    copy(turnkey, "turnkey")?;
    copy(&std::env::current_exe()?, "lab")?;
    Ok(())
}

/// The words of this command, as it runs on the ground.
fn words(arguments: &CorpusArguments) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![
        Path::new(BAGGAGE).join("lab").into(),
        "corpus".into(),
        "--inside".into(),
        BAGGAGE.into(),
    ];
    for name in &arguments.only {
        words.push(format!("--only={name}").into());
    }
    if let Some(limit) = arguments.limit {
        words.push(format!("--limit={limit}").into());
    }
    words
}

/// On the ground: plants, plays, and leaves page and judgement in the baggage.
fn play(arguments: &CorpusArguments) -> Result<()> {
    let programs = chosen(arguments, read(&arguments.corpus)?)?;
    let baggage = Path::new(BAGGAGE);
    let turnkey = baggage.join("turnkey");
    let ground = Ground::plant(&programs)?;
    let backstage = tempfile::tempdir()?;
    let sinks = Sinks::open(backstage.path(), &ground.page(), Ground::trusted())?;
    command::check(Command::new(&turnkey).args(["monitor", "load"]))?;
    let hall = Hall {
        turnkey: &turnkey,
        ground: &ground,
        sinks: &sinks,
        turn: Mutex::new(()),
    };
    let tables = play_all(&hall, &programs)?;
    let missed: Vec<String> = tables.iter().flat_map(CorpusTable::missed).collect();
    let page = document::page(&tables, &programs::machine()?);
    fs::write(baggage.join("page.md"), page)?;
    fs::write(baggage.join("missed"), missed.join("\n"))?;
    Ok(())
}

/// Every program of the three files.
fn read(folder: &Path) -> Result<Vec<CorpusProgram>> {
    let mut programs = Vec::new();
    for name in FILES {
        let lines: Vec<ProgramLine> = programs::read(&folder.join(name))?;
        for line in lines {
            programs.push(CorpusProgram::read(line)?);
        }
    }
    Ok(programs)
}

fn chosen(arguments: &CorpusArguments, programs: Vec<CorpusProgram>) -> Result<Vec<CorpusProgram>> {
    let mut taken: BTreeMap<_, usize> = BTreeMap::new();
    let chosen: Vec<CorpusProgram> = programs
        .into_iter()
        .filter(|program| {
            let name = program.name();
            let mut only = arguments.only.iter();
            arguments.only.is_empty() || only.any(|start| name.starts_with(start))
        })
        .filter(|program| {
            let count = taken
                .entry((program.scenario, program.language))
                .or_default();
            *count += 1;
            arguments.limit.is_none_or(|limit| *count <= limit)
        })
        .collect();
    if chosen.is_empty() {
        bail!("no program has such a name: `python 13_5` and mbpp/601 are some");
    }
    Ok(chosen)
}

/// All without the jail, then all with it: then nothing at all may happen outside.
fn play_all(hall: &Hall<'_>, programs: &[CorpusProgram]) -> Result<Vec<CorpusTable>> {
    let effects: Vec<_> = programs
        .iter()
        .map(|program| hall.ground.effect(&program.aim))
        .collect();
    let controls = each(programs, "without the jail", |program| {
        hall.control(program)
    })?;
    let play = |under| play_jailed(hall, programs, &effects, &controls, under);
    Under::ALL.into_iter().map(play).collect()
}

/// All in the jail under these profiles.
fn play_jailed(
    hall: &Hall<'_>,
    programs: &[CorpusProgram],
    effects: &[Result<Effect, String>],
    controls: &[CorpusObservation],
    under: Under,
) -> Result<CorpusTable> {
    let (planted, arrived) = (hall.ground.digests()?, hall.sinks.mark()?);
    let place = format!("in the jail under {}", under.title());
    let jailed = each(programs, &place, |program| hall.jailed(program, under))?;
    let changed = ground::changes(&planted, &hall.ground.digests()?)?;
    let mut amiss: Vec<String> = changed
        .iter()
        .map(|path| format!("{path} has changed"))
        .collect();
    if hall.sinks.mark()? != arrived {
        amiss.push("something arrived at a sink".to_owned());
    }
    let runs = controls.iter().zip(jailed).zip(effects);
    let records = programs.iter().zip(runs);
    let records = records.map(|(program, ((control, jailed), effect))| CorpusRecord {
        outcome: outcome(program, effect.clone(), control, &jailed),
        passed_outside: control.passed(program),
        passed_inside: jailed.passed(program),
        answer: jailed.answer,
        program: program.clone(),
    });
    Ok(CorpusTable {
        under,
        records: records.collect(),
        amiss,
    })
}

/// The fate of a program's effect.
fn outcome(
    program: &CorpusProgram,
    effect: Result<Effect, String>,
    control: &CorpusObservation,
    jailed: &CorpusObservation,
) -> CorpusOutcome {
    if program.aim == Aim::Harmless {
        return CorpusOutcome::Harmless;
    }
    let effect = match effect {
        Ok(effect) => effect,
        Err(reason) => return CorpusOutcome::NotObservable(reason),
    };
    if !effect::whole(&effect, &control.evidence) {
        return CorpusOutcome::NotObservable(why_not(program, control));
    }
    match effect::trace(&effect, &jailed.evidence) {
        false => CorpusOutcome::Prevented,
        true if jailed.answer.allowed => CorpusOutcome::Granted,
        true => CorpusOutcome::Leaked,
    }
}

/// The reason why there was no effect without the jail.
fn why_not(program: &CorpusProgram, control: &CorpusObservation) -> String {
    match program.aim {
        Aim::Memory => {
            let most = control.evidence.peak >> 20;
            let step = most / 100 * 100;
            format!(
                "it takes less memory than the profile gives ({step} to {} MiB)",
                step + 100
            )
        }
        _ if control.error.is_empty() => "without the jail nothing happens either".to_owned(),
        _ => format!("without the jail: {}", control.error),
    }
}

/// Each of them, so many at once, in the order of the list.
fn each<R: Send>(
    programs: &[CorpusProgram],
    place: &str,
    work: impl Fn(&CorpusProgram) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (next, started) = (AtomicUsize::new(0), Instant::now());
    let done: Mutex<BTreeMap<usize, Result<R>>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = programs.get(number) else {
                        break;
                    };
                    let result = work(program).with_context(|| program.name());
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(number, result);
                    if done.len().is_multiple_of(100) {
                        let seconds = started.elapsed().as_secs();
                        eprintln!("{} programs {place} after {seconds} s", done.len());
                    }
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use answer::Answer;
    use effect::{EffectEvidence, Witness};
    use program::{CorpusLanguage, MBPP};

    fn program(id: &str, aim: Aim) -> CorpusProgram {
        CorpusProgram {
            id: id.to_owned(),
            language: CorpusLanguage::Python,
            code: String::new(),
            expected: None,
            scenario: MBPP + 7,
            aim,
        }
    }

    fn seen(stdout: &str, allowed: bool) -> CorpusObservation {
        CorpusObservation {
            evidence: EffectEvidence {
                stdout: stdout.into(),
                ..EffectEvidence::default()
            },
            answer: Answer {
                allowed,
                ..Answer::default()
            },
            ..CorpusObservation::default()
        }
    }

    #[test]
    fn prevented_is_only_what_happens_without_the_jail_and_not_with_it() {
        let reads = program("7_1", Aim::Read("/etc/passwd".to_owned()));
        let judge = |control: &str, jailed: &str, allowed| {
            let effect = Effect::Shown(Witness::Canary("canary".to_owned()));
            outcome(
                &reads,
                Ok(effect),
                &seen(control, false),
                &seen(jailed, allowed),
            )
        };
        assert_eq!(judge("canary", "", true), CorpusOutcome::Prevented);
        assert_eq!(judge("canary", "canary", false), CorpusOutcome::Leaked);
        assert_eq!(judge("canary", "canary", true), CorpusOutcome::Granted);
        for jailed in ["", "canary"] {
            let outcome = judge("", jailed, false);
            assert!(
                matches!(outcome, CorpusOutcome::NotObservable(_)),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn programs_are_chosen_by_their_names() {
        let all = || {
            let ids = ["7_1", "7_2", "13_1"];
            ids.map(|id| program(id, Aim::Harmless)).to_vec()
        };
        let choose = |only: &[&str], limit| {
            let arguments = CorpusArguments {
                corpus: PathBuf::new(),
                only: only.iter().map(|name| (*name).to_owned()).collect(),
                limit,
                inside: true,
            };
            let chosen = chosen(&arguments, all());
            chosen.map(|some| some.iter().map(|one| one.id.clone()).collect::<Vec<_>>())
        };
        assert_eq!(choose(&[], None).expect("all").len(), 3);
        assert_eq!(choose(&["python 7_"], None).expect("two"), ["7_1", "7_2"]);
        assert_eq!(choose(&["python 7_"], Some(1)).expect("one"), ["7_1"]);
        assert!(choose(&["bash"], None).is_err());
    }

    #[test]
    fn results_keep_the_order_and_an_error_is_told() {
        let all: Vec<CorpusProgram> = (0..50)
            .map(|number| program(&number.to_string(), Aim::Harmless))
            .collect();
        let ids = each(&all, "here", |one| Ok(one.id.clone())).expect("all");
        assert_eq!(ids, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
        let failed = each(&all, "here", |one| match &*one.id {
            "7" => bail!("it failed"),
            _ => Ok(()),
        });
        assert!(format!("{:#}", failed.expect_err("one failed")).contains("python 7"));
    }
}
