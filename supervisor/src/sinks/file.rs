//! A file of alerts, one on a line, that several runs may write to at once, and that may be rotated meanwhile.

use std::io::{self, Write};

use turnkey_report::Alert;

use super::{Receiver, SendError};
use crate::files::{AppendedOutput, CallerOutput};

/// The open file.
pub struct AlertFile {
    file: AppendedOutput,
}

impl AlertFile {
    /// Opens the file to write at its end.
    pub fn open(output: CallerOutput) -> anyhow::Result<AlertFile> {
        let file = output.append()?;
        Ok(AlertFile { file })
    }
}

impl Receiver for AlertFile {
    /// One write for a line: `O_APPEND` keeps lines of other runs out of it (write(2)).
    fn send(&mut self, _alert: &Alert, line: &[u8]) -> Result<(), SendError> {
        let refused = |error: io::Error| SendError::Refused(error.to_string());
        let file = self.file.current().map_err(refused)?;
        let written = file.write(line).map_err(refused)?;
        if written == line.len() {
            return Ok(());
        }
        // A full disk has taken a part of it: whatever comes next begins a line of its own.
        let _ = file.write(b"\n");
        Err(SendError::Refused(
            "a line could not be written whole".to_owned(),
        ))
    }
}
