//! Export: brings what a run left in its workspace out to a directory of the host.
//!
//! Runs as: the supervisor, when everything inside is dead. The tree is hostile all the same: its
//! names, links, sizes and depths were chosen by the program. Regular files, directories and symlinks are copied, as
//! the caller's; no symlink is followed, nothing outside of the directory is touched,
//! and the whole is bounded. Whatever stays behind is listed with the reason, and so is a symlink that leads out.

mod content;
mod destination;
mod into;
pub(crate) mod links;
mod sink;
mod walk;

use std::os::fd::{AsFd, OwnedFd};

use turnkey_facts::export::{ExportBounds, Exported, Scope};

use crate::ids::served::ServedUser;
use crate::jail::JailExit;
pub(crate) use content::copy;
pub use destination::{DestinationError, ExportDestination, ExportMode};
pub use into::IntoError;
pub use links::FileId;
pub use sink::{DirectorySink, ExportSink, FileEnd, FileStamp};

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
        destination.fill(|to, itself| {
            let mut sink = DirectorySink::new(to);
            walk::export(sides, (&mut sink, itself), (scope, bounds), None)
        })
    }

    /// Copies the workspace's files to a place of somebody else, by whose rights alone the caller's side of the workspace is read.
    /// `itself` are the directories there that may lie in the workspace, and are no part of it.
    ///
    /// # Errors
    /// When the workspace kept nothing.
    pub fn export_to(
        &self,
        place: (&mut dyn ExportSink, ExportedPlaces),
        wanted: (Scope, ExportBounds),
        reader: Option<ServedUser>,
    ) -> Result<Exported, DestinationError> {
        let sides = self.overlay.as_ref().ok_or(DestinationError::NoOverlay)?;
        Ok(walk::export(sides, place, wanted, reader))
    }
}

/// The directory that is written to, and the one that it lies in.
pub type ExportedPlaces = [Option<FileId>; 2];

impl ExportDestination {
    /// Has `write` fill the directory, or one beside, whose files come to their places when nothing stayed behind.
    ///
    /// # Errors
    /// When the directory cannot be made or is not what it was any more, or when not all came to their places.
    pub fn fill(
        &self,
        write: impl FnOnce(&OwnedFd, ExportedPlaces) -> Exported,
    ) -> Result<Exported, DestinationError> {
        let directory = self.open()?;
        let write = |to: &OwnedFd| {
            write(
                to,
                [to, &directory].map(|place| walk::identity(place.as_fd())),
            )
        };
        match self.mode() {
            ExportMode::New => Ok(write(&directory)),
            ExportMode::Into { replaces } => {
                into::export(&directory, replaces, write).map_err(|error| self.refused(error))
            }
        }
    }
}
