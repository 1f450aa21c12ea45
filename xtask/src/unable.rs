//! Tests that this machine cannot run: counted and named by `cargo xtask test`, which passes what can be passed. Where
//! all are expected to run, as in CI, the first of them is an error instead.

use std::ffi::OsStr;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::machine::{Machine, Shows};

/// Tests that take the whole jail, watched, and root to make what they are about.
struct Whole {
    /// The test binary, as in lists.rs.
    binary: &'static str,
    /// The beginning of their names.
    prefix: &'static str,
    /// The use that they make of it.
    why: &'static str,
}

impl Whole {
    fn has(&self, binary: &str, test: &str) -> bool {
        self.binary == binary && test.starts_with(self.prefix)
    }
}

/// An ordinary user has no other, and neither has root of a user namespace that maps one id.
const ANOTHER_USER: &str = "act as another user, or make files of another's";

const WHOLE: &[Whole] = &[
    Whole {
        binary: "agreement",
        prefix: "",
        why: "run the command, and see the calls of other processes",
    },
    Whole {
        binary: "e2e",
        prefix: "",
        why: "run the command, most of them watched, in places that root has made",
    },
    Whole {
        binary: "embed",
        prefix: "",
        why: "watch a jail of root's",
    },
    Whole {
        binary: "landlock",
        prefix: "",
        why: "make jails of root's with control groups",
    },
    Whole {
        binary: "limits",
        prefix: "",
        why: "run the command, and see the calls of other processes",
    },
    Whole {
        binary: "live",
        prefix: "",
        why: "load the monitor's programs into the kernel",
    },
    Whole {
        binary: "proof",
        prefix: "",
        why: "take a limit away from a jail of root's",
    },
    Whole {
        // Of the jailer and of the supervisor.
        binary: "terminal",
        prefix: "",
        why: "make jails of root's with a terminal",
    },
    Whole {
        binary: "threads",
        prefix: "",
        why: "make jails of root's with control groups",
    },
    Whole {
        binary: "turnkey_jailer",
        prefix: "export::destination::tests::a_way_that_another_user",
        why: ANOTHER_USER,
    },
    Whole {
        binary: "turnkey_jailer",
        prefix: "process::owner::tests::",
        why: ANOTHER_USER,
    },
    Whole {
        binary: "turnkey_jailer",
        prefix: "process::privileges::",
        why: "give up one capability of root's",
    },
    Whole {
        binary: "turnkey_jailer",
        prefix: "rootfs::paths::tests::a_link_that_another_user",
        why: ANOTHER_USER,
    },
    Whole {
        binary: "turnkey_jailer",
        prefix: "rootfs::paths::tests::another_user",
        why: ANOTHER_USER,
    },
    Whole {
        binary: "turnkey_supervisor",
        prefix: "files::output::tests::a_stranger",
        why: ANOTHER_USER,
    },
    Whole {
        binary: "turnkey_supervisor",
        prefix: "toolchain::installation::tests::j67_what_another",
        why: ANOTHER_USER,
    },
];

/// The tests that this machine is unable to run; nothing on one that can show everything.
#[derive(Debug)]
pub struct Unable {
    /// The one thing to change first, where there is one.
    lacks: Option<String>,
}

impl Unable {
    /// Of this machine. An error where all tests are expected to run and it cannot run some.
    pub fn of(machine: &Machine) -> Result<Unable> {
        let lacks = (machine.shows() != Shows::Everything).then(|| machine.fix().to_owned());
        let unable = Unable { lacks };
        if let (Some(fix), true) = (
            &unable.lacks,
            are_all_expected(std::env::var_os("CI").as_deref()),
        ) {
            bail!(
                "this machine cannot run every test, and CI is set, where all are expected to: {fix}; or unset CI"
            );
        }
        Ok(unable)
    }

    /// True when every test can run.
    pub fn nothing(&self) -> bool {
        self.lacks.is_none()
    }

    /// True when this test cannot.
    pub fn has(&self, binary: &str, test: &str) -> bool {
        self.lacks.is_some() && WHOLE.iter().any(|whole| whole.has(binary, test))
    }

