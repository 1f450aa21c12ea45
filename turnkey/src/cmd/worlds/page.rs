//! The table of worlds, and what is found, for people and for programs.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use turnkey_report::{Report, visible};

use super::acts::{Act, Acts};
use super::compare::WorldDifference;
use super::world::{Dependence, HERE, World};

/// Acts of one finding that are shown to people.
const SHOWN: usize = 20;

/// A world that was run.
pub struct WorldRow {
    /// The name of the world.
    pub name: String,
    /// The settings of its own.
    pub world: World,
    /// The date, as it is shown.
    pub date: String,
    /// The report of the first run; `None` where the profile makes it the same as here.
    pub report: Option<Report>,
    /// The acts that differ.
    pub difference: WorldDifference,
}

/// The outcome of all worlds.
#[derive(Serialize)]
pub struct WorldsPage {
    schema: &'static str,
    command: Vec<String>,
    /// Acts that differ between two runs of here.
    noise: usize,
    worlds: Vec<PageWorld>,
    findings: Vec<PageFinding>,
}

#[derive(Serialize)]
struct PageWorld {
    name: String,
    date: String,
    differs_in: Vec<Dependence>,
    /// `null` for a world that the profile makes the same as here, and that was not run.
    status: Option<turnkey_report::Status>,
    exit_code: Option<u8>,
    verdict: Option<turnkey_report::Verdict>,
    risk_score: Option<u32>,
    there_alone: usize,
    here_alone: usize,
}

#[derive(Serialize)]
struct PageFinding {
    id: &'static str,
    worlds: Vec<String>,
    /// Done there and not here.
    there_alone: Vec<PageAct>,
    /// Done here and not there.
    here_alone: Vec<PageAct>,
}

#[derive(Serialize)]
struct PageAct {
    act: String,
    worlds: Vec<String>,
}

impl WorldsPage {
    /// The page of these worlds, `here` the first.
    pub fn new(command: Vec<String>, noise: usize, rows: &[WorldRow]) -> WorldsPage {
        let findings = Dependence::ALL.into_iter();
        WorldsPage {
            schema: "turnkey.worlds/v1",
            command,
            noise,
            worlds: rows.iter().map(PageWorld::from_row).collect(),
            findings: findings
                .filter_map(|part| PageFinding::from_rows(part, rows))
                .collect(),
        }
    }

    /// True when the program does the same everywhere.
    pub fn agrees(&self) -> bool {
        self.findings.is_empty()
    }

    /// Writes it for people.
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let widest = self
            .worlds
            .iter()
            .map(|world| world.name.len())
            .max()
            .unwrap_or_default();
        let widest = widest.max("world".len());
        writeln!(
            out,
            "{:<widest$}  {:<20}  {:<17}  {:<12}  differs",
            "world", "date", "end", "verdict"
        )?;
        for world in &self.worlds {
            let (end, verdict) = (world.end(), world.verdict());
            let differs = world.differs();
            writeln!(
                out,
                "{:<widest$}  {:<20}  {end:<17}  {verdict:<12}  {differs}",
                world.name, world.date
            )?;
        }
        if self.agrees() {
            writeln!(out, "\nthe program does the same in every world")?;
        }
        for finding in &self.findings {
            writeln!(out, "\n{}: in {}", finding.id, finding.worlds.join(", "))?;
            write_acts(
                out,
                "there and not here",
                &finding.there_alone,
                &finding.worlds,
            )?;
            write_acts(
                out,
                "here and not there",
                &finding.here_alone,
                &finding.worlds,
            )?;
        }
        if self.noise > 0 {
            writeln!(
                out,
                "\n{} acts differ between two runs here, and count nowhere",
                self.noise
            )?;
        }
        Ok(())
    }
}

fn write_acts(
    out: &mut impl Write,
    title: &str,
    acts: &[PageAct],
    all: &[String],
) -> std::io::Result<()> {
    if acts.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {title}")?;
    for PageAct { act, worlds } in acts.iter().take(SHOWN) {
        let of = match worlds == all {
            true => String::new(),
            false => format!(" ({})", worlds.join(", ")),
        };
        writeln!(out, "    {}{of}", visible(act))?;
    }
    if acts.len() > SHOWN {
        writeln!(out, "    and {} more, with --json", acts.len() - SHOWN)?;
    }
    Ok(())
}

impl PageWorld {
    fn from_row(row: &WorldRow) -> PageWorld {
        let report = row.report.as_ref();
        PageWorld {
            name: row.name.clone(),
            date: row.date.clone(),
            differs_in: row.world.differs_in(),
            status: report.map(|report| report.status),
            exit_code: report.and_then(|report| report.exit_code),
            verdict: report.map(|report| report.verdict),
            risk_score: report.map(|report| report.risk_score),
            there_alone: row.difference.there.len(),
            here_alone: row.difference.here.len(),
        }
    }

    fn end(&self) -> String {
        let word = word_of(self.status.as_ref());
        match self.exit_code {
            Some(code) => format!("{word} {code}"),
            None => word,
        }
    }

    fn verdict(&self) -> String {
        word_of(self.verdict.as_ref())
    }

    fn differs(&self) -> String {
        if self.name == HERE {
            return "-".to_owned();
        }
        if self.status.is_none() {
            return "not run: with this profile it is the same as here".to_owned();
        }
        match (self.there_alone, self.here_alone) {
            (0, 0) => "no".to_owned(),
            (there, 0) => format!("{there} there alone"),
            (0, here) => format!("{here} here alone"),
            (there, here) => format!("{there} there alone, {here} here alone"),
        }
    }
}

/// The word that JSON has for it.
fn word_of(value: Option<&impl Serialize>) -> String {
    let value = value.and_then(|value| serde_json::to_value(value).ok());
    let word = value.as_ref().and_then(serde_json::Value::as_str);
    word.unwrap_or("-").replace('_', " ")
}

impl PageFinding {
    fn from_rows(part: Dependence, rows: &[WorldRow]) -> Option<PageFinding> {
        let rows = rows
            .iter()
            .filter(|row| row.world.differs_in().contains(&part));
        let rows: Vec<&WorldRow> = rows.filter(|row| !row.difference.is_empty()).collect();
        (!rows.is_empty()).then(|| PageFinding {
            id: part.id(),
            worlds: rows.iter().map(|row| row.name.clone()).collect(),
            there_alone: acts(&rows, |difference| &difference.there),
            here_alone: acts(&rows, |difference| &difference.here),
        })
    }
}

/// Each act with the worlds that differ in it.
fn acts(rows: &[&WorldRow], of: impl Fn(&WorldDifference) -> &Acts) -> Vec<PageAct> {
    let mut found: BTreeMap<&Act, PageAct> = BTreeMap::new();
    for row in rows {
        for (act, shown) in of(&row.difference) {
            let entry = found.entry(act).or_insert_with(|| PageAct {
                act: shown.clone(),
                worlds: Vec::new(),
            });
            entry.worlds.push(row.name.clone());
        }
    }
    found.into_values().collect()
}
