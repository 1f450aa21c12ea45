//! The uses of a run, as a stored report tells of them.

mod used;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::NewEntry;
use super::allowances::SideAllowances;
use crate::cli::Moved;
use crate::cmd::learn::seen::FileWant;
use turnkey_report::{escape, unescape};
use used::ReportedUse;

/// Ports from here on are the kernel's choice.
const EPHEMERAL: u16 = 32768;

/// The uses of a run.
#[derive(Debug, Default)]
pub struct RunUses {
    /// The uses of each file, by what was wanted.
    pub files: BTreeMap<(FileWant, Vec<u8>), ReportedUse>,
    /// The uses of each address, by the act.
    pub addresses: BTreeMap<(String, String), ReportedUse>,
    /// System calls, where the report has them.
    pub calls: Option<BTreeSet<String>>,
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
            let count = row["count"].as_u64().unwrap_or(1);
            let succeeded = row["result"] == "allowed";
            let access = row["access"].as_array().into_iter().flatten();
            let wants = access.filter_map(|access| match access.as_str()? {
                "read" => Some(FileWant::Read),
                "write" => Some(FileWant::Write),
                "execute" => Some(FileWant::Run),
                _ => None,
            });
            for want in wants {
                // The start of the command itself is no rule's business.
                let Some(path) = path.clone().filter(|path| path.starts_with(b"/")) else {
                    continue;
                };
                let used = doings.files.entry((want, path)).or_default();
                used.again(row, count, succeeded);
            }
        }
        doings.forget_the_start(report);
        for row in list("network_attempts")? {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let count = row["count"].as_u64().unwrap_or(1);
            let address = without_chosen_port(&text("address"));
            let used = doings.addresses.entry((text("act"), address)).or_default();
            used.again(row, count, row["result"] == "allowed");
        }
        let calls = report["syscalls"].as_array();
        doings.calls = calls.map(|calls| {
            let names = calls.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        });
        Ok(doings)
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
            let against = used.against(|who| allowances.file(*want, path, used.succeeded, who))?;
            let (kind, act) = match want {
                FileWant::Read => ("file", "read"),
                FileWant::Write => ("file", "wrote"),
                FileWant::Run => ("program", "ran"),
            };
            let tried = if used.succeeded {
                ""
            } else {
                "tried in vain, "
            };
            let (times, by) = (times(used.count), against.by);
            Some(NewEntry {
                kind,
                what: format!("{act} {} ({tried}{times}{by})", escape(path)),
                why: against.why,
                key: String::new(),
            })
        });
        let addresses = self.addresses.iter().filter_map(|((act, address), used)| {
            let against = used.against(|who| allowances.address(act, address, who))?;
            let (times, by) = (times(used.count), against.by);
            Some(NewEntry {
                kind: "address",
                what: format!("{act} {address} ({times}{by})"),
                why: against.why,
                key: String::new(),
            })
        });
        let calls = self.calls.iter().flatten().filter_map(|name| {
            Some(NewEntry {
                kind: "syscall",
                what: format!("{name}(2)"),
                why: allowances.call(name)?,
                key: String::new(),
            })
        });
        files.chain(addresses).chain(calls)
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
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
