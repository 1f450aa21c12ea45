//! The roll call of the attacks on jail and monitor: each is survived by tests that are named after it, or
//! SECURITY.md says why it is out of scope. One that is neither fails the job.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};
use regex_lite::Regex;

/// One of docs/attacks.md.
#[derive(Debug)]
struct Attack<'a> {
    /// `J01` and on, on the jail; `M01` and on, on the monitor.
    id: &'a str,
    /// For people.
    title: &'a str,
}

/// The list for people, one line for each attack; an error when one does not answer.
///
/// `tests` are names such as `e2e filesystem::j09_a_mount_inside`, `catalogue` is docs/attacks.md and
/// `security` is SECURITY.md.
pub fn call(tests: &[String], catalogue: &str, security: &str) -> Result<String> {
    let attacks = attacks(catalogue)?;
    let carried = carried(tests);
    let given_up = rows(security)?.into_iter().collect();
    let mut list = String::from("Attacks on the jail (J) and on its monitor (M):\n");
    let mut wrong = unknown(&attacks, &carried, &given_up);
    for attack in &attacks {
        match answer(attack, &carried, &given_up) {
            Ok(answer) => {
                let _ = writeln!(list, "  {} {:<44} {answer}", attack.id, attack.title);
            }
            Err(problem) => wrong.push(format!("{} ({}): {problem}", attack.id, attack.title)),
        }
    }
    let wrong = wrong.join("\n  ");
    ensure!(wrong.is_empty(), "attacks without an answer:\n  {wrong}");
    Ok(list)
}

/// The rows of a table such as `| J48 | joining a jail |`, by their first two cells.
fn rows(table: &str) -> Result<Vec<(&str, &str)>> {
    let row = Regex::new(r"(?m)^\| *([JM]\d\d) *\| *([^|\n]*[^|\s]) *\|")?;
    let cells = row.captures_iter(table).map(|row| row.extract());
    Ok(cells.map(|(_, [id, text])| (id, text)).collect())
}

/// The rows of the catalogue. A gap in the numbers is a row that was lost.
fn attacks(catalogue: &str) -> Result<Vec<Attack<'_>>> {
    let attacks = rows(catalogue)?.into_iter();
    let attacks: Vec<_> = attacks.map(|(id, title)| Attack { id, title }).collect();
    for kind in ["J", "M"] {
        let ids = attacks.iter().map(|attack| attack.id);
        let ids: Vec<&str> = ids.filter(|id| id.starts_with(kind)).collect();
        let expected: Vec<String> = (1..=ids.len())
            .map(|number| format!("{kind}{number:02}"))
            .collect();
        ensure!(
            !ids.is_empty() && ids == expected,
            "docs/attacks.md: the rows of {kind} are not {kind}01 and on, each once and in order"
        );
    }
    Ok(attacks)
}

/// Tests and reasons for attacks that the catalogue does not have.
fn unknown(
    attacks: &[Attack<'_>],
    carried: &BTreeMap<String, Vec<&str>>,
    given_up: &BTreeMap<&str, &str>,
) -> Vec<String> {
    let named = carried.keys().map(String::as_str);
    let named = named.chain(given_up.keys().copied());
    let strange = named.filter(|id| attacks.iter().all(|attack| attack.id != *id));
    strange
        .map(|id| format!("{id} is named by a test or SECURITY.md, and docs/attacks.md lacks it"))
        .collect()
}

/// The tests that show an attack survived, or the reason why nothing has to.
fn answer(
    attack: &Attack<'_>,
    carried: &BTreeMap<String, Vec<&str>>,
    given_up: &BTreeMap<&str, &str>,
) -> Result<String, &'static str> {
    match (carried.get(attack.id), given_up.get(attack.id)) {
        (Some(tests), None) => Ok(format!("survived: {}", tests.join(", "))),
        (None, Some(reason)) => Ok(format!("out of scope: {reason}")),
        (Some(_), Some(_)) => Err("has a test and stands in SECURITY.md as out of scope"),
        (None, None) => Err("has no test and does not stand in SECURITY.md as out of scope"),
    }
}

