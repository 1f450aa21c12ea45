//! Of calls with an address, and of what is sent.

use serde_json::{Value, json};

use super::{Expected, NOT_READ, One, Text, long_at};
use crate::address::{self, written};
use crate::rules::normal;
use crate::width::word;

impl One<'_> {
    /// Without an address nothing is said of anybody.
    pub(super) fn address(&self, kind: &'static str) -> Vec<Expected> {
        let length = word(self.args[2]);
        let has_address = self.args[1] != 0 && length != 0;
        let mut expected = Expected::of(kind, self.seen);
        expected.address = self.written(self.args[1], length);
        expected.has_loopback = Some(self.context.has_loopback);
        let address = expected
            .address
            .as_ref()
            .map(|(written, _)| written.clone());
        let mut all = self.made(address.as_deref());
        all.extend(expected.when(Some(has_address)));
        all
    }

    /// With hooks, the file that bind(2) of a Unix socket makes is told by itself where a rule speaks of it.
    pub(super) fn made(&self, address: Option<&str>) -> Vec<Expected> {
        let path = address.and_then(|address| address.strip_prefix("unix:"));
        let Some(path) = path.filter(|_| self.context.has_hooks && self.seen.number == 49) else {
            return Vec::new();
        };
        let made = Expected {
            result: None,
            access: Some(vec!["write"]),
            path: Text::OneOf(vec![normal(&format!("/workspace/{path}")), path.to_owned()]),
            ..Expected::of("open", self.seen)
        };
        vec![made.optional()]
    }

    /// The address, as far as it is known.
    pub(super) fn written(&self, address: u64, length: u32) -> Option<(String, Option<u16>)> {
        let bytes = self.bytes(address)?;
        // The kernel asks before it looks at the family.
        let port = address::port(bytes).filter(|_| length >= 16);
        Some((written(bytes, length)?, port))
    }

    /// True when listen(2) is about an internet socket; nothing when nobody has looked.
    pub(super) fn is_internet(&self) -> Option<bool> {
        if NOT_READ.contains(&self.result) {
            return Some(false);
        }
        let protocol = self.looked.and_then(|it| it.protocol.as_ref())?;
        Some(protocol.starts_with("TCP") || protocol.starts_with("UDP"))
    }

    pub(super) fn send(&self) -> Vec<Expected> {
        // No message.
        if self.seen.number == 307 && word(self.args[2]) == 0 {
            return Vec::new();
        }
        let (address, length) = match self.seen.number {
            44 => (Some(self.args[4]), Some(word(self.args[5]))),
            _ => match self.bytes(self.args[1]) {
                Some(message) => (long_at(message, 0), long_at(message, 8).map(word)),
                None => (None, None),
            },
        };
        // The kernel does not read the message of what is no socket, and its page may not be there.
        let is_read = self.seen.number == 44 || !NOT_READ.contains(&self.result);
        let has_address = match (address, length) {
            (Some(address), Some(length)) if is_read => Some(address != 0 && length != 0),
            _ => None,
        };
        let mut send = Expected::of("send", self.seen);
        send.has_loopback = Some(self.context.has_loopback);
        if let (Some(address), Some(length)) = (address, length) {
            send.address = self.written(address, length);
        }
        let mut all = send.clone().when(has_address);
        if has_address == Some(false) && self.context.is_mapped {
            let messages = 1 + usize::try_from(self.result).unwrap_or_default();
            let known = Expected {
                address: None,
                ..send.clone()
            };
            all.extend(std::iter::repeat_n(known.optional(), messages.min(8)));
        }
        // Each message to the jail's own loopback is asked about by itself.
        if self.seen.number == 307 && self.context.has_loopback {
            let more = usize::try_from(self.result).unwrap_or_default();
            all.extend(std::iter::repeat_n(send.optional(), more.min(8)));
        }
        all.extend(self.question(address, length, has_address));
        all
    }

    /// The questions to a name server, by the first message.
    pub(super) fn question(
        &self,
        address: Option<u64>,
        length: Option<u32>,
        has_address: Option<bool>,
    ) -> Vec<Expected> {
        let peer = address.and_then(|address| self.bytes(address));
        let is_question = match (peer, has_address) {
            (Some(peer), Some(true)) => {
                let is_port = address::port(peer) == Some(address::PORT);
                let fits = matches!(address::family(peer), Some(0 | 2 | 10));
                let enough = length.is_some_and(|it| it >= 16);
                let is_socket = !NOT_READ.contains(&self.result);
                (!is_port || !fits || enough).then_some(is_port && fits && is_socket)
            }
            (_, Some(false)) if !self.context.asks => Some(false),
            _ => None,
        };
        let mut question = Expected::of("question", self.seen);
        if let Some((bytes, size)) = self.sent() {
            question.fields = vec![
                ("/bytes", json!(size.min(512))),
                ("/questions", asked(bytes, size)),
            ];
        }
        question.when(is_question)
    }

    /// The data of the first message, and how much of it there is.
    pub(super) fn sent(&self) -> Option<(&[u8], usize)> {
        let (at, size) = match self.seen.number {
            44 => (self.args[1], self.args[2]),
            _ => {
                let piece = self.bytes(long_at(self.bytes(self.args[1])?, 16)?)?;
                (long_at(piece, 0)?, long_at(piece, 8)?)
            }
        };
        let size = usize::try_from(size).ok()?;
        let bytes = self.bytes(at)?;
        (size <= bytes.len()).then_some((bytes, size))
    }
}

/// The questions that data has for a name server.
fn asked(bytes: &[u8], size: usize) -> Value {
    let known = address::question(address::ASKED);
    if size == known.len() && bytes == known {
        return json!([{ "name": address::ASKED, "type": "A" }]);
    }
    json!([])
}
