//! Changes of a terminal's state by the sequences that were let through, and the sequences that undo them.

/// A mode of DECSET, by which programs change how a terminal draws, and what its keys and its mouse send.
struct Mode {
    number: u16,
    /// The state in which a shell expects it.
    is_on: bool,
}

const fn off(number: u16) -> Mode {
    let is_on = false;
    Mode { number, is_on }
}

const fn on(number: u16) -> Mode {
    let is_on = true;
    Mode { number, is_on }
}

/// Every mode that passes, in the order in which they are put back. The alternate screens come before what each screen has
/// for itself.
const MODES: [Mode; 19] = [
    // Reports of the mouse: which ones, and in which form.
    off(9),
    off(1000),
    off(1002),
    off(1003),
    off(1005),
    off(1006),
    off(1015),
    off(1016),
    // Reports of the focus; marks around what is pasted.
    off(1004),
    off(2004),
    // Cursor keys; drawing at once, reversed, and beyond the last column.
    off(1),
    off(2026),
    off(5),
    on(7),
    // The cursor; alternate screens.
    on(25),
    off(12),
    off(47),
    off(1047),
    off(1049),
];

/// State beside the modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Colours and their like.
    Style,
    /// The tables of characters.
    Characters,
    /// The region that scrolls.
    Margins,
    /// The keypad.
    Keypad,
    /// Insertion instead of overwriting.
    Insertion,
    /// The shape of the cursor.
    CursorShape,
    /// The cursor's place: what was shown may stand below it.
    Place,
    /// The line of the cursor, which is not empty.
    Line,
}

/// The differences of a terminal from what a shell expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScreenState(u32);

impl ScreenState {
    /// Takes note of a mode that is switched; false for one that is not to be switched.
    pub fn switch(&mut self, number: u16, on: bool) -> bool {
        let known = MODES.iter().position(|mode| mode.number == number);
        if let Some(index) = known {
            self.put(1 << index, on != MODES[index].is_on);
        }
        known.is_some()
    }

    /// Takes note of what was changed, or is as it should be again.
    pub fn touch(&mut self, what: Touched, is_changed: bool) {
        self.put(bit(what), is_changed);
    }

    fn put(&mut self, bits: u32, is_set: bool) {
        self.0 = if is_set {
            self.0 | bits
        } else {
            self.0 & !bits
        };
    }

    fn is(self, what: Touched) -> bool {
        self.0 & bit(what) != 0
    }

    /// The sequences that make it as a shell expects it, with the cursor at the start of a line below which nothing stands.
    pub fn farewell(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, mode) in MODES.iter().enumerate() {
            if self.0 & 1 << index != 0 {
                let letter = if mode.is_on { 'h' } else { 'l' };
                bytes.extend(format!("\x1b[?{}{letter}", mode.number).bytes());
            }
        }
        let rest: [(Touched, &[u8]); 8] = [
            // To set the region moves the cursor.
            (Touched::Margins, b"\x1b7\x1b[r\x1b8"),
            (Touched::Insertion, b"\x1b[4l"),
            (Touched::Keypad, b"\x1b>"),
            (Touched::Characters, b"\x1b(B\x1b)B\x0f"),
            (Touched::Style, b"\x1b[0m"),
            (Touched::CursorShape, b"\x1b[0 q"),
            (Touched::Line, b"\r\n"),
            // What is told next stands last, whatever was drawn.
            (Touched::Place, b"\x1b[J"),
        ];
        for (what, sequence) in rest {
            if self.is(what) {
                bytes.extend(sequence);
            }
        }
        bytes
    }

    /// As a number, for whoever shares it between threads.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// From such a number.
    pub fn from_bits(bits: u32) -> ScreenState {
        ScreenState(bits)
    }
}

fn bit(what: Touched) -> u32 {
    1 << (MODES.len() + what as usize)
}
