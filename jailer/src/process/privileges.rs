//! The privileges of the supervisor itself, checked before anything is made.

use caps::{CapSet, Capability};

use crate::sys;

/// Each with what it is for.
const NEEDED: [(Capability, &str); 5] = [
    (Capability::CAP_SYS_ADMIN, "namespaces and mounts"),
    (Capability::CAP_SETUID, "the jail's user"),
    (Capability::CAP_SETGID, "the jail's group"),
    (Capability::CAP_CHOWN, "the writable side of the workspace"),
    (
        Capability::CAP_DAC_OVERRIDE,
        "directories that only their owner can enter",
    ),
];

/// The capabilities that a supervisor needs: number, name, and what for.
pub fn needed() -> impl Iterator<Item = (u8, String, &'static str)> {
    NEEDED
        .iter()
        .map(|(capability, purpose)| (capability.index(), capability.to_string(), *purpose))
}

/// Names the capabilities that are missing and what each would be for; empty when none is.
pub fn missing() -> String {
    let held = caps::read(None, CapSet::Effective).unwrap_or_default();
    let missing = NEEDED
        .iter()
        .filter(|(capability, _)| !held.contains(capability));
    let words: Vec<String> = missing
        .map(|(capability, purpose)| format!("{capability} ({purpose})"))
        .collect();
    words.join(", ")
}

/// True when the file of this program brought rights along that its caller has not: a set-user-ID
/// or set-group-ID bit, or capabilities.
pub fn are_borrowed() -> bool {
    use nix::unistd::{getegid, geteuid, getgid, getuid};
    let other = getuid() != geteuid() || getgid() != getegid();
    let permitted = caps::read(None, CapSet::Permitted).unwrap_or_default();
    other || (sys::is_secure_mode() && !geteuid().is_root() && !permitted.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_expectations::expected;

    expected!(as_root, "give up one capability of root's");

    #[test]
    fn what_is_missing_is_named_with_its_purpose() {
        // Capabilities belong to threads, so this changes nothing for other tests.
        caps::drop(None, CapSet::Effective, Capability::CAP_CHOWN).unwrap();
        assert_eq!(missing(), "CAP_CHOWN (the writable side of the workspace)");
    }
}
