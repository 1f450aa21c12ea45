//! Loading for all, and taking that away again.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use aya::Ebpf;
use turnkey_abi::SLOTS;

use crate::error::{OpenError, explain_program, pin_failed};
use crate::hooks;
use crate::interruption::interrupts_tracepoints_here;
use crate::load::GROUP_HOOKS;
use crate::object::{JAILS, ObjectFile};
use crate::sys;
use crate::tier::Tier;
use crate::tracepoints::tracepoints;

use super::claim::{self, KEPT};
use super::folder::{
    Folder, SharedError, UNFINISHED, all, found, is_mounted, lock_root, make, mounts_last, remove,
    root, root_is_there,
};
use super::{anchor, held};

/// Outcomes of loading for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object is loaded now.
    Loaded,
    /// The object was loaded before.
    Already,
}

/// Loads an object for all jails of the host, with every hook that the tier has on this kernel, until
/// [`unload`] or the next boot. Who does the same at the same time waits, and finds it done.
///
/// # Errors
/// When the kernel does not take it, or there is no BPF file system. Nothing is left behind then.
pub fn load<'o>(object: impl Into<ObjectFile<'o>>, tier: Tier) -> Result<Outcome, OpenError> {
    let _lock = lock_root()?;
    load_locked((&object.into(), JAILS), tier, KEPT)
}

/// Most versions of the programs that runs leave in the kernel, each of which takes more than ten megabytes of it.
const MOST_VERSIONS: usize = 4;
/// Slots that a run makes which leaves the programs: others are made when runs are watched beside each other.
const SLOTS_AT_FIRST: u32 = 1;

