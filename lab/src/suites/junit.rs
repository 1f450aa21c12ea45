//! What a test suite writes of its tests: the form that JUnit has given its name to.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use roxmltree::{Document, Node, ParsingOptions};

/// The tests of a run.
#[derive(Debug, Default)]
pub struct Tests {
    /// The number of tests that ran, with those that were skipped.
    pub run: usize,
    /// The names of those that failed: the class and the test.
    pub failed: BTreeSet<String>,
}

/// Reads a file of it. CPython declares no characters that XML does not have; a text that is none is an error.
pub fn read(text: &str) -> Result<Tests> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).context("results are no XML")?;
    let nodes = document.descendants();
    let cases: Vec<Node> = nodes.filter(|node| node.has_tag_name("testcase")).collect();
    let failed = cases.iter().filter(|case| has_failed(case));
    Ok(Tests {
        run: cases.len(),
        failed: failed.map(name).collect(),
    })
}

fn has_failed(case: &&Node) -> bool {
    let mut results = case.children();
    results.any(|result| result.has_tag_name("failure") || result.has_tag_name("error"))
}

fn name(case: &Node) -> String {
    let parts = ["classname", "name"].map(|part| case.attribute(part));
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_failed_are_known_by_their_names() {
        let text = r#"<testsuite><testcase classname="a.B" name="one" time="0.1"/>
            <testcase name="two" classname="a.B"><failure message="x &gt; y">text</failure></testcase>
            <testcase name="a.B.three (a.B)" status="run"><error/></testcase>
            <testcase classname="a.B" name="four"><skipped/></testcase></testsuite>"#;
        let tests = read(text).unwrap();
        assert_eq!(tests.run, 4);
        let failed: Vec<_> = tests.failed.iter().map(String::as_str).collect();
        assert_eq!(failed, ["a.B.three (a.B)", "a.B.two"]);
        assert!(read("<testsuite>").is_err());
    }
}
