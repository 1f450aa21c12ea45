//! Sizes, shares of CPUs and durations, as profiles and flags write them.

mod meant;

use std::time::Duration;

/// An error in a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}")]
pub struct QuantityError {
    /// The text that was read.
    pub text: String,
    /// The form that was expected.
    pub what: &'static str,
    /// The fix: what to write instead.
    pub help: String,
}

const SIZE_UNITS: &[(&str, u64)] = &[
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
];

const DURATION_UNITS: &[(&str, u64)] = &[("h", 3_600_000), ("ms", 1), ("m", 60_000), ("s", 1000)];

/// Parses bytes: `"0"`, `"4096"`, `"256M"`. K, M, G and T are powers of 1024.
///
/// # Errors
/// When the text is something else, or more than 64 bits hold.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    const FORM: &str = "write bytes, or a number with K, M, G or T, such as 256M";
    size(text).ok_or_else(|| wrong(text, "a size", FORM, meant::size(text)))
}

fn size(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let factor = match unit {
        "" => Some(1),
        _ => factor(SIZE_UNITS, unit),
    };
    scale(digits, factor)
}

/// Parses percent of one CPU: `"100%"`.
///
/// # Errors
/// When the text is something else.
pub fn parse_percent(text: &str) -> Result<u32, QuantityError> {
    const FORM: &str = "write a percentage such as 100% or 250%";
    percent(text).ok_or_else(|| wrong(text, "a share of CPUs", FORM, meant::percent(text)))
}

fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%').filter(|digits| is_number(digits));
    digits.and_then(|digits| digits.parse().ok())
}

/// Parses a duration: `"500ms"`, `"30s"`, `"2m"`, `"1h"`.
///
/// # Errors
/// When the text is something else.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    const FORM: &str = "write a number with ms, s, m or h, such as 30s";
    duration(text).ok_or_else(|| wrong(text, "a duration", FORM, meant::duration(text)))
}

fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = split_unit(text);
    scale(digits, factor(DURATION_UNITS, unit)).map(Duration::from_millis)
}

fn factor(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    let mut units = units.iter();
    let found = units.find(|(name, _)| *name == unit);
    found.map(|(_, factor)| *factor)
}

/// Parses a count: `"50"`.
///
/// # Errors
/// When the text is something else.
pub fn parse_count(text: &str) -> Result<u32, QuantityError> {
    Some(text)
        .filter(|text| is_number(text))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| wrong(text, "a count", "write a whole number such as 50", None))
}

/// Writes bytes in the largest unit that divides them: what [`parse_size`] reads.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let fits = |unit: &&(&str, u64)| bytes != 0 && bytes.is_multiple_of(unit.1);
    match SIZE_UNITS.iter().find(fits) {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// Writes a duration, down to milliseconds: what [`parse_duration`] reads.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    match (milliseconds % 60_000, milliseconds % 1000) {
        (0, _) if milliseconds != 0 => format!("{}m", milliseconds / 60_000),
        (_, 0) => format!("{}s", milliseconds / 1000),
        _ => format!("{milliseconds}ms"),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn scale(digits: &str, factor: Option<u64>) -> Option<u64> {
    digits.parse::<u64>().ok()?.checked_mul(factor?)
}

fn wrong(text: &str, what: &'static str, form: &str, meant: Option<String>) -> QuantityError {
    let meant = meant.map(|meant| format!("write {meant}: "));
    let form = form
        .strip_prefix("write ")
        .filter(|_| meant.is_some())
        .unwrap_or(form);
    QuantityError {
        text: text.to_owned(),
        what,
        help: format!("{}{form}", meant.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("1K"), Ok(1024));
        assert_eq!(parse_size("256M"), Ok(268_435_456));
        assert_eq!(parse_size("1G"), Ok(1_073_741_824));
        assert_eq!(parse_size("16777215T"), Ok(16_777_215 << 40));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "M",
            "-1",
            "+1",
            "1.5G",
            "256MB",
            "256m",
            "256 M",
            " 1",
            "16777216T",
            "٣",
        ] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn durations_have_one_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
        for text in [
            "",
            "30",
            "s",
            "1m30s",
            "-1s",
            "1.5s",
            "30 s",
            "99999999999999999999s",
        ] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_share_needs_its_percent_sign() {
        assert_eq!(parse_percent("100%"), Ok(100));
        for text in ["", "%", "100", "1.5%", "-1%", "+1%", "100%%", "4294967296%"] {
            assert!(parse_percent(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn counts_are_whole_numbers() {
        assert_eq!(parse_count("50"), Ok(50));
        for text in ["", "-1", "+1", "1.0", "4294967296"] {
            assert!(parse_count(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = parse_size("256MB").expect_err("MB is no unit");
        assert_eq!(error.to_string(), r#""256MB" is not a size"#);
        assert_eq!(
            error.help,
            "write 256M: bytes, or a number with K, M, G or T, such as 256M"
        );
    }

    proptest! {
        #[test]
        fn a_written_size_reads_back(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn a_written_duration_reads_back(milliseconds in 0..u64::MAX / 1000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,40}") {
            let _ = (parse_size(&text), parse_duration(&text), parse_percent(&text), parse_count(&text));
        }
    }
}
