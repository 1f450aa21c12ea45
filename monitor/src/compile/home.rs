//! A home that lacks what rules on what is present speak of, as a directory among others.
//!
//! Whatever a directory is given another name by is asked what changes for the paths below it. Below the home less is answered
//! than below other directories, where the rules are not silent. But nothing is brought there by a link that leads to the home, and
//! the home itself stays where it is, a mount: it counts as it would without the silence, as a directory like any other, or as one of
//! which other rules speak. What lies in it counts as it is, so that no guarded directory is renamed to a name that is not guarded.

use turnkey_abi::Table;
use turnkey_policy::{EnforcementMode, Rule, WORKSPACE};

use super::{CompileError, compile_rules};
use crate::answer::state_of;
use crate::rows::Rows;

/// A directory of the home, behind its path, that no pattern is likely to name.
const OTHER: &[u8] = b"/\x01\x7f\x01";

/// Gives the home what it would have without the silence: the kind of the directories in it, or the answers of the rules that
/// tell it from them.
pub(super) fn settle(
    rules: &[Rule],
    mode: EnforcementMode,
    table: &mut Table,
    rows: &mut Rows,
) -> Result<(), CompileError> {
    if !rules
        .iter()
        .any(|rule| rule.present && rule.silent.is_some())
    {
        return Ok(());
    }
    let mut speaking = rules.to_vec();
    for rule in speaking.iter_mut().filter(|rule| rule.present) {
        rule.silent = None;
        rule.lacking.clear();
    }
    let speaking = compile_rules(&speaking, mode)?;
    for home in names(rules) {
        settle_at(&home, &speaking, table, rows)?;
    }
    Ok(())
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

fn settle_at(
    home: &[u8],
    speaking: &Table,
    table: &mut Table,
    rows: &mut Rows,
) -> Result<(), CompileError> {
    let states = |table: &Table| {
        let other = [home, OTHER].concat();
        [home, &other].map(|path| state_of(table, table.start, path))
    };
    let [own, other] = states(speaking);
    if speaking.inside[own] == speaking.inside[other] {
        let [own, other] = states(table);
        table.inside[own] = table.inside[other];
        table.below[own] = table.below[other];
    } else {
        let first = usize::from(speaking.below[own]);
        let roles = usize::try_from(speaking.role_count).unwrap_or(1);
        let answers = speaking.rows[first..first + roles].to_vec();
        let [own, _] = states(table);
        // No row exceeds ROWS.
        table.below[own] = u16::try_from(rows.place(answers)).unwrap_or(0);
        rows.write(table)?;
    }
    Ok(())
}
