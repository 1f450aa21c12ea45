//! Files and folders of baits, and their removal.

#![expect(
    clippy::disallowed_methods,
    reason = "new files and folders with random names: who else makes one of that name makes the audit fail"
)]

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Files and folders in the order of their making.
#[derive(Default)]
pub struct Made {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Made {
    /// A new folder, with this mode whatever the umask.
    pub fn folder(&mut self, path: &Path, mode: u32) -> anyhow::Result<PathBuf> {
        let made = DirBuilder::new().mode(0o700).create(path);
        let made = made.and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(mode)));
        made.with_context(|| format!("{} cannot be made", path.display()))?;
        self.folders.push(path.to_owned());
        Ok(path.to_owned())
    }

    /// A new file with this content, open for reading.
    pub fn file(&mut self, path: &Path, content: &str, mode: u32) -> anyhow::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.set_permissions(Permissions::from_mode(mode))?;
            Ok(file)
        });
        let file = file.with_context(|| format!("{} cannot be made", path.display()))?;
        self.files.push(path.to_owned());
        Ok(file)
    }

    /// Removes all of it, with what a sandbox put into the folders.
    pub fn remove(&self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
