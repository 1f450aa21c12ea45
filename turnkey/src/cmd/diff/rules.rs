//! The attempts that rules let pass, or answer more weakly, where those of another side stop them. A rule that only logs stops nothing.
//!
//! Rules are asked about the paths that patterns of either side stand for: wildcards empty, short and over several
//! directories; about the addresses and ports at which any range of either side begins or has ended; and about each
//! state of a file that a rule speaks of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, FileFlag, Glob, OpenAccess, Policy, Rule, RuleAction,
    SameFile, decide,
};

use super::NewEntry;
use super::allowances::SideAllowances;
use crate::cmd::learn::witness::witnesses;
use turnkey_report::escape;

/// The attempts that the rules of `above` let pass and those of the other side do not.
pub fn rules_beyond(below: &SideAllowances<'_>, above: &Policy) -> BTreeSet<NewEntry> {
    if below.rules == above.rules {
        return BTreeSet::new();
    }
    let sides = ComparedRules {
        below,
        above,
        actors: ActingProgram::all(&[&below.rules, &above.rules]),
    };
    let places = sides.places();
    let kinds = AttemptKind::ALL.iter().copied();
    kinds
        .flat_map(|on| match on {
            _ if on.has_path() => sides.files(on, &places),
            _ if on.has_address() => sides.peers(on),
            _ => sides.whole(on).into_iter().collect(),
        })
        .collect()
}

fn entry(kind: &'static str, what: &str, why: &str) -> NewEntry {
    NewEntry::of_key(kind, what, why, "rule")
}

/// The rules of both sides, and the programs that they tell apart.
struct ComparedRules<'a> {
    below: &'a SideAllowances<'a>,
    above: &'a Policy,
    actors: Vec<ActingProgram>,
}