/// As [`load`], for a run that was not asked to: it makes room first, so that builds that come and go do not fill the
/// kernel's memory.
pub(crate) fn load_to_stay(
    (object, level): (&ObjectFile<'_>, u32),
    tier: Tier,
) -> Result<Outcome, OpenError> {
    if !is_mounted() && !mounts_last() {
        return Err(SharedError::NotLasting.into());
    }
    let _lock = lock_root()?;
    let loaded = make_room(&Folder::for_object(object, level))
        .and_then(|()| load_locked((object, level), tier, SLOTS_AT_FIRST));
    if loaded.is_err() && all()?.is_empty() {
        remove(root())?;
    }
    loaded
}

/// Takes the oldest versions away that there is no room for beside this one.
fn make_room(new: &Folder) -> Result<(), OpenError> {
    let own = new.name();
    let mut others = Vec::new();
    for folder in all()? {
        if folder.is_finished() && folder.name() != own {
            let made = fs::metadata(folder.path()).and_then(|data| data.modified());
            others.push((made.map_err(found(folder.path()))?, folder));
        }
    }
    others.sort_by_key(|(made, _)| *made);
    let many = (others.len() + 1).saturating_sub(MOST_VERSIONS);
    for (_, old) in others.iter().take(many) {
        take_away(old)?;
    }
    Ok(())
}

fn load_locked(
    (object, level): (&ObjectFile<'_>, u32),
    tier: Tier,
    slots: u32,
) -> Result<Outcome, OpenError> {
    let folder = Folder::for_object(object, level);
    for left in all()? {
        if !left.is_finished() {
            remove(left.path())?;
            if let Some(name) = left.put_aside() {
                anchor::detach(&name)?;
            }
        }
    }
    if folder.is_there()? {
        return Ok(Outcome::Already);
    }
    let unfinished = Folder::at(folder.path().with_file_name(UNFINISHED));
    let finished = fill(
        (&unfinished, &folder.name()),
        (&object.bytes(), level),
        tier,
        slots,
    )
    .and_then(|()| Ok(fs::rename(unfinished.path(), folder.path()).map_err(found(folder.path()))?));
    if finished.is_err() {
        remove(unfinished.path())?;
        anchor::detach(&folder.name())?;
    }
    finished.map(|()| Outcome::Loaded)
}

/// Fills a folder, which is to have that name.
fn fill(
    (folder, name): (&Folder, &str),
    (object, level): (&[u8], u32),
    tier: Tier,
    slots: u32,
) -> Result<(), OpenError> {
    let directories = [
        folder.maps(),
        folder.programs(),
        folder.links(),
        folder.slots(),
    ];
    make(folder.path())?;
    for directory in &directories {
        make(directory)?;
    }
    let by_perf = interrupts_tracepoints_here();
    let mut object = crate::load::object(object, (SLOTS, level), tier, by_perf)?;
    object.load()?;
    let hooks = hooks::load_all(&mut object, tier)?;
    anchor::attach(name, &object.ebpf, &folder.anchor())?;
    pin_programs(&mut object.ebpf, &folder.programs(), &hooks)?;
    if level == JAILS {
        pin_links(&object.ebpf, &folder.links(), &hooks)?;
    }
    pin_maps(&object.ebpf, &folder.maps())?;
    held::make(folder)?;
    claim::make_slots(folder, &mut super::maps(folder)?, slots)
}

fn pin_programs(
    ebpf: &mut Ebpf,
    directory: &Path,
    hooks: &[&'static str],
) -> Result<(), OpenError> {
    let tracepoints = tracepoints(interrupts_tracepoints_here());
    let tracepoints = tracepoints.iter().map(|tracepoint| tracepoint.program);
    let groups = GROUP_HOOKS.iter().map(|(name, _)| *name);
    let names = tracepoints.chain(groups);
    for name in names.chain(hooks.iter().copied()) {
        let path = directory.join(name);
        let program = ebpf.program_mut(name);
        let program = program.ok_or(OpenError::Incomplete { name })?;
        program.pin(&path).map_err(pin_failed(&path))?;
    }
    Ok(())
}

/// Has the hooks ask the programs of jails, until the links are taken out of this directory. Whoever watches others' groups
/// holds the links itself: see [`held`].
fn pin_links(ebpf: &Ebpf, directory: &Path, hooks: &[&'static str]) -> Result<(), OpenError> {
    for name in hooks {
        let program = ebpf.program(name).ok_or(OpenError::Incomplete { name })?;
        let program = program.fd().map_err(|error| explain_program(name, error))?;
        let link = hooks::link(name, program.as_fd())?;
        let path = directory.join(name);
        sys::pin(link.as_fd(), &path).map_err(found(&path))?;
    }
    Ok(())
}

fn pin_maps(ebpf: &Ebpf, directory: &Path) -> Result<(), OpenError> {
    for (name, file) in super::pinned_maps() {
        let path = directory.join(file);
        let map = ebpf.map(name).ok_or(OpenError::Incomplete { name })?;
        map.pin(&path).map_err(pin_failed(&path))?;
    }
    Ok(())
}

/// Takes away what is loaded of an object, or of every version. Jails that are watched by it stay
/// watched: the runs that watch them hold what they need. The names of what was taken away.
///
/// # Errors
/// When something cannot be removed.
pub fn unload(object: Option<&ObjectFile<'_>>) -> Result<Vec<String>, SharedError> {
    let own = object.map(|object| Folder::for_object(object, JAILS));
    if let Some(own) = &own {
        // Also that of a load whose BPF file system went with its mount namespace.
        anchor::detach(&own.name())?;
    }
    if !root_is_there()? {
        return Ok(Vec::new());
    }
    let lock = lock_root()?;
    let mut gone = Vec::new();
    for folder in all()? {
        let is_meant = own
            .as_ref()
            .is_none_or(|own| folder.is_of_the_object_of(own));
        if is_meant && folder.is_finished() || own.is_none() {
            take_away(&folder)?;
            gone.push(folder.name());
        }
    }
    if all()?.is_empty() {
        remove(root())?;
    }
    drop(lock);
    Ok(gone)
}

/// Takes a version away, under the lock. Jails that are watched by it stay watched.
fn take_away(folder: &Folder) -> Result<(), SharedError> {
    // Out of sight first: a run that comes now finds nothing rather than half of it.
    let aside = folder.aside();
    fs::rename(folder.path(), &aside).map_err(found(folder.path()))?;
    remove(&aside)?;
    anchor::detach(&folder.name())
}
