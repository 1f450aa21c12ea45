//! Where each test stands: which of them `cargo xtask test` runs, for people who wait, and which come at night.
//!
//! A new test is run by `cargo xtask test`, where it may take two seconds, unless a line below says otherwise. A
//! line that fits no test is an error, so that the list cannot grow stale. The tests that run in guests have their
//! own lists, in xtask/src/vm/.

use anyhow::{Result, bail};

/// Tests that `cargo xtask test --nightly` runs besides.
pub struct Nightly {
    /// The test binary: the name of its target, or of the package for unit tests.
    binary: &'static str,
    /// How their names begin.
    prefix: &'static str,
    /// Why they take longer than somebody wants to wait for, and what stands in for them by day.
    why: &'static str,
}

/// The one table.
pub const NIGHTLY: &[Nightly] = &[];

impl Nightly {
    fn has(&self, binary: &str, test: &str) -> bool {
        self.binary == binary && test.starts_with(self.prefix)
    }
}

/// Whether a test is left to the night.
pub fn is_nightly(binary: &str, test: &str) -> bool {
    NIGHTLY.iter().any(|line| line.has(binary, test))
}

/// What nextest has to run, as one of its filter expressions.
pub fn filter() -> String {
    let lines: Vec<String> = NIGHTLY
        .iter()
        .map(|line| format!("(binary(={}) & test(/^{}/))", line.binary, line.prefix))
        .collect();
    match lines.as_slice() {
        [] => "all()".to_owned(),
        _ => format!("not ({})", lines.join(" | ")),
    }
}

/// Refuses a line that fits none of the tests, each given by its binary and its name.
pub fn refuse_stale(tests: &[(String, String)]) -> Result<()> {
    for line in NIGHTLY {
        if !tests.iter().any(|(binary, test)| line.has(binary, test)) {
            bail!(
                "xtask/src/test/lists.rs leaves `{} {}` to the night ({}), and no test begins so",
                line.binary,
                line.prefix,
                line.why
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_and_say_why() {
        let keys = |line: &Nightly| (line.binary, line.prefix);
        assert!(NIGHTLY.is_sorted_by_key(keys));
        assert!(NIGHTLY.iter().all(|line| !line.why.is_empty()));
    }

    #[test]
    fn prefix_means_the_same_to_nextest_as_here() {
        // Letters, digits, `_` and `:` alone: nothing of a regular expression.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        for line in NIGHTLY {
            assert!(line.prefix.bytes().all(is_plain), "{}", line.prefix);
        }
    }
}
