//! Of memory that is made executable.

use serde_json::json;

use super::{EACCES, EPERM, Expected, One};

/// The place of what the interpreter's tasks share: memory of the kernel's, by a file that has no name.
const SHARED: u64 = 0x2000_0000;
const SHARED_SIZE: u64 = 0x10_0000;
const PAGE: u64 = 4096;
const EBADF: i64 = -9;

impl One<'_> {
    pub(super) fn map(&self) -> Vec<Expected> {
        const WRITE: u64 = 2;
        const EXEC: u64 = 4;
        const PRIVATE: u64 = 2;
        const ANONYMOUS: u64 = 0x20;
        let is_segment = self.seen.number == 30;
        let is_executable = match is_segment {
            true => self.args[2] & 0o100_000 != 0,
            false => self.args[2] & EXEC != 0,
        };
        if !is_executable {
            return Vec::new();
        }
        let mut expected = Expected::of("map", self.seen);
        let is_mapping = self.seen.number == 9;
        let is_anonymous = is_mapping && self.args[3] & ANONYMOUS != 0;
        if is_anonymous && (self.args[3] & PRIVATE != 0 || self.result < 0) {
            expected.fields = vec![("/memory", json!(["anonymous"]))];
        }
        let is_refused = self.result == EPERM || self.result == EACCES;
        let writes = self.args[2] & WRITE != 0;
        // Memory that is there is the program's own, or nothing, unless it has mapped a file where it chose.
        let is_own = !is_mapping && !is_segment && !self.context.maps;
        if is_own {
            let is_inside = self.args[0] >= SHARED && {
                let end = self.args[0].checked_add(self.args[1]);
                end.is_some_and(|end| end <= SHARED + SHARED_SIZE)
            };
            let memory = match is_inside {
                // Calls before may have made parts of what was one.
                true if self.args[1] > PAGE => None,
                true => Some(json!(["memory_file", "writable"])),
                false => Some(json!(["unknown"])),
            };
            expected.fields = memory
                .map(|memory| ("/memory", memory))
                .into_iter()
                .collect();
        }
        let is_told = is_anonymous || is_segment || is_refused || is_own;
        let by_file = self.looked.filter(|_| is_mapping).map(|it| &it.mapped);
        let known = match (is_told, by_file) {
            (true, _) => Some(true),
            _ if is_mapping && self.result >= 0 && writes => Some(true),
            // Nobody knows what it would have been.
            (_, Some(None)) if self.result == EBADF => Some(true),
            (_, Some(Some(file))) if self.result != EBADF => {
                let shared = self.args[3] & 0xf != PRIVATE && file.is_writable;
                match file.has_name {
                    None if !shared && !writes => None,
                    has_name => Some(has_name == Some(false) || shared || writes),
                }
            }
            _ => None,
        };
        expected.when(known)
    }
}
