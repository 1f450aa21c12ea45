//! Text that a terminal shows as it is and nothing more.
//!
//! A profile may come from somebody else. What is told of it must not move the cursor, change a colour,
//! reverse a line or look like a line of turnkey's own.

/// True when a terminal shows `c` as itself and nothing more.
///
/// The standard library knows: its `Debug` for strings escapes exactly the categories that are
/// not printable. The letter in front matters, because a combining mark is escaped when it
/// comes first and kept when it has something to combine with.
#[must_use]
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut pair = [0; 5];
    pair[0] = b'a';
    let end = 1 + c.encode_utf8(&mut pair[1..]).len();
    let escaped = std::str::from_utf8(&pair[..end]).map(|pair| pair.escape_debug().count());
    escaped == Ok(2) && !is_blank_letter(c)
}

/// True for a name that a listing on a terminal obeys or shows as another: with a control character, those above 127 among them, or one
/// that turns the direction of a text (Bidi_Control of Unicode).
#[must_use]
pub fn steers(name: &[u8]) -> bool {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut texts = name.utf8_chunks();
    texts.any(|chunk| {
        let is_raw = |byte: &u8| (0x80..0xa0).contains(byte);
        chunk.valid().chars().any(|c| c.is_control() || turns(c))
            || chunk.invalid().iter().any(is_raw)
    })
}

/// The Hangul fillers are letters to Unicode and empty space to a reader.
fn is_blank_letter(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// A sentence, with what is not printable in it spelled as its number.
pub(crate) fn spelled(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) {
            spelled.push(c);
        } else {
            spelled.extend(c.escape_debug());
        }
    }
    spelled
}

/// A whole text, with stand-ins of the same number of bytes for what is not printable, so that places in
/// it stay where they are. Lines and tabs stay.
pub(crate) fn in_place(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_printable(c) => shown.push(c),
            c => shown.push_str(match c.len_utf8() {
                1 => "?",
                2 => "¿",
                3 => "\u{fffd}",
                _ => "????",
            }),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_a_terminal_is_spelled() {
        let spelled = spelled("a\u{1b}[2J\nb\u{202e}é");
        assert_eq!(spelled, r"a\u{1b}[2J\nb\u{202e}é");
    }

    #[test]
    fn lines_and_tabs_stay_in_a_text() {
        assert_eq!(
            in_place("a\tb\n\r\u{9b}\u{2066}\u{e0001}"),
            "a\tb\n?¿\u{fffd}????"
        );
    }

    proptest! {
        #[test]
        fn places_stay_where_they_are(text in any::<String>()) {
            let shown = in_place(&text);
            prop_assert_eq!(shown.len(), text.len());
            for (at, c) in text.char_indices().filter(|(_, c)| is_printable(*c)) {
                prop_assert!(shown[at..].starts_with(c));
            }
        }
    }
}
