//! Overrides of the command line as one more profile, laid over all others.

use std::sync::Arc;

use crate::endpoint::AllowedHost;
use crate::error::{Located, Problem, SourceText, TextSpan};
use crate::model::{HostPath, NetworkMode};
use crate::overrides::Overrides;
use crate::profile::ParsedProfile;
use crate::values::{self, ValueError};

/// The `why` of a path that a flag gives to the jail.
const WHY: &str = "asked for on the command line";

/// A function that reads a flag's value into the profile. Every flag comes with one, so that there is none
/// that nobody reads.
type Apply = fn(&Located<String>, &mut ParsedProfile) -> Result<(), ValueError>;

/// One flag as given.
pub(crate) struct GivenFlag {
    name: &'static str,
    apply: Apply,
    value: Located<String>,
}

/// Reads the flags into one more profile.
pub(crate) fn profile(flags: Vec<GivenFlag>, problems: &mut Vec<Problem>) -> ParsedProfile {
    let mut profile = ParsedProfile::default();
    for flag in flags {
        if let Err(wrong) = (flag.apply)(&flag.value, &mut profile) {
            problems.push(problem(&flag, wrong));
        }
    }
    profile
}

fn problem(flag: &GivenFlag, wrong: ValueError) -> Problem {
    let message = format!("`{}`: {}", flag.name, wrong.message);
    Problem::new(message)
        .help(wrong.help)
        .with_label(&flag.value.at, "here")
}

/// The flags that were given, located in a text that looks like the command line, so that
/// errors can point at them the way they point into a profile.
pub(crate) fn given(overrides: &Overrides) -> (Arc<SourceText>, Vec<GivenFlag>) {
    let given = table(overrides);
    let mut text = String::new();
    let mut spans = Vec::new();
    for (name, _, value) in &given {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
        text.push(' ');
        spans.push(text.len()..text.len() + value.len());
        text.push_str(value);
    }
    let source = Arc::new(SourceText::new("command line".to_owned(), text));
    let flags = given.into_iter().zip(spans);
    let flags = flags.map(|((name, apply, value), span)| {
        let at = TextSpan {
            source: Arc::clone(&source),
            span,
        };
        let value = Located {
            value: value.to_owned(),
            at,
        };
        GivenFlag { name, apply, value }
    });
    let flags = flags.collect();
    (source, flags)
}

/// Every flag that was given, by its name, with what reads it.
#[rustfmt::skip]
fn table(overrides: &Overrides) -> Vec<(&'static str, Apply, &str)> {
    let of = overrides;
    let single: &[(&'static str, Apply, &Option<String>)] = &[
        ("--root", |flag, into| put(&mut into.root, flag, values::root), &of.root),
        ("--toolchain", |flag, into| put(&mut into.toolchain, flag, values::word), &of.toolchain),
        ("--memory", |flag, into| put(&mut into.memory, flag, values::memory), &of.memory),
        ("--swap", |flag, into| put(&mut into.swap, flag, values::size), &of.swap),
        ("--cpu", |flag, into| put(&mut into.cpu, flag, values::percent), &of.cpu),
        ("--pids", |flag, into| put(&mut into.pids, flag, values::pids), &of.pids),
        ("--wall", |flag, into| put(&mut into.wall, flag, values::duration), &of.wall),
        ("--cpu-time", |flag, into| put(&mut into.cpu_time, flag, values::duration), &of.cpu_time),
        ("--output", |flag, into| put(&mut into.output, flag, values::size), &of.output),
        ("--io-read", |flag, into| put(&mut into.io_read, flag, values::rate), &of.io_read),
        ("--io-write", |flag, into| put(&mut into.io_write, flag, values::rate), &of.io_write),
        ("--disk", |flag, into| put(&mut into.disk, flag, values::memory), &of.disk),
        ("--file-size", |flag, into| put(&mut into.file_size, flag, values::size), &of.file_size),
        ("--open-files", |flag, into| put(&mut into.open_files, flag, values::open_files), &of.open_files),
        ("--export-size", |flag, into| put(&mut into.export_size, flag, values::size), &of.export_size),
        ("--workdir-mode", |flag, into| put(&mut into.workdir, flag, values::word), &of.workdir_mode),
        ("--network", |flag, into| put(&mut into.network, flag, values::word), &of.network),
        ("--user", |flag, into| put(&mut into.user, flag, values::user), &of.user),
        ("--hostname", |flag, into| put(&mut into.hostname, flag, values::hostname), &of.hostname),
        ("--mode", |flag, into| put(&mut into.mode, flag, values::word), &of.mode),
        ("--on-loss", |flag, into| put(&mut into.on_loss, flag, values::word), &of.on_loss),
    ];
    let repeated: &[(&'static str, Apply, &[String])] = &[
        ("--read", |flag, into| push(&mut into.read, flag, host_path), &of.read),
        ("--write", |flag, into| push(&mut into.write, flag, host_path), &of.write),
        ("--scratch", |flag, into| push(&mut into.scratch, flag, values::scratch), &of.scratch),
        ("--allow", allow, &of.allow),
        ("--env", environment, &of.env),
    ];
    let single = single
        .iter()
        .filter_map(|(name, apply, value)| Some((*name, *apply, value.as_deref()?)));
    let repeated = repeated.iter().flat_map(|(name, apply, values)| {
        values.iter().map(move |value| (*name, *apply, value.as_str()))
    });
    single.chain(repeated).collect()
}

fn put<T>(
    into: &mut Option<Located<T>>,
    flag: &Located<String>,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<(), ValueError> {
    *into = Some(parse(flag, read)?);
    Ok(())
}

fn push<T>(
    onto: &mut Vec<Located<T>>,
    flag: &Located<String>,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<(), ValueError> {
    onto.push(parse(flag, read)?);
    Ok(())
}

fn parse<T>(
    flag: &Located<String>,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<Located<T>, ValueError> {
    Ok(Located {
        value: read(&flag.value)?,
        at: flag.at.clone(),
    })
}

fn host_path(text: &str) -> Result<HostPath, ValueError> {
    let path = values::absolute_path(text)?;
    Ok(HostPath {
        path,
        optional: false,
        list: true,
        why: WHY.to_owned(),
    })
}

/// `HOST:PORT`, which means the mode `allow` as well.
fn allow(flag: &Located<String>, profile: &mut ParsedProfile) -> Result<(), ValueError> {
    let entry = |text: &str| {
        Ok(AllowedHost {
            to: values::endpoint(text)?,
            why: WHY.to_owned(),
            addresses: Vec::new(),
        })
    };
    push(&mut profile.allow, flag, entry)?;
    let mode = profile.network.get_or_insert_with(|| Located {
        value: NetworkMode::Allow,
        at: flag.at.clone(),
    });
    if mode.value == NetworkMode::Allow {
        return Ok(());
    }
    let message = format!("the network mode {:?} allows no hosts", mode.value.name());
    Err(ValueError::new(message, "leave --network out, or --allow"))
}

/// `NAME` hands a variable through, `NAME=VALUE` sets it.
fn environment(flag: &Located<String>, profile: &mut ParsedProfile) -> Result<(), ValueError> {
    match flag.value.split_once('=') {
        None => profile.pass.push(parse(flag, values::variable_name)?),
        Some((name, value)) => {
            let name = values::variable_name(name)?;
            profile.set.insert(name, values::variable_value(value)?);
        }
    }
    Ok(())
}
