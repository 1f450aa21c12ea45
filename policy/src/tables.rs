//! The tables of a profile: every key of them is declared here, once.

mod accepted;
pub(crate) mod declare;
mod enforcement;
mod environment;
mod filesystem;
mod identity;
mod limits;
mod network;
mod rule;
mod scan;
mod syscalls;

use crate::keys::ProfileKey;
use declare::KeyTable;

pub use accepted::AcceptedFinding;
pub(crate) use accepted::AcceptedKeys;
pub(crate) use enforcement::EnforcementKeys;
pub use enforcement::EnforcementPolicy;
pub(crate) use environment::EnvironmentKeys;
pub use environment::JailEnvironment;
pub(crate) use filesystem::FilesystemKeys;
pub use filesystem::{FilesystemPolicy, HostPath, ScratchMount, WorkdirPolicy};
pub(crate) use identity::IdentityKeys;
pub use identity::JailIdentity;
pub use limits::JailLimits;
pub(crate) use limits::LimitKeys;
pub(crate) use network::NetworkKeys;
pub use network::{AllowedHost, NetworkPolicy};
pub use rule::Rule;
pub(crate) use rule::RuleKeys;
pub(crate) use scan::ScanKeys;
pub use scan::ScanPolicy;
pub(crate) use syscalls::SyscallKeys;
pub use syscalls::SyscallPolicy;

/// The keys of every table, in the order in which the reference lists them.
pub(crate) const KEYS: &[&[ProfileKey]] = &[
    crate::keys::TOP,
    FilesystemKeys::KEYS,
    filesystem::READ,
    filesystem::WRITE,
    filesystem::ScratchKeys::KEYS,
    filesystem::WorkdirKeys::KEYS,
    NetworkKeys::KEYS,
    network::AllowedKeys::KEYS,
    LimitKeys::KEYS,
    IdentityKeys::KEYS,
    EnvironmentKeys::KEYS,
    SyscallKeys::KEYS,
    EnforcementKeys::KEYS,
    ScanKeys::KEYS,
    crate::behaviour::KEYS,
    AcceptedKeys::KEYS,
    RuleKeys::KEYS,
];
