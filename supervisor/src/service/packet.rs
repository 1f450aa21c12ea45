//! The packets between a caller and the service: a header of fixed size and a body, one packet of a `SOCK_SEQPACKET` socket each.
//!
//! ```text
//! header  "tkfd", version: u16, kind: u16, length of the body: u32, descriptors: u32     little endian, 16 bytes
//! kind    1 run       arguments: u32, variables: u32, then each string with a NUL behind it; 4 to 6 descriptors
//!         2 signal    number: u32
//!         3 ended     exit code: u32; 1 descriptor, the report as JSON, in sealed memory
//!         4 refused   code: u32, then what is wrong and the fix, each with a NUL behind it
//!         5 caller    number of the request: u64, has lines: u32 (0, 1); 1 descriptor, a caller's connection: from the listener to the process
//!                     that makes the run
//!         6 long run  nothing; the descriptors of a run, and behind them sealed memory with the body of one
//!         7 waits     the reason, with a NUL behind it; an empty one when it waits no more, or when a signal that asks for an end was heard
//!         8 claim     memory: u64, tasks: u64, disk: u64: from that process to the listener
//!         9 granted   nothing: the answer, where it is not that the caller waits
//! ```
//!
//! Decoding is total: what is not exactly this is an error.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::claim::RunClaim;

const MAGIC: [u8; 4] = *b"tkfd";
/// The version of everything in this file.
const VERSION: u16 = 1;
/// Bytes of a header.
pub const HEADER: usize = 16;
/// Bytes of a body at most.
pub const MOST_BODY: usize = 64 << 10;
/// Bytes of the words of a request at most, in memory: what execve(2) takes where the stack may have 8 MiB.
pub const MOST_ORDER: usize = 2 << 20;
/// Words of a request at most: arguments and variables.
const MOST_COUNT: usize = 1 << 16;
/// Bytes of a word at most, which execve(2) takes no longer: `MAX_ARG_STRLEN`.
const MOST_WORD: usize = 128 << 10;
/// Bytes at most of what is wrong, and of the fix; what a caller has named is in there.
const MOST_WORDS: usize = 16 << 10;
/// Descriptors of a packet at most.
pub const MOST_DESCRIPTORS: usize = 7;

/// A packet, but for its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Asks for a run: streams 0, 1 and 2, the caller's directory, where events go, and the connection of an export, where there are.
    Run(RunOrder),
    /// Asks for a run whose words are in sealed memory, which comes behind the descriptors of a run: [`RunOrder::decode`].
    LongRun,
    /// Passes a signal on to the run.
    Signal(u32),
    /// The run is over; its report comes with it.
    Ended(u32),
    /// There is no run.
    Refused(Refusal),
    /// A caller, whose connection comes with it.
    Caller(HandedCaller),
    /// The run waits for something; it does no more where that is empty, which also answers a signal that asks for an end.
    Waits(String),
    /// The most that the run will take.
    Claim(RunClaim),
    /// The run has what it claims.
    Granted,
}

/// A caller that the listener hands to the process of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedCaller {
    /// The number of the request.
    pub number: u64,
    /// True where the log has room for a line about a caller of this user who gets no run.
    pub has_lines: bool,
}

impl HandedCaller {
    fn encode(self) -> Vec<u8> {
        let has_lines = u32::from(self.has_lines).to_le_bytes();
        [self.number.to_le_bytes().as_slice(), &has_lines].concat()
    }

    fn decode(body: &[u8]) -> Option<HandedCaller> {
        let (number, has_lines) = body.split_first_chunk()?;
        let has_lines = match u32::from_le_bytes(has_lines.try_into().ok()?) {
            0 => false,
            1 => true,
            _ => return None,
        };
        let number = u64::from_le_bytes(*number);
        Some(HandedCaller { number, has_lines })
    }
}

/// The words of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOrder {
    /// The arguments of `turnkey`, from `run` on.
    pub arguments: Vec<OsString>,
    /// The caller's variables.
    pub variables: Vec<(OsString, OsString)>,
}

/// The reason why there is no run, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind, for programs.
    pub code: RefusalCode,
    /// The mistake, or the lack.
    pub message: String,
    /// The way out; empty where the message says it.
    pub fix: String,
}

