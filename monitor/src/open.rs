//! Opening the monitor: programs, maps and a slot for one jail, or the reason why not.

use std::thread;

use crate::compile::Rules;
use crate::error::OpenError;
use crate::hooks::{self, Hooks};
use crate::load;
use crate::maps::Maps;
use crate::object::{JAILS, ObjectFile};
use crate::programs::Programs;
use crate::shared::{self, Outcome, Shared, SharedError};
use crate::slot::{Slot, SlotMaps};

/// The programs, attached as far as they need no cgroup, their maps, and a slot.
pub(crate) struct Loaded {
    pub(crate) programs: Programs,
    /// The kernel's hooks that ask.
    pub(crate) hooks: Hooks,
    pub(crate) maps: Maps,
    pub(crate) slot: Slot,
    pub(crate) origin: Origin,
    #[cfg(feature = "log")]
    pub(crate) lines: Option<crate::log::Lines>,
}

/// Residences of programs that have to be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residence {
    /// The kernel, until `turnkey monitor unload` or the next boot, for runs to come. No program is called while no run
    /// is watched, but for those of jails at the kernel's own functions (hooks).
    #[default]
    Kernel,
    /// The process that loads them: they leave the kernel with it.
    Process,
}

/// Origins of a monitor's programs.
#[derive(Debug)]
pub enum Origin {
    /// Loaded before, for all.
    Found,
    /// Loaded by this process, for all that come.
    LoadedToStay,
    /// Loaded for this process alone; the reason, where they were to stay or others could have been used.
    Alone(Option<Box<OpenError>>),
}

/// Takes the programs that are loaded for all, or loads them.
pub(crate) fn open(
    object: &ObjectFile<'_>,
    rules: &Rules,
    residence: Residence,
) -> Result<Loaded, OpenError> {
    open_at((object, JAILS), rules, residence, None)
}

/// The same for the group with this id at a level, and all below it. A map of groups has place for one watcher of each: where
/// another one has it, this one has programs of its own.
pub(crate) fn open_tree(
    object: &ObjectFile<'_>,
    rules: &Rules,
    residence: Residence,
    (level, group): (u32, u64),
) -> Result<Loaded, OpenError> {
    open_at((object, level), rules, residence, Some(group))
}

fn open_at(
    (object, level): (&ObjectFile<'_>, u32),
    rules: &Rules,
    residence: Residence,
    group: Option<u64>,
) -> Result<Loaded, OpenError> {
    let alone = match shared_or_stay((object, level), rules, residence)? {
        Ok((shared, _)) if group.is_some_and(|group| shared.maps.jail(group).is_ok()) => {
            shared.give_back()?;
            None
        }
        Ok((shared, origin)) => {
            return Ok(Loaded {
                hooks: hooks::needed(rules, &shared.hooks),
                programs: shared.programs,
                maps: shared.maps,
                slot: shared.slot,
                origin,
                #[cfg(feature = "log")]
                lines: None,
            });
        }
        Err(alone) => alone,
    };
    own(&object.bytes(), rules, level).map(|own| Loaded {
        origin: Origin::Alone(alone),
        ..own
    })
}

/// Loads nothing for all: with the reason, where that was wished for.
type LoadsAlone = Option<Box<OpenError>>;

/// The programs that are loaded for all, if need be by this process.
fn shared_or_stay(
    object: (&ObjectFile<'_>, u32),
    rules: &Rules,
    residence: Residence,
) -> Result<Result<(Shared, Origin), LoadsAlone>, OpenError> {
    match shared::open(object, rules) {
        Ok(Some(shared)) => return Ok(Ok((shared, Origin::Found))),
        // Another user's folder is nobody's; and who holds a lock for long may never let go.
        Err(
            error @ OpenError::Shared(SharedError::Untrusted { .. } | SharedError::Busy { .. }),
        ) => {
            return Ok(Err(Some(Box::new(error))));
        }
        Err(error) => return Err(error),
        Ok(None) if residence == Residence::Process => return Ok(Err(None)),
        Ok(None) => {}
    }
    let origin = match shared::load_to_stay(object, rules.tier) {
        Ok(Outcome::Loaded) => Origin::LoadedToStay,
        Ok(Outcome::Already) => Origin::Found,
        // A host without a BPF file system, or a caller who may not use it: the run is the same, and starts later.
        Err(error) => return Ok(Err(Some(Box::new(error)))),
    };
    let shared = shared::open(object, rules)?;
    Ok(shared.map(|shared| (shared, origin)).ok_or(None))
}

/// The slot of a run that has the programs for itself.
const ONLY_SLOT: u32 = 0;

/// Loads the programs for this run alone: they go with its process, however that ends. `level` is that of the watched
/// group, with all groups below it, or [`JAILS`].
pub(crate) fn own(object: &[u8], rules: &Rules, level: u32) -> Result<Loaded, OpenError> {
    let slots = (ONLY_SLOT + 1, level);
    let mut object = load::object(object, slots, rules.tier, rules.by_perf)?;
    let slot_maps = SlotMaps::make()?;
    let mut maps = Maps::find(|(name, _)| {
        let map = object.ebpf.take_map(name);
        map.ok_or(OpenError::Incomplete { name })
    })?;
    // The kernel takes its time with both.
    thread::scope(|scope| {
        let placed = thread::Builder::new()
            .spawn_scoped(scope, || slot_maps.place(ONLY_SLOT, &mut maps))
            .map_err(OpenError::Thread)?;
        object.load()?;
        placed
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<(), OpenError>(())
    })?;
    object.attach()?;
    let hooks = hooks::attach(&mut object, rules)?;
    Ok(Loaded {
        #[cfg(feature = "log")]
        lines: Some(crate::log::Lines::from_programs(&mut object.ebpf)),
        slot: Slot::new(ONLY_SLOT, slot_maps, None)?,
        programs: Programs::Own(Box::new(object.ebpf)),
        hooks,
        maps,
        origin: Origin::Alone(None),
    })
}
