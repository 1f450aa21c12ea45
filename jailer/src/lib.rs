//! Builds a jail and proves it: namespaces, mounts, seccomp, Landlock and control groups, by
//! system calls, from a [`turnkey_policy::Policy`].
//!
//! ```text
//! Plan ─prepare→ Prepared ─spawn→ Held ─release→ Running ─finish→ Exit
//! ```
//!
//! A [`Plan`] is data. [`Prepared`] holds everything that can be made without a process. In
//! [`Held`] the program's process exists, is fully confined, has proved each layer from inside and
//! stands before execve(2): whoever watches can take its place before the first instruction.
//! Nothing here knows of eBPF, of TOML or of a command line.

mod attributes;
mod changes;
mod child;
mod error;
pub mod export;
pub mod filter;
mod group_limits;
pub mod groups;
pub mod hierarchy;
pub mod host;
mod identity;
mod idmap;
mod ids;
mod init;
mod init_handle;
mod jail;
mod keeper;
pub mod kernel;
pub mod landlock;
pub mod namespaces;
mod outcome;
pub mod paths;
pub mod plan;
mod prepare;
pub mod privileges;
mod procfs;
mod program;
pub mod proof;
mod rlimits;
pub mod root;
pub mod rootless;
mod sample;
mod start_memory;
mod subordinate;
mod sweep;
mod sys;
mod tally;
mod tree;
pub mod trial;
pub mod userns;
pub mod wire;

pub use error::JailError;
pub use group_limits::GroupLimit;
pub use groups::{GroupError, Groups};
pub use host::{Host, HostError};
pub use identity::INSIDE_ID;
pub use idmap::HOST_ID;
pub use ids::{Ids, Own, Spare};
pub use jail::{Exit, Held, News, Running};
pub use outcome::{Change, ChangedFile, LayerReport, Limit, Status, Usage};
pub use plan::{Command, Plan, PlanError};
pub use prepare::Prepared;
pub use rlimits::ResourceLimit;
