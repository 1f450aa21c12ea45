//! Reads files that the kernel makes up when they are read: those of /proc and of control groups.
//!
//! They say that they are empty, so whoever asks for their size first, and begins with a small buffer, makes four calls
//! more for each; a start reads three dozen of them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most of them are shorter, in bytes; for others the buffer grows.
const ROOM: usize = 4096;

/// The whole text of the file.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// All bytes of the file: names of files in it are any.
#[expect(
    clippy::disallowed_methods,
    reason = "of /proc and of control groups, which nobody turns"
)]
pub fn read_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM);
    // By way of `take`, which does not ask how long the file is.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_read_however_long_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for length in [0, 1, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM + 3] {
            let text = "x".repeat(length);
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read(&path).unwrap(), text, "{length} bytes");
        }
        assert!(read(directory.path().join("nothing")).is_err());
    }
}
