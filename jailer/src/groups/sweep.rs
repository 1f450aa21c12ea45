//! Removes the groups that a killed run left: one whose supervisor and keeper were both killed.
//!
//! Every run holds a lock, flock(2), on each of its groups for as long as it lives; the kernel
//! lets go of it when the last process that holds it dies, whoever killed it, in whatever pid
//! namespace. Its directory is open to root and its owner alone, so that nobody else can hold that lock. A group of ours that is not locked and not new has no owner. It is removed with the groups below it, each of
//! which must be without an owner as well, when it is empty, which the kernel itself decides: rmdir(2) of a group with a
//! process in it fails. Whoever watches a group of others holds a lock on it, so that no group goes that is waited for.
//!
//! The groups of a turnkey whose end its starter has seen need not be old before they go: see [`LeftGroups`].

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::hierarchy::{CgroupHierarchies, Controller};

/// The prefix of the name of every group of ours.
pub const PREFIX: &str = "turnkey-";

/// Between the making of a group and its lock lies a moment; nobody takes this long.
const NEW: Duration = Duration::from_secs(10);
/// The same for a group of a process that has ended: only one with its number in another pid namespace could still be about to lock it.
const NEW_OF_THE_DEAD: Duration = Duration::from_secs(1);

/// Removes what is left below `parent`, a group that runs make theirs in. Clearing away after
/// others is no reason for this run to fail, so nothing is told.
pub fn sweep(parent: &Path) {
    let now = SystemTime::now();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            remove_if_left(&entry.path(), now, NEW);
        }
    }
}

/// The groups that a process may have left which has been killed, and whose keeper may have been, too.
#[derive(Debug)]
pub struct LeftGroups {
    /// The beginning of their names.
    prefix: String,
    parents: Vec<PathBuf>,
}

impl LeftGroups {
    /// Groups of a process of this pid namespace, started from this process's groups, that has ended and has not been waited for longer
    /// than a moment: until its number is given anew, they are nobody else's.
    pub fn of_ended(process: u32) -> LeftGroups {
        LeftGroups::below(process, parents())
    }

    fn below(process: u32, parents: Vec<PathBuf>) -> LeftGroups {
        LeftGroups {
            prefix: format!("{PREFIX}{process}-"),
            parents,
        }
    }

    /// Removes those that are empty. True when none is left.
    pub fn remove(&self) -> bool {
        let now = SystemTime::now();
        let mut left = false;
        for parent in &self.parents {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                if entry
                    .file_name()
                    .as_bytes()
                    .starts_with(self.prefix.as_bytes())
                {
                    remove_if_left(&entry.path(), now, NEW_OF_THE_DEAD);
                    left |= entry.path().exists();
                }
            }
        }
        !left
    }
}

/// The directories in which a run that is started here makes groups, whatever it is limited by.
fn parents() -> Vec<PathBuf> {
    let mut parents = Vec::new();
    for wanted in [&Controller::ALWAYS[..], &Controller::ALL] {
        if let Ok(found) = CgroupHierarchies::probe_for(wanted) {
            parents.extend(found.parents().map(Path::to_owned));
        }
    }
    parents.sort();
    parents.dedup();
    parents
}

