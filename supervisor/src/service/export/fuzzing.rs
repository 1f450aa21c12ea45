//! The way in for the fuzzer alone; see `cargo xtask fuzz`.

use std::io;

use rustix::net::{Shutdown, shutdown};
use turnkey_jailer::export::ExportDestination;

pub use super::record::{ExportAnswer, ExportRecord};
use super::{ExportLine, receiver};

/// Writes what these records ask for, which are all that come. They wait together in the connection, so there may be no more than that
/// has room for.
///
/// # Errors
/// The errors of the connection.
pub fn write(records: &[&[u8]], destination: &ExportDestination) -> io::Result<()> {
    let (own, its) = ExportLine::pair()?;
    let its = ExportLine::from(its);
    for record in records {
        its.send(record)?;
    }
    shutdown(&its.0, Shutdown::Write)?;
    receiver::write(&own, destination).map(drop)
}