/// Kinds of refusals, with the numbers that HTTP has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RefusalCode {
    /// The request is not one.
    Malformed = 400,
    /// The caller may not ask, or may not ask for this.
    Forbidden = 403,
    /// The request came too late.
    Late = 408,
    /// The caller has passed a signal on before its run had begun, which ends that.
    Withdrawn = 499,
    /// No place left to wait in.
    Busy = 503,
    /// The service has failed.
    Failed = 500,
}

impl RefusalCode {
    /// Every kind.
    pub const ALL: [RefusalCode; 6] = [
        RefusalCode::Malformed,
        RefusalCode::Forbidden,
        RefusalCode::Late,
        RefusalCode::Withdrawn,
        RefusalCode::Busy,
        RefusalCode::Failed,
    ];
}

/// Bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// No header of ours.
    #[error("it does not begin as a packet of turnkey's")]
    Foreign,
    /// The version of another turnkey.
    #[error(
        "it is of version {0} of the protocol, and this is version {VERSION}; use one version of turnkey"
    )]
    Version(u16),
    /// A length or a count that is not what came.
    #[error("it is not as long as it says, or has other descriptors")]
    Length,
    /// Text where there should be another, or none.
    #[error("its body is none of its kind")]
    Body,
    /// More than fits.
    #[error(
        "arguments and environment are more than {MOST_ORDER} bytes; run it with fewer variables: env -i"
    )]
    TooLarge,
    /// More words than anybody reads.
    #[error(
        "arguments and environment are more than {MOST_COUNT} words, or one is longer than {MOST_WORD} bytes"
    )]
    TooManyWords,
    /// Memory that somebody may still change, or none.
    #[error("its words are not in memory that is sealed against every change")]
    Memory,
}

impl Packet {
    /// The bytes of a packet that goes with this number of descriptors.
    ///
    /// # Errors
    /// When the body is too large.
    pub fn encode(&self, descriptors: usize) -> Result<Vec<u8>, PacketError> {
        let (kind, body) = match self {
            Packet::Run(order) => (1, order.encode()),
            Packet::Signal(number) => (2, number.to_le_bytes().to_vec()),
            Packet::Ended(code) => (3, code.to_le_bytes().to_vec()),
            Packet::Refused(refusal) => (4, refusal.encode()),
            Packet::Caller(caller) => (5, caller.encode()),
            Packet::LongRun => (6, Vec::new()),
            Packet::Waits(reason) => (7, sentence(reason)),
            Packet::Claim(claim) => (8, claim.encode()),
            Packet::Granted => (9, Vec::new()),
        };
        if body.len() > MOST_BODY {
            return Err(PacketError::TooLarge);
        }
        let number = |length: usize| u32::try_from(length).map_err(|_| PacketError::TooLarge);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u16::to_le_bytes(kind));
        bytes.extend(number(body.len())?.to_le_bytes());
        bytes.extend(number(descriptors)?.to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// The packet that these bytes are, which came with this number of descriptors.
    ///
    /// # Errors
    /// When they are none.
    pub fn decode(bytes: &[u8], descriptors: usize) -> Result<Packet, PacketError> {
        let (header, body) = bytes.split_at_checked(HEADER).ok_or(PacketError::Foreign)?;
        let (magic, rest) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(PacketError::Foreign);
        }
        let half = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        let (version, kind) = (half(0), half(2));
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        let told = |at: usize| number(&rest[at..]).and_then(|told| usize::try_from(told.0).ok());
        if told(4) != Some(body.len()) || told(8) != Some(descriptors) || body.len() > MOST_BODY {
            return Err(PacketError::Length);
        }
        let whole = |body: &[u8]| {
            let (number, rest) = number(body)?;
            rest.is_empty().then_some(number)
        };
        let packet = match (kind, descriptors) {
            (1, 4..=6) => Some(Packet::Run(RunOrder::decode(body)?)),
            (2, 0) => whole(body).map(Packet::Signal),
            (3, 1) => whole(body).map(Packet::Ended),
            (4, 0) => Refusal::decode(body).map(Packet::Refused),
            (5, 1) => HandedCaller::decode(body).map(Packet::Caller),
            (6, 5..=7) => body.is_empty().then_some(Packet::LongRun),
            (7, 0) => lone(body).map(Packet::Waits),
            (8, 0) => RunClaim::decode(body).map(Packet::Claim),
            (9, 0) => body.is_empty().then_some(Packet::Granted),
            _ => return Err(PacketError::Length),
        };
        packet.ok_or(PacketError::Body)
    }
}

