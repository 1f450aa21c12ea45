//! Overrides of the command line as one more profile, laid over all others.

use crate::error::{Located, Problem};
use crate::model::HostPath;
use crate::overrides::Flag;
use crate::profile::Profile;
use crate::values::{self, Wrong};

/// Why a path is in the jail that a flag put there.
const WHY: &str = "asked for on the command line";

/// What the flags say.
pub(crate) fn profile(flags: Vec<Flag>, problems: &mut Vec<Problem>) -> Profile {
    let mut profile = Profile::default();
    for flag in flags {
        if let Err(wrong) = apply(&flag, &mut profile) {
            problems.push(problem(&flag, wrong));
        }
    }
    profile
}

fn problem(flag: &Flag, wrong: Wrong) -> Problem {
    let message = format!("`{}`: {}", flag.name, wrong.message);
    Problem::new(message)
        .help(wrong.help)
        .at(&flag.value.at, "here")
}

fn apply(flag: &Flag, profile: &mut Profile) -> Result<(), Wrong> {
    match flag.name {
        "--root" => profile.root = Some(parse(flag, values::root)?),
        "--toolchain" => profile.toolchain = Some(parse(flag, values::word)?),
        "--memory" => profile.memory = Some(parse(flag, values::memory)?),
        "--swap" => profile.swap = Some(parse(flag, values::size)?),
        "--cpu" => profile.cpu = Some(parse(flag, values::percent)?),
        "--pids" => profile.pids = Some(parse(flag, values::pids)?),
        "--wall" => profile.wall = Some(parse(flag, values::duration)?),
        "--cpu-time" => profile.cpu_time = Some(parse(flag, values::duration)?),
        "--output" => profile.output = Some(parse(flag, values::size)?),
        "--file-size" => profile.file_size = Some(parse(flag, values::size)?),
        "--export-size" => profile.export_size = Some(parse(flag, values::size)?),
        "--open-files" => profile.open_files = Some(parse(flag, values::open_files)?),
        "--read" => profile.read.push(parse(flag, host_path)?),
        "--write" => profile.write.push(parse(flag, host_path)?),
        "--scratch" => profile.scratch.push(parse(flag, values::scratch)?),
        "--workdir-mode" => profile.workdir = Some(parse(flag, values::word)?),
        "--network" => profile.network = Some(parse(flag, values::network)?),
        "--env" => environment(flag, profile)?,
        "--user" => profile.user = Some(parse(flag, values::user)?),
        "--hostname" => profile.hostname = Some(parse(flag, values::hostname)?),
        "--mode" => profile.mode = Some(parse(flag, values::word)?),
        "--on-loss" => profile.on_loss = Some(parse(flag, values::word)?),
        other => unreachable!("`{other}` is a flag that nobody reads"),
    }
    Ok(())
}

fn parse<T>(flag: &Flag, parse: impl Fn(&str) -> Result<T, Wrong>) -> Result<Located<T>, Wrong> {
    Ok(Located {
        value: parse(&flag.value.value)?,
        at: flag.value.at.clone(),
    })
}

fn host_path(text: &str) -> Result<HostPath, Wrong> {
    let path = values::absolute_path(text)?;
    Ok(HostPath {
        path,
        optional: false,
        why: WHY.to_owned(),
    })
}

/// `NAME` hands a variable through, `NAME=VALUE` sets it.
fn environment(flag: &Flag, profile: &mut Profile) -> Result<(), Wrong> {
    match flag.value.value.split_once('=') {
        None => profile.pass.push(parse(flag, values::variable_name)?),
        Some((name, value)) => {
            let name = values::variable_name(name)?;
            profile.set.insert(name, values::variable_value(value)?);
        }
    }
    Ok(())
}
