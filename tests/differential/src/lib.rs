//! An independent look at what turnkey tells: programs of system calls that nobody wrote run in a jail, and two
//! observers outside, which know nothing of turnkey, see what the kernel did.
//! CONTRIBUTING.md says how to run it.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "registers are cut to the width that the kernel takes"
)]

pub mod campaign;
pub mod compare;
pub mod encode;
pub mod enforce;
pub mod expect;
pub mod generate;
pub mod grammar;
pub mod jail;
pub mod mounts;
pub mod program;
pub mod shape;
pub mod stops;
pub mod trace;
