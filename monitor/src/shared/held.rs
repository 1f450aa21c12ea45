//! Links of the programs at tracepoints: those who watch hold them, and nobody else.
//!
//! A tracepoint costs every system call of the host, so a link to it has no name in the BPF file system: it leaves the
//! kernel with the last process that holds it, also with one that is killed. A pinned map has the links' numbers, by
//! which whoever comes next opens the same links, or finds them gone and attaches the programs anew.
//!
//! A link's number is gone a moment before the kernel stops calling its program. Kernels before 6.10, and perf, refuse
//! to attach the program for that moment. Later ones call it twice, and one act is told twice. Whoever leaves in good
//! order takes its numbers out of the map when it was the last, under the lock that attaching takes; a number in
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

use crate::interruption::{in_one_go, interrupts_tracepoints_here};
use crate::open::{OpenError, answered};
use crate::sys;
use crate::tracepoints::{MOST_TRACEPOINTS, Tracepoint, tracepoints};

use super::folder::{Folder, PATIENCE, SharedError, found, lock};

/// The longest time that the kernel may take to let go of a link whose holder is dead.
pub(crate) const LETTING_GO: Duration = Duration::from_secs(5);
/// Time between two attempts to attach a program that the kernel still calls for a link that is going.
const AGAIN: Duration = Duration::from_millis(1);
/// The index at which the map has the doubt, behind the links' numbers.
const DOUBT: u32 = MOST_TRACEPOINTS;

/// The links, as long as this is not dropped.
pub(crate) struct HeldLinks {
    links: Vec<OwnedFd>,
    numbers: Array<MapData, u32>,
    /// The lock of whoever attaches or leaves is on it; `None` only while it is dropped.
    directory: Option<File>,
}

/// Makes the map of numbers.
pub(super) fn make(folder: &Folder) -> Result<(), OpenError> {
    let map = (BPF_MAP_TYPE_ARRAY as u32, 4, 4, MOST_TRACEPOINTS + 1, 0);
    let map = aya_obj::Map::new_from_params(map.0, map.1, map.2, map.3, map.4);
    let map = MapData::create(map, "held", None)?;
    let path = folder.held();
    Ok(map.pin(&path).map_err(found(&path))?)
}

fn numbers(folder: &Folder) -> Result<Array<MapData, u32>, OpenError> {
    Ok(Array::try_from(Map::Array(super::map(&folder.held())?))?)
}

/// True when some process holds the links.
pub(super) fn is_watching(folder: &Folder) -> Result<bool, OpenError> {
    let numbers = numbers(folder)?;
    let first = in_one_go(|| numbers.get(&0, 0))?;
    Ok(first != 0 && sys::link_by_number(first).is_ok())
}

impl HeldLinks {
    /// Takes the links that others hold, or attaches the programs, which are given in the order of [`tracepoints`].
    pub(super) fn take(folder: &Folder, programs: &[(String, OwnedFd)]) -> Result<Self, OpenError> {
        let path = folder.links();
        let directory = File::open(&path).map_err(found(&path))?;
        let mut held = Self {
            links: Vec::new(),
            numbers: numbers(folder)?,
            directory: Some(directory),
        };
        if !held.share(programs)? {
            held.locked(&path, |held| held.attach(folder, programs))??;
        }
        Ok(held)
    }

    /// Opens the links of others; `false` when not all are there.
    fn share(&mut self, programs: &[(String, OwnedFd)]) -> Result<bool, OpenError> {
        let mut links = Vec::new();
        for (_, index, (_, program)) in attached(programs) {
            match self.other(index, program)? {
                Some(link) => links.push(link),
                None => return Ok(false),
            }
        }
        self.links = links;
        Ok(true)
    }

    /// The link of a program that another process holds.
    fn other(&self, index: u32, program: &OwnedFd) -> Result<Option<OwnedFd>, OpenError> {
        let number = in_one_go(|| self.numbers.get(&index, 0))?;
        if number == 0 {
            return Ok(None);
        }
        let Ok(link) = sys::link_by_number(number) else {
            return Ok(None);
        };
        // Numbers are given anew: this may be anybody's link.
        let asked = |errno: Errno| OpenError::Poll(errno.into());
        let (_, calls) = sys::numbers_of_link(link.as_fd()).map_err(asked)?;
        let program = sys::number_of_program(program.as_fd()).map_err(asked)?;
        Ok((calls == program).then_some(link))
    }

    /// Attaches what nobody holds, under the lock.
    fn attach(&mut self, folder: &Folder, programs: &[(String, OwnedFd)]) -> Result<(), OpenError> {
        for (tracepoint, index, (name, program)) in attached(programs) {
            if let Some(link) = self.other(index, program)? {
                self.links.push(link);
                continue;
            }
            let was_killed = in_one_go(|| self.numbers.get(&index, 0))? != 0;
            if was_killed {
                in_one_go(|| self.numbers.set(DOUBT, 1, 0))?;
            }
            let link = attach_again(tracepoint, program, &folder.programs().join(name))?;
            let asked = |errno: Errno| OpenError::Poll(errno.into());
            let (number, _) = sys::numbers_of_link(link.as_fd()).map_err(asked)?;
            in_one_go(|| self.numbers.set(index, number, 0))?;
            self.links.push(link);
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
        self.links.clear();
        for index in 0..MOST_TRACEPOINTS {
            let number = in_one_go(|| self.numbers.get(&index, 0)).unwrap_or(0);
            if number != 0 && sys::link_by_number(number).is_err() {
                // A number that stays only has the next one look twice.
                let _ = in_one_go(|| self.numbers.set(index, 0, 0));
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

/// The programs at tracepoints, with their places in the map; others follow them.
fn attached(
    programs: &[(String, OwnedFd)],
) -> impl Iterator<Item = (Tracepoint, u32, &(String, OwnedFd))> {
    let tracepoints = tracepoints(interrupts_tracepoints_here()).iter();
    let places = tracepoints.zip(0..).zip(programs);
    places.map(|((tracepoint, place), program)| (*tracepoint, place, program))
}

/// Attaches a program as soon as the kernel does not call it for a link that is going any more.
fn attach_again(
    tracepoint: Tracepoint,
    program: &OwnedFd,
    pin: &Path,
) -> Result<OwnedFd, OpenError> {
    let begun = Instant::now();
    loop {
        match tracepoint.link_pinned(program.as_fd(), pin) {
            Err(error) if answered(&error, Errno::EEXIST) && begun.elapsed() < LETTING_GO => {
                thread::sleep(AGAIN);
            }
            linked => return linked,
        }
    }
}
