//! From the text of a profile to a [`Policy`]: what a run of turnkey enforces.
//!
//! ```text
//! profile text ─parse→ layers ─merge→ one profile ─overrides→ ─resolve→ Policy
//! ```
//!
//! Everything here is pure: no files are read, no syscalls made. [`load`] is given a function
//! that reads files, so the command stays the only place that touches the machine.
//!
//! ```
//! use turnkey_policy::{Attempt, AttemptKind, OpenAccess, Overrides, decide, load};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let no_files = |path: &str| Err(format!("{path}: only shipped profiles here"));
//! let flags = Overrides::from_flags([("memory", "512M")])?;
//! let policy = load("untrusted", &no_files, &flags)?;
//! assert_eq!(policy.limits.memory, 512 << 20);
//!
//! let attempt = Attempt {
//!     path: Some(b"/etc/shadow"),
//!     access: &[OpenAccess::Read],
//!     ..Attempt::new(AttemptKind::Open)
//! };
//! let rule = decide(&policy.rules, &attempt).map(|index| &policy.rules[index]);
//! assert_eq!(rule.map(|rule| rule.id.as_str()), Some("credential-file"));
//! # Ok(())
//! # }
//! ```
//!
//! [`decide()`] is the reference for what rules mean, and [`syscalls`] the one table of syscalls.

mod actor;
pub mod address;
mod behaviour;
pub mod decide;
pub mod endpoint;
mod error;
mod filled;
mod flags;
pub mod glob;
mod home;
pub mod keys;
pub mod lint;
mod load;
pub mod masks;
pub mod model;
pub mod names;
mod overrides;
mod place;
mod policy;
mod profile;
mod publish;
pub mod quantity;
mod quoted;
mod read;
mod reason;
pub mod reserved;
mod resolve;
mod shipped;
mod shown;
pub mod syscalls;
mod tables;
mod values;
pub mod visible;
mod workspace;

pub use actor::ActorPaths;
pub use address::{Ports, Subnet, SubnetError};
pub use behaviour::{Behaviour, BehaviourResponse};
pub use decide::{
    Attempt, Candidate, asks_who_acts, brought_about, decide, decide_same_file, decide_unknown,
    deciding, matching, peer_precedence, precedence, unknown,
};
pub use endpoint::{Endpoint, EndpointHost, SpecialAddress};
pub use error::{LoadError, Problem};
pub use filled::{NamedLimits, filled};
pub use glob::{Glob, GlobError, Specificity, Token};
pub use home::Beginning;
pub use lint::check;
pub use load::{LoadedProfile, load};
pub use model::*;
pub use names::NamedVariants;
pub use overrides::{Overrides, UnknownFlag, flags};
pub use place::ProfilePlace;
pub use policy::Policy;
pub use publish::PublishedPort;
pub use quoted::quoted;
pub use reason::PrecedenceReason;
pub use reserved::{is_reserved, is_too_much_to_show};
pub use resolve::MOST_RULES;
pub use shipped::{SHIPPED, ShippedProfile, is_file, listed, shipped};
pub use tables::{
    AcceptedFinding, AllowedHost, EnforcementPolicy, FilesystemPolicy, HostPath, JailEnvironment,
    JailIdentity, JailLimits, KEYS, LackingPlace, NetworkPolicy, Rule, ScanPolicy, ScratchMount,
    SyscallPolicy, WorkdirPolicy, find_key, keys_in_table,
};

/// The directory of the jail at which the caller's appears, and the program's home.
pub const WORKSPACE: &str = "/workspace";

/// The version of the profile format that this release reads.
pub const SCHEMA: &str = "turnkey.profile/v1";

/// Bytes. A larger text is no profile, and would only keep the parser busy.
pub const LARGEST_PROFILE: usize = 1 << 20;

/// A duration as profiles write it: a number and one unit, `500ms`, `30s`, `10m`, `2h`.
///
/// # Errors
/// When it is none, or shorter than a millisecond; in words for people.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    values::duration(text).map_err(|error| format!("{}: {}", error.message, error.help))
}

/// A size of memory as profiles write it, `64M` or `2G`, in bytes.
///
/// # Errors
/// When it is none, or less than a program needs; in words for people.
pub fn memory(text: &str) -> Result<u64, String> {
    values::memory(text).map_err(|error| format!("{}: {}", error.message, error.help))
}
