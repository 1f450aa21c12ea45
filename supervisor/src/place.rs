//! The place that runs are made from: groups of their own where systemd has them, and a user namespace.

use turnkey_jailer::rootless;

use crate::{open_files, others, scope};

/// The place that runs of this process are made from.
#[derive(Debug)]
pub struct RunPlace {
    user_namespace: Result<(), rootless::RootlessError>,
    /// The reason why the groups are made without systemd, where they should not be.
    scope: Option<anyhow::Error>,
}

impl RunPlace {
    /// The place of another run, for a process that has made one already: what there was to tell of the place has been told.
    pub fn entered_before() -> RunPlace {
        RunPlace {
            user_namespace: Ok(()),
            scope: None,
        }
    }

    /// The words for groups that are not where they should be: no reason to stop, they are as strict where they are made now.
    pub fn notice(&self) -> Option<String> {
        let error = self.scope.as_ref()?;
        Some(format!(
            "the groups of this run are made without systemd's knowledge: {error:#}"
        ))
    }

    /// An error when runs of this caller do not start.
    ///
    /// # Errors
    /// When the caller has neither the privileges nor a user namespace.
    pub fn privileges(self) -> Result<(), rootless::RootlessError> {
        self.user_namespace
    }
}

/// Goes where runs are made from: a delegated scope on a host of systemd's, and a user namespace for a caller without
/// privileges. Call it before anything is opened that is to be mounted (a file belongs to the mounts it was opened
/// among), and before this process has a second thread.
pub fn enter() -> RunPlace {
    open_files::make_room();
    // As the caller: in a namespace of their own they look like root, whom their manager does not know.
    // In a group that another turnkey watches it stays, to be watched.
    let scope = match others::is_watched_here() {
        true => None,
        false => scope::enter().err(),
    };
    RunPlace {
        user_namespace: rootless::enter().map(drop),
        scope,
    }
}
