//! The time of a start: of programs that do nothing, from the caller's call to the end of the command.

use anyhow::Result;

use super::findings::{Findings, FindingsBlock, Section, Unit, times};
use super::floor::{FLOOR, Floor, WATCHED};
use super::goals::{
    COLD_VERIFIER, PYTHON_FLOOR, START_COLD, START_PYTHON, START_SERVED, START_WARM, WARM_FLOOR,
};
use super::peers::{self, BUBBLEWRAP, Present};
use super::rounds::{BenchExtent, Contestant, Phase, Results, play};
use super::served::BenchService;
use super::stage::{BenchStage, timed};
use super::statistics::Ratio;
use super::{plots, steps};
use crate::command;

/// The same everywhere, whatever else is on the search path.
pub const PYTHON: &str = "/usr/bin/python3";

const TRUE: [&str; 1] = ["/bin/true"];
const PASS: [&str; 3] = [PYTHON, "-c", "pass"];

const BARE: &str = "bare";
const COLD: &str = "turnkey, cold";
const WARM: &str = "turnkey, warm";
pub const SERVED: &str = "turnkey, through the service";
const UNMONITORED: &str = "turnkey, unmonitored";
const UNPRIVILEGED: &str = "turnkey, unprivileged and unmonitored";

const INTRODUCTION: &str = "From the caller's fork to the reaped command, as the caller sees it. *Cold* loads \
turnkey's programs into the kernel first; *warm* finds them loaded by `turnkey monitor load`. Others, and \
starts from nothing, are measured while no programs of turnkey are loaded. turnkey runs as root, because the \
monitor needs it, with the profile `untrusted`, every layer on; *through the service* it is asked for by the user without privileges as whom \
everybody else is started, too, in a new workspace each time, and the clock stops when its report is read and verified: clean, complete, with a \
proof for every layer. *The \
same kernel objects, without turnkey* is `lab/src/bench/floor.c`: a jail of as many namespaces, control groups, mounts, \
rules of Landlock and instructions of seccomp, made in one go by root, which checks and tells nothing. *And the monitor's*: it opens \
the programs, links and maps that are loaded, maps the memory of a jail's rules and events, and attaches the programs that guard the \
sockets of a group; nobody reads the events.";

/// Measures it.
pub fn measure(
    stage: &BenchStage,
    extent: BenchExtent,
    present: &[Present],
    floor: &Floor,
    findings: &mut Findings,
) -> Result<()> {
    let of_true = starts(stage, extent, present, floor, &TRUE)?;
    let of_python = starts(stage, extent, present, floor, &PASS)?;
    findings.keep(WARM_FLOOR, of_true.ratio(WATCHED, BUBBLEWRAP));
    findings.keep(PYTHON_FLOOR, of_python.ratio(WATCHED, BARE));
    findings.keep(START_WARM, of_true.ratio(WARM, BUBBLEWRAP));
    findings.keep(START_SERVED, of_true.ratio(SERVED, BUBBLEWRAP));
    findings.keep(START_COLD, of_true.ratio(COLD, BUBBLEWRAP));
    findings.keep(START_PYTHON, of_python.ratio(WARM, BARE));
    let mut blocks = vec![
        FindingsBlock::text(INTRODUCTION),
        FindingsBlock::text("`/bin/true`:"),
        times(&of_true, Unit::Milliseconds, BARE),
        plots::bars(
            "start-true",
            "Start of /bin/true, milliseconds",
            &of_true,
            1e3,
        )?,
        FindingsBlock::text("`python3 -c pass`:"),
        times(&of_python, Unit::Milliseconds, BARE),
        plots::bars(
            "start-python",
            "Start of python3 -c pass, milliseconds",
            &of_python,
            1e3,
        )?,
    ];
    blocks.extend(layers(stage, extent)?);
    if command::find_program(peers::BPFTRACE).is_some() {
        blocks.extend(steps::of_a_start(stage, extent.rounds, present)?);
        let cold = steps::of_a_cold_start(stage, extent.rounds)?;
        let whole = of_true.ratio(COLD, BUBBLEWRAP);
        let verifier = whole.map(|whole| Ratio::exact(whole.value * cold.verifier));
        findings.keep(COLD_VERIFIER, verifier);
        blocks.extend(cold.blocks);
    }
    blocks.push(FindingsBlock::text(
        "The commands, with what comes before the program:",
    ));
    blocks.push(commands(stage, present));
    findings.sections.push(Section {
        title: "Start",
        blocks,
    });
    Ok(())
}

