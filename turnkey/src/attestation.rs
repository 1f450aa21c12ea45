//! Attestations: an in-toto statement about a run or a gate, in a DSSE envelope, signed with Ed25519.
//!
//! ```text
//! report, gate result ── Predicate ─┬─ Statement ── Envelope::sign (`turnkey attest`)
//! files, directories ── subjects ───┘                   │
//!                        Acceptance ── Envelope::open ──┘ (`turnkey verify`)
//! ```

mod acceptance;
mod envelope;
mod key;
mod statement;
mod subject;

pub use acceptance::{Acceptance, WantedStatus, WantedVerdict, word};
pub use envelope::Envelope;
pub use key::{PrivateKey, PublicKey};
pub use statement::{GateFacts, Predicate, RunFacts, Statement};
pub use subject::{Subject, read_all};

use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};
use turnkey_supervisor::files;

use sha2::{Digest as _, Sha256};

/// Bytes of an attestation, or of a gate's result or config; a larger file is none.
const LARGEST: usize = 16 << 20;

/// Reads a file of that size, or standard input where it is named `-`.
///
/// # Errors
/// When it cannot be read, or is larger.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let told = || format!("could not read {}", path.display());
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        let stdin = std::io::stdin().lock();
        let read = stdin.take(LARGEST as u64 + 1).read_to_end(&mut bytes);
        read.with_context(told)?;
    } else {
        bytes = files::read(path, LARGEST).with_context(told)?;
    }
    let most = LARGEST >> 20;
    ensure!(
        bytes.len() <= LARGEST,
        "{} is larger than {most} MiB, and no more is read",
        path.display()
    );
    Ok(bytes)
}

/// SHA-256 in lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
