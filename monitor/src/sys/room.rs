//! The room of a seat: the kernel's memory for a jail's rules and for what its threads repeat.
#![allow(unsafe_code)]

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;

use aya::maps::MapData;
use turnkey_abi::{Repeats, Room, Table};

use super::pages::{Access, Pages};

/// The only value of a seat's array, as the programs see it.
pub(crate) struct SharedRoom {
    pages: Pages,
}

impl SharedRoom {
    /// # Errors
    /// When the map cannot be mapped.
    pub(crate) fn of(map: &MapData) -> io::Result<Self> {
        let pages = Pages::map(map.fd().as_fd(), 0, size_of::<Room>(), Access::Write)?;
        Ok(Self { pages })
    }

    /// Puts rules there, and takes out what was repeated under others. Only while no task is under
    /// them: the programs would see half of each.
    pub(crate) fn set(&mut self, table: &Table) {
        let room = self.pages.at::<Room>(0).cast::<u8>();
        // SAFETY: both fields are in the room, which is mapped for writing; they are integers
        // throughout, so zeros are values of them; and no program uses them now.
        unsafe {
            room.byte_add(offset_of!(Room, table))
                .cast::<Table>()
                .copy_from_nonoverlapping(table.into(), 1);
            room.byte_add(offset_of!(Room, repeats))
                .cast::<Repeats>()
                .write_bytes(0, 1);
        }
    }

    /// What was repeated and not told. No task is under the rules any more.
    pub(crate) fn repeats(&self) -> &Repeats {
        // SAFETY: integers throughout, and no program writes them now.
        unsafe { &self.pages.at::<Room>(0).as_ref().repeats }
    }
}
