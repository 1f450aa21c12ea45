//! The findings, put together for the page and for `--check`.

use std::collections::BTreeMap;

use super::rounds::Results;
use super::statistics::{Ratio, Summary};

/// All that a run of the command found out.
#[derive(Default)]
pub struct Findings {
    /// In the order of the page.
    pub sections: Vec<Section>,
    /// By name; the goals and `--check` are about them.
    pub ratios: BTreeMap<String, Ratio>,
}

impl Findings {
    /// Keeps a ratio under that name, if it could be measured.
    pub fn keep(&mut self, name: &str, ratio: Option<Ratio>) {
        if let Some(ratio) = ratio {
            self.ratios.insert(name.to_owned(), ratio);
        }
    }
}

/// A part of the page.
pub struct Section {
    /// The section's heading.
    pub title: &'static str,
    /// The section's content.
    pub blocks: Vec<FindingsBlock>,
}

/// A piece of a section.
pub enum FindingsBlock {
    /// A paragraph of Markdown.
    Text(String),
    /// A table: the head, and rows of the same width.
    Table(Vec<String>, Vec<Vec<String>>),
    /// Words that somebody can type, as they are.
    Commands(Vec<String>),
    /// A picture of its own file.
    Plot(Plot),
}

/// A picture.
pub struct Plot {
    /// The name of its file, without the ending.
    pub name: &'static str,
    /// The content of the picture in words, for whoever does not see it.
    pub shows: String,
    /// The picture.
    pub svg: String,
}

impl FindingsBlock {
    /// A paragraph.
    pub fn text(text: impl Into<String>) -> FindingsBlock {
        FindingsBlock::Text(text.into())
    }

    /// A table with that head.
    pub fn table(head: &[&str], rows: Vec<Vec<String>>) -> FindingsBlock {
        FindingsBlock::Table(head.iter().map(ToString::to_string).collect(), rows)
    }

    /// As it is on the page.
    pub fn markdown(&self) -> String {
        match self {
            FindingsBlock::Text(text) => format!("{text}\n"),
            FindingsBlock::Commands(lines) => format!("```sh\n{}\n```\n", lines.join("\n")),
            FindingsBlock::Plot(plot) => {
                format!("![{}](benchmarks/{}.svg)\n", plot.shows, plot.name)
            }
            FindingsBlock::Table(head, rows) => {
                let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
                let rule = format!("|{}\n", "---|".repeat(head.len()));
                let rows: String = rows.iter().map(|row| line(row)).collect();
                line(head) + &rule + &rows
            }
        }
    }
}

/// A table of times: everybody's median and quarters, and the ratio to one of them.
pub fn times(results: &Results, unit: Unit, reference: &str) -> FindingsBlock {
    let by = format!("× {reference}");
    let head = ["", "median", "middle half", &by];
    let rows = results.all().filter_map(|(name, _)| {
        let summary = results.summary(name)?;
        let ratio = results.ratio(name, reference);
        let ratio = ratio.map_or_else(String::new, |it| {
            format!("{:.2} ± {:.2}", it.value, it.noise)
        });
        let [median, between] = unit.shown(summary);
        Some(vec![name.to_owned(), median, between, ratio])
    });
    FindingsBlock::table(&head, rows.collect())
}

/// The unit in which seconds are shown.
#[derive(Clone, Copy)]
pub enum Unit {
    /// In thousandths.
    Milliseconds,
    /// In millionths.
    Microseconds,
}

impl Unit {
    /// The median, and what lies on either side of it.
    pub fn shown(self, summary: Summary) -> [String; 2] {
        let (factor, name) = match self {
            Unit::Milliseconds => (1e3, "ms"),
            Unit::Microseconds => (1e6, "µs"),
        };
        let [median, low, high] =
            [summary.median, summary.low, summary.high].map(|it| digits(it * factor));
        [format!("{median} {name}"), format!("{low} – {high} {name}")]
    }
}

/// Three digits that say something.
pub fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 || small == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_head_a_rule_and_its_rows() {
        let table = FindingsBlock::table(&["", "b"], vec![vec!["x".into(), "y".into()]]);
        assert_eq!(table.markdown(), "|  | b |\n|---|---|\n| x | y |\n");
    }

    #[test]
    fn figures_have_three_digits_that_say_something() {
        let shown = [1234.5, 12.345, 1.2345, 0.12345, 0.0].map(digits);
        assert_eq!(shown, ["1234", "12.3", "1.23", "0.123", "0.00"]);
    }

    #[test]
    fn times_are_shown_in_their_unit() {
        let summary = Summary {
            median: 0.0125,
            low: 0.012,
            high: 0.013,
        };
        let [median, between] = Unit::Milliseconds.shown(summary);
        assert_eq!((&*median, &*between), ("12.5 ms", "12.0 – 13.0 ms"));
    }
}
