//! The allowances of one profile that another one does not have.
//!
//! Rules are compared at the paths that patterns of either side stand for: wildcards empty, short and over
//! several directories. The rest is compared key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnkey_policy::keys::{KeyValue, ProfileKey, ValueForm};
use turnkey_policy::quantity::{format_duration, format_size};
use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, EnforcementMode, Glob, JailLimits, NetworkMode, OnLoss,
    OpenAccess, Policy, Rule, RuleAction, WorkdirMode, decide,
};

use super::NewEntry;
use super::allowances::SideAllowances;
use crate::cmd::learn::witness::witnesses;
use turnkey_report::escape;

/// All that `above` allows and `below` does not.
pub fn new(below: &Policy, above: &Policy) -> BTreeSet<NewEntry> {
    let mut new = rules_beyond(&SideAllowances::of_profile(below), above);
    new.extend(places(below, above));
    new.extend(limits(&below.limits, &above.limits));
    let calls = above.syscalls.allow.difference(&below.syscalls.allow);
    new.extend(calls.map(|name| one("syscall", &format!("{name}(2)"), "its filter refuses it")));
    let network = match (above.network.mode, below.network.mode) {
        (NetworkMode::Loopback, NetworkMode::None) => {
            Some(("the jail's own loopback", "it has no network"))
        }
        (NetworkMode::Host, NetworkMode::None | NetworkMode::Loopback | NetworkMode::Allow) => {
            Some(("the host's own network", "it has a network of its own"))
        }
        _ => None,
    };
    new.extend(network.map(|(what, why)| one("address", what, why)));
    let given = |policy: &Policy| -> BTreeSet<String> {
        let environment = &policy.environment;
        let set = environment.set.keys();
        environment.pass.iter().chain(set).cloned().collect()
    };
    for name in given(above).difference(&given(below)) {
        new.insert(one(
            "environment",
            &escape(name.as_bytes()),
            "it does not hand it in",
        ));
    }
    let required = below
        .enforcement
        .required
        .difference(&above.enforcement.required);
    new.extend(required.map(|layer| {
        one(
            "layer",
            &format!("a run without {layer}"),
            "it requires that",
        )
    }));
    if above.enforcement.mode == EnforcementMode::Observe
        && below.enforcement.mode == EnforcementMode::Enforce
    {
        new.insert(one(
            "rule",
            "whatever rules are against: they only speak",
            "its rules act",
        ));
    }
    let patience = |on_loss: OnLoss| match on_loss {
        OnLoss::Mark => 2,
        OnLoss::Fail => 1,
        OnLoss::Kill => 0,
    };
    if patience(above.enforcement.on_loss) > patience(below.enforcement.on_loss) {
        new.insert(one(
            "rule",
            "a run with lost evidence",
            "it does not let that pass",
        ));
    }
    new
}

fn one(kind: &'static str, what: &str, why: &str) -> NewEntry {
    NewEntry {
        kind,
        what: what.to_owned(),
        why: why.to_owned(),
    }
}

/// The attempts that the rules of `above` let pass and those of the other side do not.
pub fn rules_beyond(below: &SideAllowances<'_>, above: &Policy) -> BTreeSet<NewEntry> {
    let mut new = BTreeSet::new();
    // Where no pattern speaks, rules without any decide.
    let elsewhere = Glob::parse("/srv/anything-else");
    let rules = below.rules.iter().chain(&above.rules);
    let patterns: BTreeMap<&str, &Glob> = rules
        .flat_map(|rule| &rule.path)
        .chain(&elsewhere)
        .map(|glob| (glob.as_str(), glob))
        .collect();
    let somebody = ActingProgram::all(&[&below.rules, &above.rules]);
    let passes = |attempt: Attempt<'_>| {
        let by = |who: &ActingProgram| passes(below, above, &who.makes(attempt), who);
        somebody.iter().find_map(by)
    };
    for on in AttemptKind::ALL.iter().copied() {
        if !on.has_path() {
            if let Some(why) = passes(Attempt::new(on)) {
                new.insert(one("rule", &format!("{on}"), &why));
            }
            continue;
        }
        let accesses: &[&[OpenAccess]] = match on {
            AttemptKind::Open => &[&[OpenAccess::Read], &[OpenAccess::Write]],
            _ => &[&[]],
        };
        let pairs = patterns.iter().flat_map(|(pattern, glob)| {
            let accesses = accesses.iter();
            accesses.map(move |access| (*pattern, *glob, *access))
        });
        for (pattern, glob, access) in pairs {
            let against = witnesses(glob).into_iter().find_map(|path| {
                let attempt = Attempt {
                    path: Some(&path),
                    access,
                    ..Attempt::new(on)
                };
                Some((passes(attempt)?, escape(&path)))
            });
            if let Some((why, path)) = against {
                let act = access.first().map_or(on.name(), |access| access.name());
                let kind = if on == AttemptKind::Exec {
                    "program"
                } else {
                    "file"
                };
                new.insert(one(kind, &format!("{act} {pattern}, such as {path}"), &why));
            }
        }
    }
    new
}

