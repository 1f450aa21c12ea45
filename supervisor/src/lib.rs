//! A whole watched run, from a policy to its report: the only place where jail and monitor meet.
//!
//! ```text
//! Policy ─settle→ SettledPolicy ─prepare→ ReadyJail ─attach→ Held ─supervise→ RunCourse ─finish→ Report
//! ```
//!
//! The flow is one page, `run.rs`; each of its four acts is a file of that name. A policy is settled once (its
//! toolchain found, its home looked at, its names looked up, the layers that the caller does without taken out) and is not changed
//! afterwards: what `explain` shows is what `run` does.
//!
//! # A run
//!
//! ```no_run
//! use turnkey_supervisor::{RunObserver, RunRequest, SettledPolicy, Strictness, enter, run};
//!
//! # fn main() -> anyhow::Result<()> {
//! struct Quiet;
//! impl RunObserver for Quiet {}
//!
//! // Before this process has a thread: without privileges it moves into a user namespace of its own.
//! let entered = enter();
//! let no_files = |path: &str| Err(format!("{path}: only shipped profiles here"));
//! let policy = turnkey_policy::load("untrusted", &no_files, &Default::default())?;
//! let request = RunRequest::new(vec!["/usr/bin/id".into()]);
//! let settled = SettledPolicy::new(policy, &request.command, &request.directory, Strictness::Whole)?;
//! let done = run(request, settled, entered, &mut Quiet)?;
//! println!("{:?}, exit code {}", done.report.verdict, done.report.exit_code());
//! # Ok(())
//! # }
//! ```
//!
//! `examples/embed.rs` is the same with a profile, captured output and every event: a runner to copy.
//!
//! # What the caller's part is
//!
//! - **Threads and children**: as for `turnkey-jailer`, whose rules hold here too.
//! - **Signals.** A run listens to the signals that end a process, and passes them on to the program.
//! - **Standard input** is what the program reads; standard output and error are written by what [`RunRequest::output`] says.
//! - **A terminal** for the program shows on [`RunRequest::terminal`], whose descriptors are the caller's choice. Where they are a
//!   terminal, whoever ends this process during a run without destructors calls [`restore_all`] before.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test makes its own files")
)]

pub mod advice;
mod attach;
pub mod attachment;
mod caller_variables;
pub mod clock;
mod connections;
mod directory;
mod environment;
mod event_sink;
pub mod export;
pub mod files;
mod filter_cache;
mod finish;
mod gateway;
mod home;
pub mod layer;
pub mod live;
mod machine;
mod missing_hint;
mod monitor_handle;
pub mod names;
mod object;
mod open_files;
mod others;
mod place;
mod prepare;
mod programs_left;
mod publish;
mod relay;
mod repository_left;
pub mod required_layers;
mod run;
mod scope;
pub mod service;
mod settle;
mod signals;
mod sinkhole;
#[doc(hidden)]
pub use sinkhole::parsers as sinkhole_parsers;
pub mod sinks;
mod stdin;
mod supervise;
mod terminal;
pub mod toolchain;
mod workspace_names;

pub use directory::RunDirectory;
pub use environment::CallerEnvironment;
pub use event_sink::RunObserver;
pub use object::object;
pub use open_files::make_room as make_room_for_files;
pub use place::{RunPlace, enter};
pub use relay::{LastPiece, Sink, standard_error, standard_output};
pub use required_layers::Strictness;
pub use run::{FinishedRun, RunRequest, run};
pub use settle::{SettledPolicy, plan};
pub use signals::SignalSet;
pub use terminal::{Terminal, restore_all};
pub use turnkey_monitor::Residence;
