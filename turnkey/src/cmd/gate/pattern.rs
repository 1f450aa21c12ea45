//! Patterns of the gate's config: `*` stands for any bytes, none included, and everything else for itself in either case.

use serde::Deserialize;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Pattern(Vec<u8>);

impl From<String> for Pattern {
    fn from(text: String) -> Pattern {
        Pattern(text.to_ascii_lowercase().into_bytes())
    }
}

impl Pattern {
    /// True when the whole text is what the pattern stands for.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (mut at, mut place) = (0, 0);
        // The last star, and how much it stands for until now.
        let mut star: Option<(usize, usize)> = None;
        while place < text.len() {
            match self.0.get(at) {
                Some(b'*') => {
                    star = Some((at, place));
                    at += 1;
                }
                Some(byte) if *byte == text[place].to_ascii_lowercase() => {
                    at += 1;
                    place += 1;
                }
                _ => {
                    let Some((star_at, taken)) = star else {
                        return false;
                    };
                    star = Some((star_at, taken + 1));
                    (at, place) = (star_at + 1, taken + 1);
                }
            }
        }
        self.0[at..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let matches =
            |pattern: &str, text: &str| Pattern::from(pattern.to_owned()).matches(text.as_bytes());
        for (pattern, text) in [
            ("*", ""),
            ("*[bot]*", "Helper[BOT] <x@y>"),
            ("src/*.py", "src/a/b.py"),
            ("a*b*c", "a-b-b-c"),
            ("", ""),
            ("**", "x"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a*b", "ab-"),
            ("a", ""),
            ("", "a"),
            ("a?c", "abc"),
            ("*a", "b"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_the_text() {
        let pattern = Pattern::from("*a".repeat(200));
        assert!(!pattern.matches(&b"a".repeat(199)) && pattern.matches(&b"a".repeat(10_000)));
    }
}
