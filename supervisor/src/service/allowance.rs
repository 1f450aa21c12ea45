//! The limits that a caller's own processes have, by their control groups and by setrlimit(2): its runs get no more, though they lie in
//! other groups and have another parent.

use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use turnkey_jailer::{GroupAllowance, GroupCeiling, HardLimits, ServedUser};
use turnkey_policy::JailLimits;
use turnkey_report::LoweredLimit;

/// The limits of a caller's process.
#[derive(Clone, Debug, Default)]
pub struct CallerAllowance {
    groups: GroupAllowance,
    rlimits: HardLimits,
}

/// The user for whom a privileged process makes a run, with what its own processes may have.
#[derive(Clone, Debug)]
pub struct ServedCaller {
    /// The user.
    pub user: ServedUser,
    /// The limits of each of its processes.
    pub rlimits: HardLimits,
    /// The limits of the run that are smaller than the profile's for that.
    pub lowered: Vec<LoweredLimit>,
    /// A descriptor by whose end somebody else sees that nothing of the run is there any more.
    pub outlived: Option<Arc<OwnedFd>>,
}

/// A limit of a caller's under which nothing runs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the caller's own {by} allows {given}, and no jail does with less than {least}")]
pub struct TooLittle {
    by: String,
    given: u64,
    least: u64,
}

impl CallerAllowance {
    /// Reads the limits of a process.
    ///
    /// # Errors
    /// When the kernel does not tell them all.
    pub fn read(pid: u32) -> io::Result<CallerAllowance> {
        Ok(CallerAllowance {
            groups: GroupAllowance::read(pid)?,
            rlimits: HardLimits::read(pid)?,
        })
    }

    /// Lowers the limits of a run to the caller's, and says for whom it is.
    ///
    /// # Errors
    /// When a limit allows no jail.
    pub fn lower(
        self,
        user: ServedUser,
        limits: &mut JailLimits,
    ) -> Result<ServedCaller, TooLittle> {
        let CallerAllowance { groups, rlimits } = self;
        let mut lowered = LoweredLimits::default();
        let by = |ceiling: GroupCeiling| (ceiling.value, ceiling.file.display().to_string());
        let of = |ceiling: Option<GroupCeiling>| ceiling.map(by);
        let least = JailLimits::LEAST_MEMORY;
        lowered.lower("memory", &mut limits.memory, of(groups.memory), least)?;
        lowered.lower("swap", &mut limits.swap, of(groups.swap), 0)?;
        let both = of(groups.memory_and_swap);
        let rest = both.map(|(both, by)| (both.saturating_sub(limits.memory), by));
        lowered.lower("swap", &mut limits.swap, rest, 0)?;
        lowered.lower("cpu", &mut limits.cpu, of(groups.cpu), 1)?;
        let least = JailLimits::LEAST_PIDS;
        let of_user = Some((rlimits.tasks(), "RLIMIT_NPROC".to_owned()));
        for most in [of(groups.pids), of_user] {
            lowered.lower("pids", &mut limits.pids, most, least)?;
        }
        let most = Some((rlimits.file_size(), "RLIMIT_FSIZE".to_owned()));
        lowered.lower("file_size", &mut limits.file_size, most, 0)?;
        let least = JailLimits::LEAST_OPEN_FILES;
        let most = Some((rlimits.open_files(), "RLIMIT_NOFILE".to_owned()));
        lowered.lower("open_files", &mut limits.open_files, most, least)?;
        Ok(ServedCaller {
            user,
            rlimits,
            lowered: lowered.0,
            outlived: None,
        })
    }
}

#[derive(Default)]
struct LoweredLimits(Vec<LoweredLimit>);

impl LoweredLimits {
    /// Lowers one limit, and keeps what it was.
    fn lower<T: Copy + Into<u64> + TryFrom<u64> + Display>(
        &mut self,
        name: &str,
        limit: &mut T,
        most: Option<(u64, String)>,
        least: T,
    ) -> Result<(), TooLittle> {
        let asked = (*limit).into();
        let Some((given, by)) = most.filter(|(most, _)| *most < asked) else {
            return Ok(());
        };
        let least = least.into();
        if given < least {
            return Err(TooLittle { by, given, least });
        }
        // Of two that lower it, the smaller one says what it was first.
        let before = self.0.iter().position(|known| known.limit == name);
        let asked = before.map_or(asked, |place| self.0.remove(place).asked);
        // Smaller than a value of the type is one of the type.
        *limit = T::try_from(given).unwrap_or(*limit);
        self.0.push(LoweredLimit {
            limit: name.to_owned(),
            asked,
            given,
            by,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: ServedUser = ServedUser {
        user: 4242,
        group: 4242,
        umask: 0o022,
    };

    fn ceiling(value: u64, file: &str) -> Option<GroupCeiling> {
        let file = file.into();
        Some(GroupCeiling { value, file })
    }

    fn lowered(groups: GroupAllowance) -> (JailLimits, Result<Vec<LoweredLimit>, TooLittle>) {
        let allowance = CallerAllowance {
            groups,
            rlimits: HardLimits::default(),
        };
        let mut limits = JailLimits {
            swap: 100 << 20,
            ..JailLimits::default()
        };
        let caller = allowance.lower(USER, &mut limits);
        (limits, caller.map(|caller| caller.lowered))
    }

    #[test]
    fn who_has_more_lowers_nothing() {
        let (limits, told) = lowered(GroupAllowance {
            memory: ceiling(1 << 40, "/m"),
            pids: ceiling(1 << 40, "/p"),
            ..GroupAllowance::default()
        });
        assert_eq!(limits.memory, JailLimits::default().memory);
        assert_eq!(told, Ok(Vec::new()));
    }

    #[test]
    fn every_smaller_limit_holds_and_is_told() {
        let (limits, told) = lowered(GroupAllowance {
            memory: ceiling(64 << 20, "/m"),
            swap: ceiling(30 << 20, "/s"),
            memory_and_swap: ceiling(74 << 20, "/b"),
            pids: ceiling(9, "/p"),
            cpu: ceiling(50, "/c"),
        });
        assert_eq!((limits.memory, limits.swap), (64 << 20, 10 << 20));
        assert_eq!((limits.pids, limits.cpu), (9, 50));
        let told: Vec<_> = told.unwrap();
        let told = told
            .iter()
            .map(|it| (it.limit.as_str(), it.asked, it.by.as_str()));
        let expected = [
            ("memory", 256 << 20, "/m"),
            ("swap", 100 << 20, "/b"),
            ("cpu", 100, "/c"),
            ("pids", 50, "/p"),
        ];
        assert!(told.eq(expected));
    }

    #[test]
    fn too_little_for_a_jail_is_refused() {
        let (_, told) = lowered(GroupAllowance {
            pids: ceiling(1, "/p/pids.max"),
            ..GroupAllowance::default()
        });
        let told = told.unwrap_err().to_string();
        assert_eq!(
            told,
            "the caller's own /p/pids.max allows 1, and no jail does with less than 2"
        );
    }
}
