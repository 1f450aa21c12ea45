//! Answers to the questions of resolvers (RFC 1035, section 4): every name leads to an address of its own.
//!
//! The addresses are of the ranges for tests of networks, 198.18.0.0/15 (RFC 2544) and 2001:2::/48 (RFC 5180): no host of
//! the world has one, and a connection to one tells which name was asked for.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use turnkey_facts::dns;

/// Bytes before the question.
const HEADER: usize = 12;
/// Names that have an address of their own. Those beyond share [`SHARED`].
const MOST_NAMES: usize = 8192;
/// The first address of a name; the one before it is the name server's.
const FIRST: u32 = 2;
/// The address of names beyond the most, within the range.
const SHARED: u32 = 0x1_fffe;
/// The time for which an answer may be kept, in seconds.
const TTL: u32 = 300;
/// A pointer to the name of the question, which is the first behind the header.
const ASKED: [u8; 2] = [0xc0, 0x0c];

/// Types of records.
mod record {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const ANY: u16 = 255;
}

/// The names that were asked for, and the address of each.
#[derive(Debug, Default)]
pub struct NameBook {
    names: Vec<String>,
    places: BTreeMap<String, u32>,
}

impl NameBook {
    /// The answer to a message with one question; `None` when it is no such message.
    pub fn answer(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (flags, count) = (message.get(2..4)?, message.get(4..6)?);
        let is_question = flags[0] & 0xf8 == 0 && count == [0, 1];
        let [question] = <[dns::Question; 1]>::try_from(dns::questions(message, false)).ok()?;
        let asked = message.get(HEADER..HEADER + wire_length(message)?)?;
        if !is_question {
            return None;
        }
        let name = question.name.to_ascii_lowercase();
        let data = self.data((&name, asked), question.record);
        let mut answer = message[..2].to_vec();
        // An answer, which was asked for by recursion or not, of a server that does recursion.
        answer.extend([0x80 | flags[0] & 1, 0x80, 0, 1, 0, u8::from(data.is_some())]);
        answer.extend([0; 4]);
        answer.extend(message.get(HEADER..HEADER + asked.len() + 4)?);
        if let Some((record, data)) = data {
            answer.extend(ASKED);
            answer.extend(record.to_be_bytes());
            answer.extend([0, 1]);
            answer.extend(TTL.to_be_bytes());
            answer.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
            answer.extend(data);
        }
        Some(answer)
    }

    /// The name that led to this address.
    pub fn name_of(&self, address: IpAddr) -> Option<&str> {
        let place = match address.to_canonical() {
            IpAddr::V4(address) => address.to_bits().checked_sub(v4(0).to_bits())?,
            IpAddr::V6(address) => {
                u32::try_from(address.to_bits().checked_sub(v6(0).to_bits())?).ok()?
            }
        };
        let index = usize::try_from(place.checked_sub(FIRST)?).ok()?;
        self.names.get(index).map(String::as_str)
    }

    /// The place of a name within the ranges.
    fn place(&mut self, name: &str) -> u32 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        if self.names.len() >= MOST_NAMES {
            return SHARED;
        }
        let place = FIRST + u32::try_from(self.names.len()).unwrap_or(SHARED);
        self.names.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    /// The record that answers, and what is in it. Other types have none, which is an answer as well.
    fn data(&mut self, (name, asked): (&str, &[u8]), of: u16) -> Option<(u16, Vec<u8>)> {
        let own = |label: &str| [&[len(label)], label.as_bytes(), &ASKED].concat();
        let is_here = name == "localhost" || name.ends_with(".localhost");
        let data = match of {
            record::A | record::ANY if is_here => Ipv4Addr::LOCALHOST.octets().to_vec(),
            record::AAAA if is_here => Ipv6Addr::LOCALHOST.octets().to_vec(),
            record::A | record::ANY => v4(self.place(name)).octets().to_vec(),
            record::AAAA => v6(self.place(name)).octets().to_vec(),
            record::TXT => [&[11], b"v=spf1 -all".as_slice()].concat(),
            record::MX => [[0, 10].as_slice(), &own("mail")].concat(),
            record::NS => own("ns1"),
            record::SOA => {
                let times = [1_u32, 3600, 600, 86400, TTL].map(u32::to_be_bytes);
                [own("ns1"), own("hostmaster"), times.concat()].concat()
            }
            // A service is at the name below which it was looked for, at the port of https.
            record::SRV => [&[0, 0, 0, 0, 1, 187], below_service(asked)].concat(),
            record::PTR => wire(&self.host_at(name)),
            _ => return None,
        };
        let of = if of == record::ANY { record::A } else { of };
        Some((of, data))
    }

    /// The name of the address that a name below in-addr.arpa stands for.
    fn host_at(&self, name: &str) -> String {
        let reversed = name.trim_end_matches(".in-addr.arpa");
        let octets = reversed.rsplit('.').collect::<Vec<_>>();
        let address: Option<Ipv4Addr> = octets.join(".").parse().ok();
        let known = address.and_then(|address| self.name_of(address.into()));
        match (known, address) {
            (Some(name), _) => name.to_owned(),
            (None, Some(_)) => format!("host-{}.example.net", octets.join("-")),
            (None, None) => "host.example.net".to_owned(),
        }
    }
}

