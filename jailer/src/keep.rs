//! Keeps what a run has written in its layer.
//!
//! Runs as: the supervisor, when everything inside is dead. The tree is hostile all the same.

mod save;

use std::path::Path;

use turnkey_policy::WORKSPACE;

use crate::jail::JailExit;
use crate::layer::{KeptLayer, LayerError};
pub use save::Saved;
use save::Stop;

impl JailExit {
    /// Keeps what was written in `layer`, over what was kept there before: at most `most` bytes in all, and as many files as a
    /// memory file system of that size has. All of it or nothing. `watched` says whether the monitor has seen the run.
    ///
    /// # Errors
    /// When it would be too much, or cannot be written.
    pub fn keep(&self, layer: &KeptLayer, most: u64, watched: bool) -> Result<Saved, LayerError> {
        let next = layer.next()?;
        let workspace = self.overlay.iter();
        let workspace = workspace.map(|sides| (Path::new(WORKSPACE), sides));
        let others = self.places.iter();
        let others = others.map(|place| (place.path.as_path(), &place.sides));
        let written: Vec<_> = workspace.chain(others).collect();
        let too_large = |what| LayerError::TooLarge {
            path: layer.path().to_owned(),
            what,
        };
        let saved = save::save(&written, layer.content(), &next, most);
        let saved = saved.map_err(|stop| {
            layer.give_up();
            match stop {
                Stop::Bytes => too_large("bytes"),
                Stop::Entries => too_large("files"),
                Stop::Directories => LayerError::TooManyDirectories(layer.path().to_owned()),
                Stop::System(errno) => layer.failed("write")(errno),
            }
        })?;
        if !watched {
            layer.mark_unwatched()?;
        }
        layer.exchange()?;
        Ok(saved)
    }
}
