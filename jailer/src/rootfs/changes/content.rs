//! The look of a file's content: text, something with a structure of its own, or bytes like random ones, as encryption makes them; and the
//! words in it.

use std::collections::BTreeSet;
use std::io::Write;

use turnkey_facts::ContentFate;

/// Bytes at the beginning of a file by which its format is known.
const HEAD: usize = 8;
/// Content that is too short tells nothing of how often each byte occurs.
const SHORTEST: u64 = 64;
/// A text of so many bytes is no text by chance.
const SHORTEST_TEXT: u64 = 16;
/// Standard deviations from what random bytes have on average.
const DEVIATIONS: f64 = 6.0;
/// Bytes that a cipher's header or padding may add to a file's length.
const PADDING: u64 = 64;

/// Encodings in which encrypted content is written, by their digits: hexadecimal, and base64 in both alphabets.
const ENCODINGS: [&[u8]; 2] = [
    b"0123456789abcdefABCDEF",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_",
];

/// The bytes and the words of what is written to it.
#[derive(Clone, Debug, Default)]
pub struct ContentLook {
    /// The first bytes, by which many formats are known: magic(5).
    head: Vec<u8>,
    counts: ByteCounts,
    words: Words,
    /// A hash of all bytes, as of a word.
    whole: u64,
}

impl Write for ContentLook {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let missing = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.words.take(bytes);
        self.whole = bytes.iter().fold(self.whole, |hash, byte| mix(hash, *byte));
        self.counts.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ContentLook {
    /// The fate of this content, of which there is `after` now.
    pub fn fate(&self, after: &ContentLook) -> ContentFate {
        if self.counts.is_scrambled_by(&after.counts) && !self.is_of_one_format(after) {
            ContentFate::Scrambled
        } else if self.is_same(after) || self.words.are_kept_in(&after.words) {
            ContentFate::Kept
        } else {
            ContentFate::Replaced
        }
    }
}

impl ContentLook {
    /// True for the very same content.
    pub fn is_same(&self, other: &ContentLook) -> bool {
        self.whole == other.whole
    }

    /// True for two contents of one format that is no text, such as a picture that was made smaller: packed ones are like random bytes
    /// behind their head.
    fn is_of_one_format(&self, after: &ContentLook) -> bool {
        !self.counts.is_text() && self.head.len() == HEAD && self.head == after.head
    }
}

/// One more byte in a hash of FNV-1a of 64 bits.
fn mix(hash: u64, byte: u8) -> u64 {
    const PRIME: u64 = 0x100_0000_01b3;
    (hash ^ u64::from(byte)).wrapping_mul(PRIME)
}

/// Words that are remembered of a file.
const WORDS: usize = 65_536;
/// Letters and digits of the shortest word.
const SHORTEST_WORD: usize = 3;

/// The different words of a text: runs of letters, digits and bytes beyond ASCII. Each is remembered as a hash.
#[derive(Clone, Debug, Default)]
struct Words {
    /// Of words that were followed by something else.
    whole: BTreeSet<u64>,
    /// The hash of the last word, and its length until now.
    last: (u64, usize),
}

impl Words {
    fn take(&mut self, bytes: &[u8]) {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in bytes {
            let (hash, length) = self.last;
            if byte.is_ascii_alphanumeric() || *byte >= 128 {
                let hash = if length == 0 { BASIS } else { hash };
                self.last = (mix(hash, *byte), length + 1);
            } else {
                if length >= SHORTEST_WORD && self.whole.len() < WORDS {
                    self.whole.insert(hash);
                }
                self.last = (0, 0);
            }
        }
    }

    /// True when half of the words or more are in `after`, and there is one.
    fn are_kept_in(&self, after: &Words) -> bool {
        let (before, after) = (self.all(), after.all());
        let kept = before.intersection(&after).count();
        !before.is_empty() && kept * 2 >= before.len()
    }

