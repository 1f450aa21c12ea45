//! Rules that name who acts: actors that there are none of, and those that anybody can be.

use std::path::Path;

use super::language::{PathLanguage, StepBudget, witness};
use super::universe::PathUniverse;
use super::{Lint, LintFinding};
use crate::WORKSPACE;
use crate::error::{Located, Problem, TextSpan};
use crate::glob::Glob;
use crate::model::{RuleAction, WorkdirMode};
use crate::policy::Policy;
use crate::profile::{ParsedProfile, ProfileRule};

/// Steps of one question: patterns of programs are few and short.
const BUDGET: usize = 200_000;

/// Paths of programs.
const PROGRAMS: PathUniverse = PathUniverse {
    names: true,
    memory: true,
    others: false,
};

/// Programs in memory alone.
const IN_MEMORY: PathUniverse = PathUniverse {
    names: false,
    memory: true,
    others: false,
};

/// Names of scripts are absolute.
const SCRIPTS: PathUniverse = PathUniverse {
    names: true,
    memory: false,
    others: false,
};

/// A pattern of a rule, the paths that there are of its kind, and where it stands.
struct ActorPattern<'p> {
    key: &'static str,
    glob: &'p Glob,
    universe: PathUniverse,
    at: &'p TextSpan,
}

fn named(rule: &ProfileRule) -> impl Iterator<Item = ActorPattern<'_>> {
    let exe = rule.rule.exe.iter().zip(&rule.places.exe);
    let exe = exe.map(|(glob, at)| ActorPattern {
        key: "exe",
        glob,
        universe: PROGRAMS,
        at,
    });
    let script = rule.rule.script.iter().zip(&rule.places.script);
    let script = script.map(|(glob, at)| ActorPattern {
        key: "script",
        glob,
        universe: SCRIPTS,
        at,
    });
    exe.chain(script)
}

/// A path that all of these match.
fn meeting(globs: &[&Glob], universe: PathUniverse) -> Option<String> {
    let languages: Vec<PathLanguage> = globs.iter().map(|glob| PathLanguage::new(glob)).collect();
    let languages: Vec<&PathLanguage> = languages.iter().collect();
    let mut budget = StepBudget::new(BUDGET);
    let path = witness(&languages, &[], universe, &mut budget).ok()??;
    Some(String::from_utf8_lossy(&path).into_owned())
}

/// Patterns that no program or script has.
pub(super) fn impossible(profile: &ParsedProfile) -> Vec<LintFinding> {
    let rules = profile.rules.iter();
    let patterns = rules.flat_map(|rule| named(&rule.value).map(move |named| (rule, named)));
    let none = patterns.filter(|(_, named)| meeting(&[named.glob], named.universe).is_none());
    none.map(|(rule, named)| never(rule, &named)).collect()
}

fn never(rule: &Located<ProfileRule>, named: &ActorPattern<'_>) -> LintFinding {
    let (id, key) = (&rule.value.rule.id, named.key);
    let fix = match key {
        "script" => {
            "write the absolute name by which it is started, without doubled slashes, . and .."
        }
        _ => "write the path without doubled slashes, . and ..",
    };
    LintFinding {
        lint: Lint::NeverMatches,
        why: "the rule speaks of nobody by it".to_owned(),
        problem: Problem::new(format!(
            "a pattern of `{key}` in the rule {id:?} can never match"
        ))
        .help(fix)
        .with_label(named.at, "nobody has such a path"),
    }
}

/// Rules that let pass what another one stops, for actors that the jail can make.
pub(super) fn writable(profile: &ParsedProfile, policy: &Policy) -> Vec<LintFinding> {
    let places = places(policy);
    let mut findings = Vec::new();
    for rule in profile.rules.iter().map(|rule| &rule.value) {
        if rule.rule.action >= RuleAction::Deny {
            continue;
        }
        // Both have to be met, so one that nobody can make is enough.
        let safe = |key: &str| {
            let mut of_key = named(rule).filter(|named| named.key == key).peekable();
            of_key.peek().is_some() && of_key.all(|named| forged(&named, &places).is_none())
        };
        if safe("exe") || safe("script") {
            continue;
        }
        let forgeable = named(rule).find_map(|named| {
            let path = forged(&named, &places)?;
            Some(finding(rule, &named, &path))
        });
        findings.extend(forgeable);
    }
    findings
}

/// Patterns for all paths below the places where the jail can write.
fn places(policy: &Policy) -> Vec<Glob> {
    let workspace =
        (policy.filesystem.workdir.mode != WorkdirMode::ReadOnly).then(|| Path::new(WORKSPACE));
    let write = policy
        .filesystem
        .write
        .iter()
        .map(|place| place.path.as_path());
    let scratch = policy
        .filesystem
        .scratch
        .iter()
        .map(|place| place.path.as_path());
    let all = write.chain(scratch).chain(workspace);
    let below = all.filter_map(|path| {
        let path = path.to_str()?.trim_end_matches('/');
        let escaped: String = path.chars().flat_map(glob_escaped).collect();
        Glob::parse(&format!("{escaped}/**")).ok()
    });
    below.collect()
}

/// As a pattern spells a character that means itself.
fn glob_escaped(c: char) -> impl Iterator<Item = char> {
    let is_special = matches!(c, '*' | '?' | '{' | '}' | ',' | '[' | ']' | '\\');
    is_special.then_some('\\').into_iter().chain([c])
}

/// A path that the jail can give to a file of its own.
fn forged(named: &ActorPattern<'_>, places: &[Glob]) -> Option<String> {
    let in_place = places
        .iter()
        .find_map(|place| meeting(&[named.glob, place], named.universe));
    let memory = named.universe.memory;
    in_place.or_else(|| meeting(&[named.glob], IN_MEMORY).filter(|_| memory))
}

fn finding(rule: &ProfileRule, named: &ActorPattern<'_>, path: &str) -> LintFinding {
    let (id, key) = (&rule.rule.id, named.key);
    LintFinding {
        lint: Lint::ActorWritable,
        why: "whoever is in the jail can put a file there and execute it, and the rule speaks of it, too"
            .to_owned(),
        problem: Problem::new(format!(
            "the rule {id:?} trusts what the jail can make itself, such as {path}"
        ))
        .help(format!(
            "write `{key}` with paths where the jail cannot write, such as those below /usr, and without ** in front"
        ))
        .with_label(named.at, format!("{} for whatever is there", rule.rule.action)),
    }
}