fn v4(place: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + place)
}

fn v6(place: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0).to_bits() + u128::from(place))
}

fn len(label: &str) -> u8 {
    u8::try_from(label.len()).unwrap_or(u8::MAX)
}

/// Bytes of the name of the question, which has no pointers.
fn wire_length(message: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        let size = usize::from(*message.get(at)?);
        at += 1 + size;
        match size {
            0 => return Some(at - HEADER),
            1..=63 => {}
            _ => return None,
        }
    }
}

/// The name without its first two labels, `_service._proto`.
fn below_service(asked: &[u8]) -> &[u8] {
    let mut rest = asked;
    for _ in 0..2 {
        match rest.first() {
            Some(size @ 1..) => rest = rest.get(1 + usize::from(*size)..).unwrap_or(&[0]),
            _ => break,
        }
    }
    rest
}

/// A name of plain labels as a message has it; labels that a message cannot have are cut.
fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').map(|label| {
        let label = &label.as_bytes()[..label.len().min(63)];
        [&[u8::try_from(label.len()).unwrap_or(63)], label].concat()
    });
    labels.chain([vec![0]]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(book: &mut NameBook, name: &str, record: u16) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(wire(name));
        message.extend(record.to_be_bytes());
        message.extend([0, 1]);
        let answer = book.answer(&message).expect("it is a question");
        assert_eq!(answer[..4], [0x12, 0x34, 0x81, 0x80]);
        assert_eq!(answer[4..6], [0, 1], "the question is repeated");
        assert_eq!(answer[HEADER..message.len()], message[HEADER..]);
        answer[message.len()..].to_vec()
    }

    #[test]
    fn each_name_has_an_address_of_its_own_that_leads_back_to_it() {
        let mut book = NameBook::default();
        let first = ask(&mut book, "one.example", record::A);
        assert_eq!(first[..2], ASKED);
        assert_eq!(first[12..], [198, 18, 0, 2]);
        assert_eq!(
            ask(&mut book, "two.example", record::A)[12..],
            [198, 18, 0, 3]
        );
        assert_eq!(ask(&mut book, "ONE.example", record::A), first);
        let six = ask(&mut book, "one.example", record::AAAA);
        let six: [u8; 16] = six[12..].try_into().expect("an address");
        assert_eq!(Ipv6Addr::from(six).to_string(), "2001:2::2");
        for address in ["198.18.0.2", "::ffff:198.18.0.2", "2001:2::2"] {
            let address = address.parse().expect("an address");
            assert_eq!(book.name_of(address), Some("one.example"), "{address}");
        }
        for address in ["198.18.0.1", "198.18.0.4", "8.8.8.8", "::1"] {
            assert_eq!(book.name_of(address.parse().expect("an address")), None);
        }
    }

    #[test]
    fn other_records_are_plausible_and_rare_ones_empty() {
        let mut book = NameBook::default();
        assert_eq!(
            ask(&mut book, "a.example", record::TXT)[12..],
            *b"\x0bv=spf1 -all"
        );
        assert_eq!(
            ask(&mut book, "a.example", record::MX)[12..],
            *b"\x00\x0a\x04mail\xc0\x0c"
        );
        let service = ask(&mut book, "_https._tcp.a.example", record::SRV);
        assert_eq!(service[12..], *b"\0\0\0\0\x01\xbb\x01a\x07example\0");
        ask(&mut book, "known.example", record::A);
        let known = ask(&mut book, "2.0.18.198.in-addr.arpa", record::PTR);
        assert_eq!(known[12..], *b"\x05known\x07example\0");
        let other = ask(&mut book, "8.8.8.8.in-addr.arpa", record::PTR);
        assert!(other[12..].starts_with(b"\x0chost-8-8-8-8\x07example"));
        assert_eq!(ask(&mut book, "localhost", record::A)[12..], [127, 0, 0, 1]);
        assert!(ask(&mut book, "a.example", 65).is_empty());
    }

    #[test]
    fn names_beyond_the_most_share_an_address() {
        let mut book = NameBook::default();
        for number in 0..MOST_NAMES {
            book.place(&format!("n{number}.example"));
        }
        let more = ask(&mut book, "more.example", record::A);
        assert_eq!(more[12..], [198, 19, 255, 254]);
        assert_eq!(book.names.len(), MOST_NAMES);
        assert_eq!(book.name_of("198.19.255.254".parse().expect("one")), None);
    }

    #[test]
    fn what_is_no_question_has_no_answer() {
        let mut book = NameBook::default();
        for message in [
            b"".as_slice(),
            b"GET / HTTP/1.0\r\n\r\n",
            b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01",
            b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0",
            b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01",
        ] {
            assert_eq!(book.answer(message), None, "{message:?}");
        }
    }
}
