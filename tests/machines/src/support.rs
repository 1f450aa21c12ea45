//! The table of tests by kernel and tier, docs/kernel-support.md.
//!
//! What a run of a machine came to is recorded in docs/kernel-support.json, by the command and by
//! nobody else; the page is rendered from that. So a machine can be run again alone, and a test below
//! tells whether the page is the record's and whether it names the machines that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::machines::{BOOTS, MACHINES};

/// The page, below the checkout.
pub const PAGE: &str = "docs/kernel-support.md";
/// The record, below the checkout.
pub const RECORD: &str = "docs/kernel-support.json";
/// The machine that is no guest.
pub const HOST: &str = "host";

/// The command that writes these files.
const COMMAND: &str = "cargo xtask vm --write-table";

/// The mark of a test's line that is to stand in the page.
const TOLD: &str = "told: ";

/// The results of every machine when all of its tests last passed, by its name.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Record(BTreeMap<String, Ran>);

/// The results of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The kernel's release.
    pub kernel: String,
    /// The number of tests that passed, by group. Each that was expected did, or there is no record.
    pub passed: BTreeMap<String, usize>,
    /// The number of tests left out, by group and reason.
    pub left_out: BTreeMap<String, BTreeMap<String, usize>>,
    /// The lines that its tests told of it.
    pub told: BTreeSet<String>,
}

impl Ran {
    /// One more test that passed.
    pub fn add_passed(&mut self, test: &str) {
        *self.passed.entry(group(test)).or_default() += 1;
    }

    /// One more test that is not expected here.
    pub fn add_left_out(&mut self, test: &str, why: &str) {
        let reasons = self.left_out.entry(group(test)).or_default();
        *reasons.entry(why.to_owned()).or_default() += 1;
    }

    fn add(&mut self, other: &Ran) {
        self.kernel.clone_from(&other.kernel);
        for (group, count) in &other.passed {
            *self.passed.entry(group.clone()).or_default() += count;
        }
        for (group, reasons) in &other.left_out {
            let ours = self.left_out.entry(group.clone()).or_default();
            for (why, count) in reasons {
                *ours.entry(why.clone()).or_default() += count;
            }
        }
        self.told.extend(other.told.iter().cloned());
    }

    fn cell(&self, group: &str) -> String {
        let passed = self.passed.get(group).copied().unwrap_or(0);
        let reasons = self.left_out.get(group);
        let left_out: usize = reasons.map_or(0, |reasons| reasons.values().sum());
        match (passed, left_out) {
            (0, 0) => String::from("–"),
            (0, _) => String::from("left out"),
            (_, 0) => format!("{passed} of {passed}"),
            _ => format!("{passed} of {passed}, {left_out} left out"),
        }
    }
}

/// The lines of a test's output that are to stand in the page.
pub fn told(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.strip_prefix(TOLD))
}

/// Binary and module of a test such as `e2e limits::memory`.
fn group(test: &str) -> String {
    let (binary, name) = test.split_once(' ').unwrap_or(("", test));
    // All tests of that binary are in a module of its name.
    let name = name.strip_prefix("live::").unwrap_or(name);
    let module = name.split("::").next().unwrap_or(name);
    format!("{binary} {module}")
}

impl Record {
    /// Reads what is recorded; nothing is, at first.
    pub fn read(root: &Path) -> Result<Record> {
        let path = root.join(RECORD);
        if !path.exists() {
            return Ok(Record::default());
        }
        let text = std::fs::read_to_string(&path)?;
        serde_json::from_str(&text).with_context(|| format!("{RECORD} is not as {COMMAND} left it"))
    }

    /// Takes over what machines came to.
    pub fn update(&mut self, ran: BTreeMap<String, Ran>) {
        self.0.extend(ran);
        self.0.retain(|name, _| names().any(|known| known == name));
    }

    /// Writes record and page.
    pub fn write(&self, root: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        std::fs::write(root.join(RECORD), json)?;
        std::fs::write(root.join(PAGE), self.page())?;
        eprintln!("written: {PAGE}");
        Ok(())
    }

    /// The columns: the host and every boot of which something is recorded.
    fn columns(&self) -> Vec<Column> {
        let host = Column {
            name: String::from(HOST),
            command_line: "",
            ran: self.0.get(HOST).cloned().unwrap_or_default(),
        };
        let boots = BOOTS.iter().map(|boot| {
            let mut ran = Ran::default();
            let machines = MACHINES.iter().filter(|it| it.boot.name == boot.name);
            for machine in machines.filter_map(|it| self.0.get(it.name)) {
                ran.add(machine);
            }
            Column {
                name: boot.name.to_owned(),
                command_line: boot.command_line,
                ran,
            }
        });
        std::iter::once(host).chain(boots).collect()
    }

