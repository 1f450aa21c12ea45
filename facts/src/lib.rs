//! Acts in a jail and their outcome, as plain data: from the crates that find them out to those that report them.
//!
//! ```text
//! monitor ── Event, Evidence ───────────┐
//! jailer ─── Status, Usage, Exported ───┼─→ analysis, report
//! gateway ── Passage ───────────────────┤
//! sinkhole ─ SinkholeTraffic ───────────┘
//! ```
//!
//! Nothing here reads or writes anything. Paths, names and arguments are bytes exactly as the kernel or the jail had
//! them: the report escapes them when it renders them.

pub mod dns;
mod event;
mod evidence;
pub mod export;
mod outcome;
mod passage;
mod sinkhole;
pub mod symlinks;

pub use event::*;
pub use evidence::{ByKind, Evidence, Outsider};
pub use outcome::{
    Change, ChangedFile, ContentFate, LayerReport, Limit, MetLimit, Status, Usage, Written,
};
pub use passage::{Passage, Publication};
pub use sinkhole::{Conversation, SinkholeProtocol, SinkholeTraffic};
