//! One `[[rule]]`.

use std::collections::BTreeSet;

use super::section::SectionReader;
use crate::error::{Located, Problem, TextSpan};
use crate::glob::Glob;
use crate::model::{AttemptKind, FileFlag, OpenAccess, Rule, RuleAction, SameFile, Severity};
use crate::profile::{ProfileRule, RulePlaces};
use crate::values;

/// Reads a rule; `None` when something it needs is missing or wrong.
pub(super) fn rule(section: &mut SectionReader<'_, '_, '_>) -> Option<ProfileRule> {
    section.require("on");
    let on: BTreeSet<AttemptKind> = words(section.list("on", values::word));
    let (path, path_places) = patterns(section, "path");
    let access = words(section.list("access", values::word));
    let address = section.list("address", values::subnet);
    let port = section.list_with_numbers("port", values::ports);
    let flags = words(section.list("flags", values::word));
    let yields = section.truth("yields");
    let hidden = section.truth("hidden");
    let present = section.truth("present");
    let same_file = section.value("same_file", values::word);
    let (exe, exe_places) = patterns(section, "exe");
    let (script, script_places) = patterns(section, "script");
    let severity = section.value("severity", values::word);
    let technique = section.value("technique", values::technique);
    let why = section.value("why", values::text);
    let replaces = section.truth("replaces");
    let id = section.required("id", values::rule_id);
    let action = section.required("action", values::word);
    check_applicability(section, &on);
    let (id, action) = (id?, action?);
    let places = RulePlaces {
        id: id.at,
        action: action.at,
        path: path_places,
        address: address.iter().map(|one| one.at.clone()).collect(),
        port: port.iter().map(|one| one.at.clone()).collect(),
        exe: exe_places,
        script: script_places,
    };
    let rule = Rule {
        id: id.value,
        access: accesses(&on, access),
        on,
        path,
        address: address.into_iter().map(|one| one.value).collect(),
        port: port.into_iter().map(|one| one.value).collect(),
        flags,
        yields,
        hidden,
        present,
        silent: None,
        same_file: same_file.map_or(SameFile::No, |same_file| same_file.value),
        exe,
        script,
        action: action.value,
        severity: severity.map_or(Severity::Medium, |severity| severity.value),
        technique: technique.map(|technique| technique.value),
        why: why.map(|why| why.value).unwrap_or_default(),
    };
    check_same_file(section, &rule);
    check_looks(section, &rule);
    check_truncated(section, &rule);
    check_yields(section, &rule);
    check_hidden(section, &rule);
    check_present(section, &rule);
    Some(ProfileRule {
        rule,
        replaces,
        replaced: None,
        places,
    })
}

/// A list of patterns, and where each stands.
fn patterns(section: &mut SectionReader<'_, '_, '_>, name: &str) -> (Vec<Glob>, Vec<TextSpan>) {
    let patterns = section.list(name, values::pattern).into_iter();
    patterns.map(|glob| (glob.value, glob.at)).unzip()
}

fn words<T: Ord>(located: Vec<Located<T>>) -> BTreeSet<T> {
    located.into_iter().map(|word| word.value).collect()
}

/// Without `access`, an open is meant whatever it is for.
fn accesses(on: &BTreeSet<AttemptKind>, given: BTreeSet<OpenAccess>) -> BTreeSet<OpenAccess> {
    if given.is_empty() && on.contains(&AttemptKind::Open) {
        return OpenAccess::ALL.iter().copied().collect();
    }
    given
}

/// The kinds of attempt that have something, for people.
fn kinds_with(has: impl Fn(AttemptKind) -> bool) -> String {
    let kinds = AttemptKind::ALL.iter().filter(|on| has(**on));
    let quoted: Vec<String> = kinds.map(|on| format!("\"{on}\"")).collect();
    let (last, rest) = quoted
        .split_last()
        .map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    format!("{} and {last}", rest.join(", "))
}

/// A key that would be without effect is a mistake, and in a policy mistakes are holes.
fn check_applicability(section: &mut SectionReader<'_, '_, '_>, on: &BTreeSet<AttemptKind>) {
    for name in [
        "on", "path", "access", "address", "port", "flags", "exe", "script",
    ] {
        if section.is_empty_list(name) {
            let problem = Problem::new(format!(
                "`rule.{name}` is empty, so the rule speaks of nothing"
            ))
            .help("write at least one, or remove the rule");
            section.problem(problem, name, "empty");
        }
    }
    if section.place_of("path").is_some() && !on.iter().all(|on| on.has_path()) {
        let problem = Problem::new("`rule.path` has no meaning for every kind of attempt in `on`")
            .help(format!(
                "paths go with {} alone; write a second rule for the rest",
                kinds_with(AttemptKind::has_path)
            ));
        section.problem(problem, "path", "not for these attempts");
    }
    for name in ["address", "port"] {
        if section.place_of(name).is_some() && !on.iter().all(|on| on.has_address()) {
            let message = format!("`rule.{name}` has no meaning for every kind of attempt in `on`");
            let help = format!(
                "addresses and ports go with {} alone; write a second rule for the rest",
                kinds_with(AttemptKind::has_address)
            );
            section.problem(
                Problem::new(message).help(help),
                name,
                "not for these attempts",
            );
        }
    }
    if section.place_of("access").is_some() && !on.contains(&AttemptKind::Open) {
        let problem =
            Problem::new("`rule.access` has no meaning without \"open\" in `on`").help("remove it");
        section.problem(problem, "access", "not for these attempts");
    }
    if section.place_of("flags").is_some() && !on.iter().all(|on| on.has_flags()) {
        let problem = Problem::new("`rule.flags` has no meaning for every kind of attempt in `on`")
            .help("flags go with \"open\" and \"exec\" alone; write a second rule for the rest");
        section.problem(problem, "flags", "not for these attempts");
    }
}

