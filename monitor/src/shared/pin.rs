//! Loading for all, and taking that away again.

use std::fs;
use std::path::Path;

use aya::Ebpf;
use turnkey_abi::SLOTS;

use crate::hooks;
use crate::interruption::interrupts_tracepoints_here;
use crate::object::ObjectFile;
use crate::open::{JAILS, OpenError, pin_failed};
use crate::programs::GROUP_HOOKS;
use crate::tier::Tier;
use crate::tracepoints::tracepoints;

use super::anchor;
use super::folder::{
    Folder, SharedError, UNFINISHED, all, found, lock_root, make, remove, root, root_is_there,
};

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
    let object = object.into();
    let _lock = lock_root()?;
    let folder = Folder::of(&object);
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
    let finished = fill(&unfinished, &folder.name(), object.bytes, tier).and_then(|()| {
        Ok(fs::rename(unfinished.path(), folder.path()).map_err(found(folder.path()))?)
    });
    if finished.is_err() {
        remove(unfinished.path())?;
        anchor::detach(&folder.name())?;
    }
    finished.map(|()| Outcome::Loaded)
}

/// Fills a folder, which is to have that name.
fn fill(folder: &Folder, name: &str, object: &[u8], tier: Tier) -> Result<(), OpenError> {
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
    let mut object = crate::load::object(object, (SLOTS, JAILS), tier, by_perf)?;
    object.load()?;
    object.attach_in(&folder.links())?;
    let hooks = match tier {
        Tier::Lsm => hooks::attach_all_in(&mut object, &folder.links())?,
        Tier::Tracepoint => Vec::new(),
    };
    anchor::attach(name, &object.ebpf, &folder.anchor())?;
    pin_programs(&mut object.ebpf, &folder.programs(), &hooks)?;
    pin_maps(&object.ebpf, &folder.maps())?;
    super::claim::make_slots(folder, &mut super::maps(folder)?)
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
    if let Some(object) = object {
        // Also that of a load whose BPF file system went with its mount namespace.
        anchor::detach(&Folder::of(object).name())?;
    }
    if !root_is_there()? {
        return Ok(Vec::new());
    }
    let lock = lock_root()?;
    let folders = match object {
        Some(object) => vec![Folder::of(object)],
        None => all()?,
    };
    let mut gone = Vec::new();
    for folder in folders {
        if folder.is_there()? {
            // Out of sight first: a run that comes now finds nothing rather than half of it.
            let aside = folder.aside();
            fs::rename(folder.path(), &aside).map_err(found(folder.path()))?;
            remove(&aside)?;
            anchor::detach(&folder.name())?;
            gone.push(folder.name());
        }
    }
    if all()?.is_empty() {
        remove(root())?;
    }
    drop(lock);
    Ok(gone)
}
