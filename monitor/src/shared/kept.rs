//! Tables that were compiled before, kept beside the programs that are loaded for all.
//!
//! A table is a pure function of the rules, and to compile one takes longer than most of what a run does
//! besides. So each is put into a map of its own, whose name is the digest of all that it was made from, and who
//! has the same rules maps it. It gets its name when it is whole, and nobody writes it afterwards.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::maps::{MapData, MapError};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY;
use sha2::{Digest, Sha256};
use turnkey_abi::Table;
use turnkey_policy::{Mode, Rule};

use crate::compile::{CompileError, compile_rules};
use crate::object::ObjectFile;
use crate::rule_table::RuleTable;
use crate::seat::MAPPABLE;
use crate::sys::{MappedTable, map_table};

use super::folder::{Folder, SharedError, found, make};

/// How many are kept: some for each profile that is in use, at a megabyte and a quarter each.
const MOST: usize = 16;

/// The table of these rules: the one that is kept, or a new one, which is kept from then on where programs
/// are loaded for all.
pub(crate) fn table(
    object: &ObjectFile<'_>,
    rules: &[Rule],
    mode: Mode,
) -> Result<RuleTable, CompileError> {
    let Some(file) = file(object, rules, mode) else {
        return compile_rules(rules, mode).map(RuleTable::Own);
    };
    // A run needs no help to compile: one that cannot be had is made again, and the run is the same.
    if let Ok(kept) = open(&file) {
        return Ok(RuleTable::Kept(kept));
    }
    let table = compile_rules(rules, mode)?;
    let _ = keep(&file, &table);
    Ok(RuleTable::Own(table))
}

/// Where the table of these rules is, if it is anywhere.
fn file(object: &ObjectFile<'_>, rules: &[Rule], mode: Mode) -> Option<PathBuf> {
    let folder = Folder::of(object);
    let is_there = folder.is_there().unwrap_or(false);
    is_there.then_some(())?;
    Some(folder.tables().join(digest(rules, mode).ok()?))
}

/// Of everything that a table depends on: the rules, and the program that compiles them.
fn digest(rules: &[Rule], mode: Mode) -> io::Result<String> {
    let compiler = fs::metadata("/proc/self/exe")?;
    let mut taken = Taken(Sha256::new());
    (compiler.dev(), compiler.ino(), compiler.size()).hash(&mut taken);
    (compiler.mtime(), compiler.mtime_nsec()).hash(&mut taken);
    (compiler.ctime(), compiler.ctime_nsec()).hash(&mut taken);
    (mode, rules).hash(&mut taken);
    let digest = taken.0.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What is hashed goes into the digest, every byte of it.
struct Taken(Sha256);

impl Hasher for Taken {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks for so short a one.
    fn finish(&self) -> u64 {
        0
    }
}

fn open(file: &Path) -> Result<MappedTable, MapError> {
    let map = MapData::from_pin(file)?;
    Ok(MappedTable::of(&map)?)
}

fn keep(file: &Path, table: &Table) -> Result<(), SharedError> {
    let unkept = |error| SharedError::pinned(file, error);
    let bytes = u32::try_from(size_of::<Table>()).unwrap_or(u32::MAX);
    let map = aya_obj::Map::new_from_params(BPF_MAP_TYPE_ARRAY as u32, 4, bytes, 1, MAPPABLE);
    let map = MapData::create(map, "table", None).map_err(unkept)?;
    map_table(&map, table).map_err(found(file))?;
    if let Some(folder) = file.parent() {
        make(folder)?;
        make_room(folder)?;
    }
    map.pin(file).map_err(found(file))
}

/// Takes the oldest away when there is no place for another.
fn make_room(folder: &Path) -> Result<(), SharedError> {
    let listed = || -> io::Result<Vec<_>> {
        let entries = fs::read_dir(folder)?;
        let aged = entries.map(|entry| {
            let entry = entry?;
            let data = entry.metadata()?;
            Ok(((data.mtime(), data.mtime_nsec()), entry.path()))
        });
        aged.collect()
    };
    let mut kept = listed().map_err(found(folder))?;
    kept.sort_unstable();
    let many = (kept.len() + 1).saturating_sub(MOST);
    for (_, old) in kept.iter().take(many) {
        match fs::remove_file(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SharedError::pinned(old, error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use turnkey_policy::{Action, On};

    use super::*;

    #[test]
    fn digest_tells_rules_and_modes_apart() {
        let of = |rules: &[Rule], mode| digest(rules, mode).expect("a running program is a file");
        let rule = Rule::new("one", [On::Open], Action::Kill);
        let other = Rule {
            action: Action::Log,
            ..rule.clone()
        };
        let (one, another) = ([rule.clone()], [other.clone()]);
        let all = [
            of(&[], Mode::Enforce),
            of(&one, Mode::Enforce),
            of(&one, Mode::Observe),
            of(&another, Mode::Enforce),
            of(&[rule.clone(), other.clone()], Mode::Enforce),
            of(&[other, rule], Mode::Enforce),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[1], of(&one, Mode::Enforce));
    }
}
