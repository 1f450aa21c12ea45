//! Runs for callers without privileges: what both sides of `turnkey.fd.sock` have in common, and the caller's side.
//!
//! The service is a listener that makes nothing itself and looks at no request. Each run has a process of its own, which gets the
//! caller's connection, reads the request from it, and is gone with the run. What a request names on the host is opened by the
//! caller's rights ([`turnkey_jailer::ServedUser`]); what has no name, its streams and its directory, comes as descriptors.

use std::path::PathBuf;

mod allowance;
mod claim;
mod client;
mod descriptors;
pub mod export;
mod line;
pub mod memory;
mod outputs;
mod packet;
mod peer;
mod relayed;

pub use allowance::{CallerAllowance, ServedCaller, TooLittle};
pub use claim::{ClaimedPart, RunClaim};
pub use client::{ENDS, PASSED_ON, ServedEnd, ServiceError, connection, run};
pub use descriptors::{CallerDescriptors, RefusedDescriptor, WantedDescriptors};
pub use line::{LINE_TYPE, PacketLine};
pub use outputs::UserFile;
pub use packet::{
    HandedCaller, MOST_DESCRIPTORS, MOST_ORDER, Packet, PacketError, Refusal, RefusalCode, RunOrder,
};
pub use peer::{PeerError, ServedPeer};

/// The name of the socket in its directory.
pub const SOCKET: &str = "turnkey.fd.sock";
/// The directory of the sockets, where `TURNKEY_SOCKET_DIR` names no other.
pub const SOCKET_DIRECTORY: &str = "/run/turnkey";
/// The variable that names another.
const DIRECTORY_VARIABLE: &str = "TURNKEY_SOCKET_DIR";

/// The directory of the sockets, as this process's environment has it.
pub fn socket_directory() -> PathBuf {
    let named = std::env::var_os(DIRECTORY_VARIABLE).filter(|named| !named.is_empty());
    named.map_or_else(|| PathBuf::from(SOCKET_DIRECTORY), PathBuf::from)
}
