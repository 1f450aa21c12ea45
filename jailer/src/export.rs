//! Export: brings what a run left in its workspace out to a directory of the host.
//!
//! Runs as: the supervisor, when everything inside is dead. The tree is hostile all the same: its
//! names, links, sizes and depths were chosen by the program. Regular files, directories and symlinks are copied, as
//! the caller's; no symlink is followed, nothing outside of the directory is touched,
//! and the whole is bounded. Whatever stays behind is listed with the reason, and so is a symlink that leads out.

mod content;
mod destination;
mod into;
mod links;
mod walk;

use turnkey_facts::export::{ExportBounds, Exported, Scope};

use crate::jail::JailExit;
pub(crate) use content::copy;
pub use destination::{DestinationError, ExportDestination, ExportMode};
pub use into::IntoError;
pub(crate) use links::WrittenFiles;

impl JailExit {
    /// Copies the workspace's files to `destination`, within `bounds`.
    ///
    /// # Errors
    /// When the directory cannot be made or is not what it was any more, or when the workspace
    /// kept nothing. What goes wrong with a single file is told in the answer.
    pub fn export(
        &self,
        destination: &ExportDestination,
        scope: Scope,
        bounds: ExportBounds,
    ) -> Result<Exported, DestinationError> {
        let sides = self.overlay.as_ref().ok_or(DestinationError::NoOverlay)?;
        let directory = destination.open()?;
        let write = |to: &_| walk::export(sides, to, (scope, bounds), &directory);
        match destination.mode() {
            ExportMode::New => Ok(write(&directory)),
            ExportMode::Into { replaces } => into::export(&directory, replaces, write)
                .map_err(|error| destination.refused(error)),
        }
    }
}
