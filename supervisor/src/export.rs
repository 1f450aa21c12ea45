//! An export of the workspace: looked at before the run, done after it.

use std::path::{Path, PathBuf};

use turnkey_facts::export::{ExportBounds, Scope};
use turnkey_jailer::JailExit;
use turnkey_jailer::export::ExportDestination;
use turnkey_policy::{Policy, WorkdirMode};

use crate::advice;
use turnkey_report::Export;

/// An export that was asked for.
#[derive(Debug)]
pub struct WantedExport {
    destination: ExportDestination,
    path: PathBuf,
    scope: Scope,
}

impl WantedExport {
    /// An export to `destination`, which the caller named as `path`.
    ///
    /// # Errors
    /// When the workspace of `policy` is not kept apart from the caller's.
    pub fn new(
        destination: ExportDestination,
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
            destination,
            path: path.to_owned(),
            scope,
        })
    }

    /// Brings it out. The program has run and has its own outcome: what fails here is part of the
    /// report.
    pub fn take(&self, exit: &JailExit, policy: &Policy) -> Export {
        let limits = &policy.limits;
        let bounds = ExportBounds {
            bytes: limits.export_size,
            entries: usize::try_from(limits.export_files).unwrap_or(usize::MAX),
        };
        let exported = exit.export(&self.destination, self.scope, bounds);
        let exported = exported.map_err(|error| advice::explained_in_one_line(&error.into()));
        Export::new(&self.path, self.scope, exported)
    }
}
