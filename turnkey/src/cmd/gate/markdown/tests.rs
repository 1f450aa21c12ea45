use super::super::overrides::Overridden;
use super::super::result::*;
use super::*;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser};
use turnkey_policy::Severity;

/// A result with this text wherever a stranger's can be.
pub fn result(hostile: &str) -> GateResult {
    let text = hostile.to_owned();
    let by = Overridden {
        reason: text.clone(),
        author: text.clone(),
        expires: text.clone(),
    };
    let finding = GateFinding {
        path: Some(text.clone()),
        line: Some(1),
        overridden: Some(by.clone()),
        ..GateFinding::new(hostile, Severity::High, hostile)
    };
    let check = GateCheck {
        why: Some(text.clone()),
        overridden: Some(by),
        ..GateCheck::failing_by(hostile, vec![finding])
    };
    GateResult {
        schema: SCHEMA.to_owned(),
        turnkey: text.clone(),
        finished_at: text.clone(),
        verdict: GateVerdict::Fail,
        base: text.clone(),
        head: text.clone(),
        config: ConfigSource {
            from: text.clone(),
            sha256: text.clone(),
        },
        commits: 1,
        model_commits: vec![ModelCommit {
            id: text.clone(),
            subject: text.clone(),
            why: text.clone(),
        }],
        files: vec![text.clone()],
        checks: vec![check],
        notes: vec![text],
    }
}

/// The words outside of code spans, as a parser of CommonMark with the extensions of code hosts sees them.
fn outside_of_spans(comment: &str) -> String {
    let mut words = String::new();
    for event in Parser::new_ext(comment, Options::all()) {
        match event {
            Event::Code(_) => words.push('#'),
            Event::Text(text) => words.push_str(&text),
            Event::SoftBreak | Event::HardBreak => words.push(' '),
            Event::Html(text) | Event::InlineHtml(text) => words.push_str(&text),
            Event::Start(tag) => words.push_str(&format!("<{tag:?}>")),
            Event::End(_) => {}
            other => words.push_str(&format!("<{other:?}>")),
        }
    }
    words
}

#[test]
fn what_a_stranger_wrote_is_in_code_spans() {
    let harmless = outside_of_spans(&comment(&result("x")));
    for hostile in [
        "@everyone",
        "</li><img src=x onerror=alert(1)>",
        "`@a` ``b`` ```",
        "`",
        "a\n\n# heading",
        "[x](javascript:alert(1)) ![](http://x)",
        "\\`@a",
        " ",
        "",
        "--> <!--",
        "http://example.org #1 GH-1",
        "|a|b|\n|-|-|",
        "$x$ :smile:",
        "\u{202e}\u{2028}x",
    ] {
        let seen = outside_of_spans(&comment(&result(hostile)));
        assert_eq!(seen, harmless, "{hostile}");
    }
}

proptest! {
    #[test]
    fn no_text_leaves_its_span(hostile in "[`@<>\\[\\]()!#*_~|&;\\\\ \n\ta-c:/$-]{0,40}") {
        let seen = outside_of_spans(&comment(&result(&hostile)));
        prop_assert_eq!(seen, outside_of_spans(&comment(&result("x"))));
    }
}

#[test]
fn a_comment_is_never_longer_than_a_code_host_takes() {
    let long = "`a".repeat(5000);
    let mut result = result(&long);
    let finding = || GateFinding {
        path: Some(long.clone()),
        ..GateFinding::new(&long, Severity::High, &long)
    };
    result.checks = (0..50)
        .map(|_| GateCheck::failing_by(&long, (0..200).map(|_| finding()).collect()))
        .collect();
    let text = comment(&result);
    assert!(
        text.len() < 65_536 && text.ends_with("in the JSON.\n"),
        "{}",
        text.len()
    );
    let spans = Parser::new(&text).filter(|event| matches!(event, Event::Code(_)));
    assert!(spans.count() > 50);
    result.checks.truncate(1);
    result.checks[0].findings.truncate(21);
    assert!(comment(&result).contains("\n  - and 1 more\n"));
}
