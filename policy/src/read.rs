//! The text of one profile to what it says, collecting everything that is wrong with it.

mod rule;
mod section;

use std::collections::BTreeSet;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::behaviour::{self, AcceptedFinding};
use crate::endpoint::AllowedHost;
use crate::error::{LONGEST_LINE, Located, Problem, SourceText, TextSpan, too_long_a_line};
use crate::identity::IdentityKeys;
use crate::limits::LimitKeys;
use crate::model::{HostPath, Layer, NetworkMode, ScratchMount};
use crate::profile::ParsedProfile;
use crate::values::{self, ValueError};
use crate::{LARGEST_PROFILE, SCHEMA};
pub(crate) use section::SectionReader;

type Value<'d> = Spanned<DeValue<'d>>;

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

/// One text, and what was found wrong with it.
struct ProfileReader<'r> {
    source: &'r Arc<SourceText>,
    problems: &'r mut Vec<Problem>,
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
        top.section("filesystem", |section| filesystem(section, profile));
        top.section("network", |section| network(section, profile));
        top.section("limits", |section| {
            profile.limits = LimitKeys::read(section)
        });
        top.section("identity", |section| {
            profile.identity = IdentityKeys::read(section)
        });
        top.section("env", |section| environment(section, profile));
        top.section("syscalls", |section| {
            profile.own_syscalls = !section.truth_or("inherit", true);
            profile.syscalls = section.list("allow", values::syscalls);
        });
        top.section("enforcement", |section| enforcement(section, profile));
        top.section("behaviour", |section| {
            profile.behaviours = behaviour::read(section)
        });
        profile.accepted = top.tables("accept", accepted);
        profile.rules = top.tables("rule", rule::rule);
    }

    fn span_at(&self, span: std::ops::Range<usize>) -> TextSpan {
        TextSpan {
            source: Arc::clone(self.source),
            span,
        }
    }

    /// The place in the text of a fault within a value. Escapes shift a value against its text;
    /// then the whole value is shown.
    fn at_part(
        &self,
        whole: std::ops::Range<usize>,
        value: &str,
        part: Option<std::ops::Range<usize>>,
    ) -> TextSpan {
        let inner = whole.start + 1..whole.end.saturating_sub(1);
        match part {
            Some(part) if self.source.text.get(inner.clone()) == Some(value) => {
                self.span_at(inner.start + part.start..inner.start + part.end)
            }
            _ => self.span_at(whole),
        }
    }

    fn wrong_value(
        &mut self,
        key: &str,
        value: &str,
        span: std::ops::Range<usize>,
        wrong: ValueError,
    ) {
        let at = self.at_part(span, value, wrong.span);
        let message = format!("`{key}`: {}", wrong.message);
        self.problems.push(
            Problem::new(message)
                .help(wrong.help)
                .with_label(&at, "here"),
        );
    }
}

fn schema(text: &str) -> Result<(), ValueError> {
    if text == SCHEMA {
        return Ok(());
    }
    let help = format!("this release reads {SCHEMA:?}");
    Err(ValueError::new(format!("{text:?} is another format"), help))
}

fn filesystem(section: &mut SectionReader<'_, '_, '_>, profile: &mut ParsedProfile) {
    profile.own_tree = !section.truth_or("inherit", true);
    profile.root = section.value("root", values::root);
    profile.toolchain = section.value("toolchain", values::word);
    profile.proc = section.value("proc", values::word);
    profile.read = section.tables("read", |section| {
        let list = section.truth_or("list", true);
        host_path(section).map(|path| HostPath { list, ..path })
    });
    profile.write = section.tables("write", host_path);
    profile.scratch = section.tables("scratch", scratch);
    profile.decoys = section.list("decoys", values::decoy);
    section.section("workdir", |section| {
        profile.workdir = section.value("mode", values::word);
    });
}

/// An entry of `read` or `write`.
fn host_path(section: &mut SectionReader<'_, '_, '_>) -> Option<HostPath> {
    let optional = section.truth("optional");
    let why = section
        .value("why", values::text)
        .map(|why| why.value)
        .unwrap_or_default();
    let path = section.required("path", values::absolute_path)?.value;
    Some(HostPath {
        path,
        optional,
        list: true,
        why,
    })
}

fn scratch(section: &mut SectionReader<'_, '_, '_>) -> Option<ScratchMount> {
    // For people who read the profile; nothing else shows it.
    let _why = section.value("why", values::text);
    let size = section.required("size", values::memory);
    let path = section.required("path", values::absolute_path)?.value;
    Some(ScratchMount {
        path,
        size: size?.value,
    })
}

fn network(section: &mut SectionReader<'_, '_, '_>, profile: &mut ParsedProfile) {
    profile.network = section.value("mode", values::word);
    profile.network_why = section.value("why", values::text);
    profile.allow = section.tables("allow", allowed);
    let Some(first) = profile.allow.first() else {
        return;
    };
    let misread = profile.network.is_none() && section.place_of("mode").is_some();
    let mode = profile.network.get_or_insert_with(|| Located {
        value: NetworkMode::Allow,
        at: first.at.clone(),
    });
    if !misread && mode.value != NetworkMode::Allow {
        let message = format!("the network mode {:?} allows no hosts", mode.value.name());
        let help = "write mode = \"allow\" beside the list, or remove the list";
        section.problem(Problem::new(message).help(help), "allow", "this list");
    }
}

/// An entry of `network.allow`.
fn allowed(section: &mut SectionReader<'_, '_, '_>) -> Option<AllowedHost> {
    let why = section.value("why", values::text);
    let to = section.required("to", values::endpoint)?.value;
    Some(AllowedHost {
        to,
        why: why.map(|why| why.value).unwrap_or_default(),
        addresses: Vec::new(),
    })
}

fn environment(section: &mut SectionReader<'_, '_, '_>, profile: &mut ParsedProfile) {
    profile.pass = section.list("pass", values::variable_name);
    profile.set = section.text_table("set", values::variable_name, values::variable_value);
}

/// An entry of `accept`.
fn accepted(section: &mut SectionReader<'_, '_, '_>) -> Option<AcceptedFinding> {
    let finding = section.required("finding", values::text);
    let why = section.required("why", values::reason);
    let until = section.required("until", values::date);
    Some(AcceptedFinding {
        finding: finding?.value,
        why: why?.value,
        until: until?.value,
    })
}

fn enforcement(section: &mut SectionReader<'_, '_, '_>, profile: &mut ParsedProfile) {
    profile.on_loss = section.value("on_loss", values::word);
    profile.mode = section.value("mode", values::word);
    profile.required = required_layers(section);
}

/// `"all"`, or the layers named.
fn required_layers(section: &mut SectionReader<'_, '_, '_>) -> Option<Located<BTreeSet<Layer>>> {
    let at = section.place_of("required")?;
    let named = section.list("required", |text| match text {
        "all" => Ok(Layer::ALL.to_vec()),
        _ => values::word(text).map(|layer| vec![layer]),
    });
    Some(Located {
        value: named.into_iter().flat_map(|layers| layers.value).collect(),
        at,
    })
}
