//! Reading a ring of the kernel's.
//!
//! The kernel maps a ring's data page by page, and takes half a microsecond for each, when it is
//! mapped and when it is not any more: for all of a ring of eight megabytes, mapped twice, two
//! milliseconds of each run. Most programs have little to tell, so only where the next records will
//! be is mapped at first, and all of it as soon as there are more.

#![expect(
    unsafe_code,
    reason = "records in memory that is shared with the kernel"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aya::maps::MapData;
use nix::unistd::{SysconfVar, sysconf};

use super::pages::{Access, Pages};

/// Bytes of data that are mapped at first.
const WINDOW: usize = 256 << 10;
/// Of a record's length: it is being written; `linux/bpf.h`.
const BUSY: u32 = 1 << 31;
/// Of a record's length: the program that reserved it has discarded it.
const DISCARDED: u32 = 1 << 30;
/// Bytes before a record; its length is in the first four.
const HEADER: usize = 8;

/// A `BPF_MAP_TYPE_RINGBUF` and its only reader; `Documentation/bpf/ringbuf.rst`.
pub(crate) struct Ring {
    map: MapData,
    /// Bytes of data, a power of two. Behind them the kernel maps the same once more.
    bytes: usize,
    page: usize,
    consumer: Pages,
    producer: Pages,
    data: Pages,
    /// Offset in the ring's data that the mapped pages begin at.
    first: usize,
}

impl Ring {
    /// Takes over a ring of so many bytes, without what is in it.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub(crate) fn empty(map: MapData, bytes: u32) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let page = sysconf(SysconfVar::PAGE_SIZE)?.map_or(Ok(4096), usize::try_from);
        let page = page.map_err(io::Error::other)?;
        let consumer = Pages::map(map.fd().as_fd(), 0, page, Access::Write)?;
        let producer = Pages::map(map.fd().as_fd(), page, page, Access::Read)?;
        let next = position(&consumer).load(Ordering::Relaxed);
        let first = within(next, bytes) / page * page;
        let data = data(&map, page, first, WINDOW.min(bytes))?;
        let mut ring = Self {
            map,
            bytes,
            page,
            consumer,
            producer,
            data,
            first,
        };
        while ring.next(|_| ())?.is_some() {}
        Ok(ring)
    }

    /// Shows the oldest record that is whole, which is gone then. `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be mapped. It stays, and so does all behind it.
    pub(crate) fn next<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        loop {
            // Nobody else moves it.
            let next = position(&self.consumer).load(Ordering::Relaxed);
            if next == position(&self.producer).load(Ordering::Acquire) {
                return Ok(None);
            }
            let header = self.show(next, HEADER)?;
            // SAFETY: a header is aligned to eight bytes, and the kernel writes it in one.
            let header = unsafe { AtomicU32::from_ptr(self.data.at(header).as_ptr()) };
            let length = header.load(Ordering::Acquire);
            if length & BUSY != 0 {
                return Ok(None);
            }
            let bytes = (length & !DISCARDED) as usize;
            let record = self.show(next, HEADER + bytes)? + HEADER;
            let behind = next + (HEADER + bytes).next_multiple_of(HEADER) as u64;
            if length & DISCARDED == 0 {
                // SAFETY: it is within what is mapped, and the kernel does not touch a whole record
                // before it is passed.
                let shown = read(unsafe {
                    std::slice::from_raw_parts(self.data.at::<u8>(record).as_ptr(), bytes)
                });
                position(&self.consumer).store(behind, Ordering::Release);
                return Ok(Some(shown));
            }
            position(&self.consumer).store(behind, Ordering::Release);
        }
    }

    /// Offset in the mapped pages of the bytes from this position on; maps all data when they are not mapped.
    fn show(&mut self, position: u64, bytes: usize) -> io::Result<usize> {
        let at = within(position, self.bytes);
        let shown = |at: usize| {
            let offset = at.checked_sub(self.first)?;
            (offset + bytes <= self.data.bytes()).then_some(offset)
        };
        if let Some(offset) = shown(at).or_else(|| shown(at + self.bytes)) {
            return Ok(offset);
        }
        self.data = data(&self.map, self.page, 0, 2 * self.bytes)?;
        self.first = 0;
        Ok(at)
    }
}

/// The data follow the two pages of the positions.
fn data(map: &MapData, page: usize, first: usize, bytes: usize) -> io::Result<Pages> {
    Pages::map(map.fd().as_fd(), 2 * page + first, bytes, Access::Read)
}

/// A position counts all bytes that there ever were.
fn within(position: u64, bytes: usize) -> usize {
    // What is left is less than `bytes`, and fits.
    usize::try_from(position % bytes as u64).unwrap_or(0)
}

/// The position of the reader, or of the kernel: the first word of its page.
fn position(page: &Pages) -> &AtomicU64 {
    // SAFETY: it is aligned, mapped as long as the page is, and only ever used as an atomic. That of
    // the kernel is mapped for reading, and this process does not store to it.
    unsafe { AtomicU64::from_ptr(page.at(0).as_ptr()) }
}

impl AsFd for Ring {
    /// Readable when there is a record.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.fd().as_fd()
    }
}