/// Removes a group without an owner that is not as new as this, and before it those below.
fn remove_if_left(group: &Path, now: SystemTime, new: Duration) {
    let made = fs::symlink_metadata(group).and_then(|metadata| metadata.modified());
    let age = made.ok().and_then(|made| now.duration_since(made).ok());
    if age.is_none_or(|age| age < new) {
        return;
    }
    let Ok(directory) = File::open(group) else {
        return;
    };
    if directory.try_lock().is_err() {
        return;
    }
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in below.filter(is_group) {
        remove_if_left(&entry.path(), now, new);
    }
    // Still locked, so that no second sweeper takes a group made anew under this name.
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On an ordinary file system: the rules are the same there.
    fn parent_with(name: &str, age: Duration) -> (tempfile::TempDir, std::path::PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let group = parent.path().join(name);
        fs::create_dir(&group).expect("a new directory takes one");
        let made = SystemTime::now() - age;
        let directory = File::open(&group).expect("it is there");
        directory.set_modified(made).expect("it is ours");
        (parent, group)
    }

    #[test]
    fn an_old_group_without_an_owner_goes() {
        let (parent, group) = parent_with("turnkey-1-0-0", Duration::from_secs(60));
        sweep(parent.path());
        assert!(!group.exists());
    }

    #[test]
    fn an_owned_group_stays() {
        let (parent, group) = parent_with("turnkey-1-0-0", Duration::from_secs(60));
        let owner = File::open(&group).unwrap();
        owner.lock().unwrap();
        sweep(parent.path());
        assert!(group.exists());
        drop(owner);
        sweep(parent.path());
        assert!(!group.exists());
    }

    #[test]
    fn a_new_group_stays() {
        let (parent, group) = parent_with("turnkey-1-0-0", Duration::from_secs(1));
        sweep(parent.path());
        assert!(group.exists());
    }

    #[test]
    fn groups_of_a_dead_process_go_when_no_one_can_be_about_to_lock_them() {
        for (name, age, goes) in [
            ("turnkey-7-0-0", NEW_OF_THE_DEAD * 2, true),
            ("turnkey-7-0-0", Duration::ZERO, false),
            ("turnkey-71-0-0", NEW * 2, false),
        ] {
            let (parent, group) = parent_with(name, age);
            let left = LeftGroups::below(7, vec![parent.path().to_owned()]);
            let owner = File::open(&group).unwrap();
            owner.lock().unwrap();
            let is_of_it = name.starts_with("turnkey-7-");
            assert_eq!(left.remove(), !is_of_it, "{name}: it has an owner");
            drop(owner);
            assert_eq!(left.remove(), goes || !is_of_it, "{name}");
            assert_eq!(group.exists(), !goes, "{name}, {age:?}");
        }
    }

    #[test]
    fn groups_of_others_stay() {
        let (parent, group) = parent_with("system.slice", Duration::from_secs(60));
        sweep(parent.path());
        assert!(group.exists());
    }

    /// A group in the group, as old as it; whoever made it has changed the upper one's time.
    fn with_inner(group: &Path, name: &str, age: Duration) -> std::path::PathBuf {
        let inner = group.join(name);
        fs::create_dir(&inner).unwrap();
        for directory in [&inner, group] {
            let directory = File::open(directory).unwrap();
            directory.set_modified(SystemTime::now() - age).unwrap();
        }
        inner
    }

    #[test]
    fn an_old_group_goes_with_all_below() {
        let (parent, group) = parent_with("turnkey-1-0-0", NEW * 2);
        let inner = with_inner(&group, "inner", NEW * 2);
        with_inner(&inner, "turnkey-2-0-0", NEW * 2);
        let directory = File::open(&group).unwrap();
        directory.set_modified(SystemTime::now() - NEW * 2).unwrap();
        sweep(parent.path());
        assert!(!group.exists());
    }

    #[test]
    fn a_group_below_that_is_owned_or_new_or_in_use_stays_with_those_above() {
        let (parent, group) = parent_with("turnkey-1-0-0", NEW * 2);
        let used = with_inner(&group, "used", NEW * 2);
        fs::write(used.join("process"), "").unwrap();
        let new = with_inner(&group, "new", Duration::ZERO);
        let owned = with_inner(&group, "owned", NEW * 2);
        let below_owned = with_inner(&owned, "below", NEW * 2);
        let left = with_inner(&group, "left", NEW * 2);
        for directory in [&used, &owned, &group] {
            let directory = File::open(directory).unwrap();
            directory.set_modified(SystemTime::now() - NEW * 2).unwrap();
        }
        let owner = File::open(&owned).unwrap();
        owner.try_lock_shared().unwrap();
        sweep(parent.path());
        for kept in [&group, &used, &new, &owned, &below_owned] {
            assert!(kept.exists(), "{}", kept.display());
        }
        assert!(!left.exists());
    }
}
