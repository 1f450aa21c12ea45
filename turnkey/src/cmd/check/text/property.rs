//! Whatever a profile or a flag holds, what is wrong with it is drawn, and in a text that somebody can read.
//!
//! The texts are made of what is hard to draw: long lines, tabs, wide and combining characters, marks that turn a
//! line around, NUL, other ends of lines, deep nesting, and places at the very end. They go the way of the
//! command: profiles that are looked at, and the error of a run.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use turnkey_policy::Overrides;

use super::*;

/// Texts that are tried.
const CASES: u32 = 40;

/// No page of what is wrong with one profile is larger.
const MOST_DRAWN: usize = 1 << 20;

/// The beginning of a profile that is read beyond its first line.
const HEAD: &str = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = \"untrusted\"\n";

/// Words of the format, and what no drawing of lines and columns likes.
const PIECES: [&str; 40] = [
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "\0",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "\\",
    "\\u0301",
    "#",
    "a",
    "a.",
    "x = 1\n",
    "漢",
    "e\u{301}",
    "\u{301}",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{1b}[31m",
    "\u{7f}",
    "🏳\u{fe0f}\u{200d}🌈",
    "[limits]\n",
    "memory = ",
    "[[rule]]\n",
    "id = \"a\"\n",
    "on = \"open\"\n",
];

/// The number of times that a piece stands in a row: around the longest line that is read, and far more.
const TIMES: [usize; 8] = [1, 1, 1, 2, 50, 1_000, 8_190, 70_000];

fn text() -> impl Strategy<Value = String> {
    let run = (select(&PIECES[..]), select(&TIMES[..])).prop_map(|(piece, times)| {
        let most = (70_000 / piece.len()).max(1);
        piece.repeat(times.min(most))
    });
    let head = select(&["", HEAD, "schema = "][..]);
    (head, vec(run, 0..8)).prop_map(|(head, runs)| format!("{head}{}", runs.concat()))
}

/// As `check` draws what it finds.
fn page(text: &str) -> usize {
    let name = "mine.toml";
    let read = |_: &str| Ok(text.to_owned());
    let known_as = |path: &std::path::Path| vec![path.to_owned()];
    let outcome = turnkey_policy::check(name, &read, &known_as, time::Date::MIN);
    let mut page = Vec::new();
    write(&[(name, outcome)], &mut page).expect("memory takes everything");
    page.len()
}

/// As a run says why it does not begin.
fn refusal(profile: &str, overrides: &Overrides) -> usize {
    let read = |_: &str| Ok(profile.to_owned());
    match turnkey_policy::load("mine.toml", &read, overrides) {
        Ok(_) => 0,
        Err(error) => format!("{:?}\n", miette::Report::new(error)).len(),
    }
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    let flags = Overrides::from_flags([("memory", text), ("allow", text)]).expect("flags");
    for drawn in [
        page(text),
        refusal(text, &Overrides::default()),
        refusal(HEAD, &flags),
    ] {
        prop_assert!(drawn < MOST_DRAWN, "{drawn} bytes are no page");
    }
    Ok(())
}

/// The text itself is too long to be read.
fn told(error: &TestError<String>) -> String {
    match error {
        TestError::Fail(reason, text) => {
            let start: String = text.chars().take(100).collect();
            format!("{reason}: {} bytes that begin with {start:?}", text.len())
        }
        TestError::Abort(reason) => reason.to_string(),
    }
}

#[test]
fn whatever_a_profile_holds_its_problems_are_drawn() {
    let config = ProptestConfig::with_cases(CASES);
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, random)
        .run(&text(), |text| holds(&text))
        .unwrap_or_else(|error| panic!("{}", told(&error)));
}

/// Texts found by hand, and their relatives, are refused in words.
#[test]
fn long_and_deep_texts_are_refused_in_words() {
    for (piece, times) in [("[", 100_000), ("\t", 30_000)] {
        let row = piece.repeat(times);
        for text in [
            row.clone(),
            format!("{HEAD}[limits]\nmemory = \"{row}\"\n"),
            format!(
                "{HEAD}[limits]\nmemory = \"\"\"\n{}\"\"\"\n",
                format!("{piece}\n").repeat(times)
            ),
            format!("{HEAD}{row}"),
        ] {
            holds(&text).unwrap();
            assert!(page(&text) > "mine.toml: cannot be used".len());
        }
    }
}
