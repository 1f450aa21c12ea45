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

/// A directory of the home that no pattern is likely to name.
const OTHER: &[u8] = b"/workspace/\x01\x7f\x01";

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
    }
    let speaking = compile_rules(&speaking, mode)?;
    let states = |table: &Table| {
        [WORKSPACE.as_bytes(), OTHER].map(|path| state_of(table, table.start, path))
    };
    let [home, other] = states(&speaking);
    if speaking.inside[home] == speaking.inside[other] {
        let [home, other] = states(table);
        table.inside[home] = table.inside[other];
        table.below[home] = table.below[other];
    } else {
        let first = usize::from(speaking.below[home]);
        let roles = usize::try_from(speaking.role_count).unwrap_or(1);
        let own = speaking.rows[first..first + roles].to_vec();
        let [home, _] = states(table);
        // No row exceeds ROWS.
        table.below[home] = u16::try_from(rows.place(own)).unwrap_or(0);
        rows.write(table)?;
    }
    Ok(())
}
