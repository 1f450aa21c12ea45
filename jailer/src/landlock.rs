//! Landlock, landlock(7): a second lock on files, independent of the mounts.
//!
//! The ruleset is made here with everything the running kernel can refuse. Its rules are added by
//! the child, once the jail's tree stands, because most of that tree exists only in there.
//!
//! TCP is handled only where nobody watches: Landlock would refuse a connect before the control
//! group's eBPF program has seen the address, and the network namespace is empty anyway.

pub(crate) mod probe;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreated, RulesetError, Scope,
};

/// The newest ABI whose rights are asked for, when the kernel has it. What 7 and 8 brought is no
/// right: which refusals the host's audit log gets (by default none of a program started by
/// execve(2)), and threads.
const NEWEST: i32 = 9;
/// The ABI from which on TCP can be handled.
const TCP: u32 = 4;

/// The reason why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum LandlockError {
    /// The kernel refused.
    #[error("the kernel refused the Landlock ruleset")]
    Refused(#[from] RulesetError),
    /// The library made none.
    #[error("this kernel has no Landlock: boot one with `landlock` in `lsm=`")]
    Absent,
}

/// The use that a path of the jail may be put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// Listing directories.
    List,
    /// Reading and running what is named, and listing nothing.
    ByName,
    /// Reading files and listing directories.
    Read,
    /// Reading and running.
    ReadExecute,
    /// Reading and writing what is there, making nothing: devices.
    Device,
    /// Every use.
    Full,
}

/// Landlock's ABI version on this kernel, 0 without it.
pub fn abi() -> u32 {
    u32::try_from(crate::sys::landlock_abi()).unwrap_or(0)
}

/// Bits of the known mistakes that this kernel's Landlock has mended; 0 also where it cannot tell,
/// before ABI 7.
pub fn errata() -> u32 {
    u32::try_from(crate::sys::landlock_errata()).unwrap_or(0)
}

/// The library's name for the rights of an ABI version, at most [`NEWEST`].
fn rights(abi: u32) -> ABI {
    ABI::from(i32::try_from(abi).unwrap_or(NEWEST).min(NEWEST))
}

/// The accesses that a ruleset refuses unless a rule grants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandledAccess {
    /// The ABI version whose rights these are.
    pub abi: u32,
    /// `LANDLOCK_ACCESS_FS_*`
    pub access: u64,
    /// `LANDLOCK_SCOPE_*`
    pub scopes: u64,
    /// True when every bind and connect of TCP is refused.
    pub tcp: bool,
}

impl HandledAccess {
    /// True when abstract Unix sockets from before the jail are out of its reach, in whatever network.
    #[must_use]
    pub fn keeps_abstract_sockets_apart(self) -> bool {
        BitFlags::<Scope>::from_bits_truncate(self.scopes).contains(Scope::AbstractUnixSocket)
    }

    /// With TCP, where the kernel can.
    #[must_use]
    pub fn with_tcp(self) -> HandledAccess {
        HandledAccess {
            tcp: self.abi >= TCP,
            ..self
        }
    }
}

/// One rule, as the kernel takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandlockRule {
    /// As seen from inside.
    pub path: PathBuf,
    /// `LANDLOCK_ACCESS_FS_*`, for it and everything beneath it.
    pub access: u64,
}

/// The accesses that a kernel with `abi` can refuse; `None` for 0, which is no Landlock.
pub fn handled(abi: u32) -> Option<HandledAccess> {
    (abi > 0).then(|| HandledAccess {
        abi,
        access: AccessFs::from_all(rights(abi)).bits(),
        scopes: Scope::from_all(rights(abi)).bits(),
        tcp: false,
    })
}

/// linux/landlock.h, by bit.
const RIGHTS: [&str; 17] = [
    "execute",
    "write-file",
    "read-file",
    "read-dir",
    "remove-dir",
    "remove-file",
    "make-char",
    "make-dir",
    "make-reg",
    "make-sock",
    "make-fifo",
    "make-block",
    "make-sym",
    "refer",
    "truncate",
    "ioctl-dev",
    "resolve-unix",
];
const SCOPES: [&str; 2] = ["abstract unix sockets", "signals"];

/// The names of these rights.
pub fn rights_in_words(access: u64) -> Vec<&'static str> {
    in_words(&RIGHTS, access)
}

/// The names of these scopes.
pub fn scopes_in_words(scopes: u64) -> Vec<&'static str> {
    in_words(&SCOPES, scopes)
}

