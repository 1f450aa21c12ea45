//! The bounds of a look: size, nesting, work, and the stack that it takes.

use std::thread;

use crate::judge::Judge;
use crate::{Scan, rule};

/// A larger script is not looked at, in bytes.
pub const LARGEST: usize = 1 << 20;

/// Steps of one look: expressions, words and bytes that are folded.
pub const STEPS: usize = 1_000_000;

/// Nesting is bounded before a parser runs, and what it allows fits into this many times over. Pages that are not used
/// cost nothing.
const STACK: usize = 256 << 20;

/// Looks at a text on a stack of its own. What no text is, what is too large, and what a parser gives up on is a finding.
pub fn looked_at(code: &[u8], look: impl FnOnce(&str) -> Scan + Send) -> Scan {
    if code.len() > LARGEST {
        let says = format!("the script has more than {LARGEST} bytes, and is not looked at");
        return only(&rule::TOO_LARGE, says);
    }
    if code.contains(&0) {
        return only(
            &rule::NOT_TEXT,
            "the file has zero bytes, as programs have and no script does".to_owned(),
        );
    }
    let text = String::from_utf8_lossy(code);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let looked = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        let started = thread.spawn_scoped(scope, || look(text));
        started.map(|thread| thread.join().ok()).ok().flatten()
    });
    looked.unwrap_or_else(|| {
        only(
            &rule::NOT_PARSED,
            "the parser gave up on this script".to_owned(),
        )
    })
}

fn only(rule: &'static rule::Rule, says: String) -> Scan {
    let mut judge = Judge::new(None);
    judge.find(rule, says);
    judge.finish()
}
