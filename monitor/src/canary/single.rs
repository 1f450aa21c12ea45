//! Proof that one act is told once: the kernel calls each program for one link and no other.
//!
//! A run that attaches the programs anew right after another was killed may find them still called for that one's links,
//! which it cannot see ([`crate::shared`]). So a canary does one thing for each tracepoint, and what was told of it is
//! counted.

use std::fs::File;
use std::io::Write;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use turnkey_facts::{Event, Kind};

use super::prepare;
use crate::error::CanaryError;

/// x86-64 ELF with one segment: `exit(0)`.
const ENDS_AT_ONCE: [u8; 132] = {
    let mut bytes = [0; 132];
    let head: [u8; 64] = [
        0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0, 0x78,
        0, 0x40, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0,
        56, 0, 1, 0, 64, 0, 0, 0, 0, 0,
    ];
    // PT_LOAD, readable and executable, the whole file at 0x400000.
    let segment: [u8; 56] = [
        1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x40, 0,
        0, 0, 0, 0, 132, 0, 0, 0, 0, 0, 0, 0, 132, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
    ];
    // mov eax, 60; xor edi, edi; syscall
    let code: [u8; 9] = [0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    copy(&mut bytes, 0, &head);
    copy(&mut bytes, 64, &segment);
    copy(&mut bytes, 120, &code);
    bytes
};

const fn copy(to: &mut [u8], at: usize, from: &[u8]) {
    let mut index = 0;
    while index < from.len() {
        to[at + index] = from[index];
        index += 1;
    }
}

/// A program in memory that ends at once.
pub(crate) fn program() -> Result<File, CanaryError> {
    let made = || -> std::io::Result<File> {
        // Kernels from 6.3 on ask whether it is to be executed; those before do not know the flag.
        let executable = MFdFlags::from_bits_retain(MFD_EXEC) | MFdFlags::MFD_CLOEXEC;
        let made = match memfd_create("turnkey-canary", executable) {
            Err(Errno::EINVAL) => memfd_create("turnkey-canary", MFdFlags::MFD_CLOEXEC),
            made => made,
        };
        let mut file = File::from(made?);
        file.write_all(&ENDS_AT_ONCE)?;
        Ok(file)
    };
    made().map_err(prepare("a program in memory"))
}

/// `linux/memfd.h`
const MFD_EXEC: u32 = 0x10;

/// Checks what was told of the acts of a natural flight.
///
/// # Errors
/// [`CanaryError::Twice`] when one was told more than once; [`CanaryError::NotRecorded`] when one was not told.
pub(crate) fn told_once(events: &[Event]) -> Result<(), CanaryError> {
    let count = |is: fn(&Kind) -> bool| {
        let told = events.iter().filter(|event| is(&event.kind));
        told.map(|event| 1 + usize::try_from(event.repeated).unwrap_or(usize::MAX))
            .sum::<usize>()
    };
    let acts = [
        ("open", 1, count(|kind| matches!(kind, Kind::Open { .. }))),
        ("child", 1, count(|kind| matches!(kind, Kind::Fork { .. }))),
        ("exec", 1, count(|kind| matches!(kind, Kind::Exec { .. }))),
        ("end", 2, count(|kind| matches!(kind, Kind::Exit { .. }))),
    ];
    for (act, done, told) in acts {
        if told > done {
            return Err(CanaryError::Twice(act));
        }
        if told < done {
            return Err(CanaryError::NotRecorded(act));
        }
    }
    Ok(())
}
