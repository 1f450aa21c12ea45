//! Decodes the questions of a program to a name server from the data that it sends (RFC 1035, section 4).
//!
//! Only questions are read: what is behind them does not say what was asked. The data is the
//! program's own, so it is anything at all; what is not a question is none.

use std::fmt::Write as _;

/// Bytes of a name at most, with the lengths of its labels (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 255;

/// Bytes before the first question.
const HEADER: usize = 12;

/// The two bits that begin a pointer to an earlier name.
const POINTER: u8 = 0xc0;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name, label by label with dots between them, and `.` for the root. A byte of a label
    /// that is no letter, digit, `-` or `_` is `\DDD`, its value in three decimal digits, so that
    /// no two names are written alike.
    pub name: String,
    /// The type of record that is asked for.
    pub record: u16,
}

impl Question {
    /// The word for the type of record, `TYPE` and its number for a rare one (RFC 3597).
    #[must_use]
    pub fn record_name(&self) -> String {
        let known = match self.record {
            1 => "A",
            2 => "NS",
            5 => "CNAME",
            6 => "SOA",
            10 => "NULL",
            12 => "PTR",
            15 => "MX",
            16 => "TXT",
            28 => "AAAA",
            33 => "SRV",
            64 => "SVCB",
            65 => "HTTPS",
            255 => "ANY",
            number => return format!("TYPE{number}"),
        };
        known.to_owned()
    }
}

/// The questions of a message, as many as it says it has and are whole; none when it is no message.
///
/// On a `stream` two bytes of length stand before the message.
#[must_use]
pub fn questions(data: &[u8], stream: bool) -> Vec<Question> {
    let message = if stream { data.get(2..) } else { Some(data) };
    let message = message.unwrap_or_default();
    let Some(count) = message.get(4..6) else {
        return Vec::new();
    };
    let count = usize::from(u16::from_be_bytes([count[0], count[1]]));
    let mut at = HEADER;
    let next = || {
        let (name, end) = name(message, at)?;
        let record = message.get(end..end + 4)?;
        at = end + 4;
        let record = u16::from_be_bytes([record[0], record[1]]);
        Some(Question { name, record })
    };
    std::iter::from_fn(next).take(count).collect()
}

/// The name that begins there, and where it ends.
fn name(message: &[u8], begin: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut end = None;
    let mut length = 1;
    // A pointer leads to an earlier place only, so the walk ends.
    let (mut at, mut earliest) = (begin, begin);
    loop {
        let size = *message.get(at)?;
        if size & POINTER == POINTER {
            let low = *message.get(at + 1)?;
            end = end.or(Some(at + 2));
            at = usize::from(u16::from_be_bytes([size & !POINTER, low]));
            if at < HEADER || at >= earliest {
                return None;
            }
            earliest = at;
            continue;
        }
        if size & POINTER != 0 {
            return None;
        }
        let label = message.get(at + 1..at + 1 + usize::from(size))?;
        at += 1 + label.len();
        if label.is_empty() {
            break;
        }
        length += 1 + label.len();
        if length > LONGEST_NAME {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        escape(label, &mut text);
    }
    if text.is_empty() {
        text.push('.');
    }
    Some((text, end.unwrap_or(at)))
}

fn escape(label: &[u8], text: &mut String) {
    for byte in label {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            text.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "\\{byte:03}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with so many questions, made of these bytes.
    fn message(count: u16, questions: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 1, 0];
        bytes.extend(count.to_be_bytes());
        bytes.extend([0; 6]);
        bytes.extend(questions);
        bytes
    }

    fn names(count: u16, questions: &[u8]) -> Vec<String> {
        let asked = super::questions(&message(count, questions), false);
        asked.into_iter().map(|question| question.name).collect()
    }

    #[test]
    fn a_resolvers_question_is_a_name_and_a_type() {
        let bytes = message(1, b"\x06secret\x07example\x03com\0\0\x1c\0\x01");
        let expected = Question {
            name: "secret.example.com".into(),
            record: 28,
        };
        assert_eq!(questions(&bytes, false), std::slice::from_ref(&expected));
        assert_eq!(expected.record_name(), "AAAA");
        let length = u16::try_from(bytes.len()).expect("short");
        let stream = [length.to_be_bytes().as_slice(), &bytes].concat();
        assert_eq!(questions(&stream, true), [expected]);
    }

    #[test]
    fn labels_of_any_bytes_are_told_apart() {
        let tail = b"\0\0\x01\0\x01";
        let one = |labels: &[u8]| names(1, &[labels, tail].concat());
        assert_eq!(one(b"\x03a.b"), [r"a\046b"]);
        assert_eq!(one(b"\x01a\x01b"), ["a.b"]);
        assert_eq!(one(b"\x04\x1b[2J"), [r"\027\0912J"]);
        assert_eq!(one(b"\x03\xc3\xa9\\"), [r"\195\169\092"]);
        assert_eq!(one(b""), ["."]);
    }

    #[test]
    fn pointers_lead_back_and_never_in_a_circle() {
        let question = b"\x03one\x03com\0\0\x01\0\x01\x03two\xc0\x10\0\x01\0\x01";
        assert_eq!(names(2, question), ["one.com", "two.com"]);
        for circle in [
            b"\xc0\x0c".as_slice(),
            b"\x01a\xc0\x0c",
            b"\xc0\x0e\xc0\x0c",
            b"\xc0\x00",
        ] {
            let tail = [circle, b"\0\x01\0\x01"].concat();
            assert!(names(1, &tail).is_empty(), "{circle:?}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_none() {
        let label = [&[63][..], &[b'a'; 63]].concat();
        let tail = b"\0\0\x01\0\x01";
        let longest = [label.repeat(3), [&[61][..], &[b'b'; 61]].concat()].concat();
        let asked = names(1, &[longest.as_slice(), tail].concat());
        assert_eq!(asked[0].len(), 3 * 64 + 61);
        assert!(names(1, &[label.repeat(4).as_slice(), tail].concat()).is_empty());
    }

    #[test]
    fn what_is_cut_is_none_and_what_was_whole_stays() {
        let whole = message(2, b"\x01a\0\0\x01\0\x01\x01b\0\0\x01\0\x01");
        for length in 0..whole.len() {
            let expected = usize::from(length >= HEADER + 7);
            assert_eq!(
                questions(&whole[..length], false).len(),
                expected,
                "{length}"
            );
        }
        assert_eq!(questions(&whole, false).len(), 2);
        assert!(questions(b"GET / HTTP/1.0\r\n\r\n", false).is_empty());
    }
}
