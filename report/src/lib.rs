//! The report of a run: to scripts as JSON, to people on the terminal, and event by event as JSON
//! Lines.
//!
//! ```text
//! Event ─┬─ Aggregator ── Observations ─┐
//!        └─ EventWriter (--events)      ├─ Report::build ─┬─ json::write (--report)
//! how the run ended, usage, layers ─────┘            ▲    └─ terminal::story (stderr)
//!                     a stored report ── Stored::read ┘
//! ```
//!
//! Everything here is pure but for writing to what the caller hands in. Bytes become text in
//! [`text`] alone, and what comes out of it cannot steer a terminal or break JSON.

mod act;
mod advice;
mod aggregate;
mod alert;
mod behaviour;
mod build;
mod came_of;
mod clock;
mod ending;
mod errno;
mod events;
mod export;
pub mod formats;
pub mod json;
mod kept;
mod limit;
pub mod live;
mod met;
pub mod model;
mod ordering;
mod own_places;
mod own_servers;
mod passages;
mod peers;
mod preparation;
mod processes;
mod read;
pub mod redact;
mod rows;
mod sinkhole;
mod speakers;
mod stopper;
mod table;
pub mod terminal;
mod text;
pub mod unchosen;
mod units;
mod unknown;
mod verdict;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod schema_validator;

pub use act::{accesses, address_text, asked};
pub use advice::{of_what_is_nowhere, of_what_is_there};
pub use aggregate::{Aggregator, Observations};
pub use alert::{Alert, AlertKind, AlertWriter};
pub use build::{Captured, ReportInputs};
pub use clock::{Clock, read as read_date};
pub use ending::{AttachmentEnding, Ending, Evidence, NotStarted, RunEnding};
pub use errno::errno_name;
pub use events::{EventLines, EventWriter};
pub use export::Export;
pub use kept::Kept;
pub use model::{
    Attachment, AttachmentInterference, BroughtIn, Exit, FileAccess, FileOperation, Finding,
    FoundProcess, GroupSetting, Host, LeftProgram, LeftVariable, LoweredLimit, OngoingCall,
    OtherWatcher, Report, ServedFor, Sink, Status, Verdict, WatcherPlace,
};
pub use passages::published;
pub use processes::KnownProcess;
pub use read::{LARGEST, Stored, Unreadable};
pub use stopper::Stopper;
pub use text::{by_reason, escape, quote, shortened, unescape, visible};
pub use units::{seconds, size};

/// The JSON Schema of reports, as `docs/` holds it.
pub const SCHEMA: &str = include_str!("../../docs/report.schema.json");
