//! Names of tests in documents: each is that of a test. SECURITY.md makes no claim without one, so a test that is renamed or
//! goes takes its claim along. `…` stands for the rest of a name. In docs/daily-use.md a name has its module, and a module alone
//! stands for its tests.

use std::path::Path;

use anyhow::Result;
use regex_lite::Regex;

use super::TidyProblem;
use super::tree::TextFile;

/// The document in which all code with an underline is a test.
const SECURITY: &str = "SECURITY.md";

/// The document in which all code with `::` is a test, or the module of some.
const DAILY: &str = "docs/daily-use.md";

/// Code of SECURITY.md which is something else.
const OTHER_CODE: &str = "core_pattern max_running_per_user memory_peak_bytes mount_setattr \
                          no_new_privs pivot_root same_file uid_map user_allow_other";

/// Finds names of tests which no test has.
pub fn check(files: &[TextFile]) -> Result<Vec<TidyProblem>> {
    let tests = tests(files)?;
    let code = Regex::new(r"`((?:[a-z0-9_]+::)*(?:[a-z0-9]+_[a-z0-9_]*…?|…)|(?:[a-z0-9_]+::)+)`")?;
    let number = Regex::new(r"^(?:[a-z0-9_]+::)*[jm]\d\d_")?;
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.has_extension(&["md"])) {
        let [is_security, is_daily] = [SECURITY, DAILY].map(|own| file.path == Path::new(own));
        for (line, text) in file.text.lines().enumerate() {
            let names = code.captures_iter(text).map(|code| code.extract());
            for (_, [name]) in names {
                let means_a_test = match is_security {
                    true => OTHER_CODE.split(' ').all(|code| code != name),
                    false if is_daily && name.contains("::") => true,
                    false => name.ends_with('…') || number.is_match(name),
                };
                let begins = name.strip_suffix("::").map(|module| format!("{module}::…"));
                if means_a_test && !is_there(begins.as_deref().unwrap_or(name), &tests) {
                    let message = format!("`{name}`: no test is called so");
                    problems.push(TidyProblem::new(&file.path, line + 1, message));
                }
            }
        }
    }
    Ok(problems)
}

/// Every test by its path, as `tests::e2e::filesystem::j09_a_mount_inside`.
fn tests(files: &[TextFile]) -> Result<Vec<String>> {
    let test = Regex::new(r"#\[test\]\s*(?:(?:#\[[^\n]*\]|//[^\n]*)\s*)*(?:pub )?fn ([a-z0-9_]+)")?;
    let mut tests = Vec::new();
    for file in files.iter().filter(|file| file.has_extension(&["rs"])) {
        let path = file.path.with_extension("").display().to_string();
        let path = path.replace('/', "::");
        let names = test.captures_iter(&file.text).map(|test| test.extract());
        tests.extend(names.map(|(_, [name])| format!("{path}::{name}")));
    }
    Ok(tests)
}

fn is_there(name: &str, tests: &[String]) -> bool {
    let below = |test: &str, fits: &dyn Fn(&str) -> bool| {
        let mut places = test.match_indices("::");
        places.any(|(at, _)| fits(&test[at + 2..]))
    };
    match name.strip_suffix('…') {
        None => tests.iter().any(|test| below(test, &|rest| rest == name)),
        Some(start) => {
            // One that has the number of this attack, `j06_`, behind that of another.
            let later = format!("_{start}");
            let is_number = start.len() == 4;
            let carries = |rest: &str| is_number && !rest.contains("::") && rest.contains(&later);
            let fits = |rest: &str| rest.starts_with(start) || carries(rest);
            tests.iter().any(|test| below(test, &fits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "#[test]\nfn j09_a_mount_inside() {}\n#[test]\n#[cfg(unix)]\n// Why.\nfn j01_j06_links() {}\n\
                         fn helps_a_test() {}\n";

    fn found(document: &str, text: &str) -> usize {
        let files = [
            TextFile::new("tests/e2e/filesystem.rs", TESTS),
            TextFile::new(document, text),
        ];
        check(&files).unwrap().len()
    }

    #[test]
    fn a_test_is_named_whole_or_by_its_beginning() {
        for name in [
            "j09_a_mount_inside",
            "j09_…",
            "j06_…",
            "filesystem::…",
            "filesystem::j09_a_…",
            "no_new_privs",
            "untrusted",
            "--read_only",
        ] {
            assert_eq!(found(SECURITY, &format!("by `{name}`.")), 0, "{name}");
        }
    }

    #[test]
    fn a_name_of_no_test_is_found() {
        for name in [
            "j09_a_mount",
            "j08_…",
            "a_mount_inside",
            "mounts::…",
            "helps_a_test",
            "system::j09_a_mount_inside",
        ] {
            assert_eq!(found(SECURITY, &format!("by `{name}`.")), 1, "{name}");
        }
    }

    #[test]
    fn of_daily_use_each_name_with_a_module_is_of_a_test_and_each_module_has_some() {
        assert_eq!(
            found(DAILY, "`filesystem::j09_a_mount_inside`, `filesystem::`"),
            0
        );
        assert_eq!(found(DAILY, "`a_key`, `[a::b]`"), 0);
        assert_eq!(found(DAILY, "`filesystem::a_mount`\n`mounts::`"), 2);
    }

    #[test]
    fn elsewhere_code_is_a_test_by_its_number_or_its_rest() {
        assert_eq!(found("docs/x.md", "`j08_a`, `a_b_…`\n`m01_…`"), 3);
        assert_eq!(found("docs/x.md", "`a_key`, `j09_…`"), 0);
    }
}
