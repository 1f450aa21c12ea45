//! `--export`: looked at before the run, done after it.

use std::path::PathBuf;

use turnkey_jailer::Exit;
use turnkey_jailer::export::{Destination, Scope};
use turnkey_policy::{Policy, Workdir};

use crate::advice;
use crate::cli::RunArguments;
use crate::report::Export;

/// An export that was asked for.
#[derive(Debug)]
pub struct Wanted {
    destination: Destination,
    path: PathBuf,
    scope: Scope,
}

impl Wanted {
    /// What the command line asks for, when it can be had as far as that is known now.
    pub fn from(
        arguments: &RunArguments,
        destination: Option<Destination>,
        policy: &Policy,
    ) -> anyhow::Result<Option<Wanted>> {
        let (Some(path), Some(destination)) = (&arguments.export, destination) else {
            return Ok(None);
        };
        anyhow::ensure!(
            policy.filesystem.workdir == Workdir::Overlay,
            "--export takes what was written over the working directory; \
             it needs `--workdir-mode overlay`"
        );
        Ok(Some(Wanted {
            destination,
            path: path.clone(),
            scope: if arguments.export_changes {
                Scope::Changes
            } else {
                Scope::Everything
            },
        }))
    }

    /// Brings it out. The program has run and has its own outcome: what fails here is part of the
    /// report.
    pub fn take(&self, exit: &Exit, policy: &Policy) -> Export {
        let bytes = policy.limits.export_size;
        let exported = exit.export(&self.destination, self.scope, bytes);
        let exported = exported.map_err(|error| advice::explain(&error.into()));
        Export::new(&self.path, self.scope, exported)
    }
}
