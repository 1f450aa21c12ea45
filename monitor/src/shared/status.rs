//! Status of the programs that are loaded for all, and of the jails that they watch.

use std::os::fd::AsRawFd;
use std::path::PathBuf;

use turnkey_abi::ABI_VERSION;

use crate::error::OpenError;
use crate::interruption::in_one_go;
use crate::object::{JAILS, ObjectFile};
use crate::sys::JailValue;
use crate::tier::Tier;

use super::claim::cgroup;
use super::folder::{Folder, all};
use super::{held, names};

/// A version of the programs that is loaded for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVersion {
    /// Version of the wire types, a dash, and the start of the object's SHA-256; behind them the level of the groups that
    /// attachments watch by it.
    pub name: String,
    /// True when it is the version that the object in question would use.
    pub current: bool,
    /// The tier that the version was loaded for.
    pub tier: Tier,
    /// Number of programs.
    pub programs: usize,
    /// True when some process watches, so that tracepoints of the host call the programs. Unknown of another version
    /// of the wire types, which may keep it elsewhere.
    pub watching: Option<bool>,
    /// Number of slots that stay made.
    pub slots: usize,
    /// The jails that it watches; `None` when it speaks another version of the wire types.
    pub jails: Option<Vec<WatchedJail>>,
}

/// A jail that the kernel holds rules for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedJail {
    /// The id of its cgroup.
    pub cgroup_id: u64,
    /// The cgroup's path; `None` when it is gone, or cannot be asked for.
    pub cgroup: Option<PathBuf>,
    /// True when the jail is to die.
    pub condemned: bool,
    /// Records that the kernel has made.
    pub records: u64,
    /// Records that found no room in a ring.
    pub lost: u64,
}

/// Versions that are loaded; `object` tells which of them is current.
///
/// # Errors
/// When it cannot be read, or another user than root could have put it there.
pub fn status<'o>(object: impl Into<ObjectFile<'o>>) -> Result<Vec<SharedVersion>, OpenError> {
    let current = Folder::for_object(&object.into(), JAILS);
    let finished = all()?.into_iter().filter(Folder::is_finished);
    finished.map(|folder| version(&folder, &current)).collect()
}

fn version(folder: &Folder, current: &Folder) -> Result<SharedVersion, OpenError> {
    let name = folder.name();
    let speaks_ours = name
        .split_once('-')
        .is_some_and(|(version, _)| version == ABI_VERSION.to_string());
    Ok(SharedVersion {
        current: folder.is_of_the_object_of(current),
        tier: folder.tier(),
        programs: names(folder.programs())?.len(),
        slots: names(folder.slots())?.len(),
        watching: speaks_ours.then(|| held::is_watching(folder)).transpose()?,
        jails: speaks_ours.then(|| jails(folder)).transpose()?,
        name,
    })
}

fn jails(folder: &Folder) -> Result<Vec<WatchedJail>, OpenError> {
    let maps = super::maps(folder)?;
    let mut jails = Vec::new();
    let entries: Vec<_> = in_one_go(|| maps.jails.iter().collect());
    for entry in entries {
        let (cgroup_id, JailValue(jail)) = entry?;
        if jail.canary != 0 {
            continue;
        }
        jails.push(WatchedJail {
            cgroup_id,
            cgroup: group_path(cgroup_id),
            condemned: jail.condemned != 0,
            records: jail.seq,
            lost: jail.lost_records,
        });
    }
    jails.sort_unstable_by_key(|jail| jail.cgroup_id);
    Ok(jails)
}

/// The path of the directory of the control group with this id; `None` when it is gone, or cannot be asked for.
#[must_use]
pub fn group_path(id: u64) -> Option<PathBuf> {
    let opened = cgroup(id)?.ok()?;
    std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()
}
