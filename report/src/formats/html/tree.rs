//! The tree of processes: every image can be folded away with what came of it.

use std::collections::{BTreeMap, BTreeSet};

use super::markup::{Markup, element_with, say};
use super::time_of_day;
use crate::model::{Exit, Process, Report};
use crate::terminal;

/// The depth to which it is drawn: deeper ones stand side by side. A stored report can claim anything.
const DEEPEST: usize = 40;

/// The tree.
pub fn section(report: &Report) -> Markup {
    let tree = Tree::new(report);
    let roots: Vec<Markup> = tree.roots.iter().map(|root| tree.node(*root, 0)).collect();
    if roots.is_empty() {
        return Markup::default();
    }
    let button = |what: &str, words: &str| {
        let attributes = [("type", "button"), ("data-tree", what)];
        Markup::element("button", &attributes, [Markup::text(words)])
    };
    let buttons = element_with(
        "span",
        "tools",
        [button("open", "Expand all"), button("close", "Fold all")],
    );
    let list = Markup::element("ul", &[("class", "tree card")], roots);
    let omitted = match report.omitted.processes {
        0 => Markup::default(),
        more => say("p", "dim", &format!("and {more} more")),
    };
    super::section(
        "processes",
        "Processes",
        buttons,
        Markup::all([list, omitted]),
    )
}

struct Tree<'r> {
    rows: &'r [Process],
    children: BTreeMap<usize, Vec<usize>>,
    roots: Vec<usize>,
    /// The number of attempts that each image has in `violations`.
    attempts: BTreeMap<u32, u64>,
}

impl<'r> Tree<'r> {
    fn new(report: &'r Report) -> Self {
        let rows = report.processes.as_slice();
        let by_id: BTreeMap<u32, usize> = rows.iter().map(|row| row.exec_id).zip(0..).collect();
        let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut roots = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let parent = row.parent.and_then(|parent| by_id.get(&parent));
            // Parents come first, so there is no way around in a circle.
            match parent.filter(|parent| **parent < index) {
                Some(parent) => children.entry(*parent).or_default().push(index),
                None => roots.push(index),
            }
        }
        let mut attempts = BTreeMap::new();
        for violation in &report.violations {
            if let Some(id) = violation.process.exec_id {
                *attempts.entry(id).or_default() += violation.count;
            }
        }
        Self {
            rows,
            children,
            roots,
            attempts,
        }
    }

    fn node(&self, index: usize, depth: usize) -> Markup {
        let row = &self.rows[index];
        let line = self.line(row);
        let below = match self.children.get(&index) {
            None => return element_with("li", "", [element_with("div", "leaf", [line])]),
            Some(_) if depth < DEEPEST => self.children[&index].clone(),
            Some(_) => self.all_below(index),
        };
        let deeper = depth + 1;
        let below: Vec<Markup> = below
            .into_iter()
            .map(|child| match depth < DEEPEST {
                true => self.node(child, deeper),
                false => element_with(
                    "li",
                    "",
                    [element_with("div", "leaf", [self.line(&self.rows[child])])],
                ),
            })
            .collect();
        let list = Markup::element("ul", &[], below);
        let summary = element_with("summary", "", [line]);
        let node = Markup::element("details", &[("open", "")], [summary, list]);
        element_with("li", "", [node])
    }

    fn all_below(&self, index: usize) -> Vec<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![index];
        while let Some(index) = open.pop() {
            let children = self.children.get(&index).into_iter().flatten();
            open.extend(children.filter(|child| found.insert(**child)));
        }
        found.into_iter().collect()
    }

    fn line(&self, row: &Process) -> Markup {
        let exe = row.exe.as_ref().map(|exe| exe.path.as_str());
        let replaced = row.exit.is_none() && row.end.is_some();
        let exit = match row.exit {
            Some(Exit::Code(0)) => ("good", "exit 0".to_owned()),
            Some(Exit::Code(code)) => ("warn", format!("exit {code}")),
            Some(Exit::Signal(signal)) => ("bad", terminal::signal_name(signal)),
            None if replaced => ("dim", "became another program".to_owned()),
            None => ("dim", "end not seen".to_owned()),
        };
        let attempts = self.attempts.get(&row.exec_id).map(|count| {
            let words = match count {
                1 => "1 attempt".to_owned(),
                count => format!("{count} attempts"),
            };
            say("span", "chip critical", &words)
        });
        let times = format!(
            "{} – {}",
            time_of_day(&row.start),
            row.end.as_deref().map_or("?", time_of_day)
        );
        element_with(
            "span",
            "process",
            [
                say("code", "argv", &terminal::command(row)),
                attempts.unwrap_or_default(),
                say("span", exit.0, &exit.1),
                say("span", "dim", exe.unwrap_or("program not seen")),
                say("span", "dim times", &times),
            ],
        )
    }
}
