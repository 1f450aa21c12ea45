//! Patterns: what they match, what they refuse, and that their regular expression agrees.

use proptest::prelude::*;
use regex_automata::dfa::{Automaton, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use turnkey_policy::Glob;
use turnkey_policy::glob::GlobErrorKind;

fn glob(text: &str) -> Glob {
    Glob::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn assert_matches(pattern: &str, matching: &[&str], other: &[&str]) {
    let glob = glob(pattern);
    for path in matching {
        assert!(
            glob.matches(path.as_bytes()),
            "{pattern} should match {path}"
        );
    }
    for path in other {
        assert!(
            !glob.matches(path.as_bytes()),
            "{pattern} should not match {path}"
        );
    }
}

#[test]
fn a_literal_matches_itself_alone() {
    assert_matches(
        "/etc/shadow",
        &["/etc/shadow"],
        &["/etc/shadow-", "/etc/shado", "etc/shadow", ""],
    );
}

#[test]
fn a_star_stays_within_a_name() {
    assert_matches(
        "/tmp/*.py",
        &["/tmp/a.py", "/tmp/.py"],
        &["/tmp/a/b.py", "/tmp/a.pyc", "/tmp"],
    );
}

#[test]
fn two_stars_cross_directories() {
    assert_matches(
        "/usr/**",
        &["/usr/", "/usr/a", "/usr/a/b"],
        &["/usr", "/us/a"],
    );
    assert_matches(
        "**/.ssh/id_*",
        &["/.ssh/id_a", "/home/x/.ssh/id_rsa"],
        &["/home/.ssh/id/a"],
    );
}

#[test]
fn directories_between_two_slashes_may_be_none() {
    assert_matches(
        "/a/**/b",
        &["/a/b", "/a/x/b", "/a/x/y/b"],
        &["/ab", "/a/xb", "/a/b/", "/a//"],
    );
    assert_matches("/a/{**/b,c}", &["/a/b", "/a/x/b", "/a/c"], &["/a/x/c"]);
    assert_matches("/a/**/**/b", &["/a/b", "/a/x/b", "/a/x/y/b"], &["/ab"]);
}

#[test]
fn two_stars_and_a_slash_begin_an_absolute_path() {
    assert_matches("**/b", &["/b", "/a/b"], &["b", "a/b", "memfd:/b", "/ab"]);
    assert_matches("{**/b,/c}", &["/b", "/a/b", "/c"], &["memfd:/b", "/a/c"]);
    assert_matches("**b", &["b", "/b", "memfd:/b"], &["/bc"]);
}

#[test]
fn a_question_mark_is_one_byte_but_no_slash() {
    assert_matches("/a?c", &["/abc", "/a?c"], &["/a/c", "/ac", "/abbc"]);
    assert!(glob("/?").matches(b"/\xff"));
}

#[test]
fn braces_hold_alternatives_that_are_patterns() {
    assert_matches(
        "/etc/{passwd,shadow}{,-}",
        &["/etc/passwd", "/etc/shadow-"],
        &["/etc/group", "/etc/passwdshadow", "/etc/"],
    );
    assert_matches(
        "/{a{1,2},b*}/x",
        &["/a1/x", "/a2/x", "/b/x", "/bcd/x"],
        &["/a/x", "/a3/x"],
    );
}

#[test]
fn a_backslash_takes_the_meaning_away() {
    assert_matches(r"/a\*\{b\}\\", &[r"/a*{b}\"], &[r"/ax{b}\", "/a*b"]);
    assert_matches("/a,b", &["/a,b"], &["/a"]);
}

#[test]
fn paths_are_bytes() {
    assert!(glob("/é*").matches("/é\u{1F511}".as_bytes()));
    assert!(glob("/a*").matches(b"/a\n\xff\xfe"));
    assert!(!glob("/a*").matches(b"/a\xff/"));
}

#[test]
fn faults_are_found_where_they_are() {
    let fault = |text: &str| {
        Glob::parse(text)
            .map_err(|error| (error.kind, error.span))
            .err()
    };
    assert_eq!(fault(""), Some((GlobErrorKind::Empty, 0..0)));
    assert_eq!(fault("/a\0b"), Some((GlobErrorKind::Zero, 2..3)));
    assert_eq!(fault("/a\\"), Some((GlobErrorKind::NothingEscaped, 2..3)));
    assert_eq!(fault("/{a,{b}"), Some((GlobErrorKind::Unclosed, 1..2)));
    assert_eq!(fault("/a}"), Some((GlobErrorKind::Unopened, 2..3)));
    assert_eq!(fault("/a/***/b"), Some((GlobErrorKind::ThreeStars, 3..6)));
    assert_eq!(fault("/a[bc]"), Some((GlobErrorKind::Bracket, 2..3)));
    assert_eq!(
        fault("/{{{{{{{{{a}}}}}}}}}"),
        Some((GlobErrorKind::TooDeep, 9..10))
    );
    let long = "a".repeat(4097);
    assert_eq!(fault(&long), Some((GlobErrorKind::TooLong, 0..4097)));
}

#[test]
fn specificity_prefers_exact_paths_then_literal_bytes() {
    let ascending = [
        "**",
        "**/b",
        "/etc/*",
        "/etc/{passwd,*}w",
        "/etc/pass**",
        "/etc/a",
        "/etc/ab",
    ];
    for pair in ascending.windows(2) {
        let (less, more) = (glob(pair[0]).specificity(), glob(pair[1]).specificity());
        assert!(less < more, "{} {less:?} < {} {more:?}", pair[0], pair[1]);
    }
}

#[test]
fn alternatives_are_as_specific_as_their_shortest() {
    let specificity = glob("/etc/{passwd,x}").specificity();
    assert!(specificity.exact);
    assert_eq!(specificity.literal_bytes, "/etc/x".len());
}

#[test]
fn a_hostile_pattern_costs_no_more_than_its_length() {
    let pattern = "/{**a,**b}".repeat(200);
    let path = vec![b'/'; 4096];
    // Backtracking would not end within the age of the universe.
    assert!(!glob(&pattern).matches(&path));
}

/// Matches as the monitor does, by a DFA of the expression.
fn dfa_matches(regex: &str, path: &[u8]) -> bool {
    let dfa = dense::Builder::new()
        .syntax(syntax::Config::new().utf8(false))
        .thompson(thompson::Config::new().utf8(false))
        .build(regex)
        .expect("the expression is one");
    let input = Input::new(path).anchored(Anchored::Yes);
    dfa.try_search_fwd(&input)
        .expect("no quit bytes")
        .is_some_and(|end| end.offset() == path.len())
}

fn any_pattern() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", "/", "*", "**", "?", "/**/", "{a,b/}", "{,a*}", "{**/b,?}", "\\*", "\\\\", ".",
        "é", "+",
    ]);
    prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop::sample::select(b"ab/*\\.+\n\xc3\xa9\xff".to_vec()),
        0..12,
    )
}

proptest! {
    #[test]
    fn the_expression_matches_what_the_pattern_matches(text in any_pattern(), path in any_path()) {
        if let Ok(glob) = Glob::parse(&text) {
            prop_assert_eq!(glob.matches(&path), dfa_matches(&glob.to_regex(), &path), "{}", glob.to_regex());
        }
    }

    #[test]
    fn escaping_every_character_matches_the_text_itself(path in "[ -~]{1,40}") {
        let escaped: String = path.chars().flat_map(|character| ['\\', character]).collect();
        let glob = glob(&escaped);
        prop_assert!(glob.matches(path.as_bytes()));
        prop_assert!(glob.specificity().exact);
        prop_assert_eq!(glob.specificity().literal_bytes, path.len());
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        if let Err(error) = Glob::parse(&text) {
            prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
        }
    }
}
