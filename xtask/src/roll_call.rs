//! The roll call of the attacks on jail and monitor: each is survived by tests that are named after it, or
//! SECURITY.md says why it is out of scope. One that is neither fails the job.

mod attacks;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use attacks::{ATTACKS, Attack};

/// The list for people, one line for each attack; an error when one does not answer.
///
/// `tests` are names such as `e2e filesystem::j09_a_mount_inside`, `security` is SECURITY.md.
pub fn call(tests: &[String], security: &str) -> Result<String> {
    let carried = carried(tests);
    let given_up = out_of_scope(security);
    let mut list = String::from("Attacks on the jail (J) and on its monitor (M):\n");
    let mut wrong = Vec::new();
    for attack in ATTACKS {
        match answer(attack, &carried, &given_up) {
            Ok(answer) => {
                let _ = writeln!(list, "  {} {:<44} {answer}", attack.id, attack.title);
            }
            Err(problem) => wrong.push(format!("{} ({}): {problem}", attack.id, attack.title)),
        }
    }
    if wrong.is_empty() {
        Ok(list)
    } else {
        bail!("attacks without an answer:\n  {}", wrong.join("\n  "));
    }
}

/// What shows that an attack is survived, or why nothing has to.
fn answer(
    attack: &Attack,
    carried: &BTreeMap<String, Vec<&str>>,
    given_up: &BTreeMap<String, &str>,
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

/// Rows such as `| J48 | there is no such verb |`.
fn out_of_scope(security: &str) -> BTreeMap<String, &str> {
    security.lines().filter_map(given_up).collect()
}

fn given_up(line: &str) -> Option<(String, &str)> {
    let (id, reason) = line
        .strip_prefix("| ")?
        .strip_suffix('|')?
        .split_once('|')?;
    let (id, reason) = (id.trim(), reason.trim());
    let is_one = id.starts_with(['J', 'M']) && is_id(&id.to_lowercase());
    (is_one && !reason.is_empty()).then(|| (id.to_owned(), reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_attack_tested() -> Vec<String> {
        let test = |attack: &Attack| format!("suite room::{}_what", attack.id.to_lowercase());
        ATTACKS.iter().map(test).collect()
    }

    #[test]
    fn the_catalogue_is_whole() {
        let jail = (1..=66).map(|number| format!("J{number:02}"));
        let monitor = (1..=35).map(|number| format!("M{number:02}"));
        let expected: Vec<String> = jail.chain(monitor).collect();
        let ids: Vec<&str> = ATTACKS.iter().map(|attack| attack.id).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn each_attack_is_listed_with_its_tests() {
        let list = call(&every_attack_tested(), "").expect("all are there");
        assert_eq!(list.lines().count(), 1 + 66 + 35);
        assert!(list.contains("suite room::j17_what"), "{list}");
    }

    #[test]
    fn one_that_does_not_answer_is_named() {
        let mut tests = every_attack_tested();
        tests.retain(|test| !test.contains("j48"));
        let error = call(&tests, "").expect_err("J48 is missing");
        assert!(error.to_string().contains("J48"), "{error}");
        assert!(!error.to_string().contains("J47"), "{error}");
        let list = call(&tests, "| J48 | there is no such verb |").expect("it is given up");
        assert!(
            list.contains("out of scope: there is no such verb"),
            "{list}"
        );
    }

    #[test]
    fn nothing_is_both_tested_and_given_up() {
        let error = call(&every_attack_tested(), "| J01 | too hard |").expect_err("it is tested");
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
        assert_eq!(given_up("| J48 |  |"), None);
        assert_eq!(given_up("| Junk | reason |"), None);
        assert_eq!(given_up("| m05 | reason |"), None);
        assert!(given_up("| M05 | reason |").is_some());
    }
}