    /// The tests that nextest is to leave out besides, as the end of one of its filter expressions.
    pub fn filter(&self) -> String {
        if self.nothing() {
            return String::new();
        }
        WHOLE.iter().fold(String::new(), |mut text, whole| {
            let (binary, prefix) = (whole.binary, whole.prefix);
            let _ = write!(text, " & not (binary(={binary}) & test(/^{prefix}/))");
            text
        })
    }

    /// Counts and names them, by their binaries, among all tests, each given by its binary and its name; nothing
    /// where every test can run.
    pub fn told(&self, tests: &[(String, String)]) -> Option<String> {
        let fix = self.lacks.as_ref()?;
        let left = tests.iter().filter(|(binary, test)| self.has(binary, test));
        let all = left.count();
        let mut text =
            format!("{all} tests, and the guest, cannot run here; for all of them, {fix}:");
        for whole in WHOLE {
            let count = tests
                .iter()
                .filter(|(binary, test)| whole.has(binary, test))
                .count();
            let (binary, prefix, why) = (whole.binary, whole.prefix, whole.why);
            let name = format!("{binary} {prefix}");
            let _ = write!(
                text,
                "\n  {count:>4} of {}: they {why}",
                name.trim_end_matches([' ', ':'])
            );
        }
        Some(text)
    }
}

/// Refuses a line that fits none of the tests, each given by its binary and its name.
pub fn refuse_stale(tests: &[(String, String)]) -> Result<()> {
    for whole in WHOLE {
        if !tests.iter().any(|(binary, test)| whole.has(binary, test)) {
            bail!(
                "xtask/src/unable.rs has `{} {}` ({}), and no test begins so",
                whole.binary,
                whole.prefix,
                whole.why
            );
        }
    }
    Ok(())
}

/// True when CI, as the machines of code hosts set it, says that nobody is there to read what was left out.
fn are_all_expected(ci: Option<&OsStr>) -> bool {
    ci.is_some_and(|value| !["", "0", "false"].iter().any(|no| value == *no))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(binary: &str, name: &str) -> (String, String) {
        (binary.to_owned(), name.to_owned())
    }

    #[test]
    fn what_a_machine_cannot_run_is_counted_named_and_left_out() {
        let unable = Unable {
            lacks: Some("run this as root".to_owned()),
        };
        let tests = [
            test("e2e", "bombs::one"),
            test("e2e", "limits::two"),
            test("turnkey_jailer", "process::privileges::tests::three"),
            test("turnkey_jailer", "plan::tests::four"),
        ];
        let told = unable.told(&tests).unwrap_or_default();
        assert!(told.starts_with("3 tests, and the guest,"), "{told}");
        assert!(told.contains("run this as root"), "{told}");
        assert!(told.contains("   2 of e2e: "), "{told}");
        assert!(
            told.contains("   1 of turnkey_jailer process::privileges: "),
            "{told}"
        );
        assert!(!unable.has("turnkey_jailer", "plan::tests::four"));
        assert!(unable.filter().contains("not (binary(=e2e) & test(/^/))"));
    }

    #[test]
    fn a_line_that_fits_no_test_is_refused() {
        let mut tests: Vec<_> = WHOLE.iter().map(|it| test(it.binary, it.prefix)).collect();
        refuse_stale(&tests).expect("each fits one");
        tests.pop();
        let error = refuse_stale(&tests).expect_err("the last one fits none");
        assert!(error.to_string().contains("unable.rs"), "{error}");
    }

    #[test]
    fn a_whole_machine_leaves_nothing_out() {
        let unable = Unable { lacks: None };
        assert!(!unable.has("e2e", "bombs::one"));
        assert_eq!(unable.filter(), "");
        assert_eq!(unable.told(&[test("e2e", "bombs::one")]), None);
    }

    #[test]
    fn ci_is_set_where_its_value_does_not_say_no() {
        for (value, expected) in [
            (None, false),
            (Some(""), false),
            (Some("false"), false),
            (Some("0"), false),
            (Some("true"), true),
            (Some("1"), true),
        ] {
            assert_eq!(
                are_all_expected(value.map(OsStr::new)),
                expected,
                "{value:?}"
            );
        }
    }
}
