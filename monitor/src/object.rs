//! The eBPF object that a monitor is made of.

use std::borrow::Cow;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Bytes of an ELF file, and the digest that names them.
#[derive(Clone, Debug)]
pub struct ObjectFile<'o> {
    pub(crate) bytes: &'o [u8],
    digest: Option<Cow<'o, str>>,
}

impl<'o> ObjectFile<'o> {
    /// An object of which the SHA-256 is known, in lower-case hexadecimal: to take it over two megabytes is more
    /// work than all else that a run does to find programs that are loaded.
    #[must_use]
    pub fn known(bytes: &'o [u8], sha256: &'o str) -> Self {
        Self {
            bytes,
            digest: Some(sha256.into()),
        }
    }

    /// The digest, as text.
    pub(crate) fn digest(&self) -> Cow<'_, str> {
        let taken = || {
            let digest = Sha256::digest(self.bytes);
            digest.iter().fold(String::new(), |mut text, byte| {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        match &self.digest {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(taken()),
        }
    }
}

impl<'o> From<&'o [u8]> for ObjectFile<'o> {
    fn from(bytes: &'o [u8]) -> Self {
        Self {
            bytes,
            digest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_the_bytes_unless_it_is_known() {
        let taken = ObjectFile::from(b"abc".as_slice());
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(taken.digest(), known);
        assert_eq!(ObjectFile::known(b"", known).digest(), known);
    }
}
