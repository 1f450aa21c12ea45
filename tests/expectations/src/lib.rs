//! The word of a test on who runs it, beside the test. A test without one is run by `cargo xtask test`, where it may take two
//! seconds, and in the guests of its binary.
//!
//! ```
//! # mod example {
//! use turnkey_expectations::expected;
//!
//! // Of all tests of this module:
//! expected!(not_on [ORDINARY_6_12], "the kernel has no part in it");
//!
//! // Of one test, or of several:
//! expected!(a_flood: at_night, "floods; `a_trickle` has it by day");
//! fn a_flood() {}
//! # }
//! ```
//!
//! - `at_night, "why"`: left to `cargo xtask test --nightly`; why it takes long, and the test that stands in for it by day.
//! - `as_root, "they …"`: runs only where turnkey can show everything; the use that the tests make of it.
//! - `on [MACHINE, …]`: runs in these guests of [`machine`].
//! - `not_on [MACHINE, …], "why"`: is left out there, and why nothing is lost.
//!
//! Of the words about a machine, the one nearest to the test counts. A word cannot outlive its test, because it names a function or
//! stands in a module; nor a machine; and it cannot go without its reason. None of these compiles:
//!
//! ```compile_fail
//! turnkey_expectations::expected!(a_test_that_is_gone: at_night, "floods");
//! ```
//! ```compile_fail
//! turnkey_expectations::expected!(not_on [MACHINE_THAT_IS_GONE], "floods");
//! ```
//! ```compile_fail
//! turnkey_expectations::expected!(at_night, "");
//! ```
//!
//! A test binary lists its words, one JSON object a line, before anything else when [`ASKED`] is set in its environment.

pub mod machine;

use std::io::Write as _;

use serde::Serialize;

#[doc(hidden)]
pub use linkme;

/// The variable of the environment that has a test binary list its words.
pub const ASKED: &str = "TURNKEY_EXPECTATIONS";

/// The beginning of each line with a word.
pub const MARK: &str = "expected: ";

/// A word as it is listed.
#[derive(Debug, Serialize)]
pub struct Word {
    /// The path of the test, or that of the module and `::`, below the name of the crate.
    pub of: &'static str,
    /// The kind of word.
    pub says: Says,
    /// The machines that it is about.
    pub machines: &'static [&'static str],
    /// The reason; empty for `on`, which needs none.
    pub why: &'static str,
}

/// The kinds of words; the documentation of the crate says what each means.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the crate has them")]
pub enum Says {
    AtNight,
    AsRoot,
    On,
    NotOn,
}

/// The words of the binary that this is linked into.
#[linkme::distributed_slice]
pub static WORDS: [Word];

/// Says who runs the tests of this module, or those that are named; see the crate.
#[macro_export]
macro_rules! expected {
    (@each $word:tt $($test:ident),+) => {
        $($crate::expected!(@one $word $test);)+
    };
    (@one [$($word:tt)+] $test:ident) => {
        const _: () = {
            // A word without its test does not compile.
            let _ = $test;
            $crate::word!(concat!(module_path!(), "::", stringify!($test)), $($word)+);
        };
    };
    ($($test:ident),+ : $($word:tt)+) => {
        $crate::expected!(@each [$($word)+] $($test),+);
    };
    ($($word:tt)+) => {
        const _: () = {
            $crate::word!(concat!(module_path!(), "::"), $($word)+);
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! word {
    ($of:expr, at_night, $why:literal) => {
        const _: () = assert!(!$why.is_empty(), "a word needs a reason");
        $crate::word!($of, AtNight, &[], $why);
    };
    ($of:expr, as_root, $why:literal) => {
        const _: () = assert!(!$why.is_empty(), "a word needs a reason");
        $crate::word!($of, AsRoot, &[], $why);
    };
    ($of:expr, on [$($machine:ident),+]) => {
        $crate::word!($of, On, &[$($crate::machine::$machine),+], "");
    };
    ($of:expr, on $machines:ident) => {
        $crate::word!($of, On, $crate::machine::$machines, "");
    };
    ($of:expr, not_on [$($machine:ident),+], $why:literal) => {
        const _: () = assert!(!$why.is_empty(), "a word needs a reason");
        $crate::word!($of, NotOn, &[$($crate::machine::$machine),+], $why);
    };
    ($of:expr, not_on $machines:ident, $why:literal) => {
        const _: () = assert!(!$why.is_empty(), "a word needs a reason");
        $crate::word!($of, NotOn, $crate::machine::$machines, $why);
    };
    ($of:expr, $says:ident, $machines:expr, $why:literal) => {
        #[$crate::linkme::distributed_slice($crate::WORDS)]
        #[linkme(crate = $crate::linkme)]
        static WORD: $crate::Word = $crate::Word {
            of: $of,
            says: $crate::Says::$says,
            machines: $machines,
            why: $why,
        };
    };
}

/// Lists the words where somebody asks; the harness of tests lists the tests behind them.
#[ctor::ctor]
fn list() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    for word in WORDS {
        let json = serde_json::to_string(word).unwrap_or_default();
        let _ = writeln!(std::io::stdout(), "{MARK}{json}");
    }
}