/// The tests of each attack.
fn carried(tests: &[String]) -> BTreeMap<String, Vec<&str>> {
    let mut carried: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for test in tests {
        for id in ids(test) {
            carried.entry(id).or_default().push(test);
        }
    }
    carried
}

/// `j23_m14_every_number` carries J23 and M14.
fn ids(test: &str) -> Vec<String> {
    let name = test.rsplit("::").next().unwrap_or(test);
    let name = name.rsplit(' ').next().unwrap_or(name);
    name.split('_')
        .filter(|word| is_id(word))
        .map(str::to_uppercase)
        .collect()
}

fn is_id(word: &str) -> bool {
    let digits = word.strip_prefix(['j', 'm']);
    digits
        .is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOGUE: &str = include_str!("../../docs/attacks.md");

    fn every_attack_tested() -> Vec<String> {
        let test = |attack: Attack<'_>| format!("suite room::{}_what", attack.id.to_lowercase());
        attacks(CATALOGUE).unwrap().into_iter().map(test).collect()
    }

    #[test]
    fn the_catalogue_is_whole() {
        let attacks = attacks(CATALOGUE).unwrap();
        let last = |kind| attacks.iter().rfind(|attack| attack.id.starts_with(kind));
        assert!(last('J').is_some_and(|attack| attack.id >= "J75"));
        assert!(last('M').is_some_and(|attack| attack.id >= "M41"));
        assert!(attacks.iter().all(|attack| !attack.title.is_empty()));
    }

    #[test]
    fn a_row_that_is_lost_or_twice_is_found_out() {
        let rows: Vec<&str> = CATALOGUE.lines().collect();
        let at = rows
            .iter()
            .position(|row| row.starts_with("| J40 "))
            .unwrap();
        let without = [&rows[..at], &rows[at + 1..]].concat().join("\n");
        assert!(attacks(&without).is_err());
        let twice = [&rows[..=at], &rows[at..]].concat().join("\n");
        assert!(attacks(&twice).is_err());
        assert!(attacks("").is_err());
    }

    #[test]
    fn what_the_catalogue_lacks_is_found_out() {
        let mut tests = every_attack_tested();
        tests.push("suite room::j99_what".to_owned());
        let error = call(&tests, CATALOGUE, "").expect_err("nobody knows J99");
        assert!(error.to_string().contains("J99"), "{error}");
    }

    #[test]
    fn each_attack_is_listed_with_its_tests() {
        let list = call(&every_attack_tested(), CATALOGUE, "").expect("all are there");
        assert_eq!(list.lines().count(), 1 + attacks(CATALOGUE).unwrap().len());
        assert!(list.contains("suite room::j17_what"), "{list}");
    }

    #[test]
    fn one_that_does_not_answer_is_named() {
        let mut tests = every_attack_tested();
        tests.retain(|test| !test.contains("j48"));
        let error = call(&tests, CATALOGUE, "").expect_err("J48 is missing");
        assert!(error.to_string().contains("J48"), "{error}");
        assert!(!error.to_string().contains("J47"), "{error}");
        let list =
            call(&tests, CATALOGUE, "| J48 | there is no such verb |").expect("it is given up");
        assert!(
            list.contains("out of scope: there is no such verb"),
            "{list}"
        );
    }

    #[test]
    fn nothing_is_both_tested_and_given_up() {
        let error = call(&every_attack_tested(), CATALOGUE, "| J01 | too hard |")
            .expect_err("it is tested");
        assert!(error.to_string().contains("J01"), "{error}");
    }

    #[test]
    fn a_name_may_carry_several() {
        assert_eq!(
            ids("e2e syscalls::j23_j24_m15_all_of_j2_x01"),
            ["J23", "J24", "M15"]
        );
        assert!(ids("e2e j01_room::nothing").is_empty());
    }

    #[test]
    fn a_reason_must_be_one() {
        for none in [
            "| J48 |  |",
            "| Junk | reason |",
            "| m05 | reason |",
            "J48 | x |",
        ] {
            assert_eq!(rows(none).unwrap(), [], "{none}");
        }
        assert_eq!(rows("| M05 | a reason |\n").unwrap(), [("M05", "a reason")]);
    }
}
