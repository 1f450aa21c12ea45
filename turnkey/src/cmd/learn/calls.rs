//! The system calls that were made, as the names of groups and calls that a profile keeps.

use std::collections::BTreeSet;

use turnkey_policy::syscalls::{ESSENTIAL, GROUPS};

/// A group is named whole when at least one in so many of its calls was made: a program that does a
/// third of what a group is for will do more of it another day.
const SHARE: usize = 3;

/// Groups that hold what every jail is started with.
const WHOLE: [&str; 2] = ["@core", "@file-open"];

/// A word for `syscalls.allow`, and why it is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptCall {
    /// A group or a call.
    pub name: &'static str,
    /// For people.
    pub why: String,
}

/// The smallest set of groups and calls that holds all of `made`, and whatever every jail needs, as far as
/// it is `allowed` at all.
pub fn kept(made: &BTreeSet<&str>, allowed: &dyn Fn(&str) -> bool) -> Vec<KeptCall> {
    let mut kept = Vec::new();
    for group in GROUPS {
        let used: Vec<&'static str> = group
            .syscalls
            .iter()
            .copied()
            .filter(|name| (made.contains(name) || ESSENTIAL.contains(name)) && allowed(name))
            .collect();
        let whole = WHOLE.contains(&group.name) || used.len() * SHARE >= group.syscalls.len();
        if used.is_empty() {
            continue;
        }
        if whole {
            let why = format!(
                "{} of its {} calls are needed",
                used.len(),
                group.syscalls.len()
            );
            kept.push(KeptCall {
                name: group.name,
                why,
            });
            continue;
        }
        kept.extend(used.into_iter().map(|name| KeptCall {
            name,
            why: format!("of {}", group.name),
        }));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(made: &[&str]) -> Vec<&'static str> {
        let made = made.iter().copied().collect();
        let kept = kept(&made, &|_| true).into_iter();
        kept.map(|kept| kept.name).collect()
    }

    #[test]
    fn few_calls_of_a_group_stand_alone() {
        assert_eq!(
            names(&["read", "openat", "nanosleep"]),
            ["@core", "@file-open", "nanosleep"]
        );
    }

    #[test]
    fn many_calls_of_a_group_are_the_group() {
        assert_eq!(
            names(&["accept4", "gettimeofday"]),
            ["@core", "@file-open", "gettimeofday", "@network-server"]
        );
    }

    #[test]
    fn what_is_not_allowed_is_not_kept() {
        let made = ["openat", "nanosleep"].into();
        let kept = kept(&made, &|name| name != "nanosleep").into_iter();
        let names: Vec<_> = kept.map(|kept| kept.name).collect();
        assert_eq!(names, ["@core", "@file-open"]);
    }
}
