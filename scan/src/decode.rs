//! Encodings that hide a text in a literal.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// As lenient as Python is.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// Base64 of either alphabet, blanks allowed.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let dense: String = text.split_ascii_whitespace().collect();
    let alphabet = if dense.contains(['-', '_']) {
        &URL_SAFE
    } else {
        &STANDARD
    };
    GeneralPurpose::new(alphabet, LENIENT).decode(dense).ok()
}

/// Pairs of hexadecimal digits, blanks allowed.
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .map(|char| char.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

/// Letters moved by thirteen.
pub fn rot13(text: &str) -> String {
    let moved = |char: char| match char {
        'a'..='m' | 'A'..='M' => char::from_u32(u32::from(char) + 13),
        'n'..='z' | 'N'..='Z' => char::from_u32(u32::from(char) - 13),
        _ => None,
    };
    text.chars()
        .map(|char| moved(char).unwrap_or(char))
        .collect()
}

/// The bytes that a text stands for where [`as_text`] has made it: each character is one, or the text is what they were.
pub fn as_bytes(text: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
    bytes.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Bytes as the text that they are; each byte a character where they are none.
pub fn as_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        error
            .as_bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_come_back_as_text() {
        assert_eq!(base64("aW1w\nb3J0").as_deref(), Some(&b"import"[..]));
        assert_eq!(base64("aQ").as_deref(), Some(&b"i"[..]));
        assert_eq!(hex("69 6d").as_deref(), Some(&b"im"[..]));
        assert_eq!(hex("6"), None);
        assert_eq!(hex("zz"), None);
        assert_eq!(rot13("vzcbeg Bf"), "import Of".replace("Of", "Os"));
        assert_eq!(as_text(vec![0xff, b'a']), "\u{ff}a");
    }
}
