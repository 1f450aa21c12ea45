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

use sha2::{Digest as _, Sha256};

/// Bytes of an attestation, a key or a gate result; a larger file is none.
pub const LARGEST: usize = 16 << 20;

/// SHA-256 in lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
