//! Acts of a run that use no file's content and no address: changes of names and attributes, and calls that no profile's walls let pass.

use std::collections::BTreeMap;

use serde_json::Value;
use turnkey_policy::{AttemptKind, NamedVariants as _};

use super::used::ReportedUse;
use crate::cmd::diff::NewEntry;
use crate::cmd::diff::allowances::SideAllowances;
use turnkey_report::{escape, unescape};

/// Kinds of act on a name or on attributes, and what was done to the file, in words.
pub const CHANGES: [(AttemptKind, &str); 5] = [
    (AttemptKind::Unlink, "deleted"),
    (AttemptKind::Rename, "renamed"),
    (AttemptKind::Link, "gave another name to"),
    (AttemptKind::Chmod, "changed the mode or owner of"),
    (AttemptKind::Attribute, "changed times or attributes of"),
];

/// The acts of a run.
#[derive(Debug, Default)]
pub struct RunActs {
    /// Changes, by the kind and the file.
    pub changes: BTreeMap<(AttemptKind, Vec<u8>), ReportedUse>,
    /// Acts that rules forbid as a whole or by another object, by the kind and the object in words, which may be empty.
    pub others: BTreeMap<(AttemptKind, String), ReportedUse>,
}

impl RunActs {
    /// Takes in a row of `file_operations`.
    pub fn note_file(&mut self, row: &Value) {
        let Some(path) = row["path"].as_str().map(unescape) else {
            return;
        };
        for word in row["access"].as_array().into_iter().flatten() {
            let kind = word.as_str().and_then(AttemptKind::from_name);
            let change = CHANGES.iter().find(|(on, _)| Some(*on) == kind);
            if let Some((on, _)) = change {
                let used = self.changes.entry((*on, path.clone())).or_default();
                used.again(row);
            }
        }
    }

    /// Takes in a row of `violations`, unless it is about a file or an address: those are told with all others.
    pub fn note_violation(&mut self, row: &Value) {
        let Some(on) = row["on"].as_str().and_then(AttemptKind::from_name) else {
            return;
        };
        if on == AttemptKind::Map || !on.has_path() && !on.has_address() {
            let object = ["path", "syscall"].map(|key| row[key].as_str());
            let object = object.into_iter().flatten().next().unwrap_or_default();
            let used = self.others.entry((on, object.to_owned())).or_default();
            used.again(row);
        }
    }

    /// The acts that are not allowed.
    pub fn beyond<'d>(
        &'d self,
        allowances: &'d SideAllowances<'d>,
    ) -> impl Iterator<Item = NewEntry> + 'd {
        let changes = self.changes.iter().filter_map(|((on, path), used)| {
            let against = used.against(|who| allowances.change(*on, path, used, who))?;
            let (_, did) = CHANGES.iter().find(|(known, _)| known == on)?;
            let what = format!("{did} {} {}", escape(path), used.told(&against));
            Some(against.entry("file", what))
        });
        let others = self.others.iter().filter_map(|((on, object), used)| {
            let against = used.against(|who| allowances.other(*on, object, who))?;
            let space = if object.is_empty() { "" } else { " " };
            let what = format!("{on}{space}{object} {}", used.told(&against));
            Some(against.entry("syscall", what))
        });
        changes.chain(others)
    }
}
