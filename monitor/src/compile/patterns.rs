//! The patterns of paths that the automaton is built from, and whose they are.

use std::collections::BTreeSet;

use turnkey_policy::{Candidate, Glob, Rule};

use crate::automaton;

/// The paths that memory files have, and no other.
const MEMORY_FILES: &str = "memfd:**";

/// Every pattern of paths, in a fixed order.
pub(super) struct Patterns<'r> {
    globs: Vec<&'r Glob>,
    /// Of each that is a rule's own, its rule and its number there. Behind those stand what rules are
    /// silent about.
    of: Vec<(usize, usize)>,
    /// Of the ones behind, the rule.
    silent_of: Vec<usize>,
    /// Pattern of the paths of memory files.
    memory: Option<Glob>,
}

impl<'r> Patterns<'r> {
    pub(super) fn from_rules(rules: &'r [Rule]) -> Self {
        let with_path = rules.iter().enumerate();
        let with_path = with_path.filter(|(_, rule)| rule.on.iter().any(|on| on.has_path()));
        let own = with_path.clone().flat_map(|(index, rule)| {
            let own = rule.path.iter().enumerate();
            own.map(move |(number, glob)| ((index, number), glob))
        });
        let (of, mut globs): (Vec<_>, Vec<_>) = own.unzip();
        let silent =
            with_path.flat_map(|(index, rule)| rule.silent.iter().map(move |glob| (index, glob)));
        let (silent_of, silent): (Vec<_>, Vec<_>) = silent.unzip();
        globs.extend(silent);
        let memory = Glob::parse(MEMORY_FILES).ok();
        Self {
            globs,
            of,
            silent_of,
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
        candidate.pattern.is_none_or(|number| {
            let index = self.of.binary_search(&(candidate.rule, number));
            let matches = index.is_ok_and(|index| matched.contains(&index));
            matches && !self.is_silent(candidate.rule, matched)
        })
    }

    /// True when a rule is silent about a path that these patterns match.
    fn is_silent(&self, rule: usize, matched: &BTreeSet<usize>) -> bool {
        let mut silent = (self.of.len()..).zip(&self.silent_of);
        silent.any(|(index, of)| *of == rule && matched.contains(&index))
    }
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
