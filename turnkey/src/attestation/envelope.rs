//! The envelope: DSSE 1.0.2, with a statement of in-toto inside.

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{PrivateKey, PublicKey};
use crate::strict_json;

/// The media type of what is inside.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Signatures that are looked at; more are no attestation.
const MOST_SIGNATURES: usize = 64;

/// A text and who signed it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    /// A hint; absent or empty, every key is tried.
    #[serde(default)]
    keyid: String,
    sig: String,
}

impl Envelope {
    /// The payload under the signature of a key.
    pub fn sign(payload: &[u8], key: &PrivateKey) -> Envelope {
        let signature = key.sign(&to_be_signed(PAYLOAD_TYPE, payload));
        Envelope {
            payload: STANDARD.encode(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![EnvelopeSignature {
                keyid: key.public().id(),
                sig: STANDARD.encode(signature),
            }],
        }
    }

    /// Reads an envelope, whoever signed it.
    ///
    /// # Errors
    /// When the text is no envelope with a statement of in-toto.
    pub fn read(bytes: &[u8]) -> anyhow::Result<Envelope> {
        let envelope: Envelope = strict_json::read(bytes)
            .context("it is no DSSE envelope, as `turnkey attest` writes")?;
        ensure!(
            envelope.payload_type == PAYLOAD_TYPE,
            "its payloadType is {:?}, and not {PAYLOAD_TYPE:?}",
            envelope.payload_type
        );
        ensure!(
            envelope.signatures.len() <= MOST_SIGNATURES,
            "it has {} signatures, and no more than {MOST_SIGNATURES} are read",
            envelope.signatures.len()
        );
        Ok(envelope)
    }

    /// The payload, where each of the keys has signed it; `None` where one has not.
    ///
    /// # Errors
    /// When the payload or a signature is no base64.
    pub fn open(&self, keys: &[PublicKey]) -> anyhow::Result<Option<Vec<u8>>> {
        let payload = STANDARD.decode(&self.payload);
        let payload = payload.context("its payload is no base64 of RFC 4648")?;
        let signed = to_be_signed(&self.payload_type, &payload);
        for key in keys {
            if !self.signed_by(key, &signed)? {
                return Ok(None);
            }
        }
        Ok((!keys.is_empty()).then_some(payload))
    }

    fn signed_by(&self, key: &PublicKey, signed: &[u8]) -> anyhow::Result<bool> {
        let id = key.id();
        for EnvelopeSignature { keyid, sig } in &self.signatures {
            let signature = STANDARD.decode(sig);
            let signature = signature.context("a signature of it is no base64 of RFC 4648")?;
            let may_be = keyid.is_empty() || *keyid == id;
            if may_be && key.verifies(signed, &signature) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The pre-authentication encoding, which the signature is over.
fn to_be_signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let (type_length, length) = (payload_type.len(), payload.len());
    let mut encoded = format!("DSSEv1 {type_length} {payload_type} {length} ").into_bytes();
    encoded.extend(payload);
    encoded
}

#[cfg(test)]
mod tests;
