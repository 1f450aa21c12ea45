//! From the text of a profile to a [`Policy`]: what a run of turnkey enforces.
//!
//! ```text
//! profile text ─parse→ layers ─merge→ one profile ─overrides→ ─resolve→ Policy
//! ```
//!
//! Everything here is pure: no files are read, no syscalls made. [`load`] is given a function
//! that reads files, so the command stays the only place that touches the machine.
//!
//! [`decide()`] is the reference for what rules mean, and [`syscalls`] the one table of syscalls.

pub mod decide;
mod error;
mod flags;
pub mod glob;
pub mod keys;
mod load;
pub mod model;
pub mod names;
mod overrides;
mod profile;
pub mod quantity;
mod read;
mod resolve;
mod shipped;
pub mod syscalls;
mod values;

pub use decide::{Attempt, Candidate, decide, precedence};
pub use error::{LoadError, Problem};
pub use glob::{Glob, GlobError, Specificity, Token};
pub use load::load;
pub use model::*;
pub use names::Named;
pub use overrides::Overrides;
pub use shipped::{SHIPPED, is_file, shipped};

/// Where the caller's directory appears in the jail, and the program's home.
pub const WORKSPACE: &str = "/workspace";

/// The version of the profile format that this release reads.
pub const SCHEMA: &str = "turnkey.profile/v1";
