//! Rules that name who acts: actors that there are none of, and those that anybody can be.

use std::path::Path;

use super::language::{Budget, Language, witness};
use super::universe::Universe;
use super::{Finding, Lint};
use crate::WORKSPACE;
use crate::error::{At, Located, Problem};
use crate::glob::Glob;
use crate::model::{Action, Policy, Workdir};
use crate::profile::{Profile, ProfileRule};

/// Steps of one question: patterns of programs are few and short.
const BUDGET: usize = 200_000;

/// Paths of programs.
const PROGRAMS: Universe = Universe {
    names: true,
    memory: true,
    others: false,
};

/// Programs in memory alone.
const IN_MEMORY: Universe = Universe {
    names: false,
    memory: true,
    others: false,
};

/// Names of scripts are absolute.
const SCRIPTS: Universe = Universe {
    names: true,
    memory: false,
    others: false,
};

/// A pattern of a rule, the paths that there are of its kind, and where it stands.
struct Named<'p> {
    key: &'static str,
    glob: &'p Glob,
    universe: Universe,
    at: &'p At,
}

fn named(rule: &ProfileRule) -> impl Iterator<Item = Named<'_>> {
    let exe = rule.rule.exe.iter().zip(&rule.places.exe);
    let exe = exe.map(|(glob, at)| Named {
        key: "exe",
        glob,
        universe: PROGRAMS,
        at,
    });
    let script = rule.rule.script.iter().zip(&rule.places.script);
    let script = script.map(|(glob, at)| Named {
        key: "script",
        glob,
        universe: SCRIPTS,
        at,
    });
    exe.chain(script)
}

/// A path that all of these match.
fn meeting(globs: &[&Glob], universe: Universe) -> Option<String> {
    let languages: Vec<Language> = globs.iter().map(|glob| Language::new(glob)).collect();
    let languages: Vec<&Language> = languages.iter().collect();
    let mut budget = Budget::new(BUDGET);
    let path = witness(&languages, &[], universe, &mut budget).ok()??;
    Some(String::from_utf8_lossy(&path).into_owned())
}

/// Patterns that no program or script has.
pub(super) fn impossible(profile: &Profile) -> Vec<Finding> {
    let rules = profile.rules.iter();
    let patterns = rules.flat_map(|rule| named(&rule.value).map(move |named| (rule, named)));
    let none = patterns.filter(|(_, named)| meeting(&[named.glob], named.universe).is_none());
    none.map(|(rule, named)| never(rule, &named)).collect()
}

fn never(rule: &Located<ProfileRule>, named: &Named<'_>) -> Finding {
    let (id, key) = (&rule.value.rule.id, named.key);
    let fix = match key {
        "script" => {
            "write the absolute name by which it is started, without doubled slashes, . and .."
        }
        _ => "write the path without doubled slashes, . and ..",
    };
    Finding {
        lint: Lint::NeverMatches,
        why: "the rule speaks of nobody by it".to_owned(),
        problem: Problem::new(format!(
            "a pattern of `{key}` in the rule {id:?} can never match"
        ))
        .help(fix)
        .at(named.at, "nobody has such a path"),
    }
}

/// Rules that let pass what another one stops, for actors that the jail can make.
pub(super) fn writable(profile: &Profile, policy: &Policy) -> Vec<Finding> {
    let places = places(policy);
    let mut findings = Vec::new();
    for rule in profile.rules.iter().map(|rule| &rule.value) {
        if rule.rule.action >= Action::Deny {
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

/// Everything below the places where the jail can write.
fn places(policy: &Policy) -> Vec<Glob> {
    let workspace = (policy.filesystem.workdir != Workdir::ReadOnly).then(|| Path::new(WORKSPACE));
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
        let escaped: String = path.chars().flat_map(escaped).collect();
        Glob::parse(&format!("{escaped}/**")).ok()
    });
    below.collect()
}

/// As a pattern spells a character that means itself.
fn escaped(c: char) -> impl Iterator<Item = char> {
    let is_special = matches!(c, '*' | '?' | '{' | '}' | ',' | '[' | ']' | '\\');
    is_special.then_some('\\').into_iter().chain([c])
}

/// A path that the jail can give to a file of its own.
fn forged(named: &Named<'_>, places: &[Glob]) -> Option<String> {
    let in_place = places
        .iter()
        .find_map(|place| meeting(&[named.glob, place], named.universe));
    let memory = named.universe.memory;
    in_place.or_else(|| meeting(&[named.glob], IN_MEMORY).filter(|_| memory))
}

fn finding(rule: &ProfileRule, named: &Named<'_>, path: &str) -> Finding {
    let (id, key) = (&rule.rule.id, named.key);
    Finding {
        lint: Lint::ActorWritable,
        why: "whoever is in the jail can put a file there and execute it, and the rule speaks of it, too"
            .to_owned(),
        problem: Problem::new(format!(
            "the rule {id:?} trusts what the jail can make itself, such as {path}"
        ))
        .help(format!(
            "write `{key}` with paths where the jail cannot write, such as those below /usr, and without ** in front"
        ))
        .at(named.at, format!("{} for whatever is there", rule.rule.action)),
    }
}