fn in_words(names: &[&'static str], bits: u64) -> Vec<&'static str> {
    let named = names.iter().enumerate();
    named
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect()
}

/// The bits that a rule for `place` grants, as landlock_add_rule(2) takes them. `directory` is
/// false for a rule on a single file, where the kernel refuses rights of directories.
pub fn grant(place: PathUse, abi: u32, directory: bool) -> u64 {
    let rights = rights(abi);
    let all = AccessFs::from_all(rights);
    let wanted = match place {
        PathUse::List => AccessFs::ReadDir.into(),
        PathUse::ByName => AccessFs::ReadFile | AccessFs::Execute,
        PathUse::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        PathUse::ReadExecute => AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute,
        PathUse::Device => {
            AccessFs::ReadFile
                | AccessFs::ReadDir
                | AccessFs::WriteFile
                | AccessFs::Truncate
                | AccessFs::IoctlDev
        }
        // A socket that was there before the jail belongs to the host: nobody gets to it. Those that
        // the jail makes itself need no right.
        PathUse::Full => all & !BitFlags::from(AccessFs::ResolveUnix),
    };
    let wanted: BitFlags<AccessFs> = wanted & all;
    if directory {
        wanted.bits()
    } else {
        (wanted & AccessFs::from_file(rights)).bits()
    }
}

/// A ruleset that refuses what is to be handled.
pub fn ruleset(handled: HandledAccess) -> Result<OwnedFd, LandlockError> {
    let access = BitFlags::<AccessFs>::from_bits_truncate(handled.access);
    let scopes = BitFlags::<Scope>::from_bits_truncate(handled.scopes);
    // No best effort: what this ABI promises is asked for, and refused together.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(access)?;
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    if handled.tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(rights(handled.abi)))?;
    }
    let created: RulesetCreated = ruleset.create()?;
    Option::<OwnedFd>::from(created).ok_or(LandlockError::Absent)
}

/// The rights of Landlock besides the file system's first ones, each with its first ABI.
const LATER: [(&str, u32); 6] = [
    ("truncate", 3),
    ("TCP", TCP),
    ("ioctl on devices", 5),
    ("abstract unix sockets", 6),
    ("signals", 6),
    ("unix sockets of the host", 9),
];

/// Describes what the ruleset covers, and what the kernel is too old for.
pub fn describe(handled: HandledAccess) -> String {
    let (has, lacks): (Vec<_>, Vec<_>) = LATER.iter().partition(|(_, since)| handled.abi >= *since);
    let names = |list: Vec<&(&'static str, u32)>| {
        let handled = list
            .iter()
            .filter(|(name, _)| *name != "TCP" || handled.tcp || handled.abi < TCP);
        handled.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let covered = [vec!["file system"], names(has)].concat().join(", ");
    let lacking = names(lacks).join(", ");
    let abi = handled.abi;
    if lacking.is_empty() {
        format!("ABI {abi}: {covered}")
    } else {
        format!("ABI {abi}: {covered}; this kernel is too old for {lacking}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The values of linux/landlock.h.
    const EXECUTE: u64 = 1;
    const READ_FILE: u64 = 1 << 2;
    const READ_DIR: u64 = 1 << 3;
    const IOCTL_DEV: u64 = 1 << 15;

    #[test]
    fn a_read_only_place_grants_no_write() {
        assert_eq!(grant(PathUse::Read, 6, true), READ_FILE | READ_DIR);
        assert_eq!(
            grant(PathUse::ReadExecute, 6, true),
            EXECUTE | READ_FILE | READ_DIR
        );
    }

    #[test]
    fn a_single_file_gets_no_rights_of_directories() {
        assert_eq!(grant(PathUse::ReadExecute, 6, false), EXECUTE | READ_FILE);
    }

    #[test]
    fn every_right_and_scope_that_is_asked_for_has_a_name() {
        for abi in 1..=9 {
            let handled = handled(abi).unwrap();
            let named = |names: Vec<_>| u32::try_from(names.len()).unwrap();
            assert_eq!(
                named(rights_in_words(handled.access)),
                handled.access.count_ones()
            );
            assert_eq!(
                named(scopes_in_words(handled.scopes)),
                handled.scopes.count_ones()
            );
        }
        assert_eq!(
            rights_in_words(READ_FILE | IOCTL_DEV),
            ["read-file", "ioctl-dev"]
        );
        assert_eq!(handled(0), None);
    }

    #[test]
    fn an_older_kernel_is_not_asked_for_what_it_lacks() {
        assert_eq!(grant(PathUse::Full, 2, true) & IOCTL_DEV, 0);
        assert_eq!(grant(PathUse::Full, 6, true) & IOCTL_DEV, IOCTL_DEV);
        assert_eq!(
            grant(PathUse::Full, 99, true),
            grant(PathUse::Full, 9, true)
        );
    }

    #[test]
    fn j37_a_socket_of_the_host_is_granted_nowhere() {
        const RESOLVE_UNIX: u64 = 1 << 16;
        assert_eq!(handled(9).unwrap().access & RESOLVE_UNIX, RESOLVE_UNIX);
        for place in [
            PathUse::List,
            PathUse::Read,
            PathUse::ReadExecute,
            PathUse::Device,
            PathUse::Full,
        ] {
            assert_eq!(grant(place, 9, true) & RESOLVE_UNIX, 0, "{place:?}");
        }
    }

    #[test]
    fn what_the_kernel_is_too_old_for_is_told() {
        let words = |abi: u32| describe(handled(abi).unwrap());
        assert_eq!(
            words(2),
            "ABI 2: file system; this kernel is too old for truncate, TCP, ioctl on devices, \
             abstract unix sockets, signals, unix sockets of the host"
        );
        assert_eq!(
            words(7),
            "ABI 7: file system, truncate, ioctl on devices, abstract unix sockets, signals; \
             this kernel is too old for unix sockets of the host"
        );
        assert!(!words(9).contains("too old"));
        let unwatched = describe(handled(9).unwrap().with_tcp());
        assert!(unwatched.contains("truncate, TCP, ioctl"), "{unwatched}");
        assert!(!handled(3).unwrap().with_tcp().tcp);
    }
}
