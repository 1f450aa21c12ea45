//! Files that turnkey reads and writes for its caller: by no way that somebody else can turn, and whole or not at all.

mod input;
mod output;
mod outputs;
mod text;

pub use input::{open, read, read_below};
pub use output::{AppendedOutput, CallerOutput, OpenOutput, UnwrittenOutput, note_absent};
pub use outputs::RunOutputs;
pub use text::{read as read_text, text};
