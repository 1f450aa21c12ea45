//! The layer of a run, for the report and for people.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::text::{escape, quote};
use super::units::{counted, size};

/// The layer that shows what earlier runs have written, and has taken what this one wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Kept {
    /// The directory of the layer.
    pub layer: String,
    /// Files in it, of this run and of earlier ones.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Devices, pipes and sockets of this run, and what lies deeper than 64 directories: not kept.
    pub left_out: u64,
    /// The reason why nothing of this run was kept; the layer is as it was. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Kept {
    /// From the files, bytes and entries left out, or why nothing was kept.
    pub fn new(layer: &Path, outcome: Result<(u64, u64, u64), String>) -> Kept {
        let (saved, error) = match outcome {
            Ok(saved) => (saved, None),
            Err(error) => (Default::default(), Some(error)),
        };
        let (files, bytes, left_out) = saved;
        Kept {
            layer: escape(layer.as_os_str().as_bytes()),
            files,
            bytes,
            left_out,
            error: error.map(|error| escape(error.as_bytes())),
        }
    }

    /// One line; even to those who want to hear nothing when nothing was kept.
    pub fn tell(&self, quiet: bool, out: &mut impl Write) -> io::Result<()> {
        let layer = quote(&self.layer);
        if let Some(error) = &self.error {
            return writeln!(out, "turnkey: nothing was kept in {layer}: {error}");
        }
        if quiet {
            return Ok(());
        }
        let files = counted(self.files, "file", "files");
        let bytes = size(self.bytes);
        let left_out = match self.left_out {
            0 => String::new(),
            count => {
                format!("; {count} devices, pipes, sockets or too deep directories were not kept")
            }
        };
        writeln!(
            out,
            "turnkey: the layer {layer} holds {files}, {bytes}{left_out}"
        )
    }
}
