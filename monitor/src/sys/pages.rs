//! Memory of a map that this process sees as its own; `map_mmap` of `kernel/bpf/arraymap.c` and
//! `kernel/bpf/ringbuf.c`.

#![expect(unsafe_code, reason = "maps memory that is shared with the kernel")]

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use nix::libc::c_void;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};

/// Some of a map's pages. Children do not get them: to copy what maps thousands of pages is most of
/// what a fork would take.
pub(super) struct Pages {
    first: NonNull<c_void>,
    bytes: usize,
}

/// Access to the pages of a mapping.
#[derive(Clone, Copy)]
pub(super) enum Access {
    Read,
    Write,
}

// SAFETY: the mapping belongs to the process and not to a thread; every access says why
// it is sound.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps so many bytes from the offset on, which is a multiple of a page.
    pub(super) fn map(
        map: BorrowedFd<'_>,
        offset: usize,
        bytes: usize,
        access: Access,
    ) -> io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = match access {
            Access::Read => ProtFlags::PROT_READ,
            Access::Write => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        };
        let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel chooses where, so nothing that exists is replaced.
        let first = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, map, offset) }?;
        let pages = Self { first, bytes };
        // SAFETY: it changes what children get, and nothing here.
        unsafe { madvise(first, bytes, MmapAdvise::MADV_DONTFORK) }?;
        Ok(pages)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A pointer to a `T` at this offset.
    ///
    /// # Panics
    /// When there is no room for one.
    pub(super) fn at<T>(&self, offset: usize) -> NonNull<T> {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.bytes) && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: it is within the mapping, as has just been seen.
        unsafe { self.first.byte_add(offset) }.cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's own, and no borrow of them is left.
        let unmapped = unsafe { munmap(self.first, self.bytes) };
        // It fails only for an address that is none of a page.
        debug_assert!(unmapped.is_ok());
    }
}