    fn all(&self) -> BTreeSet<u64> {
        let (hash, length) = self.last;
        let last = (length >= SHORTEST_WORD).then_some(hash);
        self.whole.iter().copied().chain(last).collect()
    }
}

/// Counts how often each byte occurs in what is written to it.
#[derive(Clone, Debug)]
struct ByteCounts([u64; 256]);

impl Default for ByteCounts {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Write for ByteCounts {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            self.0[usize::from(*byte)] += 1;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ByteCounts {
    /// True when a file with this content before has `after` now as if it had been encrypted: it is like random bytes and was not, or it
    /// was text and is none, of the same length.
    fn is_scrambled_by(&self, after: &ByteCounts) -> bool {
        let (old, new) = (self.length(), after.length());
        let is_long = old >= SHORTEST && new >= SHORTEST;
        let is_as_long = old >= SHORTEST_TEXT && new >= old && new - old <= PADDING;
        let is_no_text = self.is_text() && !after.is_text() && !after.is_wide();
        !self.is_random() && (is_long && after.is_random() || is_as_long && is_no_text)
    }

    /// True where every second byte is zero, as in a text in UTF-16.
    fn is_wide(&self) -> bool {
        self.0[0] * 5 >= self.length() * 2
    }

    fn length(&self) -> u64 {
        self.0.iter().sum()
    }

    /// True for content without the bytes that no text has, but for one in a hundred.
    fn is_text(&self) -> bool {
        let is_control = |byte: usize| byte < 32 && !matches!(byte, 9 | 10 | 12 | 13 | 27);
        let counts = self.0.iter().enumerate();
        let others: u64 = counts
            .filter(|(byte, _)| is_control(*byte) || *byte >= 127)
            .map(|(_, count)| count)
            .sum();
        others * 100 <= self.length()
    }

    /// True for bytes that all occur alike often, or digits of an encoding of such ones.
    fn is_random(&self) -> bool {
        let all: Vec<u64> = self.0.to_vec();
        is_even(&all) || ENCODINGS.iter().any(|digits| self.is_random_in(digits))
    }

    fn is_random_in(&self, digits: &[u8]) -> bool {
        let used: Vec<u64> = digits
            .iter()
            .map(|digit| self.0[usize::from(*digit)])
            .collect();
        let layout: u64 = b"\r\n=".iter().map(|byte| self.0[usize::from(*byte)]).sum();
        // Of two ways to write a digit a file has one.
        let used: Vec<u64> = used.into_iter().filter(|count| *count > 0).collect();
        let is_all = used.iter().sum::<u64>() + layout == self.length();
        is_all && matches!(used.len(), 16 | 64) && is_even(&used)
    }
}

/// Pearson's test, whose statistic is `n - 1` on average for n values that are equally likely, with a variance of about `2 (n - 1)`.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of bytes, of which a float has enough"
)]
fn is_even(counts: &[u64]) -> bool {
    let sum: u64 = counts.iter().sum();
    let expected = sum as f64 / counts.len() as f64;
    let statistic: f64 = counts
        .iter()
        .map(|count| (*count as f64 - expected).powi(2) / expected)
        .sum();
    let average = counts.len() as f64 - 1.0;
    sum > 0 && statistic < average + DEVIATIONS * (2.0 * average).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(bytes: &[u8]) -> ByteCounts {
        let mut counts = ByteCounts::default();
        counts.write_all(bytes).unwrap();
        counts
    }

    /// Bytes of xorshift64, which are like random ones.
    fn random(length: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..length).map(|_| next().to_le_bytes()[3]).collect()
    }

    fn letter() -> Vec<u8> {
        let line = "Dear Ada, the figures of the third quarter are 1041, 2387 and 977; the rest follows.\n";
        line.repeat(30).into_bytes()
    }

    #[test]
    fn what_was_a_letter_and_is_like_random_bytes_is_scrambled() {
        let before = counts(&letter());
        for length in [64, 200, 2_000, 100_000] {
            assert!(before.is_scrambled_by(&counts(&random(length))), "{length}");
        }
        let hex: String = random(600)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert!(before.is_scrambled_by(&counts(hex.as_bytes())));
        let digits = ENCODINGS[1];
        let base64: Vec<u8> = random(900)
            .iter()
            .map(|byte| digits[usize::from(byte % 64)])
            .collect();
        assert!(before.is_scrambled_by(&counts(&base64)));
        let xor: Vec<u8> = letter().iter().map(|byte| byte ^ 0xA5).collect();
        assert!(before.is_scrambled_by(&counts(&xor)));
    }

