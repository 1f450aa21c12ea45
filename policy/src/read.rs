//! The text of one profile to what it says, collecting everything that is wrong with it.

mod rule;
mod section;

use std::sync::Arc;

use toml::de::DeTable;

use crate::behaviour;
use crate::error::{LONGEST_LINE, Located, Problem, SourceText, TextSpan, too_long_a_line};
use crate::model::NetworkMode;
use crate::profile::ParsedProfile;
use crate::tables::declare::{KeyTable as _, entry};
use crate::tables::{AcceptedKeys, NetworkKeys};
use crate::values::{self, ValueError};
use crate::{LARGEST_PROFILE, SCHEMA};
use section::ProfileReader;
pub(crate) use section::SectionReader;

/// Reads a profile. When `problems` grew, the profile is not to be used.
pub(crate) fn profile(source: &Arc<SourceText>, problems: &mut Vec<Problem>) -> ParsedProfile {
    if source.text.len() > LARGEST_PROFILE {
        let message = format!("the profile {} is larger than 1 MiB", source.name);
        problems.push(Problem::new(message).help("split it, or check that it is the right file"));
        return ParsedProfile::default();
    }
    if let Some(line) = too_long_a_line(&source.text) {
        let name = &source.name;
        let message = format!("line {line} of {name} is longer than {LONGEST_LINE} bytes");
        problems.push(Problem::new(message).help("break it, or check that it is the right file"));
        return ParsedProfile::default();
    }
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    if !errors.is_empty() {
        problems.extend(errors.iter().map(|error| syntax_problem(source, error)));
        return ParsedProfile::default();
    }
    let mut reader = ProfileReader { source, problems };
    let mut profile = ParsedProfile::default();
    reader.document(document.get_ref(), &mut profile);
    profile
}

fn syntax_problem(source: &Arc<SourceText>, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or_default();
    let at = TextSpan {
        source: Arc::clone(source),
        span,
    };
    Problem::new("this is not TOML").with_label(&at, error.message())
}

impl ProfileReader<'_> {
    fn document(&mut self, document: &DeTable<'_>, profile: &mut ParsedProfile) {
        let mut top = SectionReader::open(self, "", document);
        if top.required("schema", schema).is_none() {
            // The words of another format would only be misread.
            return;
        }
        top.report_unknown_keys();
        profile.name = top.required("name", values::text);
        profile.description = top.value("description", values::text);
        profile.extends = top.list("extends", values::text);
        top.table("filesystem", &mut profile.filesystem);
        top.section("network", |section| {
            profile.network = NetworkKeys::read(section);
            imply_mode(section, &mut profile.network);
        });
        top.table("limits", &mut profile.limits);
        top.table("identity", &mut profile.identity);
        top.table("env", &mut profile.environment);
        top.table("syscalls", &mut profile.syscalls);
        top.table("enforcement", &mut profile.enforcement);
        top.table("scan", &mut profile.scan);
        top.section("behaviour", |section| {
            profile.behaviours = behaviour::read(section)
        });
        profile.accepted = top.tables("accept", entry::<AcceptedKeys, _>);
        profile.rules = top.tables("rule", rule::rule);
    }
}

fn schema(text: &str) -> Result<(), ValueError> {
    if text == SCHEMA {
        return Ok(());
    }
    let help = format!("this release reads {SCHEMA:?}");
    Err(ValueError::new(format!("{text:?} is another format"), help))
}

/// A list of hosts means the mode that reaches them, and a published port needs one with a loopback.
fn imply_mode(section: &mut SectionReader<'_, '_, '_>, network: &mut NetworkKeys) {
    let mode = network.mode.as_ref().map(|mode| mode.value);
    if let Some(mode) = mode.filter(|mode| !mode.has_servers())
        && !network.publish.is_empty()
    {
        let message = format!("the network mode {:?} publishes no port", mode.name());
        let help = "write mode = \"loopback\" beside the list, or remove the list";
        section.problem(Problem::new(message).help(help), "publish", "this list");
    }
    let Some(first) = network.allow.first() else {
        return;
    };
    let misread = network.mode.is_none() && section.place_of("mode").is_some();
    let mode = network.mode.get_or_insert_with(|| Located {
        value: NetworkMode::Allow,
        at: first.at.clone(),
    });
    if !misread && mode.value != NetworkMode::Allow {
        let message = format!("the network mode {:?} allows no hosts", mode.value.name());
        let help = "write mode = \"allow\" beside the list, or remove the list";
        section.problem(Problem::new(message).help(help), "allow", "this list");
    }
}
