//! A page that fits on a screen: the gravest in full, the rest in a line each.
//!
//! The page is turnkey's own, so its form is known: a block begins at the left margin with its headline,
//! and its fields stand below with blanks before them.

use std::borrow::Cow;

/// Lines of a page, the verdict among them.
pub const MOST: usize = 15;
/// A block that is never cut: who gets less than was asked for must know all of it.
pub const KEPT: &str = "less is enforced than was asked for";
/// The line that tells where the whole page is.
const WHERE: &str =
    "turnkey: there is more: --report FILE keeps it, turnkey report FILE --format html shows it";

/// The page, or as much of it as fits on `most` lines, [`MOST`] less those that were said before: first with the first block
/// alone unfolded, then without the last blocks.
pub fn fit(page: &str, most: usize) -> Cow<'_, str> {
    let count = page.lines().count();
    if count <= most {
        return Cow::Borrowed(page);
    }
    let (mut blocks, verdict) = blocks(page);
    let first = blocks.iter().position(Block::has_fields);
    let others = blocks.iter_mut().enumerate();
    let others = others.filter(|(index, _)| Some(*index) != first);
    others.for_each(|(_, block)| block.fold());
    let mut dropped = 0;
    while lines(&blocks) + usize::from(dropped > 0) > most {
        let Some(last) = blocks.iter().rposition(|block| !block.kept) else {
            break;
        };
        blocks.remove(last);
        dropped += 1;
    }
    let mut lines: Vec<String> = blocks.into_iter().flat_map(|block| block.lines).collect();
    if dropped > 0 {
        lines.push(format!("turnkey: and {dropped} more of this kind"));
    }
    lines.extend([WHERE.to_owned(), verdict.to_owned()]);
    Cow::Owned(lines.join("\n") + "\n")
}

/// With the line that says where the rest is, and the verdict.
fn lines(blocks: &[Block]) -> usize {
    let lines: usize = blocks.iter().map(|block| block.lines.len()).sum();
    lines + 2
}

/// A headline and its fields.
struct Block {
    lines: Vec<String>,
    kept: bool,
}

/// The blocks, and the line of the verdict.
fn blocks(page: &str) -> (Vec<Block>, &str) {
    let mut blocks: Vec<Block> = Vec::new();
    for line in page.lines() {
        match blocks.last_mut() {
            Some(block) if line.starts_with(' ') => block.lines.push(line.to_owned()),
            _ => blocks.push(Block {
                kept: line.contains(KEPT),
                lines: vec![line.to_owned()],
            }),
        }
    }
    blocks.pop();
    (blocks, page.lines().last().unwrap_or_default())
}

impl Block {
    fn has_fields(&self) -> bool {
        !self.kept && self.lines.len() > 1
    }

    /// The headline, with the name of the rule.
    fn fold(&mut self) {
        if self.kept {
            return;
        }
        let rule = self
            .lines
            .iter()
            .find_map(|line| line.strip_prefix("  rule "));
        let rule = rule.and_then(|rule| rule.split_whitespace().next());
        let rule = rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
        self.lines.truncate(1);
        self.lines.iter_mut().for_each(|line| line.push_str(&rule));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: usize) -> String {
        format!(
            "turnkey: blocked: reading /secret/{number}\n  by          sh (pid 2)\n  rule        rule-{number} (high): why\n  \
             stopped by  Landlock\n  to allow    in a profile: it\n"
        )
    }

    fn page(blocks: usize) -> String {
        let blocks: String = (1..=blocks).map(block).collect();
        format!("{blocks}turnkey: violated — exited 0\n")
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(fit(&page(2), MOST), page(2));
    }

    #[test]
    fn all_but_the_first_are_a_line_each() {
        let folded = fit(&page(6), MOST).into_owned();
        assert_eq!(folded.lines().count(), 12);
        assert!(folded.contains("\nturnkey: blocked: reading /secret/2 (rule-2)\nturnkey: blocked: reading /secret/3 (rule-3)\n"), "{folded}");
    }

    #[test]
    fn and_then_the_last_are_counted() {
        let folded = fit(&page(40), MOST).into_owned();
        assert_eq!(folded.lines().count(), MOST);
        assert!(
            folded.contains("turnkey: and 32 more of this kind\n"),
            "{folded}"
        );
    }

    #[test]
    fn what_was_said_before_counts() {
        for said in 0..3 {
            let folded = fit(&page(40), MOST - said).into_owned();
            assert_eq!(folded.lines().count(), MOST - said);
        }
    }

    #[test]
    fn what_is_weaker_than_asked_for_is_told_whole() {
        let weaker = format!("turnkey: {KEPT}\n{}", "  cpu: no controller\n".repeat(20));
        let whole = page(3).replace("turnkey: violated", &format!("{weaker}turnkey: violated"));
        let folded = fit(&whole, MOST).into_owned();
        assert_eq!(folded.matches("  cpu: no controller\n").count(), 20);
        assert!(
            folded.ends_with("turnkey: violated — exited 0\n"),
            "{folded}"
        );
    }
}
