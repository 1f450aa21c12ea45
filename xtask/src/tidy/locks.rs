//! The crates that nobody is to wait for: `cargo update` brings them back, and no test would notice.

use super::Problem;
use super::tree::File;

/// The sign of ICU's tables in a lock file.
const ICU: &str = "name = \"icu_";

/// Finds lock files with ICU. Some twenty crates of it wrapped lines of error messages, and read host names of other
/// alphabets that no test has.
pub fn check(file: &File) -> Vec<Problem> {
    if !file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let found = file.text.lines().position(|line| line.starts_with(ICU));
    let problem = |line| {
        Problem::new(
            &file.path,
            line + 1,
            "ICU is compiled again: `cargo update -p textwrap --precise 0.16.2` and \
             `cargo update -p idna_adapter --precise 1.0.0` do without",
        )
    };
    found.map(problem).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icu_is_found_in_lock_files_alone() {
        let text = "[[package]]\nname = \"icu_segmenter\"\n";
        let found = check(&File::new("fuzz/Cargo.lock", text));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("fuzz/Cargo.lock:2: "));
        assert_eq!(check(&File::new("docs/a.md", text)), []);
        let others = "[[package]]\nname = \"miette\"\n";
        assert_eq!(check(&File::new("Cargo.lock", others)), []);
    }
}
