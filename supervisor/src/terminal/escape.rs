//! The filter between a program and the terminal of a human: text, colours, and what moves the cursor or draws pass. A list of
//! what is known to be harmless, because terminals know more sequences than anybody.
//!
//! What a terminal answers, it types: a sequence that asks it for a report has it type bytes of the program's choice, after
//! the program's end into the human's shell. Others fill the clipboard, rename windows, print, or change what later text looks
//! like. None of them leaves here, whole or in parts.
//!
//! Ordinary text is never held back; of a sequence nothing passes before it is complete and known. Bytes are passed as they
//! are. A sequence is a terminal's in its seven-bit form alone: the control characters above 127 are dropped as bytes and as
//! characters, where they are no part of another.

use super::modes::{ScreenState, Touched};

/// Bytes of the longest sequence that passes: a style with a few colours has some dozens.
const LONGEST: usize = 256;
/// Digits of the greatest number in one: a screen has not as many rows.
const MOST_DIGITS: usize = 5;
/// Numbers of the longest one.
const MOST_NUMBERS: usize = 32;

/// The place in the stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Between characters and sequences.
    Text,
    /// In a character: the number of bytes that are missing, and what the next may be.
    Character { missing: u8, next: (u8, u8) },
    /// Behind 0xC2, which begins control characters and others.
    Latin,
    /// Behind ESC.
    Escape,
    /// Behind ESC and a byte that says what the last one is about.
    Designation(u8),
    /// Behind CSI; what came since is held.
    Control,
    /// The same, of a sequence that is too long to pass.
    LongControl,
    /// In a text for the terminal itself; most of them end at the latest with the line.
    String { ends_with_line: bool },
}

/// The filter, between two pieces of what a program writes.
#[derive(Debug)]
pub struct EscapeFilter {
    place: Place,
    held: Vec<u8>,
    is_utf8: bool,
    /// The cursor is known to be in the first column.
    is_first_column: bool,
    state: ScreenState,
}

impl EscapeFilter {
    /// For a terminal that shows UTF-8, or one in which each byte is a character.
    pub fn new(is_utf8: bool) -> EscapeFilter {
        EscapeFilter {
            place: Place::Text,
            held: Vec::new(),
            is_utf8,
            is_first_column: true,
            state: ScreenState::default(),
        }
    }

    /// The changes by all that passed.
    pub fn state(&self) -> ScreenState {
        self.state
    }

