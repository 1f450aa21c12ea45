//! Paths that lead by the kernel's own links to files that no text tells, as the programs ask for them where the arguments of
//! calls are all that is known.

use std::collections::BTreeSet;

use turnkey_abi::{column, magic};
use turnkey_policy::Glob;

use crate::automaton::{Automaton, AutomatonError};
use crate::rows::Rows;

/// Patterns, and what a path that one of them matches is. Each level of proc(5) has these links: a process, a thread, and the
/// names of both.
const PATTERNS: [(&str, u32); 7] = [
    ("/proc/**/{cwd,root,exe}", magic::LINK),
    ("/proc/**/{fd,map_files}/*", magic::LINK),
    ("/proc/**/{cwd,root}/**", magic::BELOW),
    ("/proc/**/fd/*/**", magic::BELOW),
    ("/dev/fd/*/**", magic::BELOW),
    ("/dev/fd/*", magic::DEVICE),
    ("/dev/std{in,out,err}", magic::DEVICE),
];

/// The patterns.
pub(super) fn patterns() -> Vec<Glob> {
    let parsed = PATTERNS.iter().map(|(text, _)| Glob::parse(text));
    parsed.filter_map(Result::ok).collect()
}

/// The automaton that tells what a path is, among at least these bytes.
pub(super) fn automaton(
    patterns: &[Glob],
    bytes: &BTreeSet<u8>,
    rows: &mut Rows,
) -> Result<Automaton, AutomatonError> {
    let globs: Vec<&Glob> = patterns.iter().collect();
    Automaton::build(&globs, bytes, |matched| {
        let leads = matched.iter().map(|pattern| PATTERNS[*pattern].1);
        let mut row = [0; column::COUNT];
        row[column::MAGIC as usize] = leads
            .max()
            .map_or(0, |leads| u16::try_from(leads).unwrap_or(0));
        rows.place(vec![row])
    })
}
