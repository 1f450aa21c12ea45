//! Interference: somebody reaches for what the programs look at, as root can by the kernel's numbers of maps and links: whoever watches
//! then sees nothing more, and no event says so. So it is looked for.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::MapError;
use turnkey_abi::{Jail, Table};

use super::{Monitor, jail};
use crate::error::FinishError;
use crate::load::GROUP_HOOKS;
use crate::maps::Maps;
use crate::open::Loaded;
use crate::slot::{Slot, numbers_at};
use crate::sys::group_of_link;

/// The ways in which a monitor of a group was made blind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// The group is not in the programs' table any more.
    Forgotten,
    /// The table says of the group something else than was put there.
    Changed,
    /// Other rules or rings are in the place of the group's own.
    Exchanged,
    /// The rules were written over.
    Overwritten,
    /// The group does not call the program of this name any more.
    TakenOff(&'static str),
}

impl fmt::Display for Interference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forgotten => write!(formatter, "the group was taken out of the programs' table"),
            Self::Changed => write!(
                formatter,
                "what the programs' table says of the group was changed"
            ),
            Self::Exchanged => write!(
                formatter,
                "the group's rules or rings were exchanged for others"
            ),
            Self::Overwritten => write!(formatter, "the group's rules were written over"),
            Self::TakenOff(name) => {
                write!(formatter, "the program `{name}` was taken off the group")
            }
        }
    }
}

impl Monitor {
    /// Looks whether the kernel still has what a group is watched by, as it was put there; of jails nothing is looked at. Once something
    /// was found, it stays. `is_there` tells whether the group is: one that is removed calls no program.
    pub fn interference(&mut self, is_there: impl FnOnce() -> bool) -> Option<Interference> {
        let found = self.look_at_tables();
        if found.is_some() || self.last.is_none() || self.let_go.is_some() {
            return found;
        }
        let off = in_links(&self.hooks, self.adopted?);
        self.interference = off.filter(|_| is_there());
        self.interference
    }

    /// As [`Monitor::interference`], without the links.
    pub(super) fn look_at_tables(&mut self) -> Option<Interference> {
        let (Some(put), Some(group), None) = (self.last, self.adopted, self.let_go) else {
            return self.interference;
        };
        let found = match self.loaded.maps.jail(group) {
            Ok(found) if is_same_group(&put, &found) => {
                self.last = Some(found);
                None
            }
            Ok(_) => Some(Interference::Changed),
            Err(MapError::KeyNotFound) => Some(Interference::Forgotten),
            Err(_) => None,
        };
        let Loaded { maps, slot, .. } = &self.loaded;
        let found = found.or_else(|| in_slot(slot, maps, &self.rules.table));
        self.interference = self.interference.or(found);
        self.interference
    }

    /// True when a kill was told, and then the group was taken out of the table that says so.
    pub(super) fn is_killed_unknown_to_the_kernel(&self) -> bool {
        self.interference.is_some() && self.told_of_kill && self.adopted.is_some()
    }

    /// The state of a group that somebody took out of the table is the last that was known.
    pub(super) fn known_jail(&self) -> Result<Jail, FinishError> {
        match (jail(&self.loaded.maps, self.adopted), self.last) {
            (Err(FinishError::Map(MapError::KeyNotFound)), Some(last)) => Ok(last),
            (found, _) => found,
        }
    }

    /// Takes the jail out of the table; whoever has done that already has done no harm now.
    pub(super) fn forget(&mut self, cgroup_id: u64) -> Result<(), MapError> {
        match self.loaded.maps.forget(cgroup_id) {
            Err(MapError::KeyNotFound) if self.last.is_some() => Ok(()),
            forgotten => forgotten,
        }
    }
}

/// True for two states of a group that differ only in what the programs themselves write.
fn is_same_group(put: &Jail, found: &Jail) -> bool {
    let of = |jail: &Jail| {
        (
            (jail.slot, jail.network, jail.kill_on_loss, jail.strict),
            (jail.has_roles, jail.asks_of_looks, jail.hooks, jail.roams),
            (jail.outside, jail.advisory, jail.sockets, jail.canary),
        )
    };
    of(put) == of(found) && put.filtered == found.filtered
}

/// The interference with the slot of a group, or to the links by which the group calls programs. What the kernel does not say counts as
/// unharmed.
fn in_slot(slot: &Slot, maps: &Maps, table: &Table) -> Option<Interference> {
    let found = numbers_at(slot.index, maps);
    let mut pairs = found.into_iter().zip(slot.numbers);
    if pairs.any(|(found, own)| found.is_some_and(|found| found != own)) {
        return Some(Interference::Exchanged);
    }
    (!slot.data.holds(table)).then_some(Interference::Overwritten)
}

/// The first of a group's programs that it does not call any more; `links` are those of [`GROUP_HOOKS`], in their order.
fn in_links(links: &[OwnedFd], group: u64) -> Option<Interference> {
    let mut pairs = GROUP_HOOKS.into_iter().zip(links);
    pairs.find_map(|((name, _), link)| {
        let calling = group_of_link(link.as_fd());
        let is_off = calling.is_ok_and(|calling| calling != group);
        is_off.then_some(Interference::TakenOff(name))
    })
}
