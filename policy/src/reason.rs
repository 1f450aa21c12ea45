//! Why one candidate decides before another: the order of [`mod@crate::decide`], in words.

use std::fmt;

use crate::decide::Candidate;
use crate::glob::{Glob, Specificity};
use crate::model::{Action, Rule};

/// The first thing in which two candidates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It speaks of files in a certain state, the other of every file.
    Flags,
    /// Its pattern has no wildcard.
    Exact,
    /// Its pattern has more literal bytes.
    MoreLiteralBytes {
        /// Those of the one that decides.
        first: usize,
        /// Those of the other.
        second: usize,
    },
    /// It has a pattern, the other speaks of every path.
    Pattern,
    /// Both are as specific, and its action is the stronger one.
    StrongerAction {
        /// That of the one that decides.
        first: Action,
        /// That of the other.
        second: Action,
    },
    /// Both are alike, and it comes first.
    Earlier,
}

impl Reason {
    /// Why `first` decides before `second`, which [`crate::precedence`] puts behind it.
    ///
    /// # Panics
    /// When a candidate was made from other rules.
    #[must_use]
    pub fn between(rules: &[Rule], first: Candidate, second: Candidate) -> Self {
        let flagged = |candidate: Candidate| !rules[candidate.rule].flags.is_empty();
        if flagged(first) != flagged(second) {
            return Self::Flags;
        }
        let specificity = |candidate: Candidate| candidate.glob(rules).map(Glob::specificity);
        let (firsts, seconds) = (specificity(first), specificity(second));
        if let (Some(first), Some(second)) = (firsts, seconds) {
            if first != second {
                return Self::of_patterns(first, second);
            }
        } else if firsts != seconds {
            return Self::Pattern;
        }
        let (first, second) = (rules[first.rule].action, rules[second.rule].action);
        if first == second {
            Self::Earlier
        } else {
            Self::StrongerAction { first, second }
        }
    }

    fn of_patterns(first: Specificity, second: Specificity) -> Self {
        if first.exact != second.exact {
            return Self::Exact;
        }
        Self::MoreLiteralBytes {
            first: first.literal_bytes,
            second: second.literal_bytes,
        }
    }

    /// One word for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Exact => "exact",
            Self::MoreLiteralBytes { .. } => "more-literal-bytes",
            Self::Pattern => "pattern",
            Self::StrongerAction { .. } => "stronger-action",
            Self::Earlier => "earlier",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags => formatter.write_str("it speaks of files in a certain state"),
            Self::Exact => formatter.write_str("it has no wildcard"),
            Self::MoreLiteralBytes { first, second } => {
                write!(
                    formatter,
                    "it is more specific: {first} literal bytes against {second}"
                )
            }
            Self::Pattern => formatter.write_str("it has a pattern, the other means every path"),
            Self::StrongerAction { first, second } => {
                write!(
                    formatter,
                    "as specific, and {first} is stronger than {second}"
                )
            }
            Self::Earlier => formatter.write_str("as specific and as strong, and it comes first"),
        }
    }
}
