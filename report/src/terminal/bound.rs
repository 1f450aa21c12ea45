//! However a report was drawn, a block is no longer than people read.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::formats::golden;

/// Texts as reports have them: one line each, or a rule to write.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/ ]{0,300}",
        Just("/etc/shadow".to_owned()),
        Just(r"/srv/\x1b[2J".to_owned()),
    ]
}

fn advice() -> impl Strategy<Value = String> {
    let rule = "in a profile that extends \"p\":\n[[rule]]\nid = \"x\"\non = [\"open\"]\npath = [\"/x\"]\n\
                access = [\"read\"]\nexe = [\"/y\"]\nyields = true\naction = \"allow\"";
    prop_oneof![
        Just(rule.to_owned()),
        Just(format!("--read /x, and {rule}")),
        Just(format!(
            "in a profile: [syscalls] allow = [\"x\"] and, {rule}"
        )),
        words(),
    ]
}

fn maybe(text: impl Strategy<Value = String>) -> impl Strategy<Value = Value> {
    proptest::option::of(text).prop_map(|text| json!(text))
}

prop_compose! {
    /// The parts that may differ from one attempt to another.
    fn violation()(
        path in maybe(words()), raw in maybe(words()), unreadable in any::<bool>(),
        unknown in any::<bool>(), lost in any::<bool>(), technique in maybe(words()), why in "[a-z\n]{0,90}",
        action in prop::sample::select(vec!["log", "deny", "kill"]),
        severity in prop::sample::select(vec!["low", "high", "critical"]),
        names in proptest::collection::vec("[a-z.]{1,20}", 0..4),
        argv in proptest::collection::vec(words(), 0..5), advice in advice(),
    ) -> Value {
        json!({ "path": path, "raw": raw.as_str().map(|text| json!({ "text": text, "truncated": false, "unreadable": unreadable })),
            "actor_unknown": unknown, "file_unknown": lost, "technique": technique, "why": why, "action": action, "severity": severity,
            "names": names, "argv": argv, "advice": advice })
    }
}

/// The golden report with these attempts in the place of its own, so often in all.
fn report(drawn: &[Value], count: u64) -> Report {
    golden("shadow_read_under_enforce", |value| {
        let mut own = value["violations"][0].clone();
        let rows = drawn.iter().map(|drawn| {
            for (key, text) in drawn.as_object().into_iter().flatten() {
                match key.as_str() {
                    "argv" => own["process"]["argv"] = text.clone(),
                    key if text.is_null() && key != "technique" => {
                        own.as_object_mut().map(|own| own.remove(key));
                    }
                    key => own[key] = text.clone(),
                }
            }
            own.clone()
        });
        value["violations"] = rows.collect();
        let findings = value["findings"].as_array_mut().into_iter().flatten();
        findings.for_each(|finding| finding["count"] = json!(count));
    })
}

fn told(report: &Report) -> String {
    let mut out = Vec::new();
    story(report, &mut out, false).expect("memory takes it");
    String::from_utf8(out).expect("text")
}

/// Lines of the longest block: a headline, and what stands below it.
fn longest(page: &str) -> usize {
    let blocks = page.split("\nturnkey: ").map(|block| block.lines().count());
    blocks.max().unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_block_of_a_rule_has_eight_lines_at_most(
        drawn in proptest::collection::vec(violation(), 1..6), more in 0_u64..3,
    ) {
        let report = report(&drawn, drawn.len() as u64 + more);
        let page = told(&report);
        prop_assert!(longest(&page) <= BLOCK, "{page}");
        prop_assert!(page.lines().count() <= brief::MOST, "{page}");
        // Nothing that a block leaves out is left out of the report.
        let kept = serde_json::to_string(&report).expect("JSON");
        let texts = drawn.iter().flat_map(|drawn| [&drawn["advice"], &drawn["raw"]["text"]]);
        for text in texts.filter(|text| text.is_string()) {
            prop_assert!(kept.contains(&text.to_string()), "{text}");
        }
    }
}

/// The worst that can be drawn, so that the property has something to hold.
#[test]
fn everything_at_once_is_eight_lines_and_says_where_the_rest_is() {
    let advice = "in a profile that extends \"p\":\n[[rule]]\nid = \"x\"";
    let all = json!({ "raw": { "text": "shadow", "truncated": false, "unreadable": false }, "actor_unknown": true, "file_unknown": true,
        "why": "a\nb", "severity": "high", "advice": advice });
    let mut other = all.clone();
    other["path"] = json!("/etc/other");
    let page = told(&report(&[all, other], 2));
    assert_eq!(longest(&page), BLOCK, "{page}");
    let said = "  to allow    a rule: --report FILE keeps it, turnkey report FILE --format profile writes it\n";
    assert!(page.contains(said), "{page}");
    assert!(
        page.contains(": a b\n") && page.contains("  also        /etc/other;"),
        "{page}"
    );
    assert!(!page.contains("asked as"), "{page}");
}

/// An act that only prepares another, as a symlink made first, is of a low severity.
#[test]
fn the_gravest_attempt_is_the_headline_whichever_came_first() {
    let prepares = json!({ "path": "/srv/notes", "severity": "low", "action": "log", "raw": null });
    let reads = json!({ "path": "/etc/shadow", "severity": "critical", "action": "log" });
    for rows in [[prepares.clone(), reads.clone()], [reads, prepares]] {
        let page = told(&report(&rows, 2));
        let head = page.lines().find(|line| line.contains("/etc/shadow"));
        assert!(
            head.is_some_and(|line| line.starts_with("turnkey: ")),
            "{page}"
        );
        assert!(page.contains("  also        /srv/notes;"), "{page}");
    }
}

/// Rules of severity critical are in no suggested profile, whether they killed or not: see formats/suggested_profile.rs.
#[test]
fn nobody_is_sent_to_a_suggestion_that_leaves_a_critical_rule_out() {
    let advice = "in a profile that extends \"p\":\n[[rule]]\nid = \"x\"";
    for action in ["log", "deny", "kill"] {
        let row = json!({ "severity": "critical", "action": action, "advice": advice });
        let page = told(&report(&[row], 1));
        assert!(
            page.contains("  to allow    turnkey explain --on open"),
            "{page}"
        );
        assert!(!page.contains("--format profile"), "{page}");
    }
}
