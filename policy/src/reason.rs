//! The order of [`mod@crate::decide`] in words: the reason why one candidate decides before another.

use std::fmt;

use crate::actor::narrowness;
use crate::address::{Ports, Subnet};
use crate::decide::Candidate;
use crate::glob::{Glob, Specificity};
use crate::model::RuleAction;
use crate::tables::Rule;

/// The first thing in which two candidates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecedenceReason {
    /// The first is about files in a certain state, the other about every file.
    Flags,
    /// The other's pattern yields to those of all other rules.
    Yields,
    /// The first one's pattern has no wildcard.
    Exact,
    /// The first one's pattern has more literal bytes.
    MoreLiteralBytes {
        /// The count of the one that decides.
        first: usize,
        /// The count of the other.
        second: usize,
    },
    /// The first has a pattern, the other is about every path.
    Pattern,
    /// The first one's address has the longer prefix.
    LongerPrefix {
        /// Bits of the one that decides.
        first: u8,
        /// The count of the other.
        second: u8,
    },
    /// The first names addresses, the other is about every one.
    Address,
    /// The first one's range of ports is the narrower one.
    FewerPorts {
        /// The number of ports of the one that decides.
        first: u32,
        /// The count of the other.
        second: u32,
    },
    /// The first names ports, the other is about every one.
    Port,
    /// The first names scripts or programs, the other names none, or less narrowly.
    Actor,
    /// Both are as specific, and its action is the stronger one.
    StrongerAction {
        /// The action of the one that decides.
        first: RuleAction,
        /// The action of the other.
        second: RuleAction,
    },
    /// Both are alike, and it comes first.
    Earlier,
}

impl PrecedenceReason {
    /// The reason why `first` decides before `second`, which [`crate::precedence`] puts behind it.
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
        let yields = |candidate: Candidate| rules[candidate.rule].yields;
        if firsts.is_some() && seconds.is_some() && yields(first) != yields(second) {
            return Self::Yields;
        }
        if let (Some(first), Some(second)) = (firsts, seconds) {
            if first != second {
                return Self::of_patterns(first, second);
            }
        } else if firsts != seconds {
            return Self::Pattern;
        }
        if let Some(reason) = Self::of_peers(rules, first, second) {
            return reason;
        }
        let narrowness = |candidate: Candidate| narrowness(&rules[candidate.rule]);
        if narrowness(first) != narrowness(second) {
            return Self::Actor;
        }
        let (first, second) = (rules[first.rule].action, rules[second.rule].action);
        if first == second {
            Self::Earlier
        } else {
            Self::StrongerAction { first, second }
        }
    }

    /// `None` when both speak of as many addresses and ports.
    fn of_peers(rules: &[Rule], first: Candidate, second: Candidate) -> Option<Self> {
        let prefix = |candidate: Candidate| candidate.subnet(rules).map(Subnet::length);
        match (prefix(first), prefix(second)) {
            (Some(first), Some(second)) if first != second => {
                return Some(Self::LongerPrefix { first, second });
            }
            (Some(_), None) => return Some(Self::Address),
            _ => {}
        }
        let count = |ports: Ports| 1 + u32::from(ports.width());
        match (first.ports(rules), second.ports(rules)) {
            (Some(first), Some(second)) if first.width() != second.width() => {
                Some(Self::FewerPorts {
                    first: count(first),
                    second: count(second),
                })
            }
            (Some(_), None) => Some(Self::Port),
            _ => None,
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
            Self::Yields => "yields",
            Self::Exact => "exact",
            Self::MoreLiteralBytes { .. } => "more-literal-bytes",
            Self::Pattern => "pattern",
            Self::LongerPrefix { .. } => "longer-prefix",
            Self::Address => "address",
            Self::FewerPorts { .. } => "fewer-ports",
            Self::Port => "port",
            Self::Actor => "actor",
            Self::StrongerAction { .. } => "stronger-action",
            Self::Earlier => "earlier",
        }
    }
}

impl fmt::Display for PrecedenceReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags => formatter.write_str("it speaks of files in a certain state"),
            Self::Yields => formatter.write_str("the other yields"),
            Self::Exact => formatter.write_str("it has no wildcard"),
            Self::MoreLiteralBytes { first, second } => {
                write!(
                    formatter,
                    "it is more specific: {first} literal bytes against {second}"
                )
            }
            Self::Pattern => formatter.write_str("it has a pattern, the other means every path"),
            Self::LongerPrefix { first, second } => {
                write!(
                    formatter,
                    "its prefix is longer: {first} bits against {second}"
                )
            }
            Self::Address => formatter.write_str("it has an address, the other means every one"),
            Self::FewerPorts { first, second } => {
                write!(formatter, "it means fewer ports: {first} against {second}")
            }
            Self::Port => formatter.write_str("it has a port, the other means every one"),
            Self::Actor => {
                formatter.write_str("it names who acts, the other everybody or less narrowly")
            }
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
