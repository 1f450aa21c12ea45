//! Watches a jail from inside the kernel and kills it when it breaks the rules.
//!
//! ```text
//! Policy ─compile→ Rules ─Monitor::open→ programs found (shared) or loaded, and attached; a slot
//!                          Monitor::canary → a kill and a refusal really happen
//!                          Monitor::adopt(cgroup) → the kernel holds the jail's rules
//!                          Monitor::drain → events      Monitor::finish → Evidence
//! ```
//!
//! The kernel decides; what happens here only tells about it. The monitor does not know how the
//! jail was made: it is given a cgroup.

mod answer;
mod automaton;
mod below;
mod btf;
mod canary;
mod compile;
mod decode;
mod error;
mod evidence;
mod hooks;
mod identity;
mod interruption;
mod load;
#[cfg(feature = "log")]
mod log;
mod lookup;
mod maps;
mod monitor;
mod object;
mod open;
mod order;
mod own_network;
mod peers;
mod programs;
mod roles;
mod rows;
mod rule_table;
pub mod shared;
mod slot;
mod stream;
mod sys;
mod tier;
mod tracepoints;
mod watching;
mod wire;

pub use answer::{Answers, Known};
pub use automaton::AutomatonError;
pub use btf::BtfError;
pub use canary::Proof;
pub use compile::{CompileError, Rules, compile, compile_for, compile_for_others};
pub use decode::{DecodeError, decode};
pub use error::{CanaryError, FinishError, OpenError, how_to_have_btf};
pub use hooks::{Hooks, KnownHooks};
pub use identity::{FileId, WatchedPath};
pub use interruption::interrupts_tracepoints;
pub use lookup::{LookupError, LookupSockets, SocketLookup};
pub use monitor::{AdoptError, Interference, Monitor};
pub use object::ObjectFile;
pub use open::{Origin, Residence};
pub use shared::{SharedError, group_path, hierarchy};
pub use tier::{Available, Lack, Tier};
pub use watching::{WatchingProgram, watching};

/// Parts that the fuzzer reaches besides; see `cargo xtask fuzz`.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::order::Order;
    pub use crate::wire::on_code;
}
