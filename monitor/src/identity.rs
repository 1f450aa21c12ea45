//! Files that rules know by themselves: which these are is known when the jail's tree stands.
//!
//! The reference is `policy::decide_same_file`; here its answers for each file are put where the
//! kernel finds them.

use std::collections::BTreeMap;

use turnkey_abi::{FILES, Table, WatchedFile, column};
use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Rule, SameFile, decide_same_file};

use crate::compile::{AWAY, CompileError, plus_one, strength};
use crate::tier::Tier;

/// A file, as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// `inode.i_ino`
    pub inode: u64,
    /// `super_block.s_dev`, in the kernel's encoding (`major << 20 | minor`).
    pub dev: u32,
}

impl FileId {
    /// From a device's numbers, as in /proc/PID/mountinfo.
    #[must_use]
    pub const fn new((major, minor): (u32, u32), inode: u64) -> Self {
        Self {
            inode,
            dev: major << 20 | minor,
        }
    }
}

/// A path of which a rule means the file, by whatever name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedPath {
    /// The path as seen in the jail.
    pub path: Vec<u8>,
    /// The id of the first rule that asks for it.
    pub rule: String,
    /// True when there must be a file.
    pub required: bool,
}

/// More spellings than that do not fit the table.
const MOST: usize = FILES - 1;

/// Every path of which some rule means the file.
pub(crate) fn watched_paths(rules: &[Rule]) -> Result<Vec<WatchedPath>, CompileError> {
    let mut watched: BTreeMap<Vec<u8>, WatchedPath> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.same_file != SameFile::No) {
        let required = rule.same_file == SameFile::Required;
        for glob in &rule.path {
            let spellings = glob.spellings(MOST).ok_or(CompileError::TooManyFiles)?;
            for path in spellings {
                let entry = watched.entry(path).or_insert_with_key(|path| WatchedPath {
                    path: path.clone(),
                    rule: rule.id.clone(),
                    required,
                });
                if required && !entry.required {
                    rule.id.clone_into(&mut entry.rule);
                    entry.required = true;
                }
            }
        }
    }
    if watched.len() > MOST {
        return Err(CompileError::TooManyFiles);
    }
    Ok(watched.into_values().collect())
}

/// Without hooks, what a call's argument led to is known after an open, an exec or a mapping alone.
pub(crate) fn refuse_unknowable(rules: &[Rule], tier: Tier) -> Result<(), CompileError> {
    let knowing = rules.iter().filter(|rule| rule.same_file != SameFile::No);
    for rule in knowing {
        let unknowable = |on: &&AttemptKind| {
            !matches!(on, AttemptKind::Open | AttemptKind::Exec | AttemptKind::Map)
        };
        if tier == Tier::Tracepoint
            && let Some(on) = rule.on.iter().find(unknowable)
        {
            return Err(CompileError::CannotIdentify {
                rule: rule.id.clone(),
                on: on.name(),
            });
        }
    }
    Ok(())
}

/// The columns in which the rules about a file speak whatever attempts these are on: all in which it can become
/// another one.
const LOSING: [u32; 7] = [
    column::WRITE,
    column::BOTH,
    column::LINK,
    column::RENAME,
    column::UNLINK,
    column::CHMOD,
    column::AWAY,
];

/// Bits of the columns in which files by themselves may have an answer that no path has.
pub(crate) fn columns(rules: &[Rule]) -> u32 {
    let mut knowing = rules.iter().map(|rule| rule.same_file != SameFile::No);
    let losing = LOSING.iter().fold(0, |bits, column| bits | 1 << column);
    if knowing.any(|knows| knows) {
        losing
    } else {
        0
    }
}

/// The kind of attempt and the accesses that each column answers.
const ASKED: [(u32, AttemptKind, &[OpenAccess]); 9] = [
    (column::READ, AttemptKind::Open, &[OpenAccess::Read]),
    (column::WRITE, AttemptKind::Open, &[OpenAccess::Write]),
    (column::BOTH, AttemptKind::Open, OpenAccess::ALL),
    (column::EXEC, AttemptKind::Exec, &[]),
    (column::LINK, AttemptKind::Link, &[]),
    (column::RENAME, AttemptKind::Rename, &[]),
    (column::UNLINK, AttemptKind::Unlink, &[]),
    (column::CHMOD, AttemptKind::Chmod, &[]),
    (column::MAP, AttemptKind::Map, &[]),
];

/// Writes the files that were found at the watched paths, in the order of both.
pub(crate) fn write(
    table: &mut Table,
    rules: &[Rule],
    watched: &[WatchedPath],
    found: &[Option<FileId>],
) {
    let mut files: BTreeMap<FileId, Vec<&[u8]>> = BTreeMap::new();
    for (path, file) in watched.iter().zip(found) {
        if let Some(file) = file {
            files.entry(*file).or_default().push(&path.path);
        }
    }
    table.files.fill(WatchedFile::NONE);
    // There are no more than paths, which are few enough.
    table.file_count = u32::try_from(files.len()).unwrap_or(u32::MAX);
    for (slot, (file, was)) in table.files.iter_mut().zip(&files) {
        *slot = WatchedFile {
            inode: file.inode,
            dev: file.dev,
            ..WatchedFile::NONE
        };
        for (column, on, access) in ASKED {
            let attempt = Attempt {
                access,
                was,
                ..Attempt::new(on)
            };
            slot.rules[column as usize] = plus_one(decide_same_file(rules, &attempt));
        }
        slot.rules[column::AWAY as usize] = plus_one(decide_lost(rules, was));
    }
}

/// The rule about taking the file out from under any path: the strongest on using it in any way.
fn decide_lost(rules: &[Rule], was: &[&[u8]]) -> Option<usize> {
    let uses = ASKED.iter().filter(|(column, ..)| AWAY.contains(column));
    let decided = uses.filter_map(|(_, on, access)| {
        let attempt = Attempt {
            access,
            was,
            ..Attempt::new(*on)
        };
        decide_same_file(rules, &attempt)
    });
    decided.max_by_key(|rule| strength(rules, *rule))
}

/// The file's own answer in a column: a rule plus one, or 0.
pub(crate) fn rule_of(table: &Table, file: FileId, column: usize) -> u16 {
    let found = table
        .files
        .binary_search_by_key(&(file.inode, file.dev), |one| (one.inode, one.dev));
    found.map_or(0, |index| table.files[index].rules[column])
}