fn starts(
    stage: &BenchStage,
    extent: BenchExtent,
    peers: &[Present],
    floor: &Floor,
    program: &[&str],
) -> Result<Results> {
    let mut bare = stage.as_user(program);
    let mut contestants = vec![Contestant::new(BARE, Phase::Unloaded, move || {
        timed(&mut bare)
    })];
    for peer in peers {
        let mut command = peer.command(stage, program)?;
        let measure = move || timed(&mut command);
        contestants.push(Contestant::new(peer.name, Phase::Unloaded, measure));
    }
    let mut least = stage.as_root(&floor.words(program));
    contestants.push(Contestant::new(FLOOR, Phase::Unloaded, move || {
        timed(&mut least)
    }));
    let mut watched = stage.as_root(&floor.watched_words(program));
    contestants.push(Contestant::new(WATCHED, Phase::Loaded, move || {
        timed(&mut watched)
    }));
    for (name, phase, flags) in ours() {
        let words = turnkey(stage, flags, program);
        let mut command = match name {
            UNPRIVILEGED => stage.as_user(&words),
            _ => stage.as_root(&words),
        };
        contestants.push(Contestant::new(name, phase, move || timed(&mut command)));
    }
    let service = BenchService::start(stage)?;
    let mut caller = service.caller(stage, program)?;
    contestants.push(Contestant::new(SERVED, Phase::Loaded, move || caller.run()));
    play(&mut contestants, extent, |phase| stage.enter(phase))
}

/// The ways in which turnkey is started, with flags of `run`.
fn ours() -> [(&'static str, Phase, &'static [&'static str]); 4] {
    [
        (UNPRIVILEGED, Phase::Unloaded, &["--unmonitored"]),
        (UNMONITORED, Phase::Unloaded, &["--unmonitored"]),
        (COLD, Phase::Unloaded, &["--leave-nothing"]),
        (WARM, Phase::Loaded, &[]),
    ]
}

/// The words of a quiet run with those flags.
pub fn turnkey(stage: &BenchStage, flags: &[&str], program: &[&str]) -> Vec<String> {
    let command = stage.turnkey().to_string_lossy().into_owned();
    let front = [command, "run".into(), "--quiet".into()];
    let words = [flags, &["--"], program].concat();
    front
        .into_iter()
        .chain(words.iter().map(ToString::to_string))
        .collect()
}

/// A warm start, and the same with a layer less.
const LAYERS: [(&str, &str); 4] = [
    ("everything", ""),
    (
        "no workspace, hence no overlay",
        "[filesystem]\nworkdir = { mode = \"none\" }\n",
    ),
    (
        "the host's network, hence no network namespace",
        "[network]\nmode = \"host\"\n",
    ),
    (
        "four directories of the system, no files of /etc, no decoys, no /tmp",
        "[filesystem]\ninherit = false\nread = [{ path = \"/usr\" }, { path = \"/bin\" }, { path = \"/lib\" }, { path = \"/lib64\" }]\n",
    ),
];

/// The part of each layer in it.
fn layers(stage: &BenchStage, extent: BenchExtent) -> Result<Vec<FindingsBlock>> {
    let mut contestants = Vec::new();
    for (number, (name, text)) in LAYERS.iter().enumerate() {
        let profile = stage.path(&format!("layer-{number}.toml"));
        let head =
            "schema = \"turnkey.profile/v1\"\nname = \"layer\"\nextends = [\"untrusted\"]\n\n";
        stage.write(&profile, &format!("{head}{text}"))?;
        let profile = profile.to_string_lossy().into_owned();
        let mut command = stage.as_root(&turnkey(stage, &["--profile", &profile], &TRUE));
        let measure = move || timed(&mut command);
        contestants.push(Contestant::new(*name, Phase::Loaded, measure));
    }
    let mut unmonitored = stage.as_root(&turnkey(stage, &["--unmonitored"], &TRUE));
    let measure = move || timed(&mut unmonitored);
    contestants.push(Contestant::new("no monitor", Phase::Loaded, measure));
    let results = play(&mut contestants, extent, |phase| stage.enter(phase))?;
    Ok(vec![
        FindingsBlock::text(
            "A warm start of `/bin/true` with one thing less each; what is missing from 1 is its share:",
        ),
        times(&results, Unit::Milliseconds, LAYERS[0].0),
    ])
}

fn commands(stage: &BenchStage, peers: &[Present]) -> FindingsBlock {
    let ours = stage.shown(&turnkey(stage, &[], &[]));
    let theirs = peers.iter().map(|peer| {
        let words = stage.shown(&peer.shown_words());
        format!("# {}, {}\n{words}", peer.name, peer.version)
    });
    FindingsBlock::Commands(std::iter::once(ours).chain(theirs).collect())
}
