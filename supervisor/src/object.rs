//! The eBPF object, built by `cargo xtask ebpf` and carried in this command, packed.

use miniz_oxide::inflate::decompress_to_vec;
use turnkey_monitor::ObjectFile;

/// The object of this command.
pub fn object() -> ObjectFile<'static> {
    ObjectFile::packed(unpack, known_sha256())
}

/// By build.rs, as a raw deflate stream.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/turnkey.bpf.o.deflate"));

/// The bytes that build.rs packed. A stream that is not whole, which a test excludes, gives none: they are no object.
fn unpack() -> Vec<u8> {
    decompress_to_vec(PACKED).unwrap_or_default()
}

/// Written together with the object, and held against it by `cargo xtask ebpf --check`.
#[cfg(not(feature = "probe-log"))]
fn known_sha256() -> Option<&'static str> {
    const LOCK: &str = include_str!("../../monitor/bpf/turnkey.bpf.lock");
    let mut lines = LOCK.lines();
    let known = lines.find_map(|line| line.strip_prefix("object_sha256 = "));
    known.map(|text| text.trim_matches('"'))
}

/// The object with lines has no lock.
#[cfg(feature = "probe-log")]
fn known_sha256() -> Option<&'static str> {
    None
}

#[cfg(all(test, not(feature = "probe-log")))]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_lock_knows_the_object() {
        let digest = Sha256::digest(unpack());
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(known_sha256(), Some(text.as_str()));
    }
}
