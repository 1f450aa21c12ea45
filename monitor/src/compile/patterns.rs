//! The patterns of paths that the automaton is built from, and whose they are.

use std::collections::BTreeSet;

use turnkey_policy::{Candidate, Glob, Rule};

use crate::automaton;

/// The paths that memory files have, and no other.
const MEMORY_FILES: &str = "memfd:**";

/// Every pattern of paths, in a fixed order.
pub(super) struct Patterns<'r> {
    globs: Vec<&'r Glob>,
    /// By rule, where its own begin.
    first_of: Vec<usize>,
    /// Of what rules are silent about, which stands behind those, the index and the rule.
    silent_of: Vec<(usize, usize)>,
    /// In the same way, of what they speak of among that.
    spoken_of: Vec<(usize, usize)>,
    /// In the same way, of what they speak of in places that lack it.
    home_of: Vec<(usize, usize)>,
    /// Pattern of the paths of memory files.
    memory: Option<Glob>,
}

impl<'r> Patterns<'r> {
    pub(super) fn from_rules(rules: &'r [Rule]) -> Self {
        let mut globs: Vec<&Glob> = Vec::new();
        let mut first_of = Vec::new();
        let have_path = |rule: &Rule| rule.on.iter().any(|on| on.has_path());
        for rule in rules {
            first_of.push(globs.len());
            globs.extend(rule.path.iter().filter(|_| have_path(rule)));
        }
        let mut silent_of = Vec::new();
        let (mut spoken_of, mut home_of) = (Vec::new(), Vec::new());
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| have_path(rule)) {
            if let Some(silent) = &rule.silent {
                silent_of.push((globs.len(), index));
                globs.push(silent);
            }
            if let Some(spoken) = &rule.spoken {
                spoken_of.push((globs.len(), index));
                globs.push(spoken);
            }
            if let Some(home) = &rule.at_home {
                home_of.push((globs.len(), index));
                globs.push(home);
            }
        }
        let memory = Glob::parse(MEMORY_FILES).ok();
        Self {
            globs,
            first_of,
            silent_of,
            spoken_of,
            home_of,
            memory: memory.filter(|_| rules.iter().any(|rule| !rule.flags.is_empty())),
        }
    }

    /// With the one for memory files behind them, if it is asked for.
    pub(super) fn all(&self) -> Vec<&Glob> {
        self.globs.iter().copied().chain(&self.memory).collect()
    }

    pub(super) fn has_memory_matched(&self, matched: &BTreeSet<usize>) -> bool {
        matched.contains(&self.globs.len())
    }

    /// True when a candidate's pattern is among those that match.
    pub(super) fn has_matched(&self, candidate: &Candidate, matched: &BTreeSet<usize>) -> bool {
        candidate
            .pattern
            .is_none_or(|number| matched.contains(&(self.first_of[candidate.rule] + number)))
    }

    /// True when a candidate's rule is silent about a path that these patterns match.
    pub(super) fn is_silent(&self, candidate: &Candidate, matched: &BTreeSet<usize>) -> bool {
        let matches = |all| has_any(all, candidate.rule, matched);
        candidate.pattern.is_some() && matches(&self.silent_of) && !matches(&self.spoken_of)
    }

    /// True when a rule speaks of a path that these patterns match in places that lack it, too.
    pub(super) fn is_at_home(&self, rule: usize, matched: &BTreeSet<usize>) -> bool {
        has_any(&self.home_of, rule, matched)
    }
}

/// True when one of these patterns of the rule is among those that match.
fn has_any(all: &[(usize, usize)], rule: usize, matched: &BTreeSet<usize>) -> bool {
    let mut all = all.iter();
    all.any(|(index, of)| *of == rule && matched.contains(index))
}

/// The bytes that any pattern of any rule, or any of these, tells apart. One automaton is written behind the other.
pub(super) fn bytes_of(rules: &[Rule], patterns: &Patterns<'_>, magic: &[Glob]) -> BTreeSet<u8> {
    let actors = rules
        .iter()
        .flat_map(|rule| rule.exe.iter().chain(&rule.script));
    let all: Vec<&Glob> = patterns
        .all()
        .into_iter()
        .chain(actors)
        .chain(magic)
        .collect();
    automaton::bytes_of(&all)
}
