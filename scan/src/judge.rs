//! Decides what the acts of a script come to. Every rule is applied here, whatever language an act is written in.

pub mod act;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::rule::{self, Rule};
use crate::{Scan, bounded};

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// The line, from 1; of decoded code, the line where it is decoded.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// The technique of MITRE ATT&CK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub technique: Option<&'static str>,
    /// The share of a hundred that it takes of what was not suspicious so far.
    pub weight: u32,
    /// The act that the code would do, in words.
    pub says: String,
}

/// A module that a script imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The module's dotted name.
    pub module: String,
    /// The line of the first import, from 1.
    pub line: usize,
}

/// The wants of a script from a profile, as far as the text names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// Hosts and ports.
    pub connect: BTreeSet<String>,
    /// Files and directories that are read outside of the workspace.
    pub read: BTreeSet<String>,
    /// Files that are written there.
    pub write: BTreeSet<String>,
    /// The paths that no profile should give it.
    pub refused: BTreeSet<String>,
}

/// A place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// Findings of one rule that are listed.
const LISTED: usize = 10;

/// Names and paths that are kept, of each kind.
const KEPT: usize = 50;

/// A text within a text within a text: how often.
const LAYERS: usize = 4;

/// A finding as grave as this is what somebody would hide behind a date.
const GRAVE: u32 = 40;

/// Listens to the acts of a script, in their order.
#[derive(Debug, Default)]
pub struct Judge {
    findings: Vec<Finding>,
    counts: BTreeMap<&'static str, usize>,
    imports: Vec<Import>,
    allowed_imports: Option<Vec<String>>,
    needs: Needs,
    steps: usize,
    /// A walk that only learns had no steps left.
    gave_up: bool,
    /// The place of what is looked at; of what is decoded, the place where it is.
    at: Position,
    /// Substitutions around, within which the place stays where they stand.
    held: usize,
    /// The number of texts around this one.
    layer: usize,
    /// In a text that the script only leads to: such as `in what it decodes`.
    inside: Vec<String>,
    /// The number of loops around.
    loops: usize,
    /// The number of conditions on the date around.
    dated: usize,
    /// False in the passes that only learn what variables hold.
    listens: bool,
    facts: act::Facts,
}

impl Judge {
    /// A judge that has heard nothing.
    pub fn new(allowed_imports: Option<Vec<String>>) -> Judge {
        Judge {
            allowed_imports,
            listens: true,
            ..Judge::default()
        }
    }

    /// Moves on in the text. Within another text, the place is where that one stands.
    pub fn at(&mut self, position: Position) {
        if self.layer == 0 && self.held == 0 {
            self.at = position;
        }
    }

    /// The present place.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Stays at the present place, or moves on again.
    pub fn hold(&mut self, holds: bool) {
        self.held = if holds {
            self.held + 1
        } else {
            self.held.saturating_sub(1)
        };
    }

    /// True when acts count, and are not only there to learn from.
    pub fn listen(&mut self, listens: bool) {
        if listens && !self.listens && self.layer == 0 {
            // The walk that tells has as many steps as those that learn: what these took, nothing that is done is left out for.
            self.gave_up |= self.steps >= bounded::STEPS;
            self.steps = 0;
        }
        self.listens = listens;
    }

    /// True when acts count.
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// Spends steps; false when there are none left.
    pub fn spend(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        self.steps < bounded::STEPS
    }

    /// True in a loop.
    pub fn is_in_loop(&self) -> bool {
        self.loops > 0
    }

    /// Enters or leaves a loop.
    pub fn loops(&mut self, enters: bool) {
        self.loops = if enters {
            self.loops + 1
        } else {
            self.loops.saturating_sub(1)
        };
    }

    /// Enters or leaves what depends on the date.
    pub fn dated(&mut self, enters: bool) {
        self.dated = if enters {
            self.dated + 1
        } else {
            self.dated.saturating_sub(1)
        };
    }

    /// A text that is not in its language. Of a text within another, parts may be unknown.
    pub fn not_parsed(&mut self, says: impl Into<String>) {
        if self.layer == 0 {
            self.find(&rule::NOT_PARSED, says);
        }
    }

