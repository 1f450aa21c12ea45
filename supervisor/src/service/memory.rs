//! Memory that nobody changes any more, memfd_create(2): it carries what is longer than a packet.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use turnkey_jailer::foreign;

use super::packet::PacketError;

/// The seals by which content, length and the seals themselves stay as they are.
const SEALS: SealFlag = SealFlag::F_SEAL_SEAL
    .union(SealFlag::F_SEAL_SHRINK)
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_WRITE);

/// Memory with these bytes, sealed.
///
/// # Errors
/// The errors of memfd_create(2) and write(2).
pub fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"turnkey", flags)?);
    file.write_all(bytes)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(file.into())
}

/// The bytes of memory that somebody else has sealed, wherever its offset is.
///
/// # Errors
/// When it is no such memory, is not sealed in every way, cannot be read, or holds more than `most` bytes. Only what has seals is read:
/// no file of a file system that could hold up its reader has any.
pub fn read_sealed(memory: OwnedFd, most: usize) -> Result<Vec<u8>, PacketError> {
    // What has none is no memory.
    let seals = fcntl(&memory, FcntlArg::F_GET_SEALS).unwrap_or_default();
    if !SealFlag::from_bits_retain(seals).contains(SEALS) {
        foreign::give_up(vec![memory]);
        return Err(PacketError::Memory);
    }
    let memory = File::from(memory);
    let metadata = memory.metadata().map_err(|_| PacketError::Memory)?;
    let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if length > most {
        return Err(PacketError::TooLarge);
    }
    let mut bytes = vec![0; length];
    let read = memory.read_exact_at(&mut bytes, 0);
    read.map_err(|_| PacketError::Memory)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::OFlag;
    use nix::sys::stat::Mode;
    use std::os::fd::AsRawFd;

    fn with_seals(seals: SealFlag) -> OwnedFd {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = File::from(memfd_create(c"test", flags).unwrap());
        file.write_all(b"words").unwrap();
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
        file.into()
    }

    fn again(memory: &OwnedFd, how: OFlag) -> OwnedFd {
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        nix::fcntl::open(path.as_str(), how, Mode::empty()).unwrap()
    }

    #[test]
    fn what_is_sealed_is_read_once_it_is_short_enough() {
        assert_eq!(
            read_sealed(sealed(b"words").unwrap(), 5),
            Ok(b"words".to_vec())
        );
        assert_eq!(read_sealed(sealed(b"").unwrap(), 5), Ok(Vec::new()));
        let memory = sealed(b"words").unwrap();
        assert_eq!(read_sealed(memory, 4), Err(PacketError::TooLarge));
        assert!(
            File::from(sealed(b"words").unwrap())
                .write_all(b"x")
                .is_err()
        );
    }

    #[test]
    fn what_can_still_change_is_not_read() {
        for missing in SEALS.iter() {
            let memory = with_seals(SEALS - missing);
            assert_eq!(
                read_sealed(memory, 9),
                Err(PacketError::Memory),
                "{missing:?}"
            );
        }
        let file = tempfile::tempfile().unwrap();
        assert_eq!(read_sealed(file.into(), 9), Err(PacketError::Memory));
        let (pipe, _other) = std::io::pipe().unwrap();
        assert_eq!(read_sealed(pipe.into(), 9), Err(PacketError::Memory));
        // A name of it, and one that can only be written to, had it before it was sealed.
        let memory = with_seals(SealFlag::empty());
        let (name, output) = (
            again(&memory, OFlag::O_PATH),
            again(&memory, OFlag::O_WRONLY),
        );
        fcntl(&memory, FcntlArg::F_ADD_SEALS(SEALS)).unwrap();
        for other in [name, output] {
            assert_eq!(read_sealed(other, 9), Err(PacketError::Memory));
        }
        assert!(read_sealed(memory, 9).is_ok(), "the control");
    }
}
