//! An export of the workspace: looked at before the run, done after it.

use std::path::{Path, PathBuf};

use turnkey_facts::export::{ExportBounds, Scope};
use turnkey_jailer::export::{ExportDestination, ExportMode};
use turnkey_jailer::{JailExit, ServedUser};
use turnkey_policy::{Policy, WorkdirMode};

use crate::advice;
use crate::service::export::{ExportLine, export_to_caller};
use turnkey_report::Export;

/// An export that was asked for.
#[derive(Debug)]
pub struct WantedExport {
    target: ExportTarget,
    path: PathBuf,
    scope: Scope,
}

/// The place that an export goes to.
#[derive(Debug)]
pub enum ExportTarget {
    /// A directory, which this process writes to.
    Directory(ExportDestination),
    /// A directory that the caller's process writes to.
    Caller {
        /// The connection to it.
        line: ExportLine,
        /// The treatment of what the directory holds.
        mode: ExportMode,
        /// Called when the export begins.
        begins: fn(),
    },
}

impl WantedExport {
    /// An export to `target`, which the caller named as `path`.
    ///
    /// # Errors
    /// When the workspace of `policy` is not kept apart from the caller's.
    pub fn new(
        target: ExportTarget,
        path: &Path,
        scope: Scope,
        policy: &Policy,
    ) -> anyhow::Result<WantedExport> {
        anyhow::ensure!(
            policy.filesystem.workdir.mode == WorkdirMode::Overlay,
            "--export takes what was written over the working directory; \
             it needs `--workdir-mode overlay`"
        );
        Ok(WantedExport {
            target,
            path: path.to_owned(),
            scope,
        })
    }

    /// Brings it out. The program has run and has its own outcome: what fails here is part of the
    /// report. `reader` is the user for whom a privileged process makes the run.
    pub fn take(&self, exit: &JailExit, policy: &Policy, reader: Option<ServedUser>) -> Export {
        let limits = &policy.limits;
        let bounds = ExportBounds {
            bytes: limits.export_size,
            entries: usize::try_from(limits.export_files).unwrap_or(usize::MAX),
        };
        let exported = match &self.target {
            ExportTarget::Directory(destination) => exit
                .export(destination, self.scope, bounds)
                .map_err(|error| advice::explained_in_one_line(&error.into())),
            ExportTarget::Caller { line, mode, begins } => {
                begins();
                export_to_caller(line, exit, (*mode, self.scope, bounds), reader)
            }
        };
        Export::new(&self.path, self.scope, exported)
    }
}
