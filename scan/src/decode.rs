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
pub fn rot13(text: &str) -> Option<Vec<u8>> {
    let moved = |char: char| match char {
        'a'..='m' | 'A'..='M' => char::from_u32(u32::from(char) + 13),
        'n'..='z' | 'N'..='Z' => char::from_u32(u32::from(char) - 13),
        _ => None,
    };
    let moved = text.chars().map(|char| moved(char).unwrap_or(char));
    Some(moved.collect::<String>().into_bytes())
}

/// Base32, RFC 4648, section 6; small letters are taken, too.
pub fn base32(text: &str) -> Option<Vec<u8>> {
    fives(text, |char| match char {
        b'A'..=b'Z' => Some(char - b'A'),
        b'2'..=b'7' => Some(char - b'2' + 26),
        _ => None,
    })
}

/// Base32 with the digits of hexadecimal numbers, section 7.
pub fn base32_hex(text: &str) -> Option<Vec<u8>> {
    fives(text, |char| match char {
        b'0'..=b'9' => Some(char - b'0'),
        b'A'..=b'V' => Some(char - b'A' + 10),
        _ => None,
    })
}

/// Five bits for each character.
fn fives(text: &str, value: fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u16, 0);
    let chars = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    for char in chars.take_while(|byte| *byte != b'=') {
        bits = bits << 5 | u16::from(value(char.to_ascii_uppercase())?);
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push(low(u32::from(bits >> held)));
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

/// The 85 characters of git and of Python's `b85decode`, in the order of their values.
const GIT_85: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// The letters of ZeroMQ's base85, RFC 32.
const ZEROMQ_85: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Base85 as git has it.
pub fn base85(text: &str) -> Option<Vec<u8>> {
    groups_of_85(text.bytes(), |char| place(GIT_85, char))
}

/// Base85 as ZeroMQ has it.
pub fn z85(text: &str) -> Option<Vec<u8>> {
    groups_of_85(text.bytes(), |char| place(ZEROMQ_85, char))
}

fn place(alphabet: &[u8; 85], char: u8) -> Option<u8> {
    let at = alphabet.iter().position(|one| *one == char)?;
    u8::try_from(at).ok()
}

/// Ascii85: as btoa has it, or Adobe with its frame.
pub fn ascii85(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let text = text.strip_prefix("<~").unwrap_or(text);
    let text = text.strip_suffix("~>").unwrap_or(text);
    let dense = text.replace('z', "!!!!!").replace('y', "+<VdL");
    groups_of_85(dense.bytes(), |char| {
        (b'!'..=b'u').contains(&char).then(|| char - b'!')
    })
}

/// Five characters are four bytes; a last group that is shorter is filled up with the highest.
fn groups_of_85(
    chars: impl Iterator<Item = u8>,
    value: impl Fn(u8) -> Option<u8>,
) -> Option<Vec<u8>> {
    let dense = chars.filter(|char| !char.is_ascii_whitespace());
    let values: Vec<u8> = dense.map(value).collect::<Option<_>>()?;
    let mut bytes = Vec::new();
    for group in values.chunks(5) {
        let filled = group.iter().copied().chain(std::iter::repeat(84)).take(5);
        let number = filled.fold(0_u64, |number, value| number * 85 + u64::from(value));
        let number = u32::try_from(number).ok()?.to_be_bytes();
        bytes.extend(&number[..group.len() - 1]);
    }
    Some(bytes)
}

/// Lines of uuencode(1), with or without their head and end.
pub fn uu(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("begin ")) {
        let mut values = line.bytes().map(|char| char.wrapping_sub(b' ') & 0x3f);
        let Some(length) = values.next().filter(|_| line != "end") else {
            continue;
        };
        let values: Vec<u8> = values.collect();
        let whole = values.chunks(4).flat_map(|group| {
            let filled = group.iter().copied().chain([0; 3]).take(4);
            let number = filled.fold(0_u32, |number, value| number << 6 | u32::from(value));
            number.to_be_bytes().into_iter().skip(1)
        });
        bytes.extend(whole.take(usize::from(length)));
    }
    Some(bytes)
}

/// `=41` as the letter that it is, RFC 2045, section 6.7.
pub fn quoted_printable(text: &str) -> Option<Vec<u8>> {
    let joined = text.replace("=\r\n", "").replace("=\n", "");
    Some(with_pairs(&joined, "="))
}

/// `%41` as the letter that it is.
pub fn percent(text: &str) -> Option<Vec<u8>> {
    Some(with_pairs(text, "%"))
}

/// A text in which two hexadecimal digits behind a mark are a byte.
fn with_pairs(text: &str, mark: &str) -> Vec<u8> {
    let mut parts = text.split(mark);
    let mut bytes = as_bytes(parts.next().unwrap_or_default());
    for part in parts {
        let pair = part
            .get(..2)
            .and_then(|pair| hex(pair).filter(|byte| byte.len() == 1));
        match pair {
            Some(byte) => {
                bytes.extend(byte);
                bytes.extend(as_bytes(&part[2..]));
            }
            None => bytes.extend(as_bytes(&format!("{mark}{part}"))),
        }
    }
    bytes
}

