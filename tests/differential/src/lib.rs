//! An independent look at what turnkey tells: programs of system calls that nobody wrote run in a jail, and two
//! observers outside, which know nothing of turnkey, see what the kernel did. `docs/observer.md` says what is asked.

pub mod address;
pub mod campaign;
pub mod compare;
pub mod encode;
pub mod enforce;
pub mod expect;
#[expect(
    clippy::cast_possible_truncation,
    reason = "of what is drawn, as much is taken as fits"
)]
pub mod generate;
pub mod grammar;
pub mod jail;
pub mod mounts;
pub mod program;
pub mod renames;
pub mod rules;
pub mod shape;
pub mod stops;
pub mod told;
pub mod trace;
pub mod width;
