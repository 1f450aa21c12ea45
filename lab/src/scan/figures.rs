//! The figures of a scan and the page with them. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use super::{AREA, Kind, LINES, RECALL, SOON};

/// The share of honest scripts that may be called risky.
const FALSE_POSITIVES: f64 = 0.05;

/// One script with its score.
struct Scored {
    name: String,
    kind: Kind,
    extension: &'static str,
    seen: bool,
    score: u32,
}

/// Every script with its score.
pub struct Sides(Vec<Scored>);

impl Sides {
    /// From name, kind, language, whether it is of the first half, and score.
    pub fn new(all: impl Iterator<Item = (String, Kind, &'static str, bool, u32)>) -> Sides {
        let scored = |(name, kind, extension, seen, score)| Scored {
            name,
            kind,
            extension,
            seen,
            score,
        };
        Sides(all.map(scored).collect())
    }

    fn scores(&self, kind: Kind, chosen: impl Fn(&Scored) -> bool) -> Vec<u32> {
        let of_kind = self.0.iter().filter(|one| one.kind == kind && chosen(one));
        of_kind.map(|one| one.score).collect()
    }
}

/// The figures of one part of the scripts.
struct Part {
    name: &'static str,
    risky: Vec<u32>,
    honest: Vec<u32>,
    controls: Vec<u32>,
    plain: Vec<u32>,
}

impl Part {
    fn new(name: &'static str, sides: &Sides, chosen: impl Fn(&Scored) -> bool) -> Part {
        Part {
            name,
            risky: sides.scores(Kind::Risky, &chosen),
            honest: sides.scores(Kind::Honest, &chosen),
            controls: sides.scores(Kind::Control, &chosen),
            plain: sides.scores(Kind::Plain, &chosen),
        }
    }

    fn threshold(&self) -> u32 {
        threshold(&self.honest)
    }

    fn row(&self) -> String {
        let at = self.threshold();
        format!(
            "| {} | {} / {} | {:.3} | {:.3} | {at} | {} of {} | {} of {} |",
            self.name,
            self.risky.len(),
            self.honest.len(),
            area(&self.risky, &self.honest),
            share(&self.risky, at),
            reaching(&self.controls, at),
            self.controls.len(),
            reaching(&self.plain, at),
            self.plain.len(),
        )
    }
}

/// All that is measured.
pub struct Figures {
    parts: Vec<Part>,
}

impl Figures {
    /// Of the halves, the languages and the whole.
    pub fn new(sides: &Sides) -> Figures {
        Figures {
            parts: vec![
                Part::new("first half, seen", sides, |one| one.seen),
                Part::new("second half, not seen", sides, |one| !one.seen),
                Part::new("Python", sides, |one| one.extension == "py"),
                Part::new("shell", sides, |one| one.extension == "sh"),
                Part::new("all", sides, |_| true),
            ],
        }
    }

    /// The page.
    pub fn page(&self, time: Duration, absent: usize, machine: &str) -> String {
        let mut page = format!(
            "{HEAD}On {machine}. Of the list of honest scripts, {absent} are not on it.\n\n{COLUMNS}"
        );
        for part in &self.parts {
            let _ = writeln!(page, "{}", part.row());
        }
        let milliseconds = time.as_secs_f64() * 1000.0;
        let _ = writeln!(
            page,
            "\nA file of {LINES} lines takes {milliseconds:.1} ms, the start of the command included (aim: {} ms).\n",
            SOON.as_millis()
        );
        page
    }

    /// The goals that are missed, by the half that was not seen.
    pub fn missed(&self, time: Duration) -> Vec<String> {
        let mut missed = Vec::new();
        for part in self.parts.iter().take(2) {
            let (area, recall) = (
                area(&part.risky, &part.honest),
                share(&part.risky, part.threshold()),
            );
            if area < AREA {
                missed.push(format!("{}: area {area:.3}, not {AREA}", part.name));
            }
            if recall < RECALL {
                missed.push(format!("{}: recall {recall:.3}, not {RECALL}", part.name));
            }
        }
        if time > SOON {
            missed.push(format!("{} ms, not {}", time.as_millis(), SOON.as_millis()));
        }
        missed
    }

    /// Scripts of the first half on the wrong side of its threshold.
    pub fn misses(&self, sides: &Sides) -> String {
        let at = self.parts.first().map_or(0, Part::threshold);
        let is_wrong = |one: &&Scored| one.seen && (one.kind == Kind::Risky) != (one.score >= at);
        sides
            .0
            .iter()
            .filter(is_wrong)
            .fold(String::new(), |mut text, one| {
                let _ = writeln!(text, "{:>4} {:?} {}", one.score, one.kind, one.name);
                text
            })
    }
}

/// The chance that a risky script has a higher score than an honest one; a tie is half of one.
fn area(risky: &[u32], honest: &[u32]) -> f64 {
    let pairs = risky
        .iter()
        .flat_map(|one| honest.iter().map(move |other| (one, other)));
    let won: f64 = pairs
        .map(|(one, other)| match one.cmp(other) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        })
        .sum();
    won / count(risky.len() * honest.len())
}

/// The lowest score, not 0, that no more than the allowed share of honest scripts reach.
fn threshold(honest: &[u32]) -> u32 {
    let highest = honest.iter().max().map_or(1, |score| score + 1);
    let is_enough = |at: &u32| share(honest, *at) <= FALSE_POSITIVES;
    (1..=highest).find(is_enough).unwrap_or(highest)
}

fn reaching(scores: &[u32], at: u32) -> usize {
    scores.iter().filter(|score| **score >= at).count()
}

fn share(scores: &[u32], at: u32) -> f64 {
    count(reaching(scores, at)) / count(scores.len())
}

/// A number of scripts, never 0.
fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX)).max(f64::MIN_POSITIVE)
}

const HEAD: &str = "# How well the scan sorts

`cargo lab scan CORPUS` writes this page. Risky: the programs of [RedCode-Exec](https://github.com/AI-secure/RedCode) (odd scenario
numbers) that have an effect outside; its scenarios without one are controls. Plain: the functions of MBPP. Honest: scripts of
installed packages of Debian 12 that use os, sockets or processes, and shell scripts, by the criterion in
[lab/src/scan/honest.txt](../lab/src/scan/honest.txt), a list that was fixed before the first rule was written. All are cut in two
halves by a hash of their names, and rules were written with the first half in sight. The halves are no independent samples:
RedCode has about thirty variants of each scenario, and both halves have some of each.

";

const COLUMNS: &str = "| part | risky / honest | area under the curve | recall at 5 % false positives | at a score of | controls called risky | plain called risky |
|---|---|---|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_is_one_where_all_are_sorted_and_half_where_none_is() {
        assert!((area(&[5, 6], &[0, 4]) - 1.0).abs() < 1e-9);
        assert!((area(&[3, 3], &[3, 3]) - 0.5).abs() < 1e-9);
        assert!(area(&[0], &[1]) < 1e-9);
    }

    #[test]
    fn threshold_leaves_one_in_twenty() {
        let honest: Vec<u32> = (1..=20).collect();
        assert_eq!(threshold(&honest), 20);
        assert_eq!(threshold(&[0; 20]), 1);
        assert_eq!(threshold(&[7; 20]), 8);
    }
}
