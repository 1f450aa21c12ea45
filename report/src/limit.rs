//! A limit that ended a run, in words.

use std::time::Duration;

use turnkey_facts::{Limit, Usage, Written};
use turnkey_policy::JailLimits;
use turnkey_policy::quantity::{format_duration, format_size};

use crate::model::LoweredLimit;
use crate::units::{seconds, size};

/// The usage and its limit, what happened, and the flag that allows twice as much.
pub fn words(limit: Limit, limits: &JailLimits, usage: &Usage) -> String {
    match limit {
        Limit::Memory => memory(limits, usage),
        Limit::Pids => {
            let peak = usage
                .pids_peak
                .map(|peak| format!("{peak} of "))
                .unwrap_or_default();
            let more = limits.pids.saturating_mul(2);
            format!(
                "tasks: {peak}{} at once; no more could be made; allow more with --pids {more}",
                limits.pids
            )
        }
        Limit::Output => format!(
            "output: more than {} on stdout and stderr together; allow more with --output {}",
            size(limits.output),
            twice(limits.output)
        ),
        Limit::FileSize => format!(
            "file size: a file was to grow over {}; allow more with --file-size {}",
            size(limits.file_size),
            twice(limits.file_size)
        ),
        Limit::Wall => format!(
            "wall clock: {} are over; allow more with --wall {}",
            seconds(limits.wall),
            longer(limits.wall)
        ),
        Limit::CpuTime => format!(
            "CPU time: {}{}; allow more with --cpu-time {}",
            cpu_time(usage)
                .map(|used| format!("used {} of ", seconds(used)))
                .unwrap_or_default(),
            seconds(limits.cpu_time),
            longer(limits.cpu_time)
        ),
    }
}

/// The same words for a run with lowered limits: the flag would allow no more there.
pub fn as_given(words: String, lowered: &[LoweredLimit]) -> String {
    let Some((told, flag)) = words.split_once("; allow more with --") else {
        return words;
    };
    let flag = flag.split(' ').next().unwrap_or_default();
    let mut lowered = lowered.iter();
    match lowered.find(|lowered| lowered.limit.replace('_', "-") == flag) {
        Some(LoweredLimit { by, .. }) => format!("{told}; the caller's own {by} allows no more"),
        None => words,
    }
}

/// The words for memory of which half or more holds the files that the program wrote: they lie in memory, too.
pub fn with_files(words: String, limits: &JailLimits, written: Option<&Written>) -> String {
    let written = written.map_or(0, |written| written.bytes);
    match words.split_once(';') {
        Some((used, rest)) if written >= limits.memory / 2 => {
            format!(
                "{used}, {} of it in files that it wrote;{rest}",
                size(written)
            )
        }
        _ => words,
    }
}

fn memory(limits: &JailLimits, usage: &Usage) -> String {
    let used = usage
        .memory_peak
        .map(|peak| format!("used {} of ", size(peak)))
        .unwrap_or_default();
    let killed = match usage.oom_kills {
        0 => String::new(),
        1 => " the kernel killed 1 process;".to_owned(),
        many => format!(" the kernel killed {many} processes;"),
    };
    let (all, more) = (size(limits.memory), twice(limits.memory));
    format!("memory: {used}{all};{killed} allow more with --memory {more}")
}

fn cpu_time(usage: &Usage) -> Option<Duration> {
    Some(usage.user? + usage.system?)
}

/// Twice as many bytes, as a flag takes them.
pub fn twice(bytes: u64) -> String {
    format_size(bytes.saturating_mul(2))
}

fn longer(limit: Duration) -> String {
    format_duration(limit.saturating_mul(2))
}

