//! The table: one line per program as it ends, and what disagrees below.

use anyhow::{Result, bail};

use super::Row;
use super::header::Header;

/// Longer texts are cut.
const WIDEST_TRIES: usize = 56;

/// What was seen is not known when the head is printed; longer texts push the time aside.
const WIDE_SEEN: usize = 50;

/// The table so far.
pub struct Table {
    widths: [usize; 3],
    rows: usize,
    controlled: usize,
    disagreements: Vec<String>,
}

impl Table {
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
            rows: 0,
            controlled: 0,
            disagreements: Vec::new(),
        };
        table.line(["", "program", "tries", "expected", "seen", "time"]);
        table
    }

    /// Prints the row of a program that has ended.
    pub fn add(&mut self, row: &Row) {
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
            None => (String::new(), "not run in the jail".to_owned()),
        };
        let name = row.program.name();
        let expected = row.program.expected.summary();
        self.line([mark, &name, &tries(row.program), &expected, &seen, &time]);
        self.rows += 1;
        self.controlled += usize::from(row.controlled);
        self.disagreements.extend(details(row));
    }

    /// Prints the sum. Disagreements are an error.
    pub fn end(self) -> Result<()> {
        let Self {
            rows, controlled, ..
        } = self;
        if self.disagreements.is_empty() {
            let attacks = format!("{controlled} attacks were first seen to work outside the jail");
            say(&format!("{rows} rows, all agree; {attacks}"));
            return Ok(());
        }
        say("");
        for line in &self.disagreements {
            say(line);
        }
        bail!("{} facts do not agree", self.disagreements.len());
    }

    fn line(&self, [mark, program, tries, expected, seen, time]: [&str; 6]) {
        let [wide_program, wide_tries, wide_expected] = self.widths;
        say(&format!(
            "{mark:2} {program:wide_program$}  {tries:wide_tries$}  {expected:wide_expected$}  {seen:WIDE_SEEN$}  {time:>7}"
        ));
    }
}

/// What it tries, cut to the column.
fn tries(program: &Header) -> String {
    let text = &program.tries;
    if text.chars().count() <= WIDEST_TRIES {
        return text.clone();
    }
    let cut: String = text.chars().take(WIDEST_TRIES - 1).collect();
    format!("{}…", cut.trim_end())
}

/// One line per fact that is not as promised.
fn details(row: &Row) -> Vec<String> {
    let name = row.program.name();
    let wrong = row.disagreements.iter();
    wrong.map(|fact| format!("{name}: {fact}")).collect()
}

#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
fn say(line: &str) {
    println!("{line}");
}