impl RunOrder {
    /// The bytes of these words.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for count in [self.arguments.len(), self.variables.len()] {
            // More of them do not fit anywhere.
            body.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        for argument in &self.arguments {
            put(&mut body, argument.as_bytes());
        }
        for (name, value) in &self.variables {
            put(
                &mut body,
                &[name.as_bytes(), b"=", value.as_bytes()].concat(),
            );
        }
        body
    }

    /// The words that these bytes are.
    ///
    /// # Errors
    /// When they are none.
    pub fn decode(body: &[u8]) -> Result<RunOrder, PacketError> {
        let ends = body.iter().skip(8).filter(|byte| **byte == 0);
        let mut words = body.get(8..).unwrap_or_default().split(|byte| *byte == 0);
        if ends.count() > MOST_COUNT || words.any(|word| word.len() >= MOST_WORD) {
            return Err(PacketError::TooManyWords);
        }
        RunOrder::from_body(body).ok_or(PacketError::Body)
    }

    fn from_body(body: &[u8]) -> Option<RunOrder> {
        let (arguments, body) = number(body)?;
        let (variables, body) = number(body)?;
        let (arguments, variables) = (
            usize::try_from(arguments).ok()?,
            usize::try_from(variables).ok()?,
        );
        // Before anything is kept of them.
        let ends = body.iter().filter(|byte| **byte == 0).count();
        if ends != arguments.checked_add(variables)? {
            return None;
        }
        let mut texts = texts(body)?;
        let variables = texts.split_off(arguments).into_iter().map(|text| {
            // As getenv(3) does: a name may begin with the sign.
            let at = text.iter().skip(1).position(|byte| *byte == b'=')? + 1;
            let value = OsString::from_vec(text[at + 1..].to_vec());
            Some((OsString::from_vec(text[..at].to_vec()), value))
        });
        Some(RunOrder {
            variables: variables.collect::<Option<_>>()?,
            arguments: texts.into_iter().map(text).collect(),
        })
    }
}

impl Refusal {
    fn encode(&self) -> Vec<u8> {
        let mut body = (self.code as u32).to_le_bytes().to_vec();
        for words in [&self.message, &self.fix] {
            body.extend(sentence(&words[..words.floor_char_boundary(MOST_WORDS)]));
        }
        body
    }

    fn decode(body: &[u8]) -> Option<Refusal> {
        let (code, body) = number(body)?;
        let code = RefusalCode::ALL
            .into_iter()
            .find(|known| *known as u32 == code)?;
        let [message, fix] = <[_; 2]>::try_from(texts(body)?).ok()?;
        Some(Refusal {
            code,
            message: words(message)?,
            fix: words(fix)?,
        })
    }
}

/// Words for people, with a NUL behind them.
fn sentence(words: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put(&mut body, words.replace('\0', " ").as_bytes());
    body
}

/// The one text that a body is.
fn lone(body: &[u8]) -> Option<String> {
    let [text] = <[_; 1]>::try_from(texts(body)?).ok()?;
    words(text)
}

