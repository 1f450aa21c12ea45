//! How the C library gives memory to this process, mallopt(3).
//!
//! A run lives for milliseconds, and allocates half a megabyte in three threads. By default each thread begins an arena
//! of its own, that grows by a page at a time with a system call for each; and what is freed at the end of the heap goes
//! back to the kernel, to be asked for again a moment later.
#![allow(unsafe_code)]

use nix::libc;

/// What may lie free at the end of the heap, and by how much it grows at a time, in bytes.
const AT_HAND: libc::c_int = 256 << 10;

/// Call it first: it tells of memory that is not asked for yet.
pub fn settle() {
    let wishes = [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TOP_PAD, AT_HAND),
        (libc::M_TRIM_THRESHOLD, 2 * AT_HAND),
    ];
    for (parameter, value) in wishes {
        // SAFETY: no pointers; no other thread allocates yet. It answers 0 for what the library does not know, and all
        // is as without it then.
        unsafe { libc::mallopt(parameter, value) };
    }
}
