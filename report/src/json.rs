//! JSON that is safe to look at.
//!
//! Captured output may hold any character. JSON itself escapes only the ASCII controls, so this
//! writer also spells every other unprintable character as `\uNNNN`: a report that is printed to
//! a terminal cannot steer it, and a parser reads the same value as ever.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use turnkey_policy::visible::is_printable;

/// Writes `value` indented, with a newline at the end. Fails only when `out` does.
pub fn write(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let formatter = Printable(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(&mut *out, formatter))?;
    out.write_all(b"\n")
}

/// A page of `value`, as [`write`] has it.
///
/// # Errors
/// When `value` has none.
pub fn page(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    write(value, &mut page)?;
    Ok(page)
}

/// Writes `value` on one line. Fails only when `out` does.
pub fn write_line(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    let formatter = Printable(CompactFormatter);
    value.serialize(&mut Serializer::with_formatter(&mut *out, formatter))?;
    out.write_all(b"\n")
}

/// Lays out as `F` does and spells unprintable characters as numbers.
struct Printable<F>(F);

impl<F: Formatter> Formatter for Printable<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c| !is_printable(c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut tail = rest[at..].chars();
            let unprintable = tail.next().into_iter();
            for unit in unprintable.flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = tail.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let mut out = Vec::new();
        write_line(&text, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn unprintable_characters_become_numbers() {
        assert_eq!(line("a\u{9b}b"), "\"a\\u009bb\"\n");
        assert_eq!(line("\u{202e}\u{7f}"), "\"\\u202e\\u007f\"\n");
        // Outside the basic plane JSON has surrogate pairs.
        assert_eq!(line("\u{e0041}"), "\"\\udb40\\udc41\"\n");
        assert_eq!(line("\x1b[0m \"ü\""), "\"\\u001b[0m \\\"ü\\\"\"\n");
    }

    #[test]
    fn a_parser_reads_the_same_value() {
        let text = "a\u{9b}\u{202e}\u{e0041}\u{7f}\n\\ü";
        assert_eq!(serde_json::from_str::<String>(&line(text)).unwrap(), text);
    }

    #[test]
    fn the_layout_is_the_usual_one() {
        let value = serde_json::json!({"list": [1, {"x": null}], "none": []});
        let mut out = Vec::new();
        write(&value, &mut out).unwrap();
        let usual = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{usual}\n"));
    }
}
