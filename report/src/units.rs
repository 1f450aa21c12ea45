//! Sizes and times in units for people.

use std::time::Duration;

/// Bytes as people read them: whole units where they are whole, one decimal otherwise.
pub fn size(bytes: u64) -> String {
    const UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, factor)) = UNITS.iter().find(|(_, factor)| bytes >= *factor) else {
        return format!("{bytes} bytes");
    };
    match (bytes / factor, bytes % factor * 10 / factor) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

/// Seconds as people read them: 30 s, 0.21 s.
pub fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 if duration.as_secs() > 0 => format!("{} s", duration.as_secs()),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

/// A number of things, with their word.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_seconds_are_short() {
        assert_eq!(size(512), "512 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3 GiB");
        assert_eq!(seconds(Duration::from_millis(210)), "0.21 s");
        assert_eq!(seconds(Duration::ZERO), "0.00 s");
        assert_eq!(seconds(Duration::from_millis(61_250)), "61.25 s");
    }
}
