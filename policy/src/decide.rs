//! The reference evaluator: which rule decides on an attempt.
//!
//! The monitor compiles the same order into the kernel's maps; its tests compare against this.
//!
//! # The order
//!
//! A *candidate* is a rule without paths, or one path pattern of a rule. Among the candidates
//! that match an attempt, the first in this order decides:
//!
//! 1. a pattern without wildcards (an exact path) before one with wildcards;
//! 2. a pattern with more literal bytes before one with fewer ([`Glob::specificity`]);
//! 3. any pattern before a rule without paths, which speaks of every path;
//! 4. the stronger action: kill, deny, log, allow;
//! 5. the earlier rule in [`crate::Policy::rules`].
//!
//! An open for reading and writing is two attempts in one. Each access is decided by itself and
//! the stronger action stands (the earlier rule, when both are as strong), so that a rule which
//! allows writing a file never shields a rule that forbids reading it.

use std::cmp::Reverse;

use crate::glob::{Glob, Specificity};
use crate::model::{Access, Action, On, Rule};

/// What a program tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// The kind of attempt.
    pub on: On,
    /// The absolute path in the jail, for `open` and `exec`. Without one, only rules without
    /// paths match.
    pub path: Option<&'a [u8]>,
    /// How the file is opened; only looked at for `open`. Without any (`O_PATH`) no rule matches.
    pub access: &'a [Access],
}

/// A rule, or one path pattern of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Index into the rules.
    pub rule: usize,
    /// Index into [`Rule::path`]; `None` for a rule that speaks of every path.
    pub pattern: Option<usize>,
}

impl Candidate {
    /// The pattern itself. `None` means every path.
    ///
    /// # Panics
    /// When the candidate was made from other rules.
    #[must_use]
    pub fn glob(self, rules: &[Rule]) -> Option<&Glob> {
        self.pattern.map(|index| &rules[self.rule].path[index])
    }
}

/// The index of the rule that decides on an attempt, if any does.
#[must_use]
pub fn decide(rules: &[Rule], attempt: &Attempt<'_>) -> Option<usize> {
    if attempt.on != On::Open {
        return first_match(rules, attempt, None);
    }
    let decided = attempt.access.iter();
    let decided = decided.filter_map(|access| first_match(rules, attempt, Some(*access)));
    decided.max_by_key(|rule| (rules[*rule].action, Reverse(*rule)))
}

/// Every candidate for a kind of attempt, the one that decides first in front.
///
/// `access` matters for `open` alone: ask once for each access, and combine the answers as
/// described for the [module](mod@crate::decide).
#[must_use]
pub fn precedence(rules: &[Rule], on: On, access: Option<Access>) -> Vec<Candidate> {
    let mut ordered: Vec<Candidate> = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| speaks_of(rule, on, access))
        .flat_map(|(index, rule)| candidates(index, rule))
        .collect();
    ordered.sort_by_key(|candidate| rank(rules, *candidate));
    ordered
}

fn speaks_of(rule: &Rule, on: On, access: Option<Access>) -> bool {
    rule.on.contains(&on)
        && (on != On::Open || access.is_some_and(|access| rule.access.contains(&access)))
}

/// A rule's paths bind only the kinds of attempt that have a path.
fn candidates(rule_index: usize, rule: &Rule) -> Vec<Candidate> {
    if rule.path.is_empty() {
        return vec![Candidate {
            rule: rule_index,
            pattern: None,
        }];
    }
    let patterns = 0..rule.path.len();
    patterns
        .map(|pattern| Candidate {
            rule: rule_index,
            pattern: Some(pattern),
        })
        .collect()
}

/// Sorts ascending: the strongest candidate has the least rank.
fn rank(
    rules: &[Rule],
    candidate: Candidate,
) -> (Reverse<Option<Specificity>>, Reverse<Action>, usize) {
    // `None < Some(_)`: a rule without paths is the least specific.
    let specificity = candidate.glob(rules).map(Glob::specificity);
    (
        Reverse(specificity),
        Reverse(rules[candidate.rule].action),
        candidate.rule,
    )
}

fn first_match(rules: &[Rule], attempt: &Attempt<'_>, access: Option<Access>) -> Option<usize> {
    let ordered = precedence(rules, attempt.on, access);
    let first = ordered
        .into_iter()
        .find(|candidate| match candidate.glob(rules) {
            None => true,
            Some(glob) => attempt.path.is_some_and(|path| glob.matches(path)),
        });
    first.map(|candidate| candidate.rule)
}
