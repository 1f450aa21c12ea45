//! Links that have no name: those who watch hold them, and nobody else.
//!
//! A tracepoint costs every system call of the host, and the rules of an attachment shall not outlive its watcher. So links to
//! tracepoints, and those of attachments' programs to the kernel's hooks, have no name in the BPF file system: they leave the
//! kernel with the last process that holds them, also with one that is killed. A pinned map has the links' numbers, by
//! which whoever comes next opens the same links, or finds them gone and attaches the programs anew. Jails' programs at hooks stay
//! attached: a jail does not outlive its watcher, and to attach them takes longer than most of what a run does.
//!
//! A link's number is gone a moment before the kernel stops calling its program. Hooks, tracepoints of kernels before 6.10, and
//! perf refuse to attach the program for that moment. Later tracepoints call it twice, and one act is told twice. Whoever leaves
//! in good order takes its numbers out of the map when it was the last, under the lock that attaching takes; a number in
//! the map without a link is of a process that was killed. Then the map has a doubt in it, until a canary has shown that
//! one act is told once.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{Array, Map, MapData, MapError};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_ARRAY;
use nix::errno::Errno;

use crate::error::{OpenError, answered};
use crate::hooks::{self, MOST_HOOKS};
use crate::interruption::{in_one_go, interrupts_tracepoints_here};
use crate::sys;
use crate::tier::Tier;
use crate::tracepoints::{MOST_TRACEPOINTS, Tracepoint, tracepoints};

use super::folder::{Folder, PATIENCE, SharedError, found, lock};

/// The longest time that the kernel may take to let go of a link whose holder is dead.
pub(crate) const LETTING_GO: Duration = Duration::from_secs(5);
/// Time between two attempts to attach a program that the kernel still calls for a link that is going.
const AGAIN: Duration = Duration::from_millis(1);
/// The place of the doubt in the map, behind the numbers of links to tracepoints.
const DOUBT: u32 = MOST_TRACEPOINTS;
/// The place of the first number of a link to a hook.
const FIRST_HOOK: u32 = DOUBT + 1;

/// The links, as long as this is not dropped.
pub(crate) struct HeldLinks {
    /// With the place of each one's number in the map.
    links: Vec<(u32, OwnedFd)>,
    numbers: Array<MapData, u32>,
    /// The lock of whoever attaches or leaves is on it; `None` only while it is dropped.
    directory: Option<File>,
}

/// Makes the map of numbers.
pub(super) fn make(folder: &Folder) -> Result<(), OpenError> {
    let places = FIRST_HOOK + MOST_HOOKS;
    let map = (BPF_MAP_TYPE_ARRAY as u32, 4, 4, places, 0);
    let map = aya_obj::Map::new_from_params(map.0, map.1, map.2, map.3, map.4);
    let map = MapData::create(map, "held", None)?;
    let path = folder.held();
    Ok(map.pin(&path).map_err(found(&path))?)
}

fn numbers(folder: &Folder) -> Result<Array<MapData, u32>, OpenError> {
    Ok(Array::try_from(Map::Array(super::map(&folder.held())?))?)
}

/// The error of a link that cannot be asked about.
fn asked(errno: Errno) -> OpenError {
    OpenError::Poll(errno.into())
}

/// True when some process holds the links.
pub(super) fn is_watching(folder: &Folder) -> Result<bool, OpenError> {
    let numbers = numbers(folder)?;
    let first = in_one_go(|| numbers.get(&0, 0))?;
    let link = sys::link_by_number(first).map_err(asked)?;
    Ok(first != 0 && link.is_some())
}

impl HeldLinks {
    /// Takes the links that others hold, or attaches the programs: those at tracepoints, and of those at a tier's hooks these.
    pub(super) fn take(
        folder: &Folder,
        programs: &[(String, OwnedFd)],
        hooks: (Tier, &[&str]),
    ) -> Result<Self, OpenError> {
        let programs = held(programs, hooks);
        let path = folder.links();
        let directory = File::open(&path).map_err(found(&path))?;
        let mut held = Self {
            links: Vec::new(),
            numbers: numbers(folder)?,
            directory: Some(directory),
        };
        if !held.share(&programs)? {
            held.locked(&path, |held| held.attach(folder, &programs))??;
        }
        Ok(held)
    }

