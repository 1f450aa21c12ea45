//! Tables and filters that earlier runs made, kept beside the programs that are loaded for all.
//!
//! A table is a pure function of the rules, as a syscall filter is of the names that are allowed, and to make
//! one takes longer than most of what a run does besides. So each is put into a map of its own, whose name is
//! the digest of all that it was made from, and a run that is to have the same maps it. It gets its name when it is
//! whole, and is not written afterwards.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::maps::{MapData, MapError};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY;
use sha2::{Digest, Sha256};
use turnkey_abi::Table;
use turnkey_policy::{EnforcementMode, Rule};

use crate::compile::{CompileError, compile_rules};
use crate::object::{JAILS, ObjectFile};
use crate::rule_table::RuleTable;
use crate::sys::{BYTES_VALUE, MAPPABLE, MappedTable, map_bytes, map_table, mapped_bytes};

use super::folder::{Folder, SharedError, found, make};

/// Most objects of a kind that are kept: some for each profile that is in use. A table takes a megabyte and a quarter.
const MOST: usize = 16;

/// The table of these rules: the one that is kept, or a new one, which is kept from then on where programs
/// are loaded for all.
pub(crate) fn table(
    object: &ObjectFile<'_>,
    rules: &[Rule],
    mode: EnforcementMode,
) -> Result<RuleTable, CompileError> {
    let Some(file) = file(object, Folder::tables, &(mode, rules)) else {
        return compile_rules(rules, mode).map(RuleTable::Own);
    };
    // A run needs no help to compile: one that cannot be had is made again, and the run is the same.
    if let Ok(kept) = open(&file) {
        return Ok(RuleTable::Kept(kept));
    }
    let table = compile_rules(rules, mode)?;
    let _ = keep(&file, size_of::<Table>(), |map| map_table(map, &table));
    Ok(RuleTable::Own(table))
}

/// Bytes that `make` makes of `from`, and of nothing else: those that are kept, or new ones, which are kept from then
/// on where programs are loaded for all.
///
/// Only root may load programs for all, and put anything where they are: what is found
/// there is as good as what this process makes.
///
/// # Errors
/// Those of `make`. Bytes that cannot be kept, or read, are no error: they are made again.
pub fn filter<'o, E>(
    object: impl Into<ObjectFile<'o>>,
    from: &impl Hash,
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let Some(file) = file(&object.into(), Folder::filters, from) else {
        return make();
    };
    let kept = MapData::from_pin(&file).map(|map| mapped_bytes(&map));
    if let Ok(Ok(bytes)) = kept {
        return Ok(bytes);
    }
    let bytes = make()?;
    let _ = keep(&file, BYTES_VALUE, |map| map_bytes(map, &bytes));
    Ok(bytes)
}

/// The path of the object that is kept of `from`, where programs are loaded for all.
fn file(
    object: &ObjectFile<'_>,
    kind: fn(&Folder) -> PathBuf,
    from: &impl Hash,
) -> Option<PathBuf> {
    let folder = Folder::for_object(object, JAILS);
    let is_there = folder.is_there().unwrap_or(false);
    is_there.then_some(())?;
    Some(kind(&folder).join(digest(from).ok()?))
}

/// Digest of everything that the object depends on: what it is made of, and the program that makes it.
fn digest(from: &impl Hash) -> io::Result<String> {
    let maker = fs::metadata("/proc/self/exe")?;
    let mut taken = Taken(Sha256::new());
    (maker.dev(), maker.ino(), maker.size()).hash(&mut taken);
    (maker.mtime(), maker.mtime_nsec()).hash(&mut taken);
    (maker.ctime(), maker.ctime_nsec()).hash(&mut taken);
    from.hash(&mut taken);
    let digest = taken.0.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A hasher that takes every byte into the digest.
struct Taken(Sha256);

impl Hasher for Taken {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Never called: a digest is longer than this.
    fn finish(&self) -> u64 {
        0
    }
}

fn open(file: &Path) -> Result<MappedTable, MapError> {
    let map = MapData::from_pin(file)?;
    Ok(MappedTable::map(&map)?)
}

/// Makes a map for so many bytes, has it filled, and gives it its name.
fn keep(
    file: &Path,
    bytes: usize,
    fill: impl FnOnce(&MapData) -> io::Result<()>,
) -> Result<(), SharedError> {
    let unkept = |error| SharedError::pinned(file, error);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let map = aya_obj::Map::new_from_params(BPF_MAP_TYPE_ARRAY as u32, 4, bytes, 1, MAPPABLE);
    let map = MapData::create(map, "kept", None).map_err(unkept)?;
    fill(&map).map_err(found(file))?;
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
    use turnkey_policy::{AttemptKind, RuleAction};

    use super::*;

    #[test]
    fn digest_tells_rules_and_modes_apart() {
        let of =
            |rules: &[Rule], mode| digest(&(mode, rules)).expect("a running program is a file");
        let rule = Rule::new("one", [AttemptKind::Open], RuleAction::Kill);
        let other = Rule {
            action: RuleAction::Log,
            ..rule.clone()
        };
        let (one, another) = ([rule.clone()], [other.clone()]);
        let all = [
            of(&[], EnforcementMode::Enforce),
            of(&one, EnforcementMode::Enforce),
            of(&one, EnforcementMode::Observe),
            of(&another, EnforcementMode::Enforce),
            of(&[rule.clone(), other.clone()], EnforcementMode::Enforce),
            of(&[other, rule], EnforcementMode::Enforce),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[1], of(&one, EnforcementMode::Enforce));
    }
}
