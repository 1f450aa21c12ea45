//! A home that lacks what rules on what is present speak of, as a directory among others.
//!
//! Whatever a directory is given another name by is asked what changes for the paths below it. Below the home less is answered
//! than below other directories, where the rules are not silent. But nothing is brought there by a link that leads to the home, and
//! the home itself stays where it is, a mount: it counts as it would without the silence, as a directory like any other, or as one of
//! which other rules speak. What lies in it counts as it is, so that no guarded directory is renamed to a name that is not guarded.

use turnkey_abi::Table;
use turnkey_policy::{Rule, WORKSPACE};

use super::own::Answers;
use super::{CompileError, SaysNothing};
use crate::answer::state_of;
use crate::automaton::Automaton;
use crate::below::{Strengths, are_alike, below_one};
use crate::rows::{Row, Rows};

/// A directory of the home, behind its path, that no pattern is likely to name.
const OTHER: &[u8] = b"/\x01\x7f\x01";

/// Answers as they would be without the silence of rules on what is present.
pub(super) struct Home<'r> {
    rules: &'r [Rule],
    rows: Rows,
    loud: Option<Automaton>,
}

impl<'r> Home<'r> {
    /// The answers of these rules, if any of them is silent.
    pub(super) fn of_rules(rules: &'r [Rule]) -> Option<Self> {
        let is_silent = |rule: &Rule| rule.present && rule.silent.is_some();
        rules.iter().any(is_silent).then(|| Self {
            rules,
            rows: Rows::default(),
            loud: None,
        })
    }

    /// The number of the answer to a path.
    pub(super) fn place(&mut self, winners: &dyn Fn(SaysNothing<'_>) -> Vec<Row>) -> u32 {
        let rules = self.rules;
        self.rows.place(winners(&|rule, is_silent| {
            is_silent && !rules[rule].present
        }))
    }

    /// Keeps the automaton with these answers, and gives back one that tells no others apart for them.
    pub(super) fn take(&mut self, by_path: &Automaton, answers: &Answers) -> Automaton {
        self.loud = Some(by_path.answering(|number| answers.loud(number)));
        by_path.told_apart_by(|number| answers.quiet(number)).0
    }

    /// Gives the home what it would have without the silence: the kind of the directories in it, or the answers of the rules that
    /// tell it from them.
    pub(super) fn settle(
        mut self,
        table: &mut Table,
        rows: &mut Rows,
        strengths: &Strengths<'_>,
    ) -> Result<(), CompileError> {
        let Some(loud) = self.loud.take() else {
            return Ok(());
        };
        for home in names(self.rules) {
            let other = [&home, OTHER].concat();
            let [own, inside] = [&home, &other].map(|path| loud.state_of(path));
            let [at, at_other] = [&home, &other].map(|path| state_of(table, table.start, path));
            if are_alike(&loud, (own, inside), &self.rows, strengths) {
                table.inside[at] = table.inside[at_other];
                table.below[at] = table.below[at_other];
            } else {
                let answers = below_one(&loud, own, &self.rows, strengths);
                // No row exceeds ROWS.
                table.below[at] = u16::try_from(rows.place(answers)).unwrap_or(0);
                rows.write(table)?;
            }
        }
        Ok(())
    }
}

/// The paths of the home in the jail.
fn names(rules: &[Rule]) -> Vec<Vec<u8>> {
    let mut patterns = rules.iter().flat_map(|rule| &rule.path);
    let named = patterns.find(|pattern| !pattern.names().is_empty());
    named.map_or_else(
        || vec![WORKSPACE.as_bytes().to_vec()],
        |pattern| pattern.names().to_vec(),
    )
}
