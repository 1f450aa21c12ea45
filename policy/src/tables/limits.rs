//! `[limits]`: every key of it is declared here, once.

use std::time::Duration;

use super::declare::{by_kind, key_table};
use crate::keys::words;
use crate::model::LimitResponse;
use crate::values;

key_table! {
    ["limits"];
    /// `[limits]`: for the whole process tree unless said otherwise.
    #[derive(Clone, Debug, PartialEq)]
    compared JailLimits, read LimitKeys;
    memory: one u64 {
        form: Size, read: values::memory, default: 256 << 20, shown: "`256M`",
        about: "memory of the tree, with page cache and scratch",
        flag: "memory", value: "SIZE", under: "Limits", help: "Memory of the whole process tree, such as 512M",
    }
    swap: one u64 {
        form: Size, read: values::size, default: 0, shown: "`0`",
        about: "swap of the tree",
        flag: "swap", value: "SIZE", under: "Limits", help: "Swap of the whole process tree",
    }
    cpu: one u32 {
        form: Percent, read: values::percent, default: 100, shown: "`100%`",
        about: "share of one CPU; `200%` is two CPUs",
        flag: "cpu", value: "PERCENT", under: "Limits", help: "Share of CPU time; 100% is one CPU",
    }
    pids: one u32 {
        form: Count, read: values::pids, default: 50, shown: "`50`",
        about: "processes and threads at once",
        flag: "pids", value: "COUNT", under: "Limits", help: "Processes and threads",
    }
    on_pids: one LimitResponse {
        form: Word(words::<LimitResponse>), read: values::word, default: LimitResponse::Refuse, shown: "`refuse`",
        about: "`refuse`: clone(2) of one task too many fails with `EAGAIN`, and the run goes on\n`kill`: the run is killed, as it is wherever no control group counts tasks",
        wider: Greater,
        flag: "on-pids", value: "RESPONSE", under: "Limits", help: "When tasks run out: refuse (clone fails with EAGAIN) or kill (the whole run)",
    }
    on_memory: one LimitResponse {
        form: Word(words::<LimitResponse>), read: values::word, default: LimitResponse::Refuse, shown: "`refuse`",
        about: "`refuse`: the OOM killer kills one process, and the run goes on unless that was the command\n`kill`: the whole run is killed, as it is wherever no control group counts memory",
        wider: Greater,
        flag: "on-memory", value: "RESPONSE", under: "Limits", help: "When memory runs out: refuse (the OOM killer kills one process) or kill (the whole run)",
    }
    wall: one Duration {
        form: Duration, read: values::duration, default: Duration::from_secs(30), shown: "`30s`",
        about: "time since the program's first instruction on `CLOCK_MONOTONIC`, which excludes suspend",
        flag: "wall", value: "DURATION", under: "Limits", help: "Wall clock time, such as 10s",
    }
    cpu_time: one Duration {
        form: Duration, read: values::duration, default: Duration::from_secs(20), shown: "`20s`",
        about: "user and system time of the tree",
        flag: "cpu-time", value: "DURATION", under: "Limits", help: "CPU time of the whole process tree",
    }
    output: one u64 {
        form: Size, read: values::size, default: 1 << 20, shown: "`1M`",
        about: "stdout and stderr together",
        flag: "output", value: "SIZE", under: "Limits", help: "Bytes on standard output and error together",
    }
    io_read: one Option<u64> {
        form: Size, read: values::rate, default: None, shown: "no limit",
        about: "bytes per second that the process tree reads from each disk whose files the jail shows",
        flag: "io-read", value: "SIZE", under: "Limits", help: "Bytes read from each disk per second, such as 10M",
    }
    io_write: one Option<u64> {
        form: Size, read: values::rate, default: None, shown: "no limit",
        about: "bytes per second that the process tree writes to each of these disks; control groups v1 do not count writes through the page cache",
        flag: "io-write", value: "SIZE", under: "Limits", help: "Bytes written to each disk per second",
    }
    disk: one u64 {
        form: Size, read: values::memory, default: 1 << 30, shown: "`1G`",
        about: "size of the tmpfs that holds the discarded writes to `/workspace`, with at most one file for each 4 KiB; it counts as memory of the jail, too",
        flag: "disk", value: "SIZE", under: "Limits",
        help: "Limit of the writes to /workspace, which are discarded, such as 64M",
    }
    file_size: one u64 {
        form: Size, read: values::size, default: 64 << 20, shown: "`64M`",
        about: "per file",
        flag: "file-size", value: "SIZE", under: "Limits", help: "Size of one file",
    }
    open_files: one u32 {
        form: Count, read: values::open_files, default: 256, shown: "`256`",
        about: "per process",
        flag: "open-files", value: "COUNT", under: "Limits", help: "Open file descriptors of one process",
    }
    export_files: one u32 {
        form: Count, read: values::open_files, default: 10_000, shown: "`10000`",
        about: "files, directories and symlinks that `--export` writes to the host",
        flag: "export-files", value: "COUNT", under: "Limits", help: "Number of the files that --export writes",
    }
    export_size: one u64 {
        form: Size, read: values::size, default: 256 << 20, shown: "`256M`",
        about: "what `--export` writes to the host",
        flag: "export-size", value: "SIZE", under: "Limits", help: "Total size of the files that --export writes",
    }
}

impl JailLimits {
    /// The least memory of a jail, in bytes.
    pub const LEAST_MEMORY: u64 = values::LEAST_MEMORY;
    /// The least number of tasks of a jail.
    pub const LEAST_PIDS: u32 = values::LEAST_PIDS;
    /// The least number of descriptors of a process in a jail.
    pub const LEAST_OPEN_FILES: u32 = values::LEAST_OPEN_FILES;

    /// True when reads or writes are limited, so that [`Layer::Io`](crate::Layer::Io) is needed.
    #[must_use]
    pub fn limit_io(&self) -> bool {
        self.io_read.is_some() || self.io_write.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::declare::KeyTable as _;
    use super::*;
    use crate::keys::{KeyValue, ValueForm};
    use crate::quantity;

    #[test]
    fn the_default_that_is_shown_is_the_one_that_holds() {
        for (key, value) in JailLimits::default().values() {
            let shown = key.default.trim_matches('`');
            let read = match key.form {
                _ if shown == "no limit" => KeyValue::Unlimited,
                ValueForm::Size => KeyValue::Number(quantity::parse_size(shown).unwrap()),
                ValueForm::Percent => {
                    KeyValue::Number(quantity::parse_percent(shown).unwrap().into())
                }
                ValueForm::Duration => KeyValue::Time(quantity::parse_duration(shown).unwrap()),
                ValueForm::Word(words) => {
                    let place = words().iter().position(|word| *word == shown).unwrap();
                    KeyValue::Word(place, words()[place])
                }
                _ => KeyValue::Number(shown.parse().unwrap()),
            };
            assert_eq!(value, read, "{}", key.name);
        }
    }

    #[test]
    fn a_flag_is_named_as_its_key() {
        for key in LimitKeys::KEYS {
            assert_eq!(
                key.flag.map(|flag| flag.name.replace('-', "_")).as_deref(),
                Some(key.name)
            );
        }
    }

    #[test]
    fn words_are_compared_by_what_they_allow_and_not_by_letter() {
        use crate::model::RuleAction::{Allow, Deny, Kill};
        let values = [Allow, Deny, Kill].map(|action| KeyValue::from(&action));
        assert!(values[0] < values[1] && values[1] < values[2], "{values:?}");
        assert!(KeyValue::from(&LimitResponse::Kill) < KeyValue::from(&LimitResponse::Refuse));
    }
}
