//! Limits from what was measured, with head room.
//!
//! | limit | head room | rounded up to | at least |
//! |---|---|---|---|
//! | `memory` | twice the peak | 16M | 64M |
//! | `pids` | twice the peak | 5 | 10 |
//! | `wall` | five times | a second | 30s |
//! | `cpu_time` | five times | a second | 5s |
//! | `output` | four times | 64K | 64K |
//!
//! What no run measures (open files, the size of a file that is gone again, what the workspace
//! held at once) stays as it is in the profile below.

use std::time::Duration;

use turnkey_policy::JailLimits;
use turnkey_policy::quantity::{format_duration, format_size};

/// The resources that a run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeasuredUsage {
    /// Bytes, at most, at once.
    pub memory: Option<u64>,
    /// Tasks, at most, at once.
    pub pids: Option<u64>,
    /// From start to end.
    pub wall: Duration,
    /// User and system time.
    pub cpu_time: Option<Duration>,
    /// Bytes on both outputs.
    pub output: u64,
}

impl MeasuredUsage {
    /// Takes what another run took, where that is more.
    pub fn raise(&mut self, other: &MeasuredUsage) {
        self.memory = self.memory.max(other.memory);
        self.pids = self.pids.max(other.pids);
        self.wall = self.wall.max(other.wall);
        self.cpu_time = self.cpu_time.max(other.cpu_time);
        self.output = self.output.max(other.output);
    }
}

/// A limit that a run needs.
#[derive(Clone, Debug)]
pub struct LimitNeed {
    /// The key in `[limits]`.
    pub key: &'static str,
    /// In quotes, but for a count.
    pub value: String,
    /// Without quotes.
    pub is_count: bool,
    /// The measurement, and what was made of it.
    pub why: String,
    /// True when a policy allows less.
    pub exceeds: fn(&JailLimits, &str) -> bool,
}

const MIB: u64 = 1 << 20;

/// The limits that the measured run needs.
pub fn needs(measured: &MeasuredUsage) -> Vec<LimitNeed> {
    let bytes = |key, measured: u64, (times, unit, least): (u64, u64, u64), exceeds| {
        let limit = (measured * times).max(least).div_ceil(unit) * unit;
        LimitNeed {
            key,
            value: format_size(limit),
            is_count: false,
            why: format!("measured {}, {times} times that", in_words(measured)),
            exceeds,
        }
    };
    let time = |key, measured: Duration, least: u64, exceeds| {
        let seconds = (measured * 5).as_secs_f64().ceil();
        // A run of years is not learned.
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        LimitNeed {
            key,
            value: format_duration(limit.max(Duration::from_secs(least))),
            is_count: false,
            why: format!("measured {:.2}s, 5 times that", measured.as_secs_f64()),
            exceeds,
        }
    };
    let memory = measured.memory.map(|peak| {
        bytes("memory", peak, (2, 16 * MIB, 64 * MIB), |limits, value| {
            size(value) > limits.memory
        })
    });
    let pids = measured.pids.map(|peak| LimitNeed {
        key: "pids",
        value: ((peak * 2).max(10).div_ceil(5) * 5).to_string(),
        is_count: true,
        why: format!("measured {peak}, twice that"),
        exceeds: |limits, value| value.parse().is_ok_and(|count: u32| count > limits.pids),
    });
    let wall = time("wall", measured.wall, 30, |limits, value| {
        duration(value) > limits.wall
    });
    let cpu_time = measured.cpu_time.map(|used| {
        time("cpu_time", used, 5, |limits, value| {
            duration(value) > limits.cpu_time
        })
    });
    let output = bytes(
        "output",
        measured.output,
        (4, MIB / 16, MIB / 16),
        |limits, value| size(value) > limits.output,
    );
    let all = [memory, pids, Some(wall), cpu_time, Some(output)];
    all.into_iter().flatten().collect()
}

fn in_words(bytes: u64) -> String {
    // For people: what is lost of it, rounding up has added.
    match bytes {
        0..MIB => format!("{}K", bytes.div_ceil(1024)),
        _ => format!("{}.{}M", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

fn size(text: &str) -> u64 {
    turnkey_policy::quantity::parse_size(text).unwrap_or(u64::MAX)
}

fn duration(text: &str) -> Duration {
    turnkey_policy::quantity::parse_duration(text).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs_by_key(measured: &MeasuredUsage) -> Vec<(&'static str, String)> {
        let needs = needs(measured).into_iter();
        needs.map(|need| (need.key, need.value)).collect()
    }

    #[test]
    fn head_room_is_added_and_rounded_up() {
        let measured = MeasuredUsage {
            memory: Some(70 * MIB),
            pids: Some(12),
            wall: Duration::from_millis(4100),
            cpu_time: Some(Duration::from_millis(100)),
            output: 20_000,
        };
        let expected = [
            ("memory", "144M"),
            ("pids", "25"),
            ("wall", "30s"),
            ("cpu_time", "5s"),
            ("output", "128K"),
        ];
        assert_eq!(
            needs_by_key(&measured),
            expected.map(|(key, value)| (key, value.to_owned()))
        );
    }

    #[test]
    fn what_was_not_measured_is_not_limited() {
        let keys: Vec<_> = needs_by_key(&MeasuredUsage::default())
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, ["wall", "output"]);
    }
}
