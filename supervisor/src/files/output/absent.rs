//! Standard streams that were closed when this process began. The standard library puts /dev/null in their places before main:
//! what is written there is lost, and nobody hears of it.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each stream by its number.
static ABSENT: AtomicU8 = AtomicU8::new(0);

const NAMES: [&str; 3] = ["standard input", "standard output", "standard error"];

/// Notes that a standard stream was closed.
pub fn note_absent(number: u8) {
    ABSENT.fetch_or(1 << number, Ordering::Relaxed);
}

/// Makes sure that a descriptor which is to be written is the caller's.
pub(super) fn require_there(number: i32) -> io::Result<()> {
    absent_in(ABSENT.load(Ordering::Relaxed), number).map_or(Ok(()), |name| {
        let why = format!("{name} is closed; open it (>FILE), or name a file");
        Err(io::Error::new(io::ErrorKind::NotConnected, why))
    })
}

fn absent_in(absent: u8, number: i32) -> Option<&'static str> {
    let number = usize::try_from(number).ok()?;
    let name = NAMES.get(number)?;
    (absent & (1 << number) != 0).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_is_told_by_its_own_bit() {
        assert_eq!(absent_in(0b010, 1), Some("standard output"));
        assert_eq!(absent_in(0b100, 2), Some("standard error"));
        for (absent, number) in [(0b101, 1), (0, 1), (0b111, 3), (0b111, 9), (0b111, -1)] {
            assert_eq!(absent_in(absent, number), None, "{absent:b} {number}");
        }
    }
}
