//! Limits in the values of variables, by which a runtime learns what its jail has: `{limits.memory}` in bytes, and parts of it,
//! such as `{limits.memory/2M}`, the half in mebibytes; `{limits.cpus}`, the CPUs that `limits.cpu` comes to.

use crate::quantity::parse_size;

/// The limits that a value can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedLimits {
    /// Bytes of memory.
    pub memory: u64,
    /// CPUs.
    pub cpus: u64,
}

impl NamedLimits {
    /// The limits of a jail with so many percent of a CPU, on a host with `cpus` of them. A part of a CPU is one, which the jail has at times.
    #[must_use]
    pub fn of_jail(memory: u64, percent: u32, cpus: usize) -> NamedLimits {
        let share = u64::from(percent.div_ceil(100));
        NamedLimits {
            memory,
            cpus: share.min(u64::try_from(cpus).unwrap_or(u64::MAX)).max(1),
        }
    }
}

/// The value with the limits in their places; `None` where it names no limit, or no part of one.
pub fn filled(value: &str, limits: NamedLimits) -> Option<String> {
    let Some((before, rest)) = value.split_once("{limits.") else {
        return Some(value.to_owned());
    };
    let (name, behind) = rest.split_once('}')?;
    let number = match name.split_once('/') {
        None if name == "memory" => limits.memory,
        None if name == "cpus" => limits.cpus,
        Some(("memory", part)) => limits.memory.checked_div(parse_size(part).ok()?)?,
        _ => return None,
    };
    Some(format!("{before}{number}{}", filled(behind, limits)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_stands_where_it_is_named_and_what_is_none_is_refused() {
        let limits = NamedLimits {
            memory: 512 << 20,
            cpus: 3,
        };
        let fill = |value| filled(value, limits);
        let filled = fill("-XX:MaxRAM={limits.memory} x={limits.memory/2M}m y={limits.cpus}");
        assert_eq!(filled.as_deref(), Some("-XX:MaxRAM=536870912 x=256m y=3"));
        for own in ["", "{}", "a{b}", "{limits", "}{"] {
            assert_eq!(fill(own).as_deref(), Some(own));
        }
        for wrong in [
            "{limits.memory",
            "{limits.x}",
            "{limits.memory/0}",
            "{limits.memory/}",
            "{limits.memory2}",
            "{limits.cpus/2}",
            "{limits.cpu}",
        ] {
            assert_eq!(fill(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_share_is_whole_cpus_of_which_the_host_has_enough() {
        for (share, host, expected) in [
            (1, 8, 1),
            (100, 8, 1),
            (101, 8, 2),
            (400, 8, 4),
            (400, 2, 2),
            (u32::MAX, 0, 1),
        ] {
            let named = NamedLimits::of_jail(1, share, host);
            assert_eq!(named.cpus, expected, "{share} % of {host}");
        }
    }
}
