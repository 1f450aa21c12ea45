//! Overrides of the command line as one more profile, laid over all others.

use std::sync::Arc;

use crate::error::{Located, Problem, SourceText, TextSpan};
use crate::keys::KeyFlag;
use crate::model::NetworkMode;
use crate::overrides::Overrides;
use crate::profile::ParsedProfile;
use crate::publish::published;
use crate::tables::declare::{KeyTable, parse, push};
use crate::tables::{AllowedHost, EnvironmentKeys, HostPath, NetworkKeys, ScratchMount};
use crate::values::{self, ValueError};

/// The `why` of a path that a flag gives to the jail.
const WHY: &str = "asked for on the command line";

/// One flag as given.
pub(crate) struct GivenFlag {
    flag: &'static KeyFlag,
    value: Located<String>,
}

/// Reads the flags into one more profile.
pub(crate) fn profile(flags: Vec<GivenFlag>, problems: &mut Vec<Problem>) -> ParsedProfile {
    let mut profile = ParsedProfile::default();
    for flag in flags {
        if let Err(wrong) = read(&flag, &mut profile) {
            problems.push(problem(&flag, wrong));
        }
    }
    profile
}

/// Reads a flag into the table that it belongs to.
fn read(flag: &GivenFlag, profile: &mut ParsedProfile) -> Result<(), ValueError> {
    fn into<T: KeyTable>(table: &mut T, given: &GivenFlag) -> Option<Result<(), ValueError>> {
        let (_, read) = T::FLAGS.iter().find(|(name, _)| *name == given.flag.name)?;
        Some(read(&given.value, table))
    }
    into(&mut profile.filesystem, flag)
        .or_else(|| into(&mut profile.filesystem.workdir, flag))
        .or_else(|| into(&mut profile.network, flag))
        .or_else(|| into(&mut profile.limits, flag))
        .or_else(|| into(&mut profile.identity, flag))
        .or_else(|| into(&mut profile.environment, flag))
        .or_else(|| into(&mut profile.syscalls, flag))
        .or_else(|| into(&mut profile.enforcement, flag))
        .or_else(|| into(&mut profile.scan, flag))
        .unwrap_or_else(|| unreachable!("no table reads `--{}`", flag.flag.name))
}

fn problem(flag: &GivenFlag, wrong: ValueError) -> Problem {
    let message = format!("`--{}`: {}", flag.flag.name, wrong.message);
    Problem::new(message)
        .help(wrong.help)
        .with_label(&flag.value.at, "here")
}

/// The flags that were given, located in a text that looks like the command line, so that
/// errors can point at them the way they point into a profile.
pub(crate) fn given(overrides: &Overrides) -> (Arc<SourceText>, Vec<GivenFlag>) {
    let mut text = String::new();
    let mut spans = Vec::new();
    for (flag, given) in overrides.given() {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str("--");
        text.push_str(flag.name);
        text.push(' ');
        spans.push((flag, text.len()..text.len() + given.len()));
        text.push_str(given);
    }
    let source = Arc::new(SourceText::new("command line".to_owned(), text));
    let located = |(flag, span): (_, std::ops::Range<usize>)| GivenFlag {
        flag,
        value: Located {
            value: source.text[span.clone()].to_owned(),
            at: TextSpan {
                source: Arc::clone(&source),
                span,
            },
        },
    };
    let flags = spans.into_iter().map(located).collect();
    (source, flags)
}

impl HostPath {
    /// True for one that no profile names, but a flag.
    #[must_use]
    pub fn is_of_a_flag(&self) -> bool {
        self.why == WHY
    }
}

pub(crate) fn host_path(text: &str) -> Result<HostPath, ValueError> {
    let path = values::absolute_path(text)?;
    Ok(HostPath {
        path,
        at: None,
        optional: false,
        list: true,
        why: WHY.to_owned(),
    })
}

/// `HOST:PORT`, which means the mode `allow` as well.
pub(crate) fn allow(flag: &Located<String>, network: &mut NetworkKeys) -> Result<(), ValueError> {
    let entry = |text: &str| {
        Ok(AllowedHost {
            to: values::endpoint(text)?,
            why: WHY.to_owned(),
            addresses: Vec::new(),
        })
    };
    push(&mut network.allow, flag, entry)?;
    let mode = network.mode.get_or_insert_with(|| Located {
        value: NetworkMode::Allow,
        at: flag.at.clone(),
    });
    if mode.value == NetworkMode::Allow {
        return Ok(());
    }
    let message = format!("the network mode {:?} allows no hosts", mode.value.name());
    Err(ValueError::new(message, "leave --network out, or --allow"))
}

/// `PORT` or `HOST-PORT:PORT`, of a jail whose loopback is its own.
pub(crate) fn publish(flag: &Located<String>, network: &mut NetworkKeys) -> Result<(), ValueError> {
    push(&mut network.publish, flag, published)?;
    let mode = network.mode.as_ref().map(|mode| mode.value);
    match mode.filter(|mode| !mode.has_servers()) {
        None => Ok(()),
        Some(mode) => Err(ValueError::new(
            format!("the network mode {:?} publishes no port", mode.name()),
            "leave --network out, or --publish",
        )),
    }
}

/// `NAME` hands a variable through, whatever the profile sets it to; `NAME=VALUE` sets it.
pub(crate) fn environment(
    flag: &Located<String>,
    environment: &mut EnvironmentKeys,
) -> Result<(), ValueError> {
    match flag.value.split_once('=') {
        None => {
            let name = parse(flag, values::variable_name)?;
            environment.set.remove(&name.value);
            environment.pass.push(name);
        }
        Some((name, value)) => {
            let name = values::variable_name(name)?;
            environment.set.insert(name, values::variable_value(value)?);
        }
    }
    Ok(())
}

/// `PATH=SIZE`, as the flag has it.
pub(crate) fn scratch(text: &str) -> Result<ScratchMount, ValueError> {
    let (path, bytes) = text.rsplit_once('=').ok_or_else(|| {
        ValueError::new(
            format!("{text:?} has no size"),
            "write PATH=SIZE, such as /tmp=64M",
        )
    })?;
    Ok(ScratchMount {
        path: values::absolute_path(path)?,
        size: values::memory(bytes)?,
        why: WHY.to_owned(),
    })
}
