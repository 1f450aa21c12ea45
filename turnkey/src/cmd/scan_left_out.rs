//! `turnkey scan` and `run --scan` in a turnkey that was compiled without them: neither is done, and both say so.

use crate::cli::ScanArguments;
use crate::failure::Failure;

/// Looks at nothing.
pub fn scan(_: &ScanArguments) -> Result<u8, Failure> {
    Err(left_out())
}

/// The error of whoever asks for a look at a script.
pub fn left_out() -> Failure {
    let message = "this turnkey was compiled without what reads scripts: `cargo build --release` makes one that has it";
    anyhow::Error::msg(message).into()
}
