//! A directory of the gate's own, which goes when the gate does.

#![expect(
    clippy::disallowed_methods,
    reason = "below a directory that this process has made, and that nobody else enters"
)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A new directory of mode 700 in the place for temporary files.
pub struct OwnDirectory(PathBuf);

impl OwnDirectory {
    /// Makes it.
    pub fn new() -> io::Result<OwnDirectory> {
        let template = std::env::temp_dir().join("turnkey-gate-XXXXXX");
        let made = nix::unistd::mkdtemp(&template)?;
        // As the kernel resolves it: a jail is told no symlink.
        made.canonicalize().map(OwnDirectory)
    }

    /// The path of a name in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A new directory in it.
    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.at(name);
        std::fs::create_dir(&path).map(|()| path)
    }

    /// A file in it with this content.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.at(name);
        std::fs::write(&path, content).map(|()| path)
    }

    /// A file in it to be written, new or emptied.
    pub fn create(&self, name: &str) -> io::Result<File> {
        File::create(self.at(name))
    }

    /// A file in it to be read.
    pub fn open(&self, name: &str) -> io::Result<File> {
        File::open(self.at(name))
    }

    /// The content of a file in it.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.at(name))
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // A checkout has no directory without rights of its owner. What is left of it is nobody's to reach.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