/// Refuses a pattern on what the kernel could not name.
fn check_truncated(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    if rule.flags.contains(&FileFlag::Truncated) && !rule.path.is_empty() {
        let problem = Problem::new("`rule.path` has no meaning with the flag \"truncated\"")
            .help("no pattern matches a path that is not known: remove `path`, or write the flag in a rule of its own");
        section.problem(problem, "path", "never known with that flag");
    }
}

/// A rule without patterns has none that could yield.
fn check_yields(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    if rule.yields && rule.path.is_empty() {
        let problem = Problem::new("`rule.yields` has no meaning without `path`")
            .help("a rule without paths decides behind all patterns anyway; remove it");
        section.problem(problem, "yields", "yields to nobody");
    }
}

/// Attempts that are over when they are asked about.
fn check_looks(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    let by_argument = rule.on.iter().find(|on| on.is_by_argument());
    if rule.action == RuleAction::Deny
        && let Some(on) = by_argument
    {
        let problem = Problem::new(format!("`rule.action`: nothing can deny a \"{}\"", on.name())).help(
            "use \"log\" or \"kill\", write a second rule for the rest of `on`, or take the path out of the jail's tree",
        );
        section.problem(problem, "action", "only known of afterwards");
    }
}

/// Refuses `hidden` without paths: what is hidden is known by them alone.
fn check_hidden(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    if !rule.hidden {
        return;
    }
    let problem = if rule.path.is_empty() {
        Problem::new("`rule.hidden` has no meaning without `path`")
            .help("write the paths that it is about, or remove it")
    } else if rule.same_file != SameFile::No {
        Problem::new("`rule.hidden` and `rule.same_file` do not go together")
            .help("a file that the jail does not show has no identity in it: write two rules")
    } else {
        return;
    };
    section.problem(problem, "hidden", "here");
}

/// Refuses `present` without paths: what is present is known by them, and at the start of a run.
fn check_present(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    if !rule.present {
        return;
    }
    let problem = if rule.path.is_empty() {
        Problem::new("`rule.present` has no meaning without `path`")
            .help("write the paths that it is about, or remove it")
    } else if rule.same_file != SameFile::No {
        Problem::new("`rule.present` and `rule.same_file` do not go together").help(
            "write `same_file = \"optional\"` alone: a path that leads nowhere is a name then",
        )
    } else if rule.hidden {
        Problem::new("`rule.present` and `rule.hidden` do not go together")
            .help("the program's home is shown: write two rules")
    } else {
        return;
    };
    section.problem(problem, "present", "here");
}

/// More spellings of one pattern than this are no list of files.
const MOST_SPELLINGS: usize = 64;

/// Refuses `same_file` where the files are not known when the run begins, and for as long as it lasts.
fn check_same_file(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    if rule.same_file == SameFile::No {
        return;
    }
    let problem = if rule.path.is_empty() {
        Problem::new("`rule.same_file` has no meaning without paths")
            .help("write the `path` of each file, or remove it")
    } else if let Some(glob) = rule
        .path
        .iter()
        .find(|glob| glob.spellings(MOST_SPELLINGS).is_none())
    {
        Problem::new(format!(
            "`rule.same_file`: {glob} does not name single files"
        ))
        .help("write the paths without wildcards, and those with them in a second rule")
    } else if rule.action == RuleAction::Allow {
        // The number of a file that is gone is given to another.
        Problem::new("`rule.same_file` cannot allow: a file's identity outlives the file")
            .help("allow by path alone")
    } else if !rule.flags.is_empty() {
        Problem::new("`rule.same_file` and `rule.flags` do not go together").help("write two rules")
    } else if let Some(on) = rule.on.iter().find(|on| on.is_by_argument()) {
        Problem::new(format!(
            "`rule.same_file` and \"{}\" do not go together",
            on.name()
        ))
        .help("which file it was about, nobody knows: write a second rule for it, by path alone")
    } else if let Some(on) = rule.on.iter().find(|on| on.counts_as() != **on) {
        Problem::new(format!("`rule.same_file` and \"{on}\" do not go together")).help(format!(
            "write \"{}\", which such an attempt is as well, or a second rule by path alone",
            on.counts_as()
        ))
    } else if rule.names_actors() {
        Problem::new("`rule.same_file` means a file for every program")
            .help("write a second rule with `exe` or `script`, and paths alone")
    } else {
        return;
    };
    section.problem(problem, "same_file", "here");
}
