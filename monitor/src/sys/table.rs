//! A table of rules in the memory of a map.

#![expect(unsafe_code, reason = "rules in memory that is shared with the kernel")]

use std::io;
use std::os::fd::AsFd;

use aya::maps::MapData;
use turnkey_abi::Table;

use super::pages::{Access, Pages};

/// A table that is only read, by this process and by others.
pub(crate) struct MappedTable {
    pages: Pages,
}

impl MappedTable {
    /// # Errors
    /// When the map cannot be mapped, or is too short for a table.
    pub(crate) fn map(map: &MapData) -> io::Result<Self> {
        let pages = Pages::map(map.fd().as_fd(), 0, size_of::<Table>(), Access::Read)?;
        Ok(Self { pages })
    }

    pub(crate) fn table(&self) -> &Table {
        // SAFETY: integers throughout, and a map that has a name is not written any more.
        unsafe { self.pages.at::<Table>(0).as_ref() }
    }
}

/// Puts a table into a map that no other process knows yet.
///
/// # Errors
/// When the map cannot be mapped.
pub(crate) fn map_table(map: &MapData, table: &Table) -> io::Result<()> {
    let pages = Pages::map(map.fd().as_fd(), 0, size_of::<Table>(), Access::Write)?;
    // SAFETY: mapped for writing, as large as a table, and not seen by anybody.
    unsafe {
        pages
            .at::<Table>(0)
            .copy_from_nonoverlapping(table.into(), 1)
    };
    Ok(())
}

/// A copy that does not go over the stack.
pub(crate) fn copy_of(table: &Table) -> Box<Table> {
    let mut copy = super::empty_table();
    *copy = *table;
    copy
}
