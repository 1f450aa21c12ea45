//! The reference evaluator: which rule decides on an attempt.
//!
//! The monitor compiles the same order into the kernel's maps; its tests compare against this.
//!
//! # The order
//!
//! A *candidate* is a rule without paths, or one path pattern of a rule. Among the candidates
//! that match an attempt, the first in this order decides:
//!
//! 1. one of a rule with flags before one of a rule without, which speaks of every file;
//! 2. a pattern without wildcards (an exact path) before one with wildcards;
//! 3. a pattern with more literal bytes before one with fewer ([`Glob::specificity`]);
//! 4. any pattern before a rule without paths, which speaks of every path;
//! 5. the stronger action: kill, deny, log, allow;
//! 6. the earlier rule in [`crate::Policy::rules`].
//!
//! An open for reading and writing is two attempts in one. Each access is decided by itself and
//! the stronger action stands (the earlier rule, when both are as strong), so that a rule which
//! allows writing a file never shields a rule that forbids reading it.
//!
//! A rule with [`SameFile`] speaks of its files by any name. Of those that speak of an attempt's
//! file so, the one with the strongest action decides, the earlier on a tie; and it stands when its
//! action is stronger than that of the rule that decides by path. So no rule about a name shields a
//! file that is known by itself.
//!
//! Memory made executable ([`On::Map`]) is asked about by the path of the file that it holds, where only
//! rules with paths match, and, when no file of the tree holds it, without a path, where only rules
//! without paths do. When both are asked, the stronger action stands.

use std::cmp::Reverse;

use crate::glob::{Glob, Specificity};
use crate::model::{Access, Action, FileFlag, On, Rule, SameFile};

/// What a program tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// The kind of attempt.
    pub on: On,
    /// The absolute path in the jail, for kinds that have one. Without one, only rules without
    /// paths match.
    pub path: Option<&'a [u8]>,
    /// How the file is opened; only looked at for `open`. Without any (`O_PATH`) no rule matches.
    pub access: &'a [Access],
    /// What else is known of the file: none, when only its path is.
    pub flag: Option<FileFlag>,
    /// Paths that named this very file when the run began.
    pub was: &'a [&'a [u8]],
}

impl Attempt<'_> {
    /// An attempt of which only its kind is known.
    #[must_use]
    pub const fn of(on: On) -> Self {
        Self {
            on,
            path: None,
            access: &[],
            flag: None,
            was: &[],
        }
    }
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
    /// Whether the candidate speaks of a file in this state.
    ///
    /// # Panics
    /// When the candidate was made from other rules.
    #[must_use]
    pub fn means(self, rules: &[Rule], flag: Option<FileFlag>) -> bool {
        let flags = &rules[self.rule].flags;
        flags.is_empty() || flag.is_some_and(|flag| flags.contains(&flag))
    }

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
    let by_path = strongest(rules, attempt, |access| first_match(rules, attempt, access));
    let by_file = decide_same_file(rules, attempt);
    let action = |rule: Option<usize>| rule.map(|rule| rules[rule].action);
    if action(by_file) > action(by_path) {
        by_file
    } else {
        by_path
    }
}

/// The index of the rule that decides on an attempt because of which file it is, whatever its path.
#[must_use]
pub fn decide_same_file(rules: &[Rule], attempt: &Attempt<'_>) -> Option<usize> {
    strongest(rules, attempt, |access| {
        let speaking = (0..rules.len()).filter(|index| {
            let rule = &rules[*index];
            speaks_of(rule, attempt.on, access) && means_file(rule, attempt.was)
        });
        speaking.max_by_key(|rule| (rules[*rule].action, Reverse(*rule)))
    })
}

fn means_file(rule: &Rule, was: &[&[u8]]) -> bool {
    rule.same_file != SameFile::No
        && rule
            .path
            .iter()
            .any(|glob| was.iter().any(|path| glob.matches(path)))
}

/// The answer for the kind of attempt; for an open, the strongest of those for each access.
fn strongest(
    rules: &[Rule],
    attempt: &Attempt<'_>,
    decide: impl Fn(Option<Access>) -> Option<usize>,
) -> Option<usize> {
    if attempt.on != On::Open {
        return decide(None);
    }
    let decided = attempt.access.iter();
    let decided = decided.filter_map(|access| decide(Some(*access)));
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
) -> (
    Reverse<bool>,
    Reverse<Option<Specificity>>,
    Reverse<Action>,
    usize,
) {
    // `None < Some(_)`: a rule without paths is the least specific.
    let specificity = candidate.glob(rules).map(Glob::specificity);
    (
        Reverse(!rules[candidate.rule].flags.is_empty()),
        Reverse(specificity),
        Reverse(rules[candidate.rule].action),
        candidate.rule,
    )
}

/// Every candidate that matches an attempt, the one that decides in front.
///
/// `access` as in [`precedence`]: that of the attempt which is asked about.
#[must_use]
pub fn matching(rules: &[Rule], attempt: &Attempt<'_>, access: Option<Access>) -> Vec<Candidate> {
    let ordered = precedence(rules, attempt.on, access);
    let speaking = ordered
        .into_iter()
        .filter(|candidate| candidate.means(rules, attempt.flag));
    speaking
        .filter(|candidate| match candidate.glob(rules) {
            None => attempt.on != On::Map || attempt.path.is_none(),
            Some(glob) => attempt.path.is_some_and(|path| glob.matches(path)),
        })
        .collect()
}

fn first_match(rules: &[Rule], attempt: &Attempt<'_>, access: Option<Access>) -> Option<usize> {
    let first = matching(rules, attempt, access).into_iter().next();
    first.map(|candidate| candidate.rule)
}