impl ComparedRules<'_> {
    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.below.rules.iter().chain(&self.above.rules)
    }

    /// True when both sides have the same of these rules.
    fn agree(&self, speaks: impl Fn(&Rule) -> bool) -> bool {
        let below = self.below.rules.iter().filter(|rule| speaks(rule));
        below.eq(self.above.rules.iter().filter(|rule| speaks(rule)))
    }

    /// The reason why an attempt is new, whoever makes it.
    fn passes(&self, attempt: Attempt<'_>) -> Option<String> {
        self.passes_of(&self.below.rules, &self.above.rules, attempt)
    }

    /// The same by some of the rules of either side, where the others have nothing to say.
    fn passes_of(&self, below: &[Rule], above: &[Rule], attempt: Attempt<'_>) -> Option<String> {
        let is_profile = self.below.is_profile();
        let by = |who: &ActingProgram| passes(below, above, is_profile, &who.makes(attempt), who);
        self.actors.iter().find_map(by)
    }

    /// The patterns of both sides, with the paths that they stand for and on which the sides may differ.
    fn places(&self) -> Vec<ComparedPattern> {
        // Where no pattern speaks, rules without any decide.
        let elsewhere = Glob::parse("/srv/anything-else");
        let patterns: BTreeMap<&str, &Glob> = self
            .all()
            .flat_map(|rule| &rule.path)
            .chain(&elsewhere)
            .map(|glob| (glob.as_str(), glob))
            .collect();
        let compared = patterns.into_iter().map(|(pattern, glob)| ComparedPattern {
            pattern: pattern.to_owned(),
            paths: witnesses(glob)
                .into_iter()
                .map(|path| ComparedPath {
                    below: about(&self.below.rules, &path),
                    above: about(&self.above.rules, &path),
                    path,
                })
                .filter(|one| one.below != one.above)
                .collect(),
        });
        compared.filter(|one| !one.paths.is_empty()).collect()
    }

    /// An attempt of which nothing but its kind matters.
    fn whole(&self, on: AttemptKind) -> Option<NewEntry> {
        let why = self.passes(Attempt::new(on))?;
        Some(entry("rule", on.name(), &why))
    }

    /// Attempts on files.
    fn files(&self, on: AttemptKind, places: &[ComparedPattern]) -> Vec<NewEntry> {
        let accesses: &[&[OpenAccess]] = match on {
            AttemptKind::Open => &[&[OpenAccess::Read], &[OpenAccess::Write]],
            _ => &[&[]],
        };
        let states = self.states(on);
        let mut new = Vec::new();
        for access in accesses {
            let attempt = Attempt {
                access,
                ..Attempt::new(on)
            };
            let found = places
                .iter()
                .filter_map(|place| self.file(attempt, place, &states));
            new.extend(found);
            if states.len() > 1 {
                new.extend(self.nowhere(attempt));
            }
        }
        new
    }

    /// The states of a file that matter to such an attempt: `None` for any, then those of which rules speak. Where both sides have the
    /// same rules about states, each answers as it does for any.
    fn states(&self, on: AttemptKind) -> Vec<Option<FileFlag>> {
        let differ = !self.agree(|rule| !rule.flags.is_empty());
        let flags = self.all().filter(|_| differ).flat_map(|rule| &rule.flags);
        let flags: BTreeSet<FileFlag> = flags.copied().filter(|_| on.has_flags()).collect();
        let named = flags.into_iter().map(Some);
        [None].into_iter().chain(named).collect()
    }

    /// An attempt on a path that a pattern stands for.
    fn file(
        &self,
        attempt: Attempt<'_>,
        place: &ComparedPattern,
        states: &[Option<FileFlag>],
    ) -> Option<NewEntry> {
        // A file of no known path has no pattern.
        let with_path = states
            .iter()
            .filter(|flag| **flag != Some(FileFlag::Truncated));
        let (why, path, flag) = with_path
            .flat_map(|flag| place.paths.iter().map(move |one| (one, *flag)))
            .find_map(|(one, flag)| {
                let attempt = Attempt {
                    path: Some(&one.path),
                    flag,
                    ..attempt
                };
                let why = self.passes_of(&one.below, &one.above, attempt)?;
                Some((why, &one.path, flag))
            })?;
        let pattern = &place.pattern;
        let state = flag.map_or(String::new(), |flag| format!(", where it is {flag}"));
        let what = format!(
            "{} {pattern}, such as {}{state}",
            act(&attempt),
            escape(path)
        );
        let kind = match attempt.on {
            AttemptKind::Exec => "program",
            _ => "file",
        };
        Some(entry(kind, &what, &why))
    }

    /// An attempt on a file of which no path is known.
    fn nowhere(&self, attempt: Attempt<'_>) -> Option<NewEntry> {
        let why = self.passes(Attempt {
            flag: Some(FileFlag::Truncated),
            ..attempt
        })?;
        let what = format!("{} what has no path that is known", act(&attempt));
        Some(entry("file", &what, &why))
    }

    /// Attempts on addresses: for each answer that is new the first address that gets it.
    fn peers(&self, on: AttemptKind) -> Vec<NewEntry> {
        let mut new = BTreeMap::new();
        if self.agree(|rule| rule.on.contains(&on)) {
            return Vec::new();
        }
        if let Some(whole) = self.whole(on) {
            new.insert(whole.why.clone(), whole);
        }
        let speaking: Vec<&Rule> = self.all().filter(|rule| rule.on.contains(&on)).collect();
        let ports = ports(&speaking);
        for address in addresses(&speaking) {
            for port in &ports {
                let peer = SocketAddr::new(address, *port);
                let attempt = Attempt {
                    address: Some(peer),
                    ..Attempt::new(on)
                };
                if let Some(why) = self.passes(attempt) {
                    let what = format!("{on} {peer}, for one");
                    let found = || entry("address", &what, &why);
                    new.entry(why.clone()).or_insert_with(found);
                }
            }
        }
        new.into_values().collect()
    }
}

/// A pattern of either side.
struct ComparedPattern {
    pattern: String,
    paths: Vec<ComparedPath>,
}

/// A path that a pattern stands for, with the rules of either side that can have something to say about it.
struct ComparedPath {
    path: Vec<u8>,
    below: Vec<Rule>,
    above: Vec<Rule>,
}

