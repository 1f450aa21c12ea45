//! Suggested profiles can be loaded, and mean what the advice meant.

use std::path::Path;

use turnkey_policy::{NetworkMode, Overrides, Policy};

use super::*;
use crate::formats::golden;

fn report() -> Report {
    golden("a_clean_run", |_| {})
}

fn suggested(advice: &[(&str, Option<&str>)]) -> String {
    let mut suggested = SuggestedProfile::over("untrusted");
    for (advice, path) in advice {
        suggested.advice("blocked: it, by sh", advice, *path);
    }
    suggested.text(&report())
}

fn loaded(text: &str) -> Policy {
    let read = |_: &str| Ok(text.to_owned());
    turnkey_policy::load("./suggested.toml", &read, &Overrides::default())
        .unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

#[test]
fn every_flag_is_a_line_of_the_profile() {
    let text = suggested(&[
        ("--read /srv/a", Some("/srv/a")),
        ("--read '/srv/b c'", Some("/srv/b c")),
        ("--write /srv/w", Some("/srv/w")),
        (
            "--network loopback (the jail's own), or --allow 127.0.0.1:80 (the host's)",
            None,
        ),
        ("in a profile: [filesystem] proc = \"common\"", None),
        (
            "in a profile: [syscalls] allow = [\"getppid\"], or \"@self\" for its like",
            None,
        ),
    ]);
    let policy = loaded(&text);
    let has = |list: &[turnkey_policy::HostPath], path: &str| {
        list.iter().any(|one| one.path == Path::new(path))
    };
    assert!(has(&policy.filesystem.read, "/srv/a"), "{text}");
    assert!(has(&policy.filesystem.read, "/srv/b c"), "{text}");
    assert!(has(&policy.filesystem.write, "/srv/w"), "{text}");
    assert_eq!(policy.network.mode, NetworkMode::Loopback, "{text}");
    assert!(text.contains("    \"getppid\",\n"), "{text}");
    assert!(!text.contains("Left out"), "{text}");
}

#[test]
fn hosts_are_allowed_and_one_without_a_port_is_left_to_a_person() {
    let text = suggested(&[
        ("--allow 192.0.2.1:80", None),
        ("--allow a.example:443 --allow b.example:8080", None),
        ("--network loopback (the jail's own)", None),
        (
            "--allow c.example:PORT (which port it meant is not known)",
            None,
        ),
        ("--allow NAME:PORT for each host that it means", None),
    ]);
    let policy = loaded(&text);
    assert_eq!(policy.network.mode, NetworkMode::Allow, "{text}");
    assert_eq!(policy.network.allow.len(), 3, "{text}");
    assert_eq!(text.matches("#   blocked: it, by sh: --allow").count(), 2);
}

const RULE: &str = "in a profile that extends \"untrusted\":\n[[rule]]\nid = \"allow-shell-startup\"\n\
    on = [\"open\"]\npath = [\"/workspace/.bashrc\"]\naccess = [\"write\"]\naction = \"allow\"";

#[test]
fn rules_are_told_apart_and_each_says_why() {
    let other = RULE.replace(".bashrc", ".profile");
    let both = format!("--write /srv/x, and {RULE}").replace("/workspace/.bashrc", "/srv/x");
    let text = suggested(&[
        (RULE, None),
        (RULE, None),
        (&other, None),
        (&both, Some("/srv/x")),
    ]);
    let policy = loaded(&text);
    let ours = policy.rules.iter();
    let ours: Vec<&str> = ours
        .map(|rule| rule.id.as_str())
        .filter(|id| id.starts_with(NAME))
        .collect();
    let expected = [
        "suggested-allow-shell-startup",
        "suggested-allow-shell-startup-2",
        "suggested-allow-shell-startup-3",
    ];
    assert_eq!(ours, expected, "{text}");
    assert_eq!(text.matches("why = \"blocked: it, by sh\"").count(), 4);
    assert!(text.contains("path = \"/srv/x\""), "{text}");
}

#[test]
fn one_rule_takes_the_place_of_another_once() {
    let change = |on: &str| {
        format!(
            "in a profile that extends \"untrusted\":\n[[rule]]\nid = \"memory-exec\"\nreplaces = true\n\
             on = [\"{on}\"]\naction = \"log\"\nseverity = \"high\""
        )
    };
    let (first, second) = (change("exec"), change("map"));
    let text = suggested(&[(&first, None), (&second, None)]);
    loaded(&text);
    assert_eq!(text.matches("[[rule]]").count(), 1, "{text}");
    assert!(text.contains("Left out, for a person"), "{text}");
}

#[test]
fn what_cannot_be_allowed_or_is_critical_is_a_comment() {
    let text = suggested(&[("no profile can allow it: a jail has one user", None)]);
    loaded(&text);
    assert!(
        text.contains("#   blocked: it, by sh: no profile can allow it: a jail has one user\n"),
        "{text}"
    );
    let report = golden("shadow_read_under_enforce", |_| {});
    let text = document(&report);
    loaded(&text);
    assert!(!text.contains("[[rule]]"), "{text}");
    let said = "#   killed for reading /etc/shadow, by python3: rule credential-file is critical: ";
    assert!(text.contains(said), "{text}");
}

/// An act that is only noticed is told of until a rule allows it, of a run as of a service.
#[test]
fn what_was_only_noticed_is_allowed_by_its_rule() {
    let logged = |value: &mut serde_json::Value| {
        let row = &mut value["violations"][0];
        row["action"] = "log".into();
        row["severity"] = "high".into();
        row["stopped_by"] = serde_json::Value::Null;
        row["advice"] = RULE.replace("untrusted", "container").into();
    };
    let run = document(&golden("shadow_read_under_enforce", logged));
    loaded(&run);
    assert!(run.contains("[[rule]]"), "{run}");
    let text = document(&golden("shadow_read_under_enforce", |value| {
        logged(value);
        value["profile"]["name"] = "container".into();
        value["command"] = serde_json::json!([]);
        value["attached"] = serde_json::json!({
            "group": "/web.slice", "since": "2026-11-28T01:02:03.000000Z", "seconds": 1.0, "found": [], "found_count": 0,
            "groups_below": 0, "not_given": [],
        });
    }));
    let policy = loaded(&text);
    let id = "suggested-allow-shell-startup";
    assert!(policy.rules.iter().any(|rule| rule.id == id), "{text}");
    assert!(policy.makes_no_jail(), "it is for an attachment: {text}");
    let first = "# What the group `/web.slice` was told of, or refused, allowed. Take out";
    assert!(text.starts_with(first), "{text}");
    assert!(!text.contains("``"), "{text}");
}

#[test]
fn a_path_that_was_escaped_or_redacted_is_left_to_a_person() {
    for path in [r"/srv/a\n[[rule]]", "/srv/[redacted: github-token]"] {
        let text = suggested(&[("--read it", Some(path))]);
        assert_eq!(
            loaded(&text).filesystem.read,
            loaded(&suggested(&[])).filesystem.read
        );
        assert!(text.contains("Left out"), "{text}");
    }
}

#[test]
fn a_suggestion_over_a_suggestion_has_names_of_its_own() {
    let names = ["mine", "suggested", "suggested-2", "suggested-it"];
    let names = names.map(|below| SuggestedProfile::over(below).name);
    assert_eq!(
        names,
        ["suggested", "suggested-2", "suggested-3", "suggested-2"]
    );
    let below = suggested(&[(RULE, None)]);
    let report = golden("a_clean_run", |value| {
        value["profile"]["name"] = "suggested".into()
    });
    let mut suggested = SuggestedProfile::over("suggested");
    suggested.advice(
        "blocked: more, by sh",
        &RULE.replace(".bashrc", ".profile"),
        None,
    );
    let above = suggested.text(&report);
    let read = |path: &str| match path.ends_with("above.toml") {
        true => Ok(above.clone()),
        false => Ok(below.clone()),
    };
    let both = turnkey_policy::load("./above.toml", &read, &Overrides::default());
    let both = both.unwrap_or_else(|error| panic!("{error:?}\n{above}"));
    let ours = both.rules.iter().filter(|rule| rule.id.starts_with(NAME));
    assert_eq!(ours.count(), 2, "{above}");
}
