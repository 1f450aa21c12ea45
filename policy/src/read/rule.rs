//! One `[[rule]]`.

use super::section::SectionReader;
use crate::error::{Located, Problem, TextSpan};
use crate::model::{AttemptKind, FileFlag, RuleAction, SameFile};
use crate::profile::{ProfileRule, RulePlaces};
use crate::tables::declare::KeyTable as _;
use crate::tables::{Rule, RuleKeys};

/// Reads a rule; `None` when something it needs is missing or wrong.
pub(super) fn rule(section: &mut SectionReader<'_, '_, '_>) -> Option<ProfileRule> {
    let keys = RuleKeys::read(section);
    check_applicability(section, &keys);
    let places = places(&keys)?;
    let replaces = keys.replaces.as_ref().is_some_and(|given| given.value);
    let rule = keys.resolve().with_access();
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

/// The places of a rule's parts; `None` for a rule without an id or an action.
fn places(keys: &RuleKeys) -> Option<RulePlaces> {
    Some(RulePlaces {
        id: keys.id.as_ref()?.at.clone(),
        action: keys.action.as_ref()?.at.clone(),
        path: each(&keys.path),
        address: each(&keys.address),
        port: each(&keys.port),
        exe: each(&keys.exe),
        script: each(&keys.script),
    })
}

fn each<T>(located: &[Located<T>]) -> Vec<TextSpan> {
    located.iter().map(|one| one.at.clone()).collect()
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
fn check_applicability(section: &mut SectionReader<'_, '_, '_>, keys: &RuleKeys) {
    let all = |has: fn(AttemptKind) -> bool| keys.on.iter().all(|on| has(on.value));
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
    if section.place_of("path").is_some() && !all(AttemptKind::has_path) {
        let problem = Problem::new("`rule.path` has no meaning for every kind of attempt in `on`")
            .help(format!(
                "paths go with {} alone; write a second rule for the rest",
                kinds_with(AttemptKind::has_path)
            ));
        section.problem(problem, "path", "not for these attempts");
    }
    for name in ["address", "port"] {
        if section.place_of(name).is_some() && !all(AttemptKind::has_address) {
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
    if section.place_of("access").is_some()
        && !keys.on.iter().any(|on| on.value == AttemptKind::Open)
    {
        let problem =
            Problem::new("`rule.access` has no meaning without \"open\" in `on`").help("remove it");
        section.problem(problem, "access", "not for these attempts");
    }
    if section.place_of("flags").is_some() && !all(AttemptKind::has_flags) {
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

/// Refuses `hidden` without paths and addresses: what is hidden is known by them alone.
fn check_hidden(section: &mut SectionReader<'_, '_, '_>, rule: &Rule) {
    if !rule.hidden {
        return;
    }
    let problem = if rule.path.is_empty() && rule.address.is_empty() {
        Problem::new("`rule.hidden` has no meaning without `path` or `address`")
            .help("write the paths or addresses that it is about, or remove it")
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
