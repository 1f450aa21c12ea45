//! The rules, as the kernel applies them.
//!
//! All path patterns of all rules are one automaton over bytes: start in [`Table::start`], take
//! one transition per byte of the path, and the state after the last byte names, for each column,
//! the rule that decides. What decides over what was settled when the table was made.

use core::mem::size_of;

/// Most rules of a policy: one less than a power of two, because 0 stands for none.
pub const RULES: usize = 1023;

/// Most states of the automaton.
pub const STATES: usize = 4096;

/// Most transitions: states times byte classes, each count rounded up to a power of two.
pub const CELLS: usize = 1 << 18;

/// Kinds of attempt, rounded up: see [`crate::syscalls::on`].
pub const ON: usize = 32;

/// One rule table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    /// The state before the first byte.
    pub start: u32,
    /// A transition's index is `state << shift | class`.
    pub shift: u32,
    /// Bit `column`: some rule may decide in this column. Without it the automaton is not asked.
    pub columns: u32,
    /// Zero.
    pub reserved: u32,
    /// For kinds of attempt without a path: the deciding rule plus one, or 0.
    pub on: [u16; ON],
    /// For a file whose path is unknown or too long: the strongest rule of the column plus one,
    /// or 0. Not knowing must not be the way round a rule.
    pub unknown: [u16; column::COUNT],
    /// [`crate::action`] by rule plus one, after the policy's mode was applied. At 0 it is none.
    pub actions: [u8; RULES + 1],
    /// The class of each byte.
    pub classes: [u8; 256],
    /// By state and column: the deciding rule plus one, or 0.
    pub accept: [[u16; column::COUNT]; STATES],
    /// The next state.
    pub transitions: [u16; CELLS],
}

const _: () = assert!(
    size_of::<Table>()
        == 16
            + 2 * ON
            + 2 * column::COUNT
            + (RULES + 1)
            + 256
            + 2 * column::COUNT * STATES
            + 2 * CELLS
);

/// What is asked of the automaton.
pub mod column {
    /// Opening for reading.
    pub const READ: u32 = 0;
    /// Opening for writing.
    pub const WRITE: u32 = 1;
    /// Opening for both.
    pub const BOTH: u32 = 2;
    /// Executing.
    pub const EXEC: u32 = 3;
    /// Giving a file another name besides.
    pub const LINK: u32 = 4;
    /// Giving a file another name instead.
    pub const RENAME: u32 = 5;
    /// Taking a name away.
    pub const UNLINK: u32 = 6;
    /// Changing mode or owner.
    pub const CHMOD: u32 = 7;
    /// How many columns there are.
    pub const COUNT: usize = 8;
}

/// What a rule does. The order is the order of strength.
pub mod action {
    /// No rule decided.
    pub const NONE: u16 = 0;
    /// Nothing.
    pub const ALLOW: u16 = 1;
    /// A violation in the report.
    pub const LOG: u16 = 2;
    /// The act fails.
    pub const DENY: u16 = 3;
    /// The jail dies.
    pub const KILL: u16 = 4;
}
