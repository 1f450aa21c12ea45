//! Taking a slot, and giving it back.
//!
//! A slot is its holder's as long as the holder has its directory locked; the kernel gives the lock
//! back when the holder dies. A run that takes a slot whose holder has not given it back finds in it the
//! cgroup of the jail that it was for, and takes it only when that cgroup is no more. That word is left before the programs know the
//! jail, so that nothing is theirs that nobody could find. It may be about a group that another watches meanwhile, by another slot.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::maps::{Array, Map, MapData, MapError};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use turnkey_abi::SLOTS;

use crate::error::OpenError;
use crate::interruption::in_one_go;
use crate::maps::Maps;
use crate::slot::{Slot, SlotMaps};
use crate::sys;

use super::folder::{Folder, SharedError, found, make, names, remove};

/// Slots that stay when no jail has them: what is made already need not be made again.
pub(super) const KEPT: u32 = 4;

/// A slot that no other run can take.
pub(crate) struct Claim {
    index: u32,
    path: PathBuf,
    /// The cgroup of the jail that the slot is for, or 0.
    jail: Array<MapData, u64>,
    /// True when the programs have other maps at the slot's index than those that are pinned.
    is_spent: bool,
    _lock: Flock<File>,
}

impl Claim {
    /// Leaves word that the pinned maps are the slot's no longer, before the programs get others: whoever takes the slot of a
    /// process that was killed then makes it anew.
    pub(crate) fn spend(&mut self) -> Result<(), SharedError> {
        self.is_spent = true;
        let jail = self.path.join(JAIL);
        match fs::remove_file(&jail) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SharedError::pinned(&jail, error))
            }
            _ => Ok(()),
        }
    }

    /// Leaves word of the jail, for the run that takes the slot when this process is dead.
    pub(crate) fn note(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        in_one_go(|| self.jail.set(0, cgroup_id, 0))
    }

    /// Gives the slot back. Its jail has no task any more, and the programs do not know it.
    pub(crate) fn give_back(mut self) -> Result<(), OpenError> {
        self.note(0)?;
        if self.index >= KEPT || self.is_spent {
            // First, in whatever order the directory is listed: one that is half removed must not count as whole.
            self.spend()?;
            remove(&self.path)?;
        }
        Ok(())
    }
}

/// Takes the first slot that is free, and makes it if need be.
pub(super) fn take(folder: &Folder, maps: &mut Maps) -> Result<Slot, OpenError> {
    for index in 0..SLOTS {
        if let Some(slot) = try_take(folder, maps, index)? {
            return Ok(slot);
        }
    }
    Err(SharedError::Full.into())
}

/// Makes the first slots of those that stay.
pub(super) fn make_slots(folder: &Folder, maps: &mut Maps, slots: u32) -> Result<(), OpenError> {
    for index in 0..slots {
        try_take(folder, maps, index)?;
    }
    Ok(())
}

fn try_take(folder: &Folder, maps: &mut Maps, index: u32) -> Result<Option<Slot>, OpenError> {
    let path = folder.slots().join(index.to_string());
    make(&path)?;
    let Some(lock) = lock(&path)? else {
        return Ok(None);
    };
    let slot_maps = match open(&path)? {
        Some(slot_maps) => {
            slot_maps.place_again(index, maps)?;
            slot_maps
        }
        None => make_slot(&path, index, maps)?,
    };
    let jail = Array::try_from(Map::Array(super::map(&path.join(JAIL))?))?;
    let claim = Claim {
        index,
        path,
        jail,
        is_spent: false,
        _lock: lock,
    };
    if is_left_behind(folder, &claim, maps)? {
        return Ok(None);
    }
    Slot::new(index, slot_maps, Some(claim)).map(Some)
}

/// Locks a slot's directory, unless another run has it, or has taken it away meanwhile.
fn lock(path: &Path) -> Result<Option<Flock<File>>, SharedError> {
    let directory = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(found(path))?,
    };
    let inode = directory.metadata().map_err(found(path))?.ino();
    match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => {
            let is_same = fs::metadata(path).is_ok_and(|now| now.ino() == inode);
            Ok(is_same.then_some(lock))
        }
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(SharedError::pinned(path, error)),
    }
}

