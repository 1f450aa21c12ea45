//! Ed25519 keys as files hold them, in PEM: PKCS#8 as `openssl genpkey -algorithm ed25519` writes it, and
//! SubjectPublicKeyInfo as `openssl pkey -pubout` does.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use turnkey_supervisor::files;

use super::{hex, sha256};

/// RFC 8410: version 0, the algorithm 1.3.101.112, and a string of 32 bytes in a string.
const PRIVATE: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// RFC 8410: the same algorithm, and 256 bits.
const PUBLIC: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Bytes of a file with one key; a larger one has something else.
const LARGEST_KEY: u64 = 4096;

/// A key that signs.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// The key in a file, which nobody but its owner may read.
    ///
    /// # Errors
    /// When it cannot be read, is no such key, or others may read it.
    pub fn read(path: &Path) -> anyhow::Result<PrivateKey> {
        let told = || format!("no private key could be read from {}", path.display());
        let file = files::open(path).with_context(told)?;
        let metadata = file.metadata().with_context(told)?;
        let text = read_text(file).with_context(told)?;
        let key = PrivateKey::of_pem(&text).with_context(told)?;
        ensure!(
            !metadata.is_file() || metadata.permissions().mode() & 0o077 == 0,
            "the key in {0} is not only its owner's to read; `chmod 600 {0}`",
            path.display()
        );
        Ok(key)
    }

    fn of_pem(text: &str) -> anyhow::Result<PrivateKey> {
        let seed = content(text, "PRIVATE KEY", &PRIVATE).context(
            "a key that signs is Ed25519 in PKCS#8: `openssl genpkey -algorithm ed25519 -out key.pem` makes one",
        )?;
        Ok(PrivateKey(SigningKey::from_bytes(&seed)))
    }

    /// The key that verifies.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature over the bytes.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

/// A key that verifies.
#[derive(Clone, Debug)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// The key in a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no such key.
    pub fn read(path: &Path) -> anyhow::Result<PublicKey> {
        let told = || format!("no public key could be read from {}", path.display());
        let text = files::open(path)
            .map_err(anyhow::Error::from)
            .and_then(read_text);
        PublicKey::of_pem(&text.with_context(told)?).with_context(told)
    }

    fn of_pem(text: &str) -> anyhow::Result<PublicKey> {
        let bytes = content(text, "PUBLIC KEY", &PUBLIC).context(
            "a key that verifies is the public half of one that is Ed25519: `openssl pkey -in key.pem -pubout -out key.pub.pem` writes it",
        )?;
        let key =
            VerifyingKey::from_bytes(&bytes).context("its 32 bytes are no point of the curve")?;
        ensure!(
            !key.is_weak(),
            "it is one of the keys for which anybody can make signatures"
        );
        Ok(PublicKey(key))
    }

    /// The name of the key as securesystemslib computes it: SHA-256 over the key in canonical JSON.
    pub fn id(&self) -> String {
        let public = hex(self.0.as_bytes());
        sha256(
            format!(
                r#"{{"keytype":"ed25519","keyval":{{"public":"{public}"}},"scheme":"ed25519"}}"#
            )
            .as_bytes(),
        )
    }

    /// True when the signature is this key's over the bytes, in the one form that it can have.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature);
        signature.is_ok_and(|signature| self.0.verify_strict(bytes, &signature).is_ok())
    }
}

fn read_text(file: std::fs::File) -> anyhow::Result<String> {
    let mut text = String::new();
    file.take(LARGEST_KEY + 1).read_to_string(&mut text)?;
    ensure!(
        text.len() as u64 <= LARGEST_KEY,
        "it is larger than a file with one key"
    );
    Ok(text)
}

/// The 32 bytes behind the prefix of the one block of this label.
fn content(text: &str, label: &str, prefix: &[u8]) -> anyhow::Result<[u8; 32]> {
    let text = text.trim();
    let inner = text
        .strip_prefix(&format!("-----BEGIN {label}-----"))
        .and_then(|rest| rest.strip_suffix(&format!("-----END {label}-----")));
    let Some(inner) = inner else {
        bail!("it is not one block of PEM with the label {label}");
    };
    let digits: String = inner.split_ascii_whitespace().collect();
    let der = STANDARD.decode(digits).context("its block is no base64")?;
    let rest = der.strip_prefix(prefix).map(<[u8; 32]>::try_from);
    match rest {
        Some(Ok(bytes)) => Ok(bytes),
        _ => bail!("its block holds another kind of key"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A pair for tests, the same for the same number.
    pub fn pair(number: u8) -> (PrivateKey, PublicKey) {
        let private = PrivateKey(SigningKey::from_bytes(&[number; 32]));
        let public = private.public();
        (private, public)
    }

    // RFC 8410, section 10.3 and 10.1: one pair.
    const PRIVATE_PEM: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
    const PUBLIC_PEM: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

    #[test]
    fn the_pair_of_the_rfc_is_one() {
        let private = PrivateKey::of_pem(PRIVATE_PEM).unwrap();
        let public = PublicKey::of_pem(PUBLIC_PEM).unwrap();
        assert_eq!(private.public().id(), public.id());
        let signature = private.sign(b"words");
        assert!(public.verifies(b"words", &signature));
        assert!(!public.verifies(b"word", &signature));
        assert!(!public.verifies(b"words", &signature[..63]));
    }

    #[test]
    fn other_files_are_refused_with_the_way_to_a_right_one() {
        let refused = |error: anyhow::Error| format!("{error:#}");
        let swapped = refused(PublicKey::of_pem(PRIVATE_PEM).unwrap_err());
        assert!(swapped.contains("-pubout"), "{swapped}");
        let swapped = refused(PrivateKey::of_pem(PUBLIC_PEM).err().unwrap());
        assert!(swapped.contains("openssl genpkey"), "{swapped}");
        // Two keys, another algorithm, a byte too many, none at all.
        let two = format!("{PUBLIC_PEM}{PUBLIC_PEM}");
        let x25519 = PUBLIC_PEM.replace("MCowBQYDK2Vw", "MCowBQYDK2Vu");
        for text in [two.as_str(), &x25519, "", "-----BEGIN PUBLIC KEY-----"] {
            assert!(PublicKey::of_pem(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_with_which_everything_verifies_is_refused() {
        // The neutral element, and a point of order two.
        for first in [1, 0] {
            let mut der = PUBLIC.to_vec();
            der.extend([0; 32]);
            der[PUBLIC.len()] = first;
            let pem = format!(
                "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----",
                STANDARD.encode(der)
            );
            assert!(PublicKey::of_pem(&pem).is_err());
        }
    }
}