    /// The part of the next bytes, and of what was held, that passes.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.take(*byte, &mut passed);
        }
        passed
    }

    fn take(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match self.place {
            Place::Text => self.text(byte, passed),
            Place::Character { missing, next } => self.character(byte, (missing, next), passed),
            Place::Latin => self.latin(byte, passed),
            Place::Escape => self.escape(byte, passed),
            Place::Designation(about) => self.designation(about, byte, passed),
            Place::Control | Place::LongControl => self.control(byte, passed),
            Place::String { ends_with_line } => self.string(byte, ends_with_line, passed),
        }
    }

    fn text(&mut self, byte: u8, passed: &mut Vec<u8>) {
        self.place = match byte {
            0x1b => Place::Escape,
            0xc2 if self.is_utf8 => Place::Latin,
            0xc3..=0xf4 if self.is_utf8 => {
                self.show(byte, passed);
                first_of_character(byte)
            }
            0x20..=0x7e | 0xa0.. => {
                self.show(byte, passed);
                Place::Text
            }
            // Bell, backspace, tabulator, line feed to carriage return.
            0x07..=0x0d => {
                self.feed(byte);
                passed.push(byte);
                Place::Text
            }
            // The other table of characters, and back.
            0x0e | 0x0f => {
                self.state.touch(Touched::Characters, true);
                passed.push(byte);
                Place::Text
            }
            // ENQ has a terminal answer; others stop it, or end a sequence.
            _ => Place::Text,
        };
    }

    fn show(&mut self, byte: u8, passed: &mut Vec<u8>) {
        self.is_first_column = false;
        self.state.touch(Touched::Line, true);
        passed.push(byte);
    }

    fn feed(&mut self, byte: u8) {
        match byte {
            b'\r' => self.is_first_column = true,
            // A terminal that a program has made raw only goes down.
            b'\n' => self.state.touch(Touched::Line, !self.is_first_column),
            0x0b | 0x0c => self.moved(),
            _ => {}
        }
    }

    fn moved(&mut self) {
        self.is_first_column = false;
        self.state.touch(Touched::Place, true);
        self.state.touch(Touched::Line, true);
    }

    /// A cursor that was kept comes with the style, the tables and the margins that it was kept with.
    fn fetched(&mut self) {
        self.moved();
        self.state.touch(Touched::Style, true);
        self.state.touch(Touched::Characters, true);
        self.state.switch(AUTOWRAP, false);
    }

    fn character(&mut self, byte: u8, (missing, next): (u8, (u8, u8)), passed: &mut Vec<u8>) {
        if !(next.0..=next.1).contains(&byte) {
            return self.text(byte, passed);
        }
        passed.push(byte);
        self.place = match missing {
            1 => Place::Text,
            _ => Place::Character {
                missing: missing - 1,
                next: ANY,
            },
        };
    }

    fn latin(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match byte {
            // U+0080 to U+009F, among them another CSI.
            0x80..=0x9f => self.place = Place::Text,
            0xa0..=0xbf => {
                self.show(0xc2, passed);
                passed.push(byte);
                self.place = Place::Text;
            }
            _ => {
                self.show(0xc2, passed);
                self.text(byte, passed);
            }
        }
    }

    fn escape(&mut self, byte: u8, passed: &mut Vec<u8>) {
        self.place = match byte {
            b'[' => {
                self.held.clear();
                Place::Control
            }
            // DCS has texts of many lines.
            b'P' => Place::String {
                ends_with_line: false,
            },
            // OSC, SOS, PM, APC, and the title of screen(1) and tmux(1).
            b']' | b'X' | b'^' | b'_' | b'k' => Place::String {
                ends_with_line: true,
            },
            0x20..=0x2f => Place::Designation(byte),
            0x30..=0x7e => {
                self.short(byte, passed);
                Place::Text
            }
            _ => return self.text(byte, passed),
        };
    }

    /// ESC and one byte.
    fn short(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match byte {
            // The cursor is kept or fetched; next line, line up or down.
            b'7' | b'D' | b'E' | b'M' => self.moved(),
            b'8' => self.fetched(),
            b'=' | b'>' => self.state.touch(Touched::Keypad, byte == b'='),
            _ => return,
        }
        passed.extend([0x1b, byte]);
    }

    fn designation(&mut self, about: u8, byte: u8, passed: &mut Vec<u8>) {
        self.place = match byte {
            // None that passes has two of them.
            0x20..=0x2f => Place::Designation(0),
            0x30..=0x7e => Place::Text,
            _ => return self.text(byte, passed),
        };
        match (about, byte) {
            // ASCII, and what lines are drawn with.
            (b'(' | b')', b'B' | b'0') => self.state.touch(Touched::Characters, true),
            // A screen full of E.
            (b'#', b'8') => self.moved(),
            _ => return,
        }
        passed.extend([0x1b, about, byte]);
    }

    fn control(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match byte {
            0x20..=0x3f if self.held.len() < LONGEST => self.held.push(byte),
            0x20..=0x3f => self.place = Place::LongControl,
            0x40..=0x7e => {
                if self.place == Place::Control {
                    self.complete(byte, passed);
                }
                self.place = Place::Text;
            }
            // Whatever comes in between ends it: terminals differ in what they do then.
            _ => self.text(byte, passed),
        }
    }

    /// CSI, what is held, and `last`.
    fn complete(&mut self, last: u8, passed: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        if let Some(modes) = held.strip_prefix(b"?") {
            self.modes(modes, last, passed);
        } else if self.is_harmless(&held, last) {
            passed.extend(b"\x1b[");
            passed.extend(&held);
            passed.push(last);
        }
        self.held = held;
    }

    /// DECSET and DECRST, of each mode that passes.
    fn modes(&mut self, modes: &[u8], last: u8, passed: &mut Vec<u8>) {
        let (b'h' | b'l', Some(numbers)) = (last, numbers(modes)) else {
            return;
        };
        for number in numbers {
            let number = u16::try_from(number).unwrap_or(0);
            if self.state.switch(number, last == b'h') {
                if ALTERNATE_SCREENS.contains(&number) {
                    self.fetched();
                }
                passed.extend(format!("\x1b[?{number}{}", char::from(last)).bytes());
            }
        }
    }

    /// True when it passes; its changes are noted then.
    fn is_harmless(&mut self, held: &[u8], last: u8) -> bool {
        match (held, last) {
            // DECSTR: most is as it was at first. What differs all the same is put back in the end.
            (b"!", b'p') => return true,
            ([shape @ .., b' '], b'q') if numbers(shape).is_some() => {
                self.state.touch(Touched::CursorShape, true);
                return true;
            }
            (style, b'm') if is_style(style) => {
                self.state
                    .touch(Touched::Style, !matches!(style, b"" | b"0"));
                return true;
            }
            _ => {}
        }
        let Some(numbers) = numbers(held) else {
            return false;
        };
        match (last, numbers.as_slice()) {
            (b'h' | b'l', [4]) => self.state.touch(Touched::Insertion, last == b'h'),
            (b'r', [_] | [_, _]) => {
                self.state.touch(Touched::Margins, !held.is_empty());
                self.moved();
            }
            // Erases what has scrolled away, which is the human's.
            (b'J', [3]) => return false,
            // With more numbers some of these are others.
            (b'J' | b'K' | b'L' | b'M' | b'P' | b'@' | b'X' | b'b', [_]) => {}
            (b'A'..=b'G' | b'I' | b'Z' | b'S' | b'T' | b'`' | b'a' | b'd' | b'e', [_])
            | (b'H' | b'f', [_] | [_, _]) => self.moved(),
            (b's' | b'u', [_]) if held.is_empty() => self.fetched(),
            _ => return false,
        }
        true
    }

    fn string(&mut self, byte: u8, ends_with_line: bool, passed: &mut Vec<u8>) {
        match byte {
            // Its end is ESC \; ESC and anything else begins another sequence.
            0x1b => self.place = Place::Escape,
            0x07 | 0x18 | 0x1a => self.place = Place::Text,
            b'\n' if ends_with_line => self.text(byte, passed),
            _ => {}
        }
    }
}