/// The rules that speak of a path, or of any, in their order. Asking all the others about it for every kind of attempt is what made
/// the comparison of profiles with a thousand rules take minutes.
fn about(rules: &[Rule], path: &[u8]) -> Vec<Rule> {
    let speaks = |rule: &&Rule| {
        let mut globs = rule.path.iter();
        rule.path.is_empty() || globs.any(|glob| glob.matches(path))
    };
    rules.iter().filter(speaks).cloned().collect()
}

fn act(attempt: &Attempt<'_>) -> &'static str {
    let access = attempt.access.first();
    access.map_or(attempt.on.name(), |access| access.name())
}

/// Addresses between which no answer changes: one that no range is likely to hold, and where each range begins or has ended.
fn addresses(rules: &[&Rule]) -> Vec<IpAddr> {
    let mut all = vec![
        IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        IpAddr::V4(Ipv4Addr::new(0, 0, 0, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
        IpAddr::V6(Ipv6Addr::from_bits(2)),
    ];
    let bounds: BTreeSet<IpAddr> = rules
        .iter()
        .flat_map(|rule| &rule.address)
        .flat_map(|net| [Some(net.network()), behind(net.network(), net.length())])
        .flatten()
        .collect();
    all.extend(bounds);
    all
}

/// The first address behind a range; `None` behind the last of all.
fn behind(network: IpAddr, length: u8) -> Option<IpAddr> {
    let length = u32::from(length);
    Some(match network {
        IpAddr::V4(four) => {
            let width = 1_u32.checked_shl(32 - length)?;
            Ipv4Addr::from_bits(four.to_bits().checked_add(width)?).into()
        }
        IpAddr::V6(six) => {
            let width = 1_u128.checked_shl(128 - length)?;
            Ipv6Addr::from_bits(six.to_bits().checked_add(width)?).into()
        }
    })
}

/// Ports between which no answer changes.
fn ports(rules: &[&Rule]) -> Vec<u16> {
    let ranges = rules.iter().flat_map(|rule| &rule.port);
    let bounds = ranges.flat_map(|ports| [Some(ports.first()), ports.last().checked_add(1)]);
    let bounds: BTreeSet<u16> = bounds.flatten().collect();
    [443, 1].into_iter().chain(bounds).collect()
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

/// The reason why the other side stops what this one lets pass or answers more weakly, when somebody tries it.
fn passes(
    below: &[Rule],
    above: &[Rule],
    is_profile: bool,
    attempt: &Attempt<'_>,
    who: &ActingProgram,
) -> Option<String> {
    let rule = stopping(below, attempt)?;
    let weaker = match stopping(above, attempt) {
        None => String::new(),
        // What a run did is no rule of anybody, with a strength of its own.
        Some(_) if !is_profile => return None,
        Some(other) => format!(", and rule `{}` {}", other.id, weaker(rule, other)?),
    };
    Some(format!(
        "rule `{}` would {} it{}{weaker}",
        rule.id,
        rule.action,
        who.told()
    ))
}

fn stopping<'r>(rules: &'r [Rule], attempt: &Attempt<'_>) -> Option<&'r Rule> {
    let rule = &rules[decide(rules, attempt)?];
    (rule.action >= RuleAction::Deny).then_some(rule)
}

/// The words for a rule that stops an attempt as another one does, but not always, or not as hard.
fn weaker(rule: &Rule, other: &Rule) -> Option<String> {
    let by_file = |rule: &Rule| match rule.same_file {
        SameFile::No => 0,
        SameFile::Optional => 1,
        SameFile::Required => 2,
    };
    if other.action < rule.action {
        return Some(format!("would only {} it", other.action));
    }
    if other.hidden && !rule.hidden {
        return Some("speaks of what the profile does not show alone".to_owned());
    }
    if other.present && !rule.present {
        return Some("speaks of what is present alone".to_owned());
    }
    if by_file(other) < by_file(rule) {
        let word = other.same_file;
        return Some(format!("has the file itself less surely: same_file {word}"));
    }
    let severity = other.severity;
    (severity < rule.severity).then(|| format!("takes it for {severity}"))
}
