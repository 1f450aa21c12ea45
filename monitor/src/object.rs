//! The eBPF object that a monitor is made of.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The level of programs that watch jails: each is one group, wherever it stands.
pub(crate) const JAILS: u32 = 0;

/// Bytes of an ELF file, and the digest that names them.
#[derive(Clone, Debug)]
pub struct ObjectFile<'o> {
    content: Content<'o>,
    digest: Option<&'o str>,
}

#[derive(Clone, Debug)]
enum Content<'o> {
    Bytes(&'o [u8]),
    Packed(fn() -> Vec<u8>),
}

impl<'o> ObjectFile<'o> {
    /// An object that is unpacked when it is loaded. Its SHA-256, in lower-case hexadecimal, is given where it is known:
    /// to take it over two megabytes is more work than all else that a run does to find programs that are loaded.
    #[must_use]
    pub fn packed(unpack: fn() -> Vec<u8>, sha256: Option<&'o str>) -> Self {
        Self {
            content: Content::Packed(unpack),
            digest: sha256,
        }
    }

    /// The ELF file.
    pub(crate) fn bytes(&self) -> Cow<'o, [u8]> {
        match self.content {
            Content::Bytes(bytes) => Cow::Borrowed(bytes),
            Content::Packed(unpack) => Cow::Owned(unpack()),
        }
    }

    /// The digest, as text.
    pub(crate) fn digest(&self) -> Cow<'o, str> {
        let taken = || {
            let digest = Sha256::digest(self.bytes());
            digest.iter().fold(String::new(), |mut text, byte| {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        match self.digest {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(taken()),
        }
    }
}

impl<'o> From<&'o [u8]> for ObjectFile<'o> {
    fn from(bytes: &'o [u8]) -> Self {
        Self {
            content: Content::Bytes(bytes),
            digest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_the_bytes_unless_it_is_known() {
        const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let taken = ObjectFile::from(b"abc".as_slice());
        assert_eq!(taken.digest(), ABC);
        let unpacked = ObjectFile::packed(|| b"abc".to_vec(), None);
        assert_eq!(unpacked.digest(), ABC);
        let known = ObjectFile::packed(Vec::new, Some(ABC));
        assert_eq!(known.digest(), ABC);
    }
}
