//! The place of another process among the jobs of its terminal: what the kernel asks of a process that touches its own.

use std::os::fd::BorrowedFd;

use nix::sys::stat::{fstat, major, minor};

/// The place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPlace {
    /// The terminal is its job's, or is none that controls its session.
    Foreground,
    /// The terminal is another job's, or it is stopped.
    Background,
    /// The process has ended.
    Gone,
}

impl JobPlace {
    /// The place of this process at this terminal.
    #[expect(clippy::disallowed_methods, reason = "of /proc")]
    pub fn of(process: u32, terminal: BorrowedFd<'_>) -> JobPlace {
        let device = fstat(terminal).map_or(0, |stat| stat.st_rdev);
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
        let place = stat.ok().and_then(|stat| JobPlace::read(&stat, device));
        place.unwrap_or(JobPlace::Gone)
    }

    /// The place by the line of proc_pid_stat(5), behind the name: state, parent, process group, session, terminal, and that one's group in
    /// the foreground.
    fn read(stat: &str, device: u64) -> Option<JobPlace> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().take(6).collect();
        let [state, _, group, _, terminal, foreground] = <[_; 6]>::try_from(fields).ok()?;
        let terminal = terminal.parse::<i32>().ok()?.cast_unsigned();
        Some(match state {
            "Z" | "X" => JobPlace::Gone,
            "T" | "t" => JobPlace::Background,
            _ if u64::from(terminal) != encoded(device) => JobPlace::Foreground,
            _ if group == foreground => JobPlace::Foreground,
            _ => JobPlace::Background,
        })
    }
}

/// The number of a device as /proc has it: `new_encode_dev()` in the kernel.
fn encoded(device: u64) -> u64 {
    let (major, minor) = (major(device), minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::makedev;

    #[test]
    fn a_job_is_in_the_foreground_of_its_own_terminal_or_of_another() {
        let terminal = makedev(136, 300);
        let place = |line: &str| JobPlace::read(line, terminal);
        let number = encoded(terminal);
        let of = |state: &str, group: u32| {
            place(&format!("7 (a) b) {state} 1 {group} 3 {number} 50 0 0"))
        };
        assert_eq!(of("S", 50), Some(JobPlace::Foreground));
        assert_eq!(of("S", 7), Some(JobPlace::Background));
        assert_eq!(of("T", 50), Some(JobPlace::Background), "it is stopped");
        assert_eq!(of("Z", 50), Some(JobPlace::Gone));
        let elsewhere = place("7 (a) S 1 7 3 34816 50 0 0");
        assert_eq!(elsewhere, Some(JobPlace::Foreground));
        assert_eq!(place("7 (a) S 1 7 3 0 -1 0 0"), Some(JobPlace::Foreground));
        assert_eq!(place("7 (a"), None);
    }
}
