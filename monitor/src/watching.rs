//! The programs of turnkeys that a control group calls, ours among them: who else watches it.
//!
//! Whoever watches a group has it call programs of the group's own (see [`GROUP_HOOKS`]), so the kernel knows it, in whatever
//! namespaces the watcher is. A program is taken for turnkey's by its name and by the map of jails that it uses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::maps::{HashMap, Map, MapData};

use crate::interruption::in_one_go;
use crate::load::GROUP_HOOKS;
use crate::maps::NAMES;
use crate::sys::{JailValue, described, program_by_number, programs_of_group};

/// A program of a turnkey that a group calls.
pub struct WatchingProgram {
    number: u32,
    jails: Option<HashMap<MapData, u64, JailValue>>,
    _program: OwnedFd,
}

impl WatchingProgram {
    /// The kernel's number of it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// True when it has condemned the group with this id, by a rule or for a behaviour. False of a turnkey that speaks another version of
    /// the wire types, too.
    #[must_use]
    pub fn has_condemned(&self, group: u64) -> bool {
        let jails = self.jails.as_ref();
        let jail = jails.and_then(|jails| in_one_go(|| jails.get(&group, 0)).ok());
        jail.is_some_and(|JailValue(jail)| jail.condemned != 0)
    }
}

impl std::fmt::Debug for WatchingProgram {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("WatchingProgram")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// The programs of turnkeys that a group itself calls, one of each turnkey but for that of the number `own`; not those of groups above.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN` of the host, and whatever else the kernel refuses with.
pub fn watching(group: BorrowedFd<'_>, own: Option<u32>) -> nix::Result<Vec<WatchingProgram>> {
    let [(name, hook), ..] = GROUP_HOOKS;
    let mut found = Vec::new();
    let numbers = programs_of_group(group, hook)?;
    for number in numbers.into_iter().filter(|number| Some(*number) != own) {
        // One that has gone meanwhile watches no more.
        let Ok(program) = program_by_number(number) else {
            continue;
        };
        let (called, maps) = described(program.as_fd())?;
        let Some(jails) = (called == name).then(|| jails_among(&maps)).flatten() else {
            continue;
        };
        found.push(WatchingProgram {
            number,
            jails: HashMap::try_from(Map::HashMap(jails)).ok(),
            _program: program,
        });
    }
    Ok(found)
}

/// The map of jails among those with these numbers.
fn jails_among(maps: &[u32]) -> Option<MapData> {
    let [(jails, _), ..] = NAMES;
    let mut maps = maps
        .iter()
        .filter_map(|number| MapData::from_id(*number).ok());
    maps.find(|map| {
        map.info()
            .is_ok_and(|info| info.name_as_str() == Some(jails))
    })
}
