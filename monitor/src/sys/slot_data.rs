//! The data of a slot: the kernel's memory for a jail's rules and for what its threads repeat.

#![expect(unsafe_code, reason = "rules in memory that is shared with the kernel")]

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use aya::maps::MapData;
use turnkey_abi::{CELLS, Repeats, SlotData, Table};

use super::pages::{Access, Pages};

/// The only value of a slot's array, as the programs see it.
pub(crate) struct SharedSlotData {
    pages: Pages,
}

impl SharedSlotData {
    /// # Errors
    /// When the map cannot be mapped.
    pub(crate) fn map(map: &MapData) -> io::Result<Self> {
        let pages = Pages::map(map.fd().as_fd(), 0, size_of::<SlotData>(), Access::Write)?;
        Ok(Self { pages })
    }

    /// Puts rules there, and takes out what was repeated under others. Only while no task is under
    /// them: the programs would see half of each. What other rules have left behind the transitions of the last state
    /// stays: nothing leads there, and it is most of a megabyte.
    pub(crate) fn set(&mut self, table: &Table) {
        let data = self.pages.at::<SlotData>(0).cast::<u8>();
        // SAFETY: so many bytes are in the table and in the slot's data, which is mapped for writing; they are integers
        // throughout, without padding, of which zeros are values; and no program uses them now.
        unsafe {
            data.byte_add(offset_of!(SlotData, table))
                .copy_from_nonoverlapping(NonNull::from(table).cast(), in_use(table));
            data.byte_add(offset_of!(SlotData, repeats))
                .cast::<Repeats>()
                .write_bytes(0, 1);
        }
    }

    /// True when the rules there are those of the table.
    pub(crate) fn holds(&self, table: &Table) -> bool {
        let bytes = in_use(table);
        let data = self.pages.at::<SlotData>(0).cast::<u8>();
        // SAFETY: so many bytes are in the table and in the slot's data, which is mapped; they are integers throughout, without padding.
        // Nobody writes rules while tasks are under them but somebody who has no business here, of whom any answer is the right one.
        let [put, found] = unsafe {
            let found = data.byte_add(offset_of!(SlotData, table));
            [NonNull::from(table).cast(), found]
                .map(|at| std::slice::from_raw_parts(at.as_ptr(), bytes))
        };
        put == found
    }

    /// Repetitions that were not told. No task is under the rules any more.
    pub(crate) fn repeats(&self) -> &Repeats {
        // SAFETY: integers throughout, and no program writes them now.
        unsafe { &self.pages.at::<SlotData>(0).as_ref().repeats }
    }
}

/// Bytes of a table that are looked at: all before the transitions, and those of its states.
fn in_use(table: &Table) -> usize {
    let states = usize::from(table.state_count);
    let cells = states.checked_shl(table.shift).unwrap_or(CELLS).min(CELLS);
    offset_of!(Table, transitions) + cells * size_of_val(&table.transitions[0])
}
