//! The attributes of each mount of a jail, mount_setattr(2).

use crate::host::kernel::{
    MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY,
};
use crate::plan::RootfsStep;

/// For every mount that is not a device: what a file's mode says about other users, and device
/// nodes, have no effect.
const CLOSED: u64 = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

/// In the words of mount(8).
const WORDS: [(u64, &str); 4] = [
    (MOUNT_ATTR_RDONLY, "ro"),
    (MOUNT_ATTR_NOSUID, "nosuid"),
    (MOUNT_ATTR_NODEV, "nodev"),
    (MOUNT_ATTR_NOEXEC, "noexec"),
];

impl RootfsStep {
    /// `MOUNT_ATTR_*` of the mount that this step makes; 0 for a step that makes none.
    pub fn attributes(&self) -> u64 {
        match self {
            RootfsStep::Directory(_)
            | RootfsStep::Unlisted(_)
            | RootfsStep::Symlink { .. }
            | RootfsStep::File { .. }
            | RootfsStep::Late(_)
            | RootfsStep::Setting { .. }
            | RootfsStep::Decoy { .. } => 0,
            RootfsStep::WritableRoot { .. } | RootfsStep::WritableDirectory { .. } => CLOSED,
            RootfsStep::Bind { writable: true, .. }
            | RootfsStep::Tmpfs { .. }
            | RootfsStep::Overlay { .. } => CLOSED,
            RootfsStep::Bind { .. } | RootfsStep::RootEntry { .. } => CLOSED | MOUNT_ATTR_RDONLY,
            RootfsStep::Proc { .. } | RootfsStep::Mask { .. } | RootfsStep::Cover { .. } => {
                CLOSED | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY
            }
            // Their nodes are what they are for.
            RootfsStep::Device { .. } | RootfsStep::Terminals(_) => {
                MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC
            }
        }
    }

    /// The same in the words of mount(8).
    pub fn attributes_in_words(&self) -> Vec<&'static str> {
        let set = self.attributes();
        let words = WORDS.iter().filter(|(bit, _)| set & bit != 0);
        words.map(|(_, word)| *word).collect()
    }
}
