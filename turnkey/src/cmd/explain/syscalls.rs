//! The answers of the syscall filters.

use serde::Serialize;
use turnkey_policy::syscalls::arguments::{self, ArgumentRefusal};
use turnkey_policy::syscalls::{self, GROUPS};

/// Both filters.
#[derive(Debug, Serialize)]
pub struct SyscallsView {
    /// Allowed names by the first group that has them; the rest, named one by one, last.
    pub allowed: Vec<AllowedCalls>,
    /// Exist, and fail with EPERM.
    pub refused: Vec<&'static str>,
    /// Exist, and fail with ENOSYS as if they did not.
    pub absent: Vec<&'static str>,
    /// Arguments of allowed calls that fail all the same; the first that speaks of a call answers.
    pub arguments: Vec<RefusedArgument>,
}

/// Allowed names of one group.
#[derive(Debug, Serialize)]
pub struct AllowedCalls {
    /// `null` for names that are in no group.
    pub group: Option<&'static str>,
    pub about: &'static str,
    pub names: Vec<&'static str>,
}

/// An argument that is never allowed.
#[derive(Debug, Serialize)]
pub struct RefusedArgument {
    pub syscalls: &'static [&'static str],
    pub what: &'static str,
    pub answer: &'static str,
    pub why: &'static str,
}

impl SyscallsView {
    /// Reads the policy and the tables that the filters are built from.
    pub fn new(policy: &turnkey_policy::SyscallPolicy) -> SyscallsView {
        let is_absent = |name: &&str| syscalls::ABSENT.contains(name);
        let refused = |name: &&str| !policy.allow.contains(name) && !is_absent(name);
        SyscallsView {
            allowed: allowed(policy),
            refused: syscalls::known().filter(refused).collect(),
            absent: syscalls::known().filter(is_absent).collect(),
            arguments: arguments::refusals(policy)
                .filter(|refusal| speaks_of(refusal, policy))
                .map(argument)
                .collect(),
        }
    }
}

fn allowed(policy: &turnkey_policy::SyscallPolicy) -> Vec<AllowedCalls> {
    let mut left = policy.allow.clone();
    let mut rows = Vec::new();
    for group in GROUPS {
        let names: Vec<_> = group
            .syscalls
            .iter()
            .copied()
            .filter(|name| left.remove(name))
            .collect();
        rows.push(AllowedCalls {
            group: Some(group.name),
            about: group.about,
            names,
        });
    }
    rows.push(AllowedCalls {
        group: None,
        about: "in no group",
        names: left.into_iter().collect(),
    });
    rows.retain(|row| !row.names.is_empty());
    rows
}

/// True when the policy allows one of the calls: one that it does not allow at all has no arguments to refuse.
fn speaks_of(refusal: &ArgumentRefusal, policy: &turnkey_policy::SyscallPolicy) -> bool {
    let mut calls = refusal.syscalls.iter();
    calls.any(|name| policy.allow.contains(name))
}

fn argument(refusal: &ArgumentRefusal) -> RefusedArgument {
    RefusedArgument {
        syscalls: refusal.syscalls,
        what: refusal.what,
        answer: refusal.answer.name(),
        why: refusal.why,
    }
}
