//! Programs that are loaded once, for every jail of the host: pinned in the BPF file system.
//!
//! ```text
//! /sys/fs/bpf/turnkey/              root's alone; its lock is held while a run loads
//!   2-0123456789abcdef/             version of the wire types, digest of the object
//!     maps/ programs/ links/        what all jails share
//!     held                          numbers of the links that have no name: those who watch hold them
//!     anchor/                       links to a group without processes, the only thing elsewhere
//!     slots/0/ slots/1/ …           what one jail has; its lock is held by the run that watches it
//!     tables/ filters/              rules that were compiled before, and syscall filters
//! ```
//!
//! The first run as root makes it, unless it is to leave nothing ([`crate::Residence`]).
//!
//! A run that finds its object here uses it, and holds all of it by descriptors of its own: taking the
//! files away ends nothing that runs. There is no daemon and no register besides these files.
//!
//! A folder that is not root's alone is nobody's: nothing in it is looked at, and a run loads its programs
//! for itself as if there were none. A user that may make directories there can keep others from nothing but speed.

mod anchor;
mod claim;
mod folder;
mod held;
mod kept;
mod pin;
mod status;

use std::os::fd::OwnedFd;
use std::path::Path;

use aya::maps::{Map, MapData};

use crate::compile::Rules;
use crate::error::OpenError;
use crate::hooks;
use crate::interruption::interrupts_tracepoints_here;
use crate::load::GROUP_HOOKS;
use crate::maps::{Maps, NAMES};
use crate::object::{JAILS, ObjectFile};
use crate::programs::Programs;
use crate::slot::Slot;
use crate::sys;
use crate::tier::Tier;
use crate::tracepoints::tracepoints;

pub(crate) use claim::Claim;
pub use claim::hierarchy;
pub use folder::SharedError;
use folder::{Folder, names};
pub(crate) use held::{HeldLinks, LETTING_GO};
pub use kept::filter;
pub(crate) use kept::table as kept_table;
pub(crate) use pin::load_to_stay;
pub use pin::{Outcome, load, unload};
pub use status::{SharedVersion, WatchedJail, group_path, status};

/// The parts that a run takes from the programs that are loaded for all.
pub(crate) struct Shared {
    pub(crate) programs: Programs,
    /// The names of the programs at the kernel's hooks.
    pub(crate) hooks: Vec<String>,
    pub(crate) maps: Maps,
    pub(crate) slot: Slot,
}

impl Shared {
    /// Gives the slot back, unused.
    pub(crate) fn give_back(self) -> Result<(), OpenError> {
        self.slot.claim.map_or(Ok(()), Claim::give_back)
    }
}

/// The programs of jails that are loaded for all, called by the kernel as long as this lives, as they are while a jail is watched: whoever makes
/// one run after another attaches them once.
pub struct AttachedPrograms {
    _links: HeldLinks,
}

impl AttachedPrograms {
    /// Takes the links that others hold, or attaches the programs; `None` when nothing is loaded of this object and tier.
    ///
    /// # Errors
    /// When what is loaded cannot be opened or attached.
    pub fn hold<'o>(
        object: impl Into<ObjectFile<'o>>,
        tier: Tier,
    ) -> Result<Option<Self>, OpenError> {
        let folder = Folder::for_object(&object.into(), JAILS);
        if !folder.is_there()? || folder.tier() != tier {
            return Ok(None);
        }
        let programs = programs(&folder, &hooks(&folder, tier)?)?;
        let links = HeldLinks::take(&folder, &programs, (tier, &[]))?;
        Ok(Some(Self { _links: links }))
    }
}

/// Makes sure that programs can be left for all, and that only root can have loaded some, or keep root from it.
///
/// # Errors
/// [`SharedError::NotLasting`] where they would be gone with this process's mounts, [`SharedError::Untrusted`] when another user
/// can; runs load the programs for themselves then.
pub fn trusted() -> Result<(), SharedError> {
    if !folder::is_mounted() && !folder::mounts_last() {
        return Err(SharedError::NotLasting);
    }
    folder::root_is_there().map(drop)
}

/// Opens what is loaded for all of this object and the rules' tier, for jails or for groups at a level, and takes a slot; `None`
/// when nothing is.
pub(crate) fn open(
    (object, level): (&ObjectFile<'_>, u32),
    rules: &Rules,
) -> Result<Option<Shared>, OpenError> {
    let folder = Folder::for_object(object, level);
    if !folder.is_there()? || folder.tier() != rules.tier {
        return Ok(None);
    }
    match take(&folder, rules) {
        Ok(shared) => Ok(Some(shared)),
        // Unloaded while we looked.
        Err(_) if !folder.is_there()? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Forgets the groups of attachments at this level whose watchers were killed.
pub(crate) fn forget_orphans(
    (object, level): (&ObjectFile<'_>, u32),
    maps: &mut Maps,
) -> Result<(), OpenError> {
    claim::forget_orphans(&Folder::for_object(object, level), maps)
}

fn take(folder: &Folder, rules: &Rules) -> Result<Shared, OpenError> {
    let mut maps = maps(folder)?;
    let pinned = opened(&folder.links(), names(folder.links())?)?;
    let hooks = hooks(folder, rules.tier)?;
    if folder.is_for_trees() {
        // Their rules would act again from here on.
        claim::forget_orphans(folder, &mut maps)?;
    }
    let slot = claim::take(folder, &mut maps)?;
    let programs = programs(folder, &hooks)?;
    let held = match folder.is_for_trees() {
        true => hooks::programs_for(rules),
        false => Vec::new(),
    };
    Ok(Shared {
        programs: Programs::Shared {
            links: HeldLinks::take(folder, &programs, (rules.tier, &held))?,
            programs,
            _pinned: pinned.into_iter().map(|(_, link)| link).collect(),
        },
        hooks,
        maps,
        slot,
    })
}

fn maps(folder: &Folder) -> Result<Maps, OpenError> {
    Maps::find(|(_, file)| {
        let data = map(&folder.maps().join(file))?;
        Ok(Map::from_map_data(data)?)
    })
}

/// A pinned map.
fn map(path: &Path) -> Result<MapData, SharedError> {
    MapData::from_pin(path).map_err(|error| SharedError::pinned(path, error))
}

/// Opens the pins of these names.
fn opened(
    directory: &Path,
    names: impl IntoIterator<Item = String>,
) -> Result<Vec<(String, OwnedFd)>, OpenError> {
    let open = |name: String| {
        let path = directory.join(&name);
        let opened = sys::pinned(&path).map_err(|error| SharedError::pinned(&path, error))?;
        Ok((name, opened))
    };
    names.into_iter().map(open).collect()
}

/// The programs for a tier's hooks that are loaded.
fn hooks(folder: &Folder, tier: Tier) -> Result<Vec<String>, SharedError> {
    let mut loaded = names(folder.programs())?;
    loaded.retain(|name| hooks::programs(tier).any(|program| program == name));
    Ok(loaded)
}

fn programs(folder: &Folder, hooks: &[String]) -> Result<Vec<(String, OwnedFd)>, OpenError> {
    let tracepoints = tracepoints(interrupts_tracepoints_here()).iter();
    let tracepoints = tracepoints.map(|tracepoint| tracepoint.program.to_owned());
    let groups = GROUP_HOOKS.iter().map(|(name, _)| (*name).to_owned());
    let hooks = hooks.iter().cloned();
    opened(&folder.programs(), tracepoints.chain(groups).chain(hooks))
}

/// Every map that is pinned for all, by its name in the object and its file.
fn pinned_maps() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.into_iter()
}
