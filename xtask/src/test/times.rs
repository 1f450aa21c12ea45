//! The time that each part of `cargo xtask test` took at its last call, for the people who wait for the next.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use crate::workspace;

/// Seconds by part, of the last time and of this one. What cannot be read or written costs a hint and no test.
pub struct Times {
    last: BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
}

impl Times {
    /// The times that the last call left.
    pub fn read() -> Times {
        let text = std::fs::read_to_string(place()).unwrap_or_default();
        Times {
            last: serde_json::from_str(&text).unwrap_or_default(),
            now: BTreeMap::new(),
        }
    }

    /// Does a part, and remembers how long it took.
    pub fn take<T>(&mut self, part: &str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.now
            .insert(part.to_owned(), started.elapsed().as_secs());
        done
    }

    /// A hint for a line about a part.
    pub fn last(&self, part: &str) -> String {
        let last = self.last.get(part);
        last.map_or_else(String::new, |last| format!(": {last} s the last time"))
    }

    /// The times of this call, for its end.
    pub fn told(&self) -> String {
        let parts = self.now.iter();
        let parts = parts.map(|(part, seconds)| format!("{part} {seconds} s"));
        format!("took {}", parts.collect::<Vec<_>>().join(", "))
    }

    /// Leaves them for the next call.
    pub fn write(&self) {
        let mut all = self.last.clone();
        all.extend(self.now.clone());
        if let Ok(text) = serde_json::to_string(&all) {
            let _ = std::fs::write(place(), text);
        }
    }
}

fn place() -> PathBuf {
    workspace::target_folder().join("test-times.json")
}
