//! Limits in the values of variables, by which a runtime learns what its jail has: `{limits.memory}` in bytes, and parts of it,
//! such as `{limits.memory/2M}`, the half in mebibytes.

use crate::quantity::parse_size;

/// The value with `memory`, in bytes, in its places; `None` where it names no limit, or no part of one.
pub fn filled(value: &str, memory: u64) -> Option<String> {
    let Some((before, rest)) = value.split_once("{limits.") else {
        return Some(value.to_owned());
    };
    let (name, behind) = rest.split_once('}')?;
    let part = match name.strip_prefix("memory")? {
        "" => 1,
        part => parse_size(part.strip_prefix('/')?).ok()?,
    };
    let number = memory.checked_div(part)?;
    Some(format!("{before}{number}{}", filled(behind, memory)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_stands_where_it_is_named_and_what_is_none_is_refused() {
        let fill = |value| filled(value, 512 << 20);
        let filled = fill("-XX:MaxRAM={limits.memory} x={limits.memory/2M}m");
        assert_eq!(filled.as_deref(), Some("-XX:MaxRAM=536870912 x=256m"));
        for own in ["", "{}", "a{b}", "{limits", "}{"] {
            assert_eq!(fill(own).as_deref(), Some(own));
        }
        for wrong in [
            "{limits.memory",
            "{limits.x}",
            "{limits.memory/0}",
            "{limits.memory/}",
            "{limits.memory2}",
        ] {
            assert_eq!(fill(wrong), None, "{wrong}");
        }
    }
}
