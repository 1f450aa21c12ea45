//! Overrides: a finding, or a check, that somebody answers for, for a reason and until a day.

use serde::{Deserialize, Serialize};
use time::Date;

use super::pattern::Pattern;
use super::result::{CheckVerdict, GateCheck, GateFinding};

/// An override as the config has it. What is missing is told, and the override counts for nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideText {
    check: String,
    finding: Option<Pattern>,
    path: Option<Pattern>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    author: String,
    expires: Option<toml::Value>,
}

/// The person who answers for a finding, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Overridden {
    /// The reason.
    pub reason: String,
    /// The person.
    pub author: String,
    /// The last day, UTC.
    pub expires: String,
}

/// Applies the overrides that hold today, and tells of the others.
pub fn apply(overrides: &[OverrideText], today: Date, checks: &mut [GateCheck]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, text) in overrides.iter().enumerate() {
        let name = format!("override {} (of {})", index + 1, text.check);
        match text.valid(today) {
            Err(why) => notes.push(format!("{name} counts for nothing: {why}")),
            Ok(overridden) => {
                if !text.apply(&overridden, checks) {
                    notes.push(format!("{name} was not needed"));
                }
            }
        }
    }
    for check in checks {
        check.settle();
    }
    notes
}

impl OverrideText {
    fn valid(&self, today: Date) -> Result<Overridden, String> {
        let missing = [("reason", &self.reason), ("author", &self.author)]
            .into_iter()
            .find(|(_, text)| text.trim().is_empty());
        if let Some((key, _)) = missing {
            return Err(format!("it has no {key}"));
        }
        let Some(expires) = &self.expires else {
            return Err("it has no day on which it expires".to_owned());
        };
        let expires = match expires {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let Some(last) = day(&expires) else {
            return Err(format!(
                "it expires on {expires:?}, which is no day such as 2027-01-31"
            ));
        };
        if last < today {
            return Err(format!("it expired on {expires}"));
        }
        Ok(Overridden {
            reason: self.reason.clone(),
            author: self.author.clone(),
            expires,
        })
    }

    /// True when there was something to override.
    fn apply(&self, overridden: &Overridden, checks: &mut [GateCheck]) -> bool {
        let mut used = false;
        for check in checks.iter_mut().filter(|check| check.name == self.check) {
            let whole = self.finding.is_none() && self.path.is_none();
            if whole && !matches!(check.verdict, CheckVerdict::Pass | CheckVerdict::Skipped) {
                check.overridden = Some(overridden.clone());
                used = true;
            }
            for finding in check
                .findings
                .iter_mut()
                .filter(|it| !whole && self.is_about(it))
            {
                finding.overridden = Some(overridden.clone());
                used = true;
            }
        }
        used
    }

    fn is_about(&self, finding: &GateFinding) -> bool {
        let path = finding.path.as_deref().unwrap_or_default();
        let is = |pattern: &Option<Pattern>, text: &str| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(text.as_bytes()))
        };
        is(&self.finding, &finding.id) && is(&self.path, path)
    }
}

fn day(text: &str) -> Option<Date> {
    let format = time::format_description::parse_borrowed::<2>("[year]-[month]-[day]");
    Date::parse(text, &format.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_policy::Severity;

    fn check() -> GateCheck {
        let finding = |id: &str, path: &str| GateFinding {
            path: Some(path.to_owned()),
            ..GateFinding::new(id, Severity::High, "what")
        };
        let findings = vec![
            finding("exec", "a.py"),
            finding("exec", "b.py"),
            finding("net", "a.py"),
        ];
        GateCheck::failing_by("scan", findings)
    }

    fn left(text: &str) -> (CheckVerdict, usize, Vec<String>) {
        let text = format!("check = \"scan\"\n{text}");
        let overrides = [toml::from_str(&text).unwrap()];
        let mut checks = [check()];
        let notes = apply(&overrides, day("2026-06-15").unwrap(), &mut checks);
        let [check] = checks;
        let counting = check.findings.iter().filter(|it| it.overridden.is_none());
        (check.verdict, counting.count(), notes)
    }

    const WHO: &str = "reason = \"r\"\nauthor = \"a\"\nexpires = \"2026-06-15\"\n";

    #[test]
    fn it_holds_for_what_it_names_and_through_its_last_day() {
        let (verdict, counting, notes) =
            left(&format!("finding = \"exec\"\npath = \"a.py\"\n{WHO}"));
        assert_eq!((verdict, counting, notes.len()), (CheckVerdict::Fail, 2, 0));
        let (verdict, counting, notes) = left(&format!("finding = \"*\"\n{WHO}"));
        assert_eq!((verdict, counting, notes.len()), (CheckVerdict::Pass, 0, 0));
        let (verdict, _, notes) = left(WHO);
        assert_eq!((verdict, notes.len()), (CheckVerdict::Pass, 0));
        // A date of TOML's own is one, too.
        let date = WHO
            .replace('"', "")
            .replace("= r", "= 'r'")
            .replace("= a", "= 'a'");
        assert_eq!(left(&date).0, CheckVerdict::Pass);
    }

    #[test]
    fn without_reason_author_or_day_and_after_that_it_is_none_and_that_is_told() {
        for (line, told) in [
            ("reason = \"r\"\n", "no reason"),
            ("author = \"a\"\n", "no author"),
            ("expires = \"2026-06-15\"\n", "no day"),
        ] {
            let (verdict, counting, notes) = left(&WHO.replace(line, ""));
            assert_eq!((verdict, counting), (CheckVerdict::Fail, 3));
            assert!(notes[0].contains(told), "{notes:?}");
        }
        for (day, told) in [
            ("2026-06-14", "expired on 2026-06-14"),
            ("soon", "no day such as"),
        ] {
            let (verdict, _, notes) = left(&WHO.replace("2026-06-15", day));
            assert_eq!(verdict, CheckVerdict::Fail);
            assert!(notes[0].contains(told), "{notes:?}");
        }
        let (.., notes) = left(&format!("finding = \"other\"\n{WHO}"));
        assert!(notes[0].contains("was not needed"), "{notes:?}");
    }

    #[test]
    fn a_check_that_could_not_be_made_is_overridden_as_a_whole_or_not_at_all() {
        let overrides = |more: &str| {
            let text = format!("check = \"scan\"\n{more}{WHO}");
            let mut checks = [GateCheck::inconclusive("scan", "no scanner".to_owned())];
            apply(
                &[toml::from_str(&text).unwrap()],
                day("2026-06-15").unwrap(),
                &mut checks,
            );
            checks[0].verdict
        };
        assert_eq!(overrides("finding = \"*\"\n"), CheckVerdict::Inconclusive);
        assert_eq!(overrides(""), CheckVerdict::Pass);
    }
}
