//! The eBPF object, built by `cargo xtask ebpf` and carried in this command.

use turnkey_monitor::ObjectFile;

/// The object of this command.
#[cfg(not(feature = "probe-log"))]
pub fn object() -> ObjectFile<'static> {
    ObjectFile::known(OBJECT, object_sha256(LOCK))
}

/// The object of this command.
#[cfg(feature = "probe-log")]
pub fn object() -> ObjectFile<'static> {
    OBJECT.into()
}

/// Written together with the object, and held against it by `cargo xtask ebpf --check`.
#[cfg(not(feature = "probe-log"))]
const LOCK: &str = include_str!("../../monitor/bpf/turnkey.bpf.lock");

/// The digest of the object, as the lock has it.
#[cfg(not(feature = "probe-log"))]
fn object_sha256(lock: &str) -> &str {
    let mut lines = lock.lines();
    let known = lines.find_map(|line| line.strip_prefix("object_sha256 = "));
    known.unwrap_or_default().trim_matches('"')
}

/// Aligned for an ELF reader.
#[cfg(not(feature = "probe-log"))]
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../monitor/bpf/turnkey.bpf.o");

/// The one with lines, for work on the programs.
#[cfg(feature = "probe-log")]
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("TURNKEY_LOG_OBJECT"));

#[cfg(all(test, not(feature = "probe-log")))]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_lock_knows_the_object() {
        let digest = Sha256::digest(OBJECT);
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(object_sha256(LOCK), text);
    }
}
