//! The mounts that a profile asks for, in the order in which they have to come.

use std::path::Path;

use turnkey_policy::{FilesystemPolicy, HostPath, ScratchMount, WorkdirPlace};

use crate::host::{Host, PathFact};

/// A mount that the profile asks for.
pub(super) enum PlannedMount<'a> {
    Host {
        named: &'a HostPath,
        writable: bool,
    },
    Scratch(&'a ScratchMount),
    /// The working directory, at its path on the host.
    Workspace(&'a Path),
}

impl PlannedMount<'_> {
    fn path(&self) -> &Path {
        match self {
            PlannedMount::Host { named, .. } => named.place(),
            PlannedMount::Scratch(scratch) => &scratch.path,
            PlannedMount::Workspace(workdir) => workdir,
        }
    }
}

/// Directories before what they contain, or a later mount would hide an earlier one; and symlinks
/// last: most lead to where something is by then.
pub(super) fn places<'a>(
    filesystem: &'a FilesystemPolicy,
    host: &Host,
    workdir: &'a Path,
) -> Vec<PlannedMount<'a>> {
    let read = filesystem.read.iter().map(|named| PlannedMount::Host {
        named,
        writable: false,
    });
    let write = filesystem.write.iter().map(|named| PlannedMount::Host {
        named,
        writable: true,
    });
    let stands_there = filesystem.workdir.at == WorkdirPlace::Host;
    let mut places: Vec<_> = read
        .chain(write)
        .chain(filesystem.scratch.iter().map(PlannedMount::Scratch))
        .chain(stands_there.then_some(PlannedMount::Workspace(workdir)))
        .collect();
    let is_symlink =
        |place: &PlannedMount<'_>| matches!(host.fact(place.path()), PathFact::Symlink { .. });
    places.sort_by_cached_key(|place| (is_symlink(place), place.path().to_owned()));
    places
}

/// Directories of the host that no program has business to be given as its own.
const NO_WORKDIR: [&str; 6] = ["/etc", "/proc", "/sys", "/dev", "/run", "/boot"];

pub(super) fn is_no_workdir(path: &Path) -> bool {
    path.parent().is_none() || NO_WORKDIR.iter().any(|system| path.starts_with(system))
}
