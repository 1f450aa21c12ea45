//! The flags by which a run's workspace is brought out.

use std::path::{Path, PathBuf};

use clap::Args;
use turnkey_facts::export::Scope;
use turnkey_jailer::export::ExportMode;

/// The export of the workspace.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Files")]
pub struct ExportArguments {
    /// Copy the workspace's files to this new or empty directory after the run
    #[arg(long, value_name = "DIR", group = "exports")]
    pub export: Option<PathBuf>,
    /// Add the workspace's files to this directory after the run: all of them or none. They are written beside, in a directory of
    /// their own there, and then renamed one by one; when a name is taken or a rename fails, what was renamed goes back. Only a
    /// turnkey that is killed among the renames leaves a part
    #[arg(long, value_name = "DIR", group = "exports")]
    pub export_into: Option<PathBuf>,
    /// Replace files that --export-into finds under the same name
    #[arg(long, requires = "export_into")]
    pub export_replace: bool,
    /// Export only files that the run added or modified
    #[arg(long, requires = "exports")]
    pub export_changes: bool,
}

impl ExportArguments {
    /// The directory, and what is done about what it holds.
    pub fn destination(&self) -> Option<(&Path, ExportMode)> {
        let into = ExportMode::Into {
            replaces: self.export_replace,
        };
        let new = self.export.as_deref().map(|path| (path, ExportMode::New));
        new.or(self.export_into.as_deref().map(|path| (path, into)))
    }

    /// The part of the workspace that is exported.
    pub fn scope(&self) -> Scope {
        match self.export_changes {
            true => Scope::Changes,
            false => Scope::Everything,
        }
    }
}
