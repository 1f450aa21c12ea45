//! The table: one line per program as it ends, and what disagrees below.

use anyhow::{Result, bail};

use super::DemoRow;
use super::header::Header;

/// Longer texts are cut.
const WIDEST_TRIES: usize = 56;

/// The width of what was seen, which is not known when the head is printed; longer texts push the time aside.
const WIDE_SEEN: usize = 50;

/// The run without the jail, when there was one.
pub const WORKED: &str = "works outside the jail";

/// The table so far.
pub struct DemoTable {
    widths: [usize; 3],
    harmless: usize,
    hostile: usize,
    controlled: usize,
    wrong: usize,
    disagreements: Vec<String>,
}

impl DemoTable {
    /// Prints the head; the columns are as wide as the programs need.
    pub fn begin(programs: &[Header]) -> Self {
        let widest = |head: &str, text: &dyn Fn(&Header) -> String| {
            let widths = programs.iter().map(|it| text(it).chars().count());
            widths.max().unwrap_or_default().max(head.len())
        };
        let table = Self {
            widths: [
                widest("program", &Header::name),
                widest("tries", &tries),
                widest("expected", &|it| it.expected.summary()),
            ],
            harmless: 0,
            hostile: 0,
            controlled: 0,
            wrong: 0,
            disagreements: Vec::new(),
        };
        table.line(["", "program", "tries", "expected", "seen", "time"]);
        table
    }

    /// Prints the row of a program that has ended.
    pub fn add(&mut self, row: &DemoRow) {
        let mark = if row.disagreements.is_empty() {
            "ok"
        } else {
            "NO"
        };
        let (time, seen) = match &row.seen {
            Some(seen) => (
                format!("{:.2} s", seen.elapsed.as_secs_f64()),
                seen.summary(),
            ),
            None => (String::new(), row.outside.to_owned()),
        };
        let name = row.program.name();
        let expected = row.program.expected.summary();
        self.line([mark, &name, &tries(row.program), &expected, &seen, &time]);
        self.hostile += usize::from(row.program.is_hostile());
        self.harmless += usize::from(!row.program.is_hostile());
        self.controlled += usize::from(row.outside == WORKED);
        self.wrong += usize::from(!row.disagreements.is_empty());
        self.disagreements.extend(details(row));
    }

    /// Prints the sum. Disagreements are an error.
    pub fn end(self) -> Result<()> {
        let Self {
            harmless,
            hostile,
            controlled,
            ..
        } = self;
        let rows = harmless + hostile;
        if self.disagreements.is_empty() {
            let kinds = format!("{harmless} harmless, {hostile} hostile");
            let attacks = format!("{controlled} of them seen to work outside the jail");
            say(&format!("{rows} rows, all agree: {kinds}, {attacks}"));
            return Ok(());
        }
        say("");
        for line in &self.disagreements {
            say(line);
        }
        bail!("of {rows} rows, {} do not agree", self.wrong);
    }

    fn line(&self, [mark, program, tries, expected, seen, time]: [&str; 6]) {
        let [wide_program, wide_tries, wide_expected] = self.widths;
        say(&format!(
            "{mark:2} {program:wide_program$}  {tries:wide_tries$}  {expected:wide_expected$}  {seen:WIDE_SEEN$}  {time:>7}"
        ));
    }
}

/// The program's attempt, cut to the column.
fn tries(program: &Header) -> String {
    let text = &program.tries;
    if text.chars().count() <= WIDEST_TRIES {
        return text.clone();
    }
    let cut: String = text.chars().take(WIDEST_TRIES - 1).collect();
    format!("{}…", cut.trim_end())
}

/// The program's promise, and one line per fact that is not so. Nothing when all agree.
fn details(row: &DemoRow) -> Vec<String> {
    if row.disagreements.is_empty() {
        return Vec::new();
    }
    let promise = format!("{}: must {}", row.program.name(), row.program.must);
    let wrong = row.disagreements.iter().map(|fact| format!("    {fact}"));
    std::iter::once(promise).chain(wrong).collect()
}

#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
fn say(line: &str) {
    println!("{line}");
}
