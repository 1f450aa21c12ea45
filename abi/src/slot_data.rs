//! Slot data: a jail's rules and repetitions in the kernel, besides its counts and its rings.

use core::mem::size_of;

use crate::{Repeats, Table};

/// The only value of a slot's inner array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SlotData {
    /// The jail's rules: written by user space while no task of the jail exists.
    pub table: Table,
    /// Repetitions of the jail's threads: written by the kernel.
    pub repeats: Repeats,
}

const _: () = assert!(size_of::<SlotData>() == size_of::<Table>() + size_of::<Repeats>());
