//! A rule as a profile writes it.

use turnkey_policy::{Glob, OpenAccess, Rule, RuleAction, SameFile};

/// A rule as a profile writes it, one key on a line.
pub fn snippet(rule: &Rule, replaces: bool) -> String {
    let mut lines = vec!["[[rule]]".to_owned(), format!("id = {}", string(&rule.id))];
    if replaces {
        lines.push("replaces = true".to_owned());
    }
    lines.push(format!("on = {}", list(rule.on.iter().map(|on| on.name()))));
    if !rule.path.is_empty() {
        lines.push(format!(
            "path = {}",
            list(rule.path.iter().map(Glob::as_str))
        ));
    }
    if !rule.access.is_empty() && rule.access.len() < OpenAccess::ALL.len() {
        lines.push(format!(
            "access = {}",
            list(rule.access.iter().map(|access| access.name()))
        ));
    }
    let addresses = rule.address.iter().map(ToString::to_string);
    let ports = rule.port.iter().map(ToString::to_string);
    for (key, values) in [
        ("address", addresses.collect::<Vec<_>>()),
        ("port", ports.collect()),
    ] {
        if !values.is_empty() {
            lines.push(format!(
                "{key} = {}",
                list(values.iter().map(String::as_str))
            ));
        }
    }
    if !rule.flags.is_empty() {
        lines.push(format!(
            "flags = {}",
            list(rule.flags.iter().map(|flag| flag.name()))
        ));
    }
    for (key, globs) in [("exe", &rule.exe), ("script", &rule.script)] {
        if !globs.is_empty() {
            lines.push(format!("{key} = {}", list(globs.iter().map(Glob::as_str))));
        }
    }
    if rule.yields && !rule.path.is_empty() {
        lines.push("yields = true".to_owned());
    }
    if rule.present {
        lines.push("present = true".to_owned());
    }
    if rule.same_file != SameFile::No {
        lines.push(format!("same_file = \"{}\"", rule.same_file));
    }
    lines.push(format!("action = \"{}\"", rule.action));
    if rule.action != RuleAction::Allow {
        lines.push(format!("severity = \"{}\"", rule.severity));
        lines.extend(
            rule.technique
                .as_ref()
                .map(|technique| format!("technique = {}", string(technique))),
        );
    }
    lines.join("\n")
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(string).collect();
    format!("[{}]", words.join(", "))
}

/// A JSON string is a TOML string as well.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
