//! Conversations with a sinkhole, as the report tells them.

use serde::{Deserialize, Serialize};

use super::{Program, is_false};

/// The traffic of a program under the network mode `sinkhole`. Nothing of it left the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Sinkhole {
    /// The first thousand conversations, in their order.
    pub conversations: Vec<SinkholeConversation>,
    /// Conversations beyond those, which were answered and not kept.
    pub unlisted: u64,
    /// Questions of resolvers that were answered; their names are in `network_attempts`.
    pub questions: u64,
}

/// One connection, one request on it that is whole by itself, or the datagrams of one socket to one address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct SinkholeConversation {
    /// The time at which it began.
    #[cfg_attr(test, schemars(regex(pattern = crate::model::TIME)))]
    pub time: String,
    /// `IP:PORT`, as the program asked for it.
    pub address: String,
    /// The name that led to the address, or that the program called its peer; `null` without one.
    pub name: Option<String>,
    /// The protocol, as far as it was recognised: `HTTPS`, `SMTP`, `TCP`.
    pub protocol: String,
    /// The request in the words of the protocol, such as `POST /upload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Bytes that the program sent, without encryption where that was taken off.
    pub sent_bytes: u64,
    /// The first of them as text, where what is none is escaped.
    pub content: String,
    /// More was sent than is shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub content_truncated: bool,
    /// Secrets that were recognised in it, the decoys among them, also where they were encoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The program did not trust the certificate that it was shown, and sent nothing but its greeting.
    #[serde(default, skip_serializing_if = "is_false")]
    pub distrusts_certificate: bool,
    /// The sinkhole ended it, because it was too long.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// The rows of `processes` that opened the connection, or sent a datagram on this socket to this address; the first eight. None
    /// when that is not known.
    pub exec_ids: Vec<u32>,
    /// The programs of these rows. Where there are none, all that spoke to this address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
}

impl SinkholeConversation {
    /// The peer in words: its name where there is one, and its port.
    pub fn peer(&self) -> String {
        let port = self.address.rsplit_once(':').map(|(_, port)| port);
        match (&self.name, port) {
            (Some(name), Some(port)) => format!("{name}:{port}"),
            _ => self.address.clone(),
        }
    }

    /// The protocol with the request.
    pub fn asked(&self) -> String {
        match &self.request {
            Some(request) => format!("{} {request}", self.protocol),
            None => self.protocol.clone(),
        }
    }
}
