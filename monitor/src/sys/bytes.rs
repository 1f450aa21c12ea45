//! A few bytes in the memory of a map.

#![expect(unsafe_code, reason = "bytes in memory that is shared with the kernel")]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use aya::maps::MapData;

use super::pages::{Access, Pages};

/// The map's value: the number of bytes, and the bytes.
#[repr(C)]
struct Held {
    bytes: u64,
    room: [u8; MOST],
}

/// Most bytes that a map holds.
const MOST: usize = (1 << 15) - size_of::<u64>();
/// The size of the value of such a map, in bytes.
pub(crate) const VALUE: usize = size_of::<Held>();

/// Puts bytes into a map that no other process knows yet.
///
/// # Errors
/// When they are more than [`MOST`], or the map cannot be mapped.
pub(crate) fn map_bytes(map: &MapData, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() > MOST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let pages = Pages::map(map.fd().as_fd(), 0, VALUE, Access::Write)?;
    let held = pages.at::<Held>(0).as_ptr();
    // SAFETY: mapped for writing, as large as what it is, and not seen by anybody; there is room for
    // so many bytes.
    unsafe {
        (*held).bytes = bytes.len() as u64;
        NonNull::from(bytes)
            .cast::<u8>()
            .copy_to_nonoverlapping(NonNull::from(&mut (*held).room).cast(), bytes.len());
    }
    Ok(())
}

/// A copy of the bytes that were put into a map.
///
/// # Errors
/// When the map cannot be mapped, or says that it holds more than it can.
pub(crate) fn mapped_bytes(map: &MapData) -> io::Result<Vec<u8>> {
    let pages = Pages::map(map.fd().as_fd(), 0, VALUE, Access::Read)?;
    // SAFETY: integers throughout, and a map that has a name is not written any more.
    let held = unsafe { pages.at::<Held>(0).as_ref() };
    let bytes = usize::try_from(held.bytes).unwrap_or(usize::MAX);
    let bytes = held.room.get(..bytes).ok_or(io::ErrorKind::InvalidData)?;
    Ok(bytes.to_vec())
}