fn words(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn put(body: &mut Vec<u8>, text: &[u8]) {
    body.extend(text);
    body.push(0);
}

fn text(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Strings, each with a NUL behind it.
fn texts(body: &[u8]) -> Option<Vec<&[u8]>> {
    let Some(body) = body.strip_suffix(&[0]) else {
        return body.is_empty().then(Vec::new);
    };
    Some(body.split(|byte| *byte == 0).collect())
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strings() -> impl Strategy<Value = Vec<OsString>> {
        let string = prop::collection::vec(1_u8..=255, 0..12).prop_map(OsString::from_vec);
        prop::collection::vec(string, 0..6)
    }

    fn packets() -> impl Strategy<Value = (Packet, usize)> {
        let name = "[A-Z_=][A-Z_]{0,6}".prop_map(OsString::from);
        let value = prop::collection::vec(1_u8..=255, 0..9).prop_map(OsString::from_vec);
        let variables = prop::collection::vec((name, value), 0..5);
        prop_oneof![
            (strings(), variables, 4_usize..=6).prop_map(|(arguments, variables, count)| {
                let order = RunOrder {
                    arguments,
                    variables,
                };
                (Packet::Run(order), count)
            }),
            any::<(u64, bool)>().prop_map(|(number, has_lines)| {
                let caller = HandedCaller { number, has_lines };
                (Packet::Caller(caller), 1)
            }),
            "[^\\x00]*".prop_map(|reason| (Packet::Waits(reason), 0)),
            any::<[u64; 3]>().prop_map(|[memory, pids, disk]| {
                let claim = RunClaim { memory, pids, disk };
                (Packet::Claim(claim), 0)
            }),
            Just((Packet::Granted, 0)),
            (5_usize..=7).prop_map(|count| (Packet::LongRun, count)),
            any::<u32>().prop_map(|number| (Packet::Signal(number), 0)),
            any::<u32>().prop_map(|code| (Packet::Ended(code), 1)),
            (
                prop::sample::select(&RefusalCode::ALL[..]),
                "[^\\x00]*",
                "[^\\x00]*"
            )
                .prop_map(|(code, message, fix)| (
                    Packet::Refused(Refusal { code, message, fix }),
                    0
                )),
        ]
    }

    proptest! {
        #[test]
        fn a_packet_is_what_was_sent((packet, count) in packets()) {
            let bytes = packet.encode(count).unwrap();
            prop_assert_eq!(Packet::decode(&bytes, count), Ok(packet));
        }

        #[test]
        fn a_packet_has_its_own_length_and_descriptors((packet, count) in packets(), more in 1_usize..9) {
            let bytes = packet.encode(count).unwrap();
            prop_assert!(Packet::decode(&bytes, count + more).is_err());
            prop_assert!(Packet::decode(&[&bytes[..], &vec![0; more]].concat(), count).is_err());
            prop_assert!(Packet::decode(&bytes[..bytes.len().saturating_sub(more)], count).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), count in 0_usize..8) {
            if let Ok(packet) = Packet::decode(&bytes, count) {
                prop_assert_eq!(packet.encode(count).unwrap(), bytes);
            }
        }

        #[test]
        fn a_body_of_any_bytes_is_decoded_or_refused(
            kind in 0_u16..11, body in prop::collection::vec(0_u8..4, 0..40), count in 0_usize..7
        ) {
            let mut bytes = b"tkfd\x01\x00".to_vec();
            bytes.extend(kind.to_le_bytes());
            bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
            bytes.extend(u32::try_from(count).unwrap().to_le_bytes());
            bytes.extend(body);
            if let Ok(packet) = Packet::decode(&bytes, count) {
                prop_assert_eq!(packet.encode(count).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn a_refusal_of_many_words_is_sent_cut() {
        let long = "ä".repeat(MOST_BODY);
        let refusal = Refusal {
            code: RefusalCode::Malformed,
            message: long.clone(),
            fix: long.clone(),
        };
        let bytes = Packet::Refused(refusal).encode(0).unwrap();
        let Ok(Packet::Refused(came)) = Packet::decode(&bytes, 0) else {
            panic!("it is a refusal");
        };
        for words in [came.message, came.fix] {
            assert!(!words.is_empty() && long.starts_with(&words));
        }
    }

    #[test]
    fn another_version_is_told_and_too_much_is_not_sent() {
        let mut bytes = Packet::Signal(2).encode(0).unwrap();
        bytes[4] = 9;
        assert_eq!(Packet::decode(&bytes, 0), Err(PacketError::Version(9)));
        let order = RunOrder {
            arguments: vec!["x".repeat(MOST_BODY).into()],
            ..RunOrder::default()
        };
        assert_eq!(Packet::Run(order).encode(4), Err(PacketError::TooLarge));
    }
}
