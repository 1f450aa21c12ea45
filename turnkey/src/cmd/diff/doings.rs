//! The uses of a run, as a stored report tells of them.

mod acts;
mod used;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::NewEntry;
use super::allowances::SideAllowances;
use crate::cli::Moved;
use crate::cmd::learn::seen::FileWant;
pub use acts::CHANGES;
use acts::RunActs;
use turnkey_report::{escape, unescape};
pub use used::ReportedUse;

/// Ports from here on are the kernel's choice.
const EPHEMERAL: u16 = 32768;

/// The act on an address that is a name.
const LOOK_UP: &str = "look up";

/// The uses of a run.
#[derive(Debug, Default)]
pub struct RunUses {
    /// The uses of each file, by what was wanted.
    pub files: BTreeMap<(FileWant, Vec<u8>), ReportedUse>,
    /// The uses of each address, by the act.
    pub addresses: BTreeMap<(String, String), ReportedUse>,
    /// System calls, where the report has them.
    pub calls: Option<BTreeSet<String>>,
    /// Changes of names, and what rules forbid as a whole.
    pub acts: RunActs,
}

impl RunUses {
    /// Reads a report.
    pub fn read(report: &Value) -> anyhow::Result<RunUses> {
        let schema = report["schema"].as_str().unwrap_or_default();
        ensure!(schema == "turnkey.report/v1", "its schema is {schema:?}");
        let list = |key: &str| {
            let list = report[key].as_array();
            list.with_context(|| format!("it has no list `{key}`"))
        };
        let mut doings = RunUses::default();
        for row in list("file_operations")? {
            let path = row["path"].as_str().map(unescape);
            doings.acts.note_file(row);
            let access = row["access"].as_array().into_iter().flatten();
            let wants = access.filter_map(|access| match access.as_str()? {
                "read" => Some(FileWant::Read),
                "write" => Some(FileWant::Write),
                "execute" => Some(FileWant::Run),
                _ => None,
            });
            for want in wants {
                // A name that leads from nobody knows where is no rule's business.
                let Some(path) = path.clone().filter(|path| is_known(path)) else {
                    continue;
                };
                doings.files.entry((want, path)).or_default().again(row);
            }
        }
        doings.forget_the_start(report);
        for row in list("network_attempts")? {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let address = without_chosen_port(&text("address"));
            let used = doings.addresses.entry((text("act"), address)).or_default();
            used.again(row);
            for name in row["name"].as_str().unwrap_or_default().split_whitespace() {
                let looked_up = (LOOK_UP.to_owned(), name.to_owned());
                doings.addresses.entry(looked_up).or_default().again(row);
            }
        }
        for row in report["violations"].as_array().into_iter().flatten() {
            doings.acts.note_violation(row);
            doings.note_other_name(row);
        }
        let calls = report["syscalls"].as_array();
        doings.calls = calls.map(|calls| {
            let names = calls.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        });
        Ok(doings)
    }

    /// Takes in the name that a file was given, of which a violation alone has a row.
    fn note_other_name(&mut self, row: &Value) {
        let Some(path) = row["path"]
            .as_str()
            .map(unescape)
            .filter(|path| is_known(path))
        else {
            return;
        };
        let mut access = row["access"].as_array().into_iter().flatten();
        if row["on"] == "open" && access.any(|access| access == "write") {
            let key = (FileWant::Write, path);
            if !self.files.contains_key(&key) {
                self.files.entry(key).or_default().again(row);
            }
        }
    }

    /// No rule is asked about the start of the command.
    fn forget_the_start(&mut self, report: &Value) {
        let processes = report["processes"].as_array().into_iter().flatten();
        let mut executed = processes.filter_map(|process| process["exe"]["path"].as_str());
        let Some(path) = executed.next() else { return };
        let key = (FileWant::Run, unescape(path));
        if let Some(used) = self.files.get_mut(&key) {
            used.count -= 1;
            if used.count == 0 {
                self.files.remove(&key);
            }
        }
    }

    /// Every file, whatever was wanted of it.
    pub fn paths(&self) -> BTreeSet<Vec<u8>> {
        self.files.keys().map(|(_, path)| path.clone()).collect()
    }

    /// Renames files; of two that become one, either is the use.
    pub fn rename(&mut self, moved: &Moved) {
        let changes = std::mem::take(&mut self.acts.changes).into_iter();
        let renamed = changes.map(|((on, path), used)| ((on, moved.apply(&path)), used));
        self.acts.changes = renamed.collect();
        let files = std::mem::take(&mut self.files).into_iter();
        let renamed = files.map(|((want, path), used)| ((want, moved.apply(&path)), used));
        self.files = renamed.collect();
    }

    /// The uses that are not allowed.
    pub fn beyond<'d>(
        &'d self,
        allowances: &'d SideAllowances<'d>,
    ) -> impl Iterator<Item = NewEntry> + 'd {
        let files = self.files.iter().filter_map(|((want, path), used)| {
            let against = used.against(|who| allowances.file(*want, path, used, who))?;
            let (kind, act) = match want {
                FileWant::Read => ("file", "read"),
                FileWant::Write => ("file", "wrote"),
                FileWant::Run => ("program", "ran"),
            };
            let what = format!("{act} {} {}", escape(path), used.told(&against));
            Some(against.entry(kind, what))
        });
        let addresses = self.addresses.iter().filter_map(|((act, address), used)| {
            let against = used.against(|who| allowances.address(act, address, who))?;
            let what = format!("{act} {address} {}", used.told(&against));
            Some(against.entry("address", what))
        });
        let calls = self.calls.iter().flatten().filter_map(|name| {
            Some(NewEntry {
                kind: "syscall",
                what: format!("{name}(2)"),
                why: allowances.call(name)?,
                key: String::new(),
            })
        });
        let acts = self.acts.beyond(allowances);
        files.chain(addresses).chain(calls).chain(acts)
    }
}

/// True for a path from the root, and for memory that no directory names.
fn is_known(path: &[u8]) -> bool {
    path.starts_with(b"/") || path.starts_with(b"memfd:")
}

fn without_chosen_port(address: &str) -> String {
    match address.parse::<std::net::SocketAddr>() {
        Ok(mut parsed) if parsed.port() >= EPHEMERAL => {
            parsed.set_port(0);
            parsed.to_string()
        }
        _ => address.to_owned(),
    }
}
