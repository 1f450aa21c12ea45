//! Names that differ from run to run: whoever made them up made them up anew.

use std::collections::{BTreeMap, BTreeSet};

use super::seen::{FileUse, FileWant, UsedBy};
use turnkey_report::unchosen::literal;

/// A pattern for the last part of each path that varies.
pub type VariedNames = BTreeMap<Vec<u8>, String>;

/// The name of a file or directory in one directory.
#[derive(Debug)]
struct NameUse {
    /// The first run in which it was used, and the last.
    runs: (u16, u16),
    /// True when it was written to, or a file below it.
    written: bool,
}

/// The names that were written in one run alone, where another run has written others in the same directory.
pub fn varied(uses: &BTreeMap<FileUse, UsedBy>) -> VariedNames {
    let mut varied = VariedNames::new();
    for (directory, names) in by_directory(uses) {
        let of_one_run = |name: &NameUse| name.written && name.runs.0 == name.runs.1;
        let mut alike: BTreeMap<&[u8], Vec<(&[u8], u16)>> = BTreeMap::new();
        for (name, used) in names.iter().filter(|(_, used)| of_one_run(used)) {
            alike
                .entry(stem(name))
                .or_default()
                .push((name, used.runs.0));
        }
        // Names that nothing but their run tells apart may begin differently.
        let (single, mut groups): (Vec<_>, Vec<_>) = alike
            .into_values()
            .partition(|names| !is_of_several_runs(names));
        groups.push(single.concat());
        for names in groups.iter().filter(|names| is_of_several_runs(names)) {
            let pattern = common(names);
            for (name, _) in names {
                let path = [directory, b"/", *name].concat();
                varied.insert(path, pattern.clone());
            }
        }
    }
    varied
}

fn by_directory(uses: &BTreeMap<FileUse, UsedBy>) -> BTreeMap<&[u8], BTreeMap<&[u8], NameUse>> {
    let mut found: BTreeMap<&[u8], BTreeMap<&[u8], NameUse>> = BTreeMap::new();
    for (wanted, by) in uses {
        let path = wanted.path.as_slice();
        let written = wanted.want == FileWant::Write && by.succeeded;
        let slashes = (0..path.len()).filter(|at| path[*at] == b'/');
        let ends = slashes.clone().skip(1).chain([path.len()]);
        for (slash, end) in slashes.zip(ends) {
            let names = found.entry(&path[..slash]).or_default();
            let name = names.entry(&path[slash + 1..end]).or_insert(NameUse {
                runs: by.runs,
                written,
            });
            let (first, last) = name.runs;
            name.runs = (first.min(by.runs.0), last.max(by.runs.1));
            name.written |= written;
        }
    }
    found
}

fn is_of_several_runs(names: &[(&[u8], u16)]) -> bool {
    let runs: BTreeSet<u16> = names.iter().map(|(_, run)| *run).collect();
    runs.len() > 1
}

/// No underscore: Python's tempfile makes names up of those as well.
fn is_separator(byte: &u8) -> bool {
    b"-.".contains(byte)
}

/// The name up to its first separator.
fn stem(name: &[u8]) -> &[u8] {
    let end = name.iter().position(is_separator);
    &name[..end.map_or(0, |end| end + 1)]
}

/// A pattern for all the names: what they begin and end with, up to a separator, so that a letter that is the same by chance
/// is not kept.
fn common(names: &[(&[u8], u16)]) -> String {
    let Some(((first, _), rest)) = names.split_first() else {
        return "*".to_owned();
    };
    let same = |count: &dyn Fn(&[u8]) -> usize| {
        let counts = rest.iter().map(|(name, _)| count(name));
        counts.min().unwrap_or_default()
    };
    let head = same(&|name| first.iter().zip(name).take_while(|(a, b)| a == b).count());
    let tail = same(&|name| {
        let both = first.iter().rev().zip(name.iter().rev());
        both.take_while(|(a, b)| a == b).count()
    });
    let head = &first[..head];
    let head = &head[..head.iter().rposition(is_separator).map_or(0, |at| at + 1)];
    let tail = &first[(first.len() - tail).max(head.len())..];
    let dot = tail.iter().position(|byte| *byte == b'.');
    let tail = dot.map_or(&b""[..], |dot| &tail[dot..]);
    format!("{}*{}", literal(head), literal(tail))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use turnkey_policy::Glob;

    use super::*;

    fn uses(paths: &[(&str, u16)], want: FileWant) -> BTreeMap<FileUse, UsedBy> {
        let mut uses: BTreeMap<FileUse, UsedBy> = BTreeMap::new();
        for (path, run) in paths {
            let path = path.as_bytes().to_vec();
            let by = UsedBy {
                succeeded: true,
                runs: (*run, *run),
                ..UsedBy::default()
            };
            let known = uses.entry(FileUse { want, path }).or_insert(by.clone());
            known.join(&by);
        }
        uses
    }

    #[test]
    fn a_name_of_each_run_is_a_pattern_and_one_of_every_run_stays() {
        let written = [
            ("/workspace/out-17/a.txt", 1),
            ("/workspace/out-23/a.txt", 2),
            ("/workspace/same/b.txt", 1),
            ("/workspace/same/b.txt", 2),
        ];
        let found = varied(&uses(&written, FileWant::Write));
        let expected = [
            (b"/workspace/out-17".to_vec(), "out-*".to_owned()),
            (b"/workspace/out-23".to_vec(), "out-*".to_owned()),
        ];
        assert_eq!(found, VariedNames::from(expected));
    }

    #[test]
    fn what_was_only_read_or_only_one_run_has_stays() {
        let read = [("/workspace/monday/a", 1), ("/workspace/friday/a", 2)];
        assert!(varied(&uses(&read, FileWant::Read)).is_empty());
        let once = [("/workspace/monday/a", 1), ("/workspace/friday/a", 1)];
        assert!(varied(&uses(&once, FileWant::Write)).is_empty());
    }

    proptest! {
        /// mkstemp(3) and Python's tempfile make up such names; chance does not make the pattern narrower.
        #[test]
        fn two_random_names_are_a_pattern_for_a_third(
            names in prop::collection::hash_set("[a-z0-9_]{8}", 3),
            (stem, ending) in prop::sample::select(vec![("", ""), ("tmp", ""), ("a-", ".csv"), (".", ".tmp")]),
        ) {
            let names: Vec<_> = names.iter().map(|name| format!("/w/{stem}{name}{ending}")).collect();
            let found = varied(&uses(&[(&names[0], 1), (&names[1], 2)], FileWant::Write));
            let pattern = found.get(names[0].as_bytes()).map(String::as_str).unwrap_or_default();
            let glob = Glob::parse(&format!("/w/{pattern}")).expect("a pattern");
            let is_like = |at: usize| glob.matches(names[at].as_bytes());
            prop_assert!(is_like(0) && is_like(1) && is_like(2), "{names:?}: {pattern}");
        }
    }
}