    /// A finding at the present place.
    pub fn find(&mut self, rule: &'static Rule, says: impl Into<String>) {
        if !self.listens {
            return;
        }
        let mut says: String = says.into();
        if let Some(inside) = self.inside.last() {
            says = format!("{inside}, {says}");
        }
        self.push(rule, says);
        if self.dated > 0 && rule.weight >= GRAVE && *rule != rule::ACTS_BY_DATE {
            self.push(
                &rule::ACTS_BY_DATE,
                "compares the date with one of its own, and only then does what is found here"
                    .to_owned(),
            );
        }
    }

    fn push(&mut self, rule: &'static Rule, says: String) {
        let at = self.at;
        let is_same = |one: &Finding| {
            one.rule == rule.id
                && one.line == at.line
                && (one.column == at.column || one.says == says)
        };
        if self.findings.iter().any(is_same) {
            return;
        }
        let count = self.counts.entry(rule.id).or_default();
        *count += 1;
        if *count <= LISTED {
            self.findings.push(Finding {
                rule: rule.id,
                line: at.line.max(1),
                column: at.column.max(1),
                technique: rule.technique,
                weight: rule.weight,
                says,
            });
        }
    }

    /// A module that is imported.
    pub fn import(&mut self, module: &str) {
        if !self.listens || module.is_empty() {
            return;
        }
        let is_known = self.imports.iter().any(|one| one.module == module);
        if !is_known && self.imports.len() < 10 * KEPT {
            self.imports.push(Import {
                module: module.to_owned(),
                line: self.at.line.max(1),
            });
        }
        let is_of = |name: &String| {
            module == name
                || module
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
        };
        if self
            .allowed_imports
            .as_ref()
            .is_some_and(|allowed| !allowed.iter().any(is_of))
        {
            self.find(
                &rule::IMPORT_NOT_ALLOWED,
                format!("imports {module}, which is not in the list of allowed modules"),
            );
        }
    }

    /// Another text that this one leads to, such as code that it decodes; `inside` says which.
    pub fn nested(&mut self, inside: String, look: impl FnOnce(&mut Judge)) {
        if self.layer >= LAYERS {
            return self.find(
                &rule::TOO_NESTED,
                "holds code within code, more often than is looked at",
            );
        }
        let (loops, dated) = (self.loops, self.dated);
        self.layer += 1;
        self.inside.push(inside);
        look(self);
        self.inside.pop();
        self.layer -= 1;
        (self.loops, self.dated) = (loops, dated);
    }

    /// The sum of it.
    pub fn finish(mut self) -> Scan {
        self.conclude();
        if self.gave_up || self.steps >= bounded::STEPS {
            self.at = Position::default();
            self.find(
                &rule::TOO_MUCH_WORK,
                "the script takes more work than is done for one, and not all of it was looked at",
            );
        }
        self.findings.sort_by_key(|finding| {
            (
                std::cmp::Reverse(finding.weight),
                finding.line,
                finding.column,
            )
        });
        let all: usize = self.counts.values().sum();
        let is_unread = |finding: &Finding| rule::UNREAD.iter().any(|rule| rule.id == finding.rule);
        Scan {
            language: None,
            whole: !self.findings.iter().any(is_unread),
            score: score(&self.findings),
            left_out: all - self.findings.len(),
            findings: self.findings,
            imports: self.imports,
            needs: self.needs,
        }
    }
}

/// Each rule takes its share of what the others have left of a hundred, once: ten files of settings are no graver than one
/// shell that is connected to the network.
fn score(findings: &[Finding]) -> u32 {
    let rules: BTreeMap<&str, u32> = findings
        .iter()
        .map(|finding| (finding.rule, finding.weight))
        .collect();
    // In millionths, so that the order of rules does not matter before the last digit.
    let left = rules.values().fold(1_000_000_u64, |left, weight| {
        left * (100 - u64::from(*weight)) / 100
    });
    u32::try_from((1_000_000 - left) / 10_000).unwrap_or(99)
}