const DATA: &str = "data";
const RECORDS: &str = "records";
const VERDICTS: &str = "verdicts";
/// Pinned last: with it the slot is whole.
const JAIL: &str = "jail";

/// The maps of a slot; `None` when it was never finished.
fn open(path: &Path) -> Result<Option<SlotMaps>, SharedError> {
    if !path.join(JAIL).exists() {
        return Ok(None);
    }
    let map = |name: &str| super::map(&path.join(name));
    Ok(Some(SlotMaps {
        data: map(DATA)?,
        records: map(RECORDS)?,
        verdicts: map(VERDICTS)?,
    }))
}

fn make_slot(path: &Path, index: u32, maps: &mut Maps) -> Result<SlotMaps, OpenError> {
    let slot_maps = SlotMaps::make()?;
    slot_maps.place(index, maps)?;
    let jail = aya_obj::Map::new_from_params(BPF_MAP_TYPE_ARRAY as u32, 4, 8, 1, 0);
    let jail = MapData::create(jail, JAIL, None)?;
    let files = [
        (DATA, &slot_maps.data),
        (RECORDS, &slot_maps.records),
        (VERDICTS, &slot_maps.verdicts),
        (JAIL, &jail),
    ];
    for (name, map) in files {
        let file = path.join(name);
        // Left by a run that did not finish.
        if let Err(error) = fs::remove_file(&file)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(SharedError::pinned(&file, error).into());
        }
        map.pin(&file).map_err(found(&file))?;
    }
    Ok(slot_maps)
}

/// Forgets the groups of attachments whose watchers were killed: while others watch at the same level, nobody but them
/// can. A jail's rules stay, as its keeper ends it.
pub(super) fn forget_orphans(folder: &Folder, maps: &mut Maps) -> Result<(), OpenError> {
    for name in names(folder.slots())? {
        let Ok(index) = name.parse() else {
            continue;
        };
        let path = folder.slots().join(&name);
        let (Some(_lock), true) = (lock(&path)?, path.join(JAIL).exists()) else {
            continue;
        };
        let mut jail = Array::try_from(Map::Array(super::map(&path.join(JAIL))?))?;
        let id: u64 = in_one_go(|| jail.get(&0, 0))?;
        if id != 0 {
            forget((id, index), maps)?;
            in_one_go(|| jail.set(0, 0, 0))?;
        }
    }
    Ok(())
}

/// Forgets a jail or a group, unless it is under the rules of another slot than this, which the caller has locked.
fn forget((id, slot): (u64, u32), maps: &mut Maps) -> Result<(), OpenError> {
    match maps.jail(id) {
        Ok(jail) if jail.slot == slot => Ok(maps.forget(id)?),
        Ok(_) | Err(MapError::KeyNotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// True when the slot's last holder died and left a jail in it that may still be alive. One that is dead is forgotten, and
/// so is a group of others.
fn is_left_behind(folder: &Folder, claim: &Claim, maps: &mut Maps) -> Result<bool, OpenError> {
    let id = in_one_go(|| claim.jail.get(&0, 0))?;
    if id == 0 {
        return Ok(false);
    }
    if !folder.is_for_trees() && is_alive(id) {
        return Ok(true);
    }
    forget((id, claim.index), maps)?;
    Ok(false)
}

/// True when there is a cgroup with this id, or it cannot be told.
fn is_alive(id: u64) -> bool {
    !matches!(cgroup(id), Some(Err(Errno::ESTALE | Errno::ENOENT)))
}

/// The cgroup with this id; `None` where the v2 hierarchy is not mounted.
pub(super) fn cgroup(id: u64) -> Option<nix::Result<std::os::fd::OwnedFd>> {
    let hierarchy = File::open(hierarchy()?).ok()?;
    Some(sys::open_cgroup(hierarchy.as_fd(), id))
}

/// The mount point of version 2 of control groups, if it is mounted: the first, as cgroups(7) finds them in /proc/mounts.
pub fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' '));
    fields.find_map(|mut line| {
        let point = line.nth(1)?;
        (line.next() == Some("cgroup2")).then(|| point.into())
    })
}