    /// The whole page.
    fn page(&self) -> String {
        let columns = self.columns();
        format!(
            "# Kernels\n\n\
             Written by `{COMMAND}`, from what it ran; do not edit it. A column changes only when every test that is\n\
             expected on that machine has passed. `–`: the tests are made for another machine.\n\n\
             {}\n{}\n{}",
            table(&columns),
            machines(&columns),
            reasons(&columns)
        )
    }
}

/// The machines, the host first.
fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(HOST).chain(MACHINES.iter().map(|machine| machine.name))
}

/// A column of the table.
struct Column {
    name: String,
    command_line: &'static str,
    ran: Ran,
}

fn table(columns: &[Column]) -> String {
    let mut text = String::from("| tests of |");
    for column in columns {
        let _ = write!(text, " {} |", column.name);
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
    let groups = columns
        .iter()
        .flat_map(|it| it.ran.passed.keys().chain(it.ran.left_out.keys()));
    for group in groups.collect::<BTreeSet<_>>() {
        let _ = write!(text, "| `{group}` |");
        for column in columns {
            let _ = write!(text, " {} |", column.ran.cell(group));
        }
        text.push('\n');
    }
    text
}

fn machines(columns: &[Column]) -> String {
    let mut text = String::from("## The machines, and what `turnkey doctor` says there\n\n");
    for column in columns {
        let _ = match column.ran.kernel.as_str() {
            "" => write!(text, "- **{}**: not run yet", column.name),
            release => write!(text, "- **{}**: Linux {release}", column.name),
        };
        match column.command_line {
            "" => {}
            line => {
                let _ = write!(text, ", started with `{line}`");
            }
        }
        text.push('\n');
        for told in &column.ran.told {
            let _ = writeln!(text, "  - {told}");
        }
    }
    text
}

fn reasons(columns: &[Column]) -> String {
    let mut text = String::from("## Left out\n\n");
    for column in columns.iter().filter(|it| !it.ran.left_out.is_empty()) {
        let _ = writeln!(text, "On {}:", column.name);
        let mut groups_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (group, reasons) in &column.ran.left_out {
            for why in reasons.keys() {
                groups_of.entry(why).or_default().push(format!("`{group}`"));
            }
        }
        for (why, groups) in groups_of {
            let _ = writeln!(text, "- {}: {why}", groups.join(", "));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_the_records_and_names_the_machines_that_there_are() {
        let root = xtask::workspace::root();
        let record = Record::read(&root).expect("a record");
        let known: Vec<&str> = names().collect();
        for name in record.0.keys() {
            assert!(known.contains(&name.as_str()), "{RECORD}: `{name}`");
        }
        let page = std::fs::read_to_string(root.join(PAGE)).expect("a page");
        assert!(page == record.page(), "{PAGE}: run `{COMMAND}`");
    }

    fn ran() -> Ran {
        let mut ran = Ran::default();
        ran.add_passed("live live::open::one");
        ran.add_passed("live live::open::two");
        ran.add_left_out("e2e bombs::fork", "slow");
        ran.add_passed("e2e limits::memory");
        ran.add_left_out("e2e limits::crowd", "slow");
        ran
    }

    #[test]
    fn a_cell_says_how_many_passed_and_how_many_are_left_out() {
        let ran = ran();
        assert_eq!(ran.cell("live open"), "2 of 2");
        assert_eq!(ran.cell("e2e bombs"), "left out");
        assert_eq!(ran.cell("e2e limits"), "1 of 1, 1 left out");
        assert_eq!(ran.cell("guest lsm"), "–");
    }

    #[test]
    fn what_is_left_out_stands_in_the_page_with_its_reason() {
        let record = Record(BTreeMap::from([("6.1 tracepoint".to_owned(), ran())]));
        let page = record.page();
        assert!(page.contains("- `e2e bombs`, `e2e limits`: slow"), "{page}");
        assert!(page.contains("| `live open` | – |"), "{page}");
    }

    #[test]
    fn a_machine_that_is_no_more_leaves_the_record() {
        let mut record = Record(BTreeMap::from([("5.4".to_owned(), ran())]));
        record.update(BTreeMap::from([(HOST.to_owned(), ran())]));
        assert_eq!(record.0.keys().collect::<Vec<_>>(), [HOST]);
    }
}
