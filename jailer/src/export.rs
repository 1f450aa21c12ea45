//! Export: brings what a run left in its workspace out to a directory of the host.
//!
//! Runs as: the supervisor, when everything inside is dead. The tree is hostile all the same: its
//! names, links, sizes and depths were chosen by the program. Regular files alone are copied, as
//! plain files of the caller; nothing is followed, nothing outside of the directory is touched,
//! and the whole is bounded. Whatever stays behind is listed with the reason.

mod destination;
mod walk;

use turnkey_facts::export::{Exported, Scope};

use crate::jail::JailExit;
pub use destination::{DestinationError, ExportDestination};

impl JailExit {
    /// Copies the workspace's files to `destination`, at most `bytes` of them.
    ///
    /// # Errors
    /// When the directory cannot be made or is not what it was any more, or when the workspace
    /// kept nothing. What goes wrong with a single file is told in the answer.
    pub fn export(
        &self,
        destination: &ExportDestination,
        scope: Scope,
        bytes: u64,
    ) -> Result<Exported, DestinationError> {
        let sides = self.overlay.as_ref().ok_or(DestinationError::NoOverlay)?;
        let directory = destination.open()?;
        Ok(walk::export(sides, &directory, scope, bytes))
    }
}