    fn fate(before: &[u8], after: &[u8]) -> ContentFate {
        let look = |bytes: &[u8]| {
            let mut look = ContentLook::default();
            // In pieces, which may end within a word.
            for piece in bytes.chunks(7) {
                look.write_all(piece).unwrap();
            }
            look
        };
        look(before).fate(&look(after))
    }

    #[test]
    fn a_text_is_kept_where_half_of_its_words_are() {
        let text = letter();
        let indented = String::from_utf8(text.clone())
            .unwrap()
            .replace(' ', "\n\t");
        let commented = [b"// by nobody\n", &text[..]].concat();
        for after in [indented.as_bytes(), &commented, &text] {
            assert_eq!(fate(&text, after), ContentFate::Kept);
        }
        let turned: Vec<u8> = text.iter().rev().copied().collect();
        let rot13: Vec<u8> = text
            .iter()
            .map(|byte| match byte {
                b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
                b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
                other => *other,
            })
            .collect();
        for after in [&turned[..], &rot13, b"", b"HACKED, Dear Ada\n"] {
            assert_eq!(fate(&text, after), ContentFate::Replaced);
        }
        assert_eq!(fate(&text, &random(text.len())), ContentFate::Scrambled);
        assert_eq!(fate(b"", b"words"), ContentFate::Replaced, "it had none");
        assert_eq!(fate(b"\xff\0", b"\xff\0"), ContentFate::Kept, "none either");
        // A line is enough for what has no letter left.
        let line = b"report 1, and some words\n";
        let hidden = line.map(|byte| byte ^ 0xA5);
        assert_eq!(fate(line, &hidden), ContentFate::Scrambled);
        let wide: Vec<u8> = line.iter().flat_map(|byte| [*byte, 0]).collect();
        assert_eq!(fate(line, &wide), ContentFate::Replaced);
    }

    /// A picture with some structure, and a smaller one with less.
    #[test]
    fn what_keeps_the_head_of_its_format_is_not() {
        let picture = |body: Vec<u8>| [&b"\x89PNG\r\n\x1a\n"[..], &body].concat();
        let plain: Vec<u8> = (0..4_000_u32)
            .flat_map(|it| (it / 9).to_le_bytes())
            .collect();
        let before = picture(plain);
        assert_ne!(
            fate(&before, &picture(random(4_000))),
            ContentFate::Scrambled
        );
        assert_eq!(
            fate(&before, &random(4_000)),
            ContentFate::Scrambled,
            "the control"
        );
        let text = letter();
        let same_head = [&text[..HEAD], &random(text.len())].concat();
        assert_eq!(
            fate(&text, &same_head),
            ContentFate::Scrambled,
            "a text has no format"
        );
    }

    #[test]
    fn what_was_rewritten_packed_already_or_made_binary_is_not() {
        let (text, packed) = (counts(&letter()), counts(&random(5_000)));
        let upper = letter().to_ascii_uppercase();
        assert!(!text.is_scrambled_by(&counts(&upper)));
        assert!(
            !packed.is_scrambled_by(&counts(&random(6_000))),
            "it was so before"
        );
        let wide: Vec<u8> = letter().iter().flat_map(|byte| [*byte, 0]).collect();
        assert!(!text.is_scrambled_by(&counts(&wide)), "UTF-16");
        let program: Vec<u8> = (0..9_000_u32)
            .flat_map(|it| (it / 7).to_le_bytes())
            .collect();
        assert!(!text.is_scrambled_by(&counts(&program)));
        assert!(!text.is_scrambled_by(&counts(b"")), "it was truncated");
        let numbers: String = (0..700).map(|number| number.to_string()).collect();
        assert!(!text.is_scrambled_by(&counts(numbers.as_bytes())));
    }
}