/// A workspace that can take no more: writes to it have failed with ENOSPC, or the next one would.
/// `None` while there is room.
pub fn disk(written: &Written) -> Option<String> {
    let full = if written.bytes >= written.most_bytes {
        size(written.most_bytes)
    } else {
        format!("{} files", written.most_files)
    };
    written.is_full().then(|| {
        format!(
            "workspace: full, {full} are written; more fails with ENOSPC; allow more with --disk {}",
            twice(written.most_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits() -> JailLimits {
        JailLimits::default()
    }

    #[test]
    fn memory_that_holds_files_says_so() {
        let limits = JailLimits {
            memory: 512 * MIB,
            ..limits()
        };
        let words = |bytes| {
            let written = Written {
                bytes,
                most_bytes: 1 << 40,
                files: 1,
                most_files: 9,
            };
            let words = super::words(Limit::Memory, &limits, &Usage::default());
            with_files(words, &limits, Some(&written))
        };
        let files =
            "memory: 512 MiB, 300 MiB of it in files that it wrote; allow more with --memory 1G";
        assert_eq!(words(300 * MIB), files);
        assert_eq!(words(MIB), "memory: 512 MiB; allow more with --memory 1G");
    }

    #[test]
    fn a_flag_that_would_allow_no_more_is_not_told() {
        let usage = Usage::default();
        let lowered = [LoweredLimit {
            limit: "file_size".into(),
            asked: 2,
            given: 1,
            by: "RLIMIT_FSIZE".into(),
        }];
        let told = |limit| as_given(words(limit, &limits(), &usage), &lowered);
        assert_eq!(
            told(Limit::FileSize),
            "file size: a file was to grow over 64 MiB; the caller's own RLIMIT_FSIZE allows no more"
        );
        assert!(told(Limit::Memory).ends_with("allow more with --memory 512M"));
    }

    #[test]
    fn memory_says_what_was_used_and_who_died() {
        let usage = Usage {
            memory_peak: Some(256 * MIB),
            oom_kills: 1,
            ..Usage::default()
        };
        assert_eq!(
            words(Limit::Memory, &limits(), &usage),
            "memory: used 256 MiB of 256 MiB; the kernel killed 1 process; allow more with --memory 512M"
        );
    }

    #[test]
    fn what_the_kernel_does_not_say_is_left_out() {
        let usage = Usage::default();
        assert_eq!(
            words(Limit::Memory, &limits(), &usage),
            "memory: 256 MiB; allow more with --memory 512M"
        );
        assert_eq!(
            words(Limit::CpuTime, &limits(), &usage),
            "CPU time: 20 s; allow more with --cpu-time 40s"
        );
        assert_eq!(
            words(Limit::Pids, &limits(), &usage),
            "tasks: 50 at once; no more could be made; allow more with --pids 100"
        );
    }

    #[test]
    fn every_limit_names_its_flag() {
        let usage = Usage {
            user: Some(Duration::from_millis(19_500)),
            system: Some(Duration::from_millis(620)),
            pids_peak: Some(50),
            ..Usage::default()
        };
        let words = |limit| words(limit, &limits(), &usage);
        assert_eq!(
            words(Limit::Wall),
            "wall clock: 30 s are over; allow more with --wall 1m"
        );
        assert_eq!(
            words(Limit::CpuTime),
            "CPU time: used 20.12 s of 20 s; allow more with --cpu-time 40s"
        );
        assert_eq!(
            words(Limit::Pids),
            "tasks: 50 of 50 at once; no more could be made; allow more with --pids 100"
        );
        assert_eq!(
            words(Limit::Output),
            "output: more than 1 MiB on stdout and stderr together; allow more with --output 2M"
        );
        assert_eq!(
            words(Limit::FileSize),
            "file size: a file was to grow over 64 MiB; allow more with --file-size 128M"
        );
    }

    #[test]
    fn a_full_workspace_says_of_what() {
        let room = Written {
            bytes: MIB - 4096,
            most_bytes: MIB,
            files: 255,
            most_files: 256,
        };
        assert_eq!(disk(&room), None);
        let bytes = disk(&Written { bytes: MIB, ..room });
        let files = disk(&Written { files: 256, ..room });
        assert_eq!(
            bytes.unwrap(),
            "workspace: full, 1 MiB are written; more fails with ENOSPC; allow more with --disk 2M"
        );
        assert_eq!(
            files.unwrap(),
            "workspace: full, 256 files are written; more fails with ENOSPC; allow more with --disk 2M"
        );
    }
}
