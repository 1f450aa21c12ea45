//! Python: its tree is walked a few times, first to learn what variables and parameters hold, last to say what is done.

mod call;
mod fold;
mod library;
mod nesting;
mod scope;
mod walk;

use ruff_python_ast::PySourceType;
use ruff_python_parser::parse_unchecked_source;
use ruff_text_size::Ranged;

use crate::judge::{Judge, Position};
use crate::rule;
use walk::Walk;

/// Walks that only learn: a value goes through two functions that stand in the wrong order.
const LEARNING: usize = 2;

/// Tells the judge what a script would do.
pub fn read(source: &str, judge: &mut Judge) {
    if !nesting::is_bounded(source) {
        judge.at(Position { line: 1, column: 1 });
        return judge.find(
            &rule::TOO_NESTED,
            "nests expressions or blocks more deeply than any program needs, and is not looked at",
        );
    }
    let parsed = parse_unchecked_source(source, PySourceType::Python);
    let lines = Lines::new(source);
    if let Some(error) = parsed.errors().first() {
        judge.at(lines.at(error.location.start().to_usize()));
        // What could be read of it is looked at all the same.
        judge.not_parsed(format!("is no Python: {}", error.error));
    }
    let listens = judge.listens();
    let mut walk = Walk::new(judge, &lines);
    for pass in 0..=LEARNING {
        walk.judge.listen(listens && pass == LEARNING);
        walk.script(parsed.suite());
    }
}

/// The lines of a text.
pub struct Lines<'s> {
    source: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    fn new(source: &'s str) -> Lines<'s> {
        let newlines = source
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0)
            .chain(newlines.map(|(at, _)| at + 1))
            .collect();
        Lines { source, starts }
    }

    /// The place of an offset.
    pub fn at(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self
            .starts
            .get(line.saturating_sub(1))
            .copied()
            .unwrap_or_default();
        let before = self.source.get(start..offset).unwrap_or_default();
        Position {
            line,
            column: before.chars().take(2_000).count() + 1,
        }
    }

    fn position_of(&self, node: &impl Ranged) -> Position {
        self.at(node.range().start().to_usize())
    }
}

#[cfg(test)]
mod tests;
