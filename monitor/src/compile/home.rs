//! A home that lacks what rules on what is present speak of, as a directory among others.
//!
//! Whatever a directory is given another name by is asked what changes for the paths below it. Below the home less is answered
//! than below other directories, where the rules are not silent. But nothing is brought there by a link that leads to the home, and
//! the home itself stays where it is, a mount: it counts as a directory like any other where it would be one without the silence.
//! What lies in it counts as it is, so that no guarded directory is renamed to a name that is not guarded.

use turnkey_abi::Table;
use turnkey_policy::{EnforcementMode, Rule, WORKSPACE};

use super::{CompileError, compile_rules};
use crate::answer::state_of;

/// A directory of the home that no pattern is likely to name.
const OTHER: &[u8] = b"/workspace/\x01\x7f\x01";

/// Gives the home the kind of the directories in it.
pub(super) fn settle(
    rules: &[Rule],
    mode: EnforcementMode,
    table: &mut Table,
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
    }
    Ok(())
}
