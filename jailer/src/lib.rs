//! Builds a jail and proves it: namespaces, mounts, seccomp, Landlock and control groups, by
//! system calls, from a [`turnkey_policy::Policy`].
//!
//! ```text
//! Plan ─prepare→ Prepared ─start→ Confining ─held→ Held ─release→ Running ─finish→ JailExit
//! ```
//!
//! A [`Plan`] is data. [`Prepared`] holds everything that can be made without a process. In
//! [`Held`] the program's process exists, is fully confined, has proved each layer from inside and
//! stands before execve(2): whoever watches can take its place before the first instruction.
//! Nothing here knows of eBPF, of TOML or of a command line.
//!
//! # A run
//!
//! ```no_run
//! use std::os::fd::OwnedFd;
//! use turnkey_jailer::{Host, JailCommand, JailNews, Plan};
//! use turnkey_policy::Overrides;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let no_files = |path: &str| Err(format!("{path}: only shipped profiles here"));
//! let policy = turnkey_policy::load("untrusted", &no_files, &Overrides::default())?;
//! let command = JailCommand {
//!     arguments: vec!["/usr/bin/id".into()],
//!     environment: Vec::new(),
//!     workdir: std::env::current_dir()?,
//!     ..JailCommand::default()
//! };
//! let plan = Plan::new(&policy, &Host::probe(&policy)?, command)?;
//! let null = || std::fs::File::open("/dev/null").map(OwnedFd::from);
//! let held = plan.prepare([null()?, null()?, null()?])?.spawn()?;
//! let mut running = held.release()?;
//! while running.news()? != JailNews::Gone {}
//! println!("{:?}", running.finish()?.status);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/embed_jail.rs` is the same with pipes, limits and a look at the proofs: a runner to copy.
//!
//! # What the caller's part is
//!
//! - **Time, output, and a look at the limits.** Wall clock and output are the supervisor's; ask
//!   [`Running::exceeded`] every few hundredths of a second for the rest.
//! - **Privileges.** root, or [`rootless::enter`] before the first thread.
//! - **Children.** A jail's first process and its keeper are children of this process. Leave them to
//!   be waited for by [`Running`]: do not ignore `SIGCHLD`, do not wait for "any child".
//! - **Threads.** Jails share nothing: make as many as you like, from as many threads as you like.
//!   A jail dies with the thread that called [`Prepared::spawn`], so start it from one that stays. A
//!   [`Running`] that is dropped kills its jail and clears it away.
//! - **Descriptors** of this process reach no jail, whether they close on exec or not.
//!
//! # Errors
//!
//! Every state has [`JailError`]. It names what could not be had and, where there is one, the fix;
//! its sources tell the kernel's answer. After an error nothing is left of the jail.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test makes its own files")
)]

mod c_string;
mod error;
pub mod export;
mod filter;
pub mod foreign;
mod groups;
pub mod host;
mod ids;
mod jail;
pub mod keep;
mod kernel_file;
pub mod landlock;
pub mod layer;
pub mod mountinfo;
pub mod plan;
mod prepare;
mod process;
mod rootfs;
mod shifted_clock;
mod sys;
mod tally;

/// Items for the fuzzer alone; see `cargo xtask fuzz`.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::process::proof::{ProofExpectation, ProofFacts, RouteProbes};
    pub use crate::process::wire::{
        ChildFact, ChildMessage, ChildSender, FactPacket, PACKET, ProcText,
    };
}

pub use error::JailError;
pub use filter::{FilterError, SeccompFilters};
pub use groups::allowance::{GroupAllowance, GroupCeiling};
pub use groups::limits::GroupLimit;
pub use groups::own::OwnGroup;
pub use groups::sweep::{LeftGroups, sweep};
pub use groups::{CurrentUsage, GroupError, GroupNames, JailCgroups};
pub use host::{Host, HostError};
pub use ids::ceilings::UcountCeiling;
pub use ids::identity::decoy;
pub use ids::idmap::HOST_ID;
pub use ids::served::{NeededAccess, ServedUser};
pub use ids::{CallerIds, NamespaceIds, SpareIds};
pub use jail::{Confining, Held, JailExit, JailNews, Running};
pub use nix::errno::Errno;
pub use plan::{AUTHORITY, JailCommand, Plan, PlanError};
pub use prepare::Prepared;
pub use process::identity::FileIdentity;
pub use process::proof::ProofError;
pub use process::rlimits::{HardLimits, ResourceLimit};
pub use process::terminal::StandardStreams;
pub use process::wire::ChildStep;
pub use rootfs::RootfsError;
pub use shifted_clock::ShiftedClock;
pub use {
    groups::hierarchy, host::trial, ids::container, ids::rootless, ids::served, ids::userns,
    process::namespaces, process::privileges, rootfs::paths, rootfs::root,
};