/// The program that acts, as far as rules ask for that.
struct ActingProgram {
    /// `None` where no rule asks.
    exe: Option<Vec<u8>>,
    script: Option<Vec<u8>>,
}

impl ActingProgram {
    /// One for each pattern of a program with each of a script, and those whom no pattern means.
    fn all(sides: &[&[Rule]]) -> Vec<Self> {
        let rules = || sides.iter().flat_map(|rules| rules.iter());
        if !rules().any(Rule::names_actors) {
            let nobody = Self {
                exe: None,
                script: None,
            };
            return vec![nobody];
        }
        let all = |globs: fn(&Rule) -> &[Glob]| -> BTreeSet<Vec<u8>> {
            let globs = rules().flat_map(globs);
            globs.flat_map(witnesses).collect()
        };
        let mut exe = all(|rule| &rule.exe);
        exe.insert(b"/usr/bin/anything-else".to_vec());
        let script = all(|rule| &rule.script).into_iter().map(Some);
        let script: Vec<Option<Vec<u8>>> = script.chain([None]).collect();
        let with_scripts = |exe: &Vec<u8>| -> Vec<Self> {
            let each = script.iter().map(|script| Self {
                exe: Some(exe.clone()),
                script: script.clone(),
            });
            each.collect()
        };
        exe.iter().flat_map(with_scripts).collect()
    }

    fn makes<'a>(&'a self, attempt: Attempt<'a>) -> Attempt<'a> {
        let script = self.script.as_deref();
        let exe = self.exe.as_deref();
        Attempt {
            actor: exe.map(|exe| ActorPaths { exe, script }),
            ..attempt
        }
    }

    /// For people; nothing where it does not matter.
    fn told(&self) -> String {
        let name = |what: &str, name: &Option<Vec<u8>>| {
            let name = name.as_ref();
            name.map_or(String::new(), |name| format!(", {what} {}", escape(name)))
        };
        name("by", &self.exe) + &name("in the script", &self.script)
    }
}

/// The reason why the other side stops what this one lets pass, when somebody tries it.
fn passes(
    below: &SideAllowances<'_>,
    above: &Policy,
    attempt: &Attempt<'_>,
    who: &ActingProgram,
) -> Option<String> {
    let stops = |rules: &[Rule]| {
        let rule = decide(rules, attempt)?;
        (rules[rule].action >= RuleAction::Deny).then_some(rule)
    };
    let rule = stops(&below.rules)?;
    if stops(&above.rules).is_some() {
        return None;
    }
    let rule = &below.rules[rule];
    Some(format!(
        "rule `{}` would {} it{}",
        rule.id,
        rule.action,
        who.told()
    ))
}

fn places(below: &Policy, above: &Policy) -> Vec<NewEntry> {
    let (below, above) = (&below.filesystem, &above.filesystem);
    let shown = |path: &Path| escape(path.as_os_str().as_encoded_bytes());
    let mut new = Vec::new();
    let paths = |given: &[turnkey_policy::HostPath]| -> Vec<std::path::PathBuf> {
        given.iter().map(|given| given.path.clone()).collect()
    };
    let write = paths(&below.write);
    let seen = [paths(&below.read), write.clone()].concat();
    let is_in = |path: &Path, places: &[std::path::PathBuf]| {
        places.iter().any(|place| path.starts_with(place))
    };
    for path in paths(&above.read) {
        if below.root.is_none() && !is_in(&path, &seen) {
            let what = format!("see {} of the host", shown(&path));
            new.push(one("file", &what, "its tree does not hold it"));
        }
    }
    for path in paths(&above.write) {
        if !is_in(&path, &write) {
            let what = format!("write {} of the host", shown(&path));
            new.push(one("file", &what, "nothing can be written there"));
        }
    }
    if let Some(root) = above.root.as_ref().filter(|_| above.root != below.root) {
        let what = format!("see {} as its root", shown(root));
        new.push(one("file", &what, "it has another root"));
    }
    if below.workdir.mode == WorkdirMode::ReadOnly && above.workdir.mode != WorkdirMode::ReadOnly {
        new.push(one(
            "file",
            "write /workspace",
            "nothing can be written there",
        ));
    }
    new
}

fn limits(below: &JailLimits, above: &JailLimits) -> Vec<NewEntry> {
    let pairs = below.values().zip(above.values());
    let higher = pairs.filter(|((_, below), (_, above))| above > below);
    higher
        .map(|((key, below), (_, above))| {
            let name = match key.form {
                ValueForm::Percent => format!("{} percent", key.name),
                _ => key.name.to_owned(),
            };
            let what = format!("{name} {}", written(key, &above));
            one(
                "limit",
                &what,
                &format!("it gives {}", written(key, &below)),
            )
        })
        .collect()
}

fn written(key: &ProfileKey, value: &KeyValue) -> String {
    match value {
        KeyValue::Number(bytes) if matches!(key.form, ValueForm::Size) => format_size(*bytes),
        KeyValue::Number(number) => number.to_string(),
        KeyValue::Time(duration) => format_duration(*duration),
        KeyValue::Word(_, name) => (*name).to_owned(),
        KeyValue::Unlimited => "without limit".to_owned(),
    }
}