/// The mode in which a line that is too long goes on in the next.
const AUTOWRAP: u16 = 7;
/// Modes that show another screen, which has a cursor of its own.
const ALTERNATE_SCREENS: [u16; 3] = [47, 1047, 1049];

/// True for the numbers of SGR, which may have parts.
fn is_style(text: &[u8]) -> bool {
    let separator = |byte: &u8| if *byte == b':' { b';' } else { *byte };
    numbers(&text.iter().map(separator).collect::<Vec<_>>()).is_some()
}

/// Continuations of UTF-8.
const ANY: (u8, u8) = (0x80, 0xbf);

/// Unicode, table 3-7. What begins nothing stands for itself.
fn first_of_character(byte: u8) -> Place {
    let (missing, next) = match byte {
        0xc3..=0xdf => (1, ANY),
        0xe0 => (2, (0xa0, 0xbf)),
        0xe1..=0xef => (2, ANY),
        0xf0 => (3, (0x90, 0xbf)),
        0xf1..=0xf3 => (3, ANY),
        0xf4 => (3, (0x80, 0x8f)),
        _ => return Place::Text,
    };
    Place::Character { missing, next }
}

/// The numbers between semicolons, one that is left out as 0; `None` when there is anything else, or too much.
fn numbers(text: &[u8]) -> Option<Vec<u32>> {
    let number = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).ok()?;
        let is_one =
            digits.len() <= MOST_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_one.then(|| digits.parse().unwrap_or(0))
    };
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b';').collect();
    (parts.len() <= MOST_NUMBERS)
        .then(|| parts.into_iter().map(number).collect())
        .flatten()
}

#[cfg(test)]
mod tests;
