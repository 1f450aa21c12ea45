use proptest::prelude::*;

use super::*;

fn passed(bytes: &[u8]) -> Vec<u8> {
    EscapeFilter::new(true).pass(bytes)
}

/// A terminal by another hand, with the modes that are not as a shell expects them.
#[derive(Default)]
struct Terminal {
    commands: Vec<String>,
    switched: std::collections::BTreeSet<u16>,
    style: String,
    /// The style that DECSC keeps, and DECRC brings back.
    kept_style: String,
    designated: std::collections::BTreeMap<u8, u8>,
    margins: bool,
    insertion: bool,
    keypad: bool,
}

/// Modes that are on at first.
const ON: [u16; 2] = [7, 25];

impl vte::Perform for Terminal {
    fn execute(&mut self, byte: u8) {
        self.commands.push(format!("byte {byte:x}"));
    }

    fn hook(&mut self, _: &vte::Params, _: &[u8], _: bool, last: char) {
        self.commands.push(format!("DCS {last}"));
    }

    fn osc_dispatch(&mut self, parts: &[&[u8]], _: bool) {
        self.commands.push(format!("OSC {parts:?}"));
    }

    fn csi_dispatch(&mut self, numbers: &vte::Params, between: &[u8], _: bool, last: char) {
        let first = numbers.iter().next().map_or(0, |part| part[0]);
        let between = String::from_utf8_lossy(between);
        self.commands.push(format!("CSI {between}{last}"));
        match (&*between, last) {
            ("?", 'h' | 'l') if ON.contains(&first) == (last == 'h') => {
                self.switched.remove(&first);
            }
            ("?", 'h' | 'l') => {
                self.switched.insert(first);
            }
            ("", 'm') => self.style = numbers.iter().flatten().map(ToString::to_string).collect(),
            ("", 'r') => self.margins = numbers.len() > 1 || first != 0,
            ("", 'h' | 'l') => self.insertion = last == 'h',
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, between: &[u8], _: bool, byte: u8) {
        let last = char::from(byte);
        let about = String::from_utf8_lossy(between);
        self.commands.push(format!("ESC {about}{last}"));
        match (between, byte) {
            ([table], designated) => drop(self.designated.insert(*table, designated)),
            ([], b'7') => self.kept_style.clone_from(&self.style),
            ([], b'8') => self.style.clone_from(&self.kept_style),
            ([], b'=' | b'>') => self.keypad = byte == b'=',
            _ => {}
        }
    }
}

fn on_a_terminal(bytes: &[u8]) -> Terminal {
    let mut terminal = Terminal::default();
    vte::Parser::new().advance(&mut terminal, bytes);
    terminal
}

/// Every command that may arrive: the list of what passes, written once more as a terminal calls it.
fn is_expected(command: &str) -> bool {
    let bytes = (0x07..=0x0f).map(|byte| format!("byte {byte:x}"));
    let controls = "@ABCDEFGHIJKLMPSTXZ`abdefhlmrsu".chars();
    let controls = controls.map(|last| format!("CSI {last}"));
    let rest = [
        "CSI ?h", "CSI ?l", "CSI  q", "CSI !p", "ESC #8", "ESC (B", "ESC (0", "ESC )B", "ESC )0",
    ];
    let short = ["7", "8", "D", "E", "M", "=", ">"].map(|last| format!("ESC {last}"));
    let mut all = bytes
        .chain(controls)
        .chain(rest.map(String::from))
        .chain(short);
    all.any(|expected| expected == command)
}

#[test]
fn what_makes_a_terminal_answer_or_act_beyond_its_screen_does_not_pass() {
    for hostile in [
        "\x1b]52;c;b3duZWQ=\x07",
        "\x1b]52;c;b3duZWQ=\x1b\\",
        "\x1b]0;title\x07",
        "\x1b]4;0;?\x07",
        "\x1b]8;;https://example.org\x1b\\",
        "\x1bktitle\x1b\\",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b_Gi=1;AAAA\x1b\\",
        "\x1b^private\x1b\\",
        "\x1bXstart\x1b\\",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[=c",
        "\x1bZ",
        "\x05",
        "\x1b[21t",
        "\x1b[8;1;1t",
        "\x1b[?1$p",
        "\x1b[1$p",
        "\x1b[>q",
        "\x1b[?u",
        "\x1b[>1u",
        "\x1b[x",
        "\x1b[5i",
        "\x1b[?4m",
        "\x1b[>4;2m",
        "\x1b[?1001h",
        "\x1b[2h",
        "\x1b[20h",
        "\x1b[3J",
        "\x1bc",
        "\x1b%@",
        "\x1b F",
        "\x1b(A",
        "\x1b[1;2s",
        "\x1b[1;2;3;4;5T",
        "\u{9b}6n",
        "\u{9d}52;c;b3duZWQ=\u{9c}",
        "\x1b[99999999999b",
    ] {
        let shown = passed(hostile.as_bytes());
        let commands = on_a_terminal(&shown).commands;
        assert_eq!(commands, [""; 0], "{hostile:?} as {shown:?}");
        assert!(
            !on_a_terminal(hostile.as_bytes()).commands.is_empty(),
            "the control: {hostile:?}"
        );
    }
    assert_eq!(passed(b"a\x9b6nb\x9d0;x\x9c"), b"a6nb0;x");
}

#[test]
fn what_programs_draw_with_passes_as_it_is() {
    for harmless in [
        "text\r\n\ttext\x08\x07",
        "\x1b[1;38;5;12;48:2::1:2:3mbold\x1b[m",
        "\x1b[?1049h\x1b[2J\x1b[H\x1b[10;20H\x1b[K\x1b[?25l",
        "\x1b[1;24r\x1b[5L\x1b[2M\x1b[3P\x1b[4@\x1b[7X\x1b[2S\x1b[T\x1b[12b",
        "\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b=\x1b(0lqk\x1b(B\x0e\x0f\x1b[2 q",
        "\x1b7\x1b[3A\x1b8\x1bM\x1bD\x1bE\x1b[s\x1b[u\x1b[!p\x1b#8",
        "zażółć 🦀 é ß 中文 \u{a0}\u{2588}",
    ] {
        assert_eq!(
            String::from_utf8_lossy(&passed(harmless.as_bytes())),
            harmless
        );
    }
}

#[test]
fn what_is_no_sequence_is_not_held_back_and_not_lost() {
    // Half a character passes, and each byte that begins none.
    assert_eq!(passed(b"\xe4\xb8"), b"\xe4\xb8");
    assert_eq!(
        passed(b"caf\xe9 \xff\xfe\xc0 \xe4."),
        b"caf\xe9 \xff\xfe\xc0 \xe4."
    );
    // A text for the terminal that nobody ends does not take the next line along.
    assert_eq!(passed(b"a\x1b]0;never\nb\x1b[31\nc"), b"a\nb\nc");
    assert_eq!(passed(b"a\x1bP1;never\nended\x1b\\b"), b"ab");
    // Where each byte is a character no continuation hides a control.
    assert_eq!(
        EscapeFilter::new(false).pass(b"\xe2\x9b6n\xe9"),
        b"\xe26n\xe9"
    );
    assert_eq!(passed("\u{26c4}".as_bytes()), "\u{26c4}".as_bytes());
}

#[test]
fn modes_that_do_not_pass_are_taken_out_of_those_that_do() {
    assert_eq!(passed(b"\x1b[?1049;1001;2004h"), b"\x1b[?1049h\x1b[?2004h");
}

#[test]
fn a_program_that_only_writes_lines_has_nothing_put_back() {
    let mut filter = EscapeFilter::new(true);
    filter.pass(b"one\r\n\x1b[32mtwo\x1b[0m\r\n\n");
    assert_eq!(filter.state().farewell(), b"");
    filter.pass(b"three");
    assert_eq!(filter.state().farewell(), b"\r\n");
    filter.pass(b"\n");
    assert_eq!(
        filter.state().farewell(),
        b"\r\n",
        "below the end of the word"
    );
}

#[test]
fn a_cursor_that_is_fetched_brings_its_style_along() {
    let mut filter = EscapeFilter::new(true);
    filter.pass(b"\x1b[31m\x1b7\x1b[m\x1b8");
    let farewell = filter.state().farewell();
    assert!(
        farewell.windows(4).any(|part| part == b"\x1b[0m"),
        "{farewell:?}"
    );
}

#[test]
fn what_is_left_behind_is_put_back_and_nothing_stands_below() {
    let mut filter = EscapeFilter::new(true);
    let left =
        b"\x1b[?1049h\x1b[?1000h\x1b[?25l\x1b[?7l\x1b[2;5r\x1b[31m\x1b(0\x1b=\x1b[4h\x1b[5 qfake";
    let mut shown = filter.pass(left);
    shown.extend(filter.state().farewell());
    let expected = "\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[?1049l\x1b7\x1b[r\x1b8\x1b[4l\x1b>\x1b(B\x1b)B\x0f\x1b[0m\x1b[0 q\r\n\x1b[J";
    assert_eq!(String::from_utf8_lossy(&shown[left.len()..]), expected);
}

/// Bytes in which sequences are as frequent as text.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        "[ -~]{0,5}".prop_map(String::into_bytes),
        "\\PC{0,3}".prop_map(String::into_bytes),
        "\u{1b}\\[[?<=>]?[0-9;:]{0,9}[ !\"$']?[@-~]".prop_map(String::into_bytes),
        "\u{1b}\\[\\?(1|5|7|9|25|47|1000|1006|1047|1049|2004|2026)[hl]"
            .prop_map(String::into_bytes),
        "\u{1b}[\\]PX^_k][ -~]{0,4}(\u{7}|\u{1b}\\\\|\n)?".prop_map(String::into_bytes),
        "\u{1b}([78]|\\[31m|\\[m)".prop_map(String::into_bytes),
        "\u{1b}[ -~]{1,2}".prop_map(String::into_bytes),
        "[\u{80}-\u{9f}]".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn only_what_is_listed_reaches_a_terminal(bytes in stream()) {
        for command in on_a_terminal(&passed(&bytes)).commands {
            prop_assert!(is_expected(&command), "{command}");
        }
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_were_split(bytes in stream(), pieces in 1_usize..9) {
        let mut filter = EscapeFilter::new(true);
        let split: Vec<u8> = bytes.chunks(pieces).flat_map(|piece| filter.pass(piece)).collect();
        prop_assert_eq!(&split, &passed(&bytes));
        // What has passed passes again; a byte that could begin a character waits for the next one.
        let more = [&split[..], b"x"].concat();
        prop_assert_eq!(passed(&more), more);
    }

    #[test]
    fn text_passes_as_it_is(text in "[\\PC\n\r\t]{0,60}") {
        let shown = passed(text.as_bytes());
        prop_assert_eq!(String::from_utf8_lossy(&shown), text);
    }

    #[test]
    fn a_shell_finds_what_it_expects(bytes in stream()) {
        let mut filter = EscapeFilter::new(true);
        let mut shown = filter.pass(&bytes);
        shown.extend(filter.state().farewell());
        let left = on_a_terminal(&shown);
        prop_assert!(left.switched.is_empty(), "{:?}", left.switched);
        prop_assert!(matches!(&*left.style, "" | "0"), "{}", left.style);
        prop_assert!(left.designated.values().all(|table| matches!(table, b'B' | b'8')));
        prop_assert!(!left.margins && !left.insertion && !left.keypad);
    }
}
