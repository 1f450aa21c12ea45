//! The jail's processes: what each runs, what they tell each other, what they prove.
//!
//! The supervisor's side of them is in [`crate::jail`].

pub(crate) mod child;
pub(crate) mod identity;
pub(crate) mod init;
pub(crate) mod init_handle;
pub(crate) mod keeper;
pub(crate) mod listeners;
pub mod namespaces;
pub(crate) mod netlink;
pub(crate) mod owner;
pub mod privileges;
pub(crate) mod program;
pub(crate) mod proof;
pub(crate) mod rlimits;
pub(crate) mod root;
pub(crate) mod second_clock;
pub(crate) mod start_memory;
pub(crate) mod terminal;
pub(crate) mod wait;
pub(crate) mod wire;
