//! Quantities as other tools write them, in the words of this one: `512mb`, two CPUs, `5min`, seconds without a unit.

/// The same as a size; `None` for what is none anywhere.
pub(super) fn size(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_uppercase().replace(' ', "");
    let text = text.strip_suffix('B').unwrap_or(&text);
    let text = text.strip_suffix('I').unwrap_or(text);
    super::size(text)
        .filter(|bytes| *bytes > 0)
        .map(|_| text.to_owned())
}

/// The same of so many CPUs, or of a percentage without its sign: nobody asks for ten CPUs and means ten percent.
pub(super) fn percent(text: &str) -> Option<String> {
    const MOST_CPUS: u32 = 9;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = match part.len() {
        0 => 0,
        1 => part.parse::<u32>().ok()? * 10,
        2 => part.parse().ok()?,
        _ => return None,
    };
    let whole: u32 = whole.parse().ok()?;
    let percent = match whole {
        0..=MOST_CPUS => whole * 100 + part,
        _ if part == 0 => whole,
        _ => return None,
    };
    let text = format!("{percent}%");
    (percent > 0 && super::percent(&text).is_some()).then_some(text)
}

/// The same as a duration; a number without a unit is one of seconds, as to timeout(1).
pub(super) fn duration(text: &str) -> Option<String> {
    let (digits, unit) = super::split_unit(text.trim());
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "sec" | "secs" | "second" | "seconds" | "s" => "s",
        "min" | "mins" | "minute" | "minutes" | "m" => "m",
        "hr" | "hrs" | "hour" | "hours" | "h" => "h",
        "msec" | "msecs" | "milliseconds" | "ms" => "ms",
        _ => return None,
    };
    let text = format!("{digits}{unit}");
    super::duration(&text)
        .filter(|time| !time.is_zero())
        .map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_other_tools_are_told_in_ones_own() {
        for (theirs, ours) in [
            ("512m", Some("512M")),
            ("1gb", Some("1G")),
            ("64 MiB", Some("64M")),
            ("unlimited", None),
            ("1.5G", None),
        ] {
            assert_eq!(size(theirs).as_deref(), ours, "{theirs}");
        }
        for (theirs, ours) in [
            ("2", Some("200%")),
            ("0.5", Some("50%")),
            ("1.25", Some("125%")),
            ("50", Some("50%")),
            ("0", None),
            ("-1", None),
        ] {
            assert_eq!(percent(theirs).as_deref(), ours, "{theirs}");
        }
        for (theirs, ours) in [
            ("90", Some("90s")),
            ("5min", Some("5m")),
            ("2 hours", Some("2h")),
            ("1d", None),
            ("", None),
        ] {
            assert_eq!(duration(theirs).as_deref(), ours, "{theirs}");
        }
    }
}
