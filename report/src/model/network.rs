//! Network attempts of a program, and the traffic that turnkey passed on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Program, Result, is_false};
use crate::stopper::Stopper;
use crate::words;

/// Uses of one address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct NetworkAttempt {
    /// `connect`, `bind` or `send`.
    #[serde(with = "words")]
    #[cfg_attr(
        test,
        schemars(schema_with = "words::schema::<turnkey_policy::AttemptKind>")
    )]
    pub act: turnkey_policy::AttemptKind,
    /// `IP:PORT`, `unix:PATH`, `unix-abstract:NAME`, `family NUMBER:HEX` or `unreadable`.
    pub address: String,
    /// `stream`, `datagram`, or another word for the socket's type; `null` when not known.
    pub socket: Option<SocketType>,
    /// The name that a name server was asked for, as in `questions` of the event; of several, all
    /// with spaces between them. Such a row is there besides that of the send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of uses.
    pub count: u64,
    /// Of the first one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub first_time: String,
    /// Of the last one.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub last_time: String,
    /// The row of `processes` that did the first one; `null` when that list was full.
    pub first_exec_id: Option<u32>,
    /// The programs that did so, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// There are more, or one is not known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more_programs: bool,
    /// The result of each of them.
    pub result: Result,
    /// With `denied`.
    pub stopped_by: Option<Stopper>,
    /// The name of the error, when there was one.
    pub errno: Option<String>,
    /// The rule that decided, if any did.
    pub rule: Option<String>,
    /// With the network mode `allow`: what turnkey passed on to that address for these connects, and
    /// for earlier and later ones to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passed>,
}

/// A port of the jail that turnkey led to from the host's loopback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct PublishedPort {
    /// The port at 127.0.0.1 and, where the host has it, ::1.
    pub host_port: u16,
    /// The jail's.
    pub port: u16,
    /// The traffic of whoever connected. `failed` are connections to a port at which nobody in the jail waited.
    pub passed: Passed,
}

/// The traffic that turnkey passed on for the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Passed {
    /// Connections that were made from the host.
    pub connections: u64,
    /// Bytes from the program.
    pub sent_bytes: u64,
    /// Bytes to the program.
    pub received_bytes: u64,
    /// Connections that could not be made from the host, by the name of the error. The program saw
    /// them made and reset.
    pub failed: BTreeMap<String, u64>,
    /// Connections to an address that a range of the list holds and never means, such as one of the
    /// host's own: reset without a dial.
    pub refused: u64,
}

/// The type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SocketType {
    /// `SOCK_STREAM`
    Stream,
    /// `SOCK_DGRAM`
    Datagram,
    /// `SOCK_RAW`
    Raw,
    /// `SOCK_SEQPACKET`
    Seqpacket,
    /// `SOCK_RDM`
    Rdm,
}
