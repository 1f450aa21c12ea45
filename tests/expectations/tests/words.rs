//! A binary with words lists them when it is asked, and only then.

use std::process::Command;

use turnkey_expectations::{ASKED, MARK};

/// Words about tests that nobody runs.
mod example {
    use turnkey_expectations::expected;

    expected!(on BY_TIER);
    expected!(one, two: at_night, "\"slow\"");
    fn one() {}
    fn two() {}
}

fn listed(asks: bool) -> Vec<String> {
    let mut list = Command::new(std::env::current_exe().expect("a path"));
    list.args(["--list", "--format", "terse"]).env_remove(ASKED);
    if asks {
        list.env(ASKED, "1");
    }
    let output = list.output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut words: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix(MARK))
        .map(str::to_owned)
        .collect();
    assert!(text.contains("words_are_listed_where_somebody_asks: test\n"));
    words.sort();
    words
}

#[test]
fn words_are_listed_where_somebody_asks() {
    assert_eq!(
        listed(true),
        [
            r#"{"of":"words::example::","says":"On","machines":["6.12 tracepoint","6.1 monitor","6.1 tracepoint"],"why":""}"#,
            r#"{"of":"words::example::one","says":"AtNight","machines":[],"why":"\"slow\""}"#,
            r#"{"of":"words::example::two","says":"AtNight","machines":[],"why":"\"slow\""}"#,
        ]
    );
    assert_eq!(listed(false), [""; 0]);
}
