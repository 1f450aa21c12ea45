//! Bytes from the kernel or the jail, rendered as text that is safe to print and loses nothing.
//!
//! What is printable UTF-8 stays as it is. Everything else becomes an escape:
//!
//! | input | output |
//! |---|---|
//! | backslash | `\\` |
//! | newline, carriage return, tab | `\n`, `\r`, `\t` |
//! | another ASCII control character, or a byte that is not UTF-8 | `\xNN`, two lower-case hex digits |
//! | another character that is not printable: control, format (so every bidi control), separator, private, unassigned | `\u{N}`, lower-case hex |
//!
//! Since the backslash itself is escaped, the way back is unambiguous: `\xNN` is one byte,
//! `\u{N}` is the UTF-8 of one character. Nothing that a jailed program prints or names can
//! therefore move the cursor, change a colour, reverse a line or break out of a JSON string.

use std::fmt::Write as _;

use turnkey_policy::visible::is_printable;

/// Escapes `bytes`: see the module's table.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk
            .valid()
            .chars()
            .for_each(|c| push_escaped(&mut text, c));
        for byte in chunk.invalid() {
            push_byte(&mut text, *byte);
        }
    }
    text
}

/// The text with what is not printable escaped, and every backslash as it is: it may already begin an escape.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => visible.push(c),
            c => push_escaped(&mut visible, c),
        }
    }
    visible
}

/// No more than so many characters of a text.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn push_escaped(text: &mut String, c: char) {
    match c {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        c if is_printable(c) => text.push(c),
        c if c.is_ascii() => push_byte(text, c as u8),
        c => {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
        }
    }
}

fn push_byte(text: &mut String, byte: u8) {
    let _ = write!(text, "\\x{byte:02x}");
}

/// The bytes that [`escape`] has made a text of.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend(rest[..at].bytes());
        let behind = &rest[at + 1..];
        let (byte, length): (Vec<u8>, usize) = match behind.chars().next() {
            Some('n') => (b"\n".to_vec(), 1),
            Some('r') => (b"\r".to_vec(), 1),
            Some('t') => (b"\t".to_vec(), 1),
            Some('x') => {
                let hex = behind
                    .get(1..3)
                    .and_then(|hex| u8::from_str_radix(hex, 16).ok());
                (hex.into_iter().collect(), 3)
            }
            Some('u') => {
                let end = behind.find('}').unwrap_or(behind.len() - 1);
                let hex = behind
                    .get(2..end)
                    .and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let character = hex.and_then(char::from_u32);
                (
                    character.map(String::from).unwrap_or_default().into_bytes(),
                    end + 1,
                )
            }
            Some(other) => (other.to_string().into_bytes(), other.len_utf8()),
            None => (Vec::new(), 0),
        };
        bytes.extend(byte);
        rest = behind.get(length..).unwrap_or_default();
    }
    bytes.extend(rest.bytes());
    bytes
}

/// Quotes an escaped argument for people when it would otherwise not read as one word.
///
/// The result is for reading; it is still free of anything that [`escape`] takes out.
pub fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// Layers that share a reason are told together: the names, and the reason.
pub fn by_reason<'a>(layers: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, &'a str)> {
    let mut told: Vec<(String, &str)> = Vec::new();
    for (name, reason) in layers {
        match told.iter_mut().find(|(_, known)| *known == reason) {
            Some((names, _)) => *names = format!("{names}, {name}"),
            None => told.push((name.to_owned(), reason)),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The way back, as the module's table defines it.
    fn unescape(text: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('\\') {
            bytes.extend_from_slice(&rest.as_bytes()[..start]);
            let kind = rest[start + 1..].chars().next()?;
            let tail = &rest[start + 2..];
            rest = match kind {
                '\\' => push_and_go(&mut bytes, b'\\', tail),
                'n' => push_and_go(&mut bytes, b'\n', tail),
                'r' => push_and_go(&mut bytes, b'\r', tail),
                't' => push_and_go(&mut bytes, b'\t', tail),
                'x' => {
                    let byte = u8::from_str_radix(tail.get(..2)?, 16).ok()?;
                    push_and_go(&mut bytes, byte, &tail[2..])
                }
                'u' => {
                    let (hex, tail) = tail.strip_prefix('{')?.split_once('}')?;
                    let c = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    tail
                }
                _ => return None,
            };
        }
        bytes.extend_from_slice(rest.as_bytes());
        Some(bytes)
    }

    fn push_and_go<'text>(bytes: &mut Vec<u8>, byte: u8, tail: &'text str) -> &'text str {
        bytes.push(byte);
        tail
    }

    fn is_safe(text: &str) -> bool {
        text.chars().all(is_printable)
    }

    #[test]
    fn printable_text_stays() {
        for text in [
            "/etc/shadow",
            "Straße",
            "日本語",
            "naïve 'x' \"y\"",
            "e\u{301}",
            "🔑",
        ] {
            assert_eq!(escape(text.as_bytes()), text);
        }
    }

    #[test]
    fn everything_else_is_escaped() {
        assert_eq!(escape(b"a\\b"), "a\\\\b");
        assert_eq!(escape(b"\x1b[31m\x07\x7f"), "\\x1b[31m\\x07\\x7f");
        assert_eq!(escape(b"one\ntwo\r\tthree"), "one\\ntwo\\r\\tthree");
        assert_eq!(escape(b"\xff\xc3("), "\\xff\\xc3(");
        // CSI as one character, right-to-left override, zero width space, line separator.
        assert_eq!(escape("\u{9b}2J".as_bytes()), "\\u{9b}2J");
        assert_eq!(escape("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(
            escape("a\u{200b}\u{2028}".as_bytes()),
            "a\\u{200b}\\u{2028}"
        );
        assert_eq!(
            escape("\u{2066}\u{e0041}\u{e000}".as_bytes()),
            "\\u{2066}\\u{e0041}\\u{e000}"
        );
        assert_eq!(escape("\u{3164}".as_bytes()), "\\u{3164}");
    }

    #[test]
    fn what_looks_like_an_escape_is_told_from_one() {
        assert_ne!(escape(b"\\x41"), escape(b"A"));
        assert_eq!(unescape(&escape(b"\\x41")).as_deref(), Some(&b"\\x41"[..]));
    }

    #[test]
    fn every_bidi_control_is_escaped() {
        let controls = ['\u{61c}', '\u{200e}', '\u{200f}']
            .into_iter()
            .chain('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}');
        for control in controls {
            assert!(!is_printable(control), "{:x}", u32::from(control));
        }
    }

    #[test]
    fn words_are_quoted_only_when_they_must_be() {
        assert_eq!(quote("/usr/bin/python3"), "/usr/bin/python3");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("print(6*7)"), "'print(6*7)'");
        assert_eq!(quote("it's"), "'it'\\''s'");
    }

    proptest! {
        #[test]
        fn bytes_survive_the_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = escape(&bytes);
            prop_assert!(is_safe(&text));
            prop_assert_eq!(unescape(&text), Some(bytes));
        }

        #[test]
        fn text_survives_the_round_trip(text in any::<String>()) {
            let escaped = escape(text.as_bytes());
            prop_assert!(is_safe(&escaped));
            prop_assert_eq!(unescape(&escaped), Some(text.into_bytes()));
        }
    }
}