    /// Opens the links of others; `false` when not all are there.
    fn share(&mut self, programs: &[HeldProgram<'_>]) -> Result<bool, OpenError> {
        let mut links = Vec::new();
        for program in programs {
            match self.other(program)? {
                Some(link) => links.push((program.place, link)),
                None => return Ok(false),
            }
        }
        self.links = links;
        Ok(true)
    }

    /// The link of a program that another process holds.
    fn other(&self, program: &HeldProgram<'_>) -> Result<Option<OwnedFd>, OpenError> {
        let number = in_one_go(|| self.numbers.get(&program.place, 0))?;
        if number == 0 {
            return Ok(None);
        }
        let Some(link) = sys::link_by_number(number).map_err(asked)? else {
            return Ok(None);
        };
        // Numbers are given anew: this may be anybody's link.
        let (_, calls) = sys::numbers_of_link(link.as_fd()).map_err(asked)?;
        let program = sys::number_of_program(program.program.as_fd()).map_err(asked)?;
        Ok((calls == program).then_some(link))
    }

    /// Attaches what nobody holds, under the lock.
    fn attach(&mut self, folder: &Folder, programs: &[HeldProgram<'_>]) -> Result<(), OpenError> {
        for program in programs {
            if let Some(link) = self.other(program)? {
                self.links.push((program.place, link));
                continue;
            }
            let was_killed = in_one_go(|| self.numbers.get(&program.place, 0))? != 0;
            if was_killed && program.may_be_called_twice() {
                in_one_go(|| self.numbers.set(DOUBT, 1, 0))?;
            }
            let link = program.attach_again(folder)?;
            let (number, _) = sys::numbers_of_link(link.as_fd()).map_err(asked)?;
            in_one_go(|| self.numbers.set(program.place, number, 0))?;
            self.links.push((program.place, link));
        }
        Ok(())
    }

    /// True while the kernel may call a program for a link that is going, too.
    pub(crate) fn are_doubted(&self) -> Result<bool, MapError> {
        Ok(in_one_go(|| self.numbers.get(&DOUBT, 0))? != 0)
    }

    /// A canary has shown that one act is told once.
    pub(crate) fn are_single(&mut self) -> Result<(), MapError> {
        in_one_go(|| self.numbers.set(DOUBT, 0, 0))
    }

    /// Does something while nobody else attaches or leaves.
    fn locked<T>(
        &mut self,
        path: &Path,
        act: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, SharedError> {
        let Some(directory) = self.directory.take() else {
            return Ok(act(self));
        };
        let lock = lock(directory, path, PATIENCE)?;
        let done = act(self);
        let unlocked = lock.unlock();
        self.directory = unlocked.ok();
        Ok(done)
    }

    /// Lets go, and takes the numbers of links that nobody else holds out of the map.
    fn leave(&mut self) {
        let places: Vec<_> = self.links.drain(..).map(|(place, _)| place).collect();
        for place in places {
            let number = in_one_go(|| self.numbers.get(&place, 0)).unwrap_or(0);
            // Whoever may open no more files does not learn whether others hold the link.
            if number != 0 && matches!(sys::link_by_number(number), Ok(None)) {
                // A number that stays only has the next one look twice.
                let _ = in_one_go(|| self.numbers.set(place, 0, 0));
            }
        }
    }
}

impl Drop for HeldLinks {
    fn drop(&mut self) {
        // Without the lock the links go with this process, as after a kill.
        let _ = self.locked(Path::new(""), Self::leave);
    }
}

/// A program that the kernel calls as long as a process holds the link.
struct HeldProgram<'p> {
    name: &'static str,
    program: &'p OwnedFd,
    /// The place of the link's number in the map.
    place: u32,
    /// `None`: it is at a hook.
    tracepoint: Option<Tracepoint>,
}

impl HeldProgram<'_> {
    /// True where the kernel may call it for two links: a hook refuses the second.
    fn may_be_called_twice(&self) -> bool {
        self.tracepoint.is_some()
    }

    /// Attaches it as soon as the kernel does not call it for a link that is going any more.
    fn attach_again(&self, folder: &Folder) -> Result<OwnedFd, OpenError> {
        let begun = Instant::now();
        let is_going = |error: &OpenError| {
            let busy = [Errno::EEXIST, Errno::EBUSY];
            busy.iter().any(|errno| answered(error, *errno))
        };
        loop {
            match self.attach(folder) {
                Err(error) if is_going(&error) && begun.elapsed() < LETTING_GO => {
                    thread::sleep(AGAIN);
                }
                linked => return linked,
            }
        }
    }

    fn attach(&self, folder: &Folder) -> Result<OwnedFd, OpenError> {
        let program = self.program.as_fd();
        match self.tracepoint {
            Some(tracepoint) => tracepoint.link_pinned(program, &folder.programs().join(self.name)),
            None => hooks::link(self.name, program),
        }
    }
}

/// The programs at tracepoints, and of those at a tier's hooks these, as far as the kernel has them.
fn held<'p>(
    programs: &'p [(String, OwnedFd)],
    (tier, wanted): (Tier, &[&str]),
) -> Vec<HeldProgram<'p>> {
    let tracepoints = tracepoints(interrupts_tracepoints_here()).iter();
    let tracepoints = tracepoints.map(|tracepoint| (tracepoint.program, Some(*tracepoint)));
    let hooks = hooks::programs(tier)
        .map(|name| (name, None))
        .zip(FIRST_HOOK..);
    let hooks = hooks.filter(|((name, _), _)| wanted.contains(name));
    let all = tracepoints.zip(0..).chain(hooks);
    all.filter_map(|((name, tracepoint), place)| {
        let (_, program) = programs.iter().find(|(known, _)| known == name)?;
        Some(HeldProgram {
            name,
            program,
            place,
            tracepoint,
        })
    })
    .collect()
}
