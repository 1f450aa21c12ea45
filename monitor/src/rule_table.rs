//! The table of a run's rules: its own, or one that all runs with the same rules look at.

use std::ops::Deref;

use turnkey_abi::Table;

use crate::sys::{MappedTable, copy_of};

/// See [`crate::shared`] for those that are kept.
pub(crate) enum RuleTable {
    /// Compiled just now.
    Own(Box<Table>),
    /// Compiled before.
    Kept(MappedTable),
}

impl RuleTable {
    /// One that may be written, whatever it was.
    pub(crate) fn own(&mut self) -> &mut Table {
        if let Self::Kept(kept) = self {
            *self = Self::Own(copy_of(kept.table()));
        }
        match self {
            Self::Own(table) => table,
            Self::Kept(_) => unreachable!("it was copied"),
        }
    }
}

impl Deref for RuleTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        match self {
            Self::Own(table) => table,
            Self::Kept(kept) => kept.table(),
        }
    }
}

impl Clone for RuleTable {
    fn clone(&self) -> Self {
        Self::Own(copy_of(self))
    }
}
