//! The lines that are asked for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::{FilterKey, LineFilter};

/// Every key that is asked about, with the values that it may have.
pub struct Filters(BTreeMap<FilterKey, Vec<String>>);

impl Filters {
    /// Any value of one key suffices, and each key must hold.
    pub fn new(filters: &[LineFilter]) -> Filters {
        let mut by_key: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for LineFilter { key, value } in filters {
            by_key.entry(*key).or_default().push(value.clone());
        }
        Filters(by_key)
    }

    /// True where a line of a run under a profile is asked for.
    pub fn pass(&self, line: &Value, run: &str, profile: &str) -> bool {
        self.0.iter().all(|(key, values)| {
            let is = |pointers: &[&str]| {
                let mut found = pointers.iter().filter_map(|it| line.pointer(it));
                found.any(|value| values.iter().any(|wanted| value == wanted.as_str()))
            };
            match key {
                FilterKey::Run => values.iter().any(|wanted| run.starts_with(wanted)),
                FilterKey::Profile => values.iter().any(|wanted| profile == wanted),
                FilterKey::Kind => is(&["/kind", "/alert"]),
                FilterKey::Rule => is(&["/decision/rule", "/finding/id"]),
                FilterKey::Severity => is(&["/finding/severity"]),
                FilterKey::Verdict => is(&["/verdict"]),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pass(filters: &[&str], line: &Value) -> bool {
        let filters: Vec<LineFilter> = filters.iter().map(|it| it.parse().unwrap()).collect();
        Filters::new(&filters).pass(line, "6a1-2b", "python")
    }

    #[test]
    fn of_one_key_any_value_and_of_all_keys_each() {
        let event = json!({"kind": "open", "decision": {"rule": "r"}});
        let finding = json!({"alert": "finding", "finding": {"id": "r", "severity": "high"}});
        let verdict = json!({"alert": "verdict", "verdict": "clean"});
        for (filters, passes) in [
            (&[][..], [true, true, true]),
            (&["kind=open", "kind=finding"], [true, true, false]),
            (&["rule=r"], [true, true, false]),
            (&["rule=r", "kind=open"], [true, false, false]),
            (&["severity=high"], [false, true, false]),
            (&["severity=low"], [false, false, false]),
            (&["verdict=clean"], [false, false, true]),
            (&["run=6a1"], [true, true, true]),
            (&["run=a1"], [false, false, false]),
            (&["profile=python"], [true, true, true]),
            (&["profile=py"], [false, false, false]),
        ] {
            let passed = [&event, &finding, &verdict].map(|line| pass(filters, line));
            assert_eq!(passed, passes, "{filters:?}");
        }
    }

    #[test]
    fn a_wrong_filter_names_the_keys() {
        for (filter, named) in [("colour=red", "no key `colour`"), ("kind", "KEY=VALUE")] {
            let error = filter.parse::<LineFilter>().unwrap_err();
            assert!(error.contains(named), "{error}");
            assert!(error.contains("run, profile, kind, rule, severity, verdict"));
        }
        assert!("run=".parse::<LineFilter>().is_err());
    }
}