/// `\x41`, `\101`, `\u0041` and `\n` as the letters that they are.
pub fn escapes(text: &str) -> Option<Vec<u8>> {
    let (mut letters, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('\\') {
        letters.push_str(before);
        let Some(first) = behind.chars().next() else {
            letters.push('\\');
            return Some(letters.into_bytes());
        };
        let (radix, skipped, most) = match first {
            '0'..='7' => (8, 0, 3),
            'x' => (16, 1, 2),
            'u' => (16, 1, 4),
            'U' => (16, 1, 8),
            _ => (16, 0, 0),
        };
        let digits: String = behind
            .chars()
            .skip(skipped)
            .take(most)
            .take_while(|char| char.is_digit(radix))
            .collect();
        let letter = u32::from_str_radix(&digits, radix)
            .ok()
            .and_then(char::from_u32);
        rest = match letter {
            Some(letter) => {
                letters.push(letter);
                &behind[skipped + digits.len()..]
            }
            None => {
                let plain = match first {
                    'n' => "\n",
                    't' => "\t",
                    'r' => "\r",
                    '\\' | '\'' | '"' => &behind[..1],
                    '\n' => "",
                    _ => {
                        letters.push('\\');
                        &behind[..first.len_utf8()]
                    }
                };
                letters.push_str(plain);
                &behind[first.len_utf8()..]
            }
        };
    }
    letters.push_str(rest);
    Some(letters.into_bytes())
}

/// UTF-7, RFC 2152: base64 of UTF-16 between `+` and `-`.
pub fn utf_7(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('+');
    let mut letters = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_data = |char: char| char.is_ascii_alphanumeric() || char == '/';
        let end = part.find(|char| !is_data(char)).unwrap_or(part.len());
        let (data, rest) = part.split_at(end);
        let units = base64(data)?;
        let units: Vec<u16> = units
            .chunks_exact(2)
            .map(|unit| u16::from_be_bytes([unit[0], unit[1]]))
            .collect();
        letters.push_str(if data.is_empty() { "+" } else { "" });
        letters.push_str(&String::from_utf16_lossy(&units));
        letters.push_str(rest.strip_prefix('-').unwrap_or(rest));
    }
    Some(letters.into_bytes())
}

/// `&#65;` and `&#x41;` as the letters that they are.
pub fn references(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split("&#");
    let mut letters = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let letter = part.split_once(';').and_then(|(number, rest)| {
            let number = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            Some((char::from_u32(number.ok()?)?, rest))
        });
        match letter {
            Some((letter, rest)) => {
                letters.push(letter);
                letters.push_str(rest);
            }
            None => {
                letters.push_str("&#");
                letters.push_str(part);
            }
        }
    }
    Some(letters.into_bytes())
}

fn low(number: u32) -> u8 {
    number.to_le_bytes()[0]
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
        assert_eq!(rot13("vzcbeg Bf").as_deref(), Some(&b"import Os"[..]));
        // RFC 4648, section 10; a character that is in no alphabet is no data.
        for (text, plain) in [
            ("MZXW6YTB", "fooba"),
            ("MZXW6YTBOI======", "foobar"),
            ("mzxw6===", "foo"),
            ("", ""),
        ] {
            assert_eq!(base32(text).as_deref(), Some(plain.as_bytes()), "{text}");
        }
        assert_eq!(
            base32_hex("CPNMUOJ1E8======").as_deref(),
            Some(&b"foobar"[..])
        );
        assert_eq!(
            (base32("M1"), base85("a b,"), ascii85("vv")),
            (None, None, None)
        );
        // More than four bytes have room for.
        assert_eq!((base85("~~~~~"), ascii85("<~uuuuu~>")), (None, None));
        assert_eq!(ascii85("z!!!!!").as_deref(), Some(&[0; 8][..]));
        assert_eq!(
            z85("HelloWorld").as_deref(),
            Some(&[0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b][..])
        );
        assert_eq!(
            uu("begin 644 x\n#0V%T\n`\nend\n").as_deref(),
            Some(&b"Cat"[..])
        );
        assert_eq!(
            quoted_printable("a=3D=\nb=zz").as_deref(),
            Some(&b"a=b=zz"[..])
        );
        assert_eq!(percent("%41%4").as_deref(), Some(&b"A%4"[..]));
        assert_eq!(
            escapes("\\x41\\102\\u0043\\n\\q\\").as_deref(),
            Some(&b"ABC\n\\q\\"[..])
        );
        assert_eq!(utf_7("a+AGI-c+-").as_deref(), Some(&b"abc+"[..]));
        assert_eq!(references("&#65;&#x42;&#;").as_deref(), Some(&b"AB&#;"[..]));
        assert_eq!(as_text(vec![0xff, b'a']), "\u{ff}a");
    }

    #[test]
    fn no_text_is_too_odd_to_decode() {
        let odd = [
            "\u{fffc}é\\",
            "\\xé",
            "\\u12é",
            "=é1",
            "%é",
            "&#xé;",
            "+é-",
            "\\U00110000",
            "~",
            "\u{1f600}z<~",
            "M\u{e9}===",
            " ",
            "\n\n#",
        ];
        let decoders = [
            base64,
            hex,
            rot13,
            base32,
            base32_hex,
            base85,
            z85,
            ascii85,
            uu,
            quoted_printable,
            percent,
            escapes,
            utf_7,
            references,
        ];
        for text in odd {
            for decode in decoders {
                decode(text);
            }
        }
    }
}
