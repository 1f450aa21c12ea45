//! The content of a folder, to be compared with what it holds later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Every entry below a folder, with its mode and its content or, for a link, its target.
#[derive(Debug, PartialEq, Eq)]
pub struct StageTree(BTreeMap<PathBuf, (u32, Vec<u8>)>);

impl StageTree {
    /// The content of `folder` now. Links are not followed.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let mut open = vec![folder.to_owned()];
        while let Some(path) = open.pop() {
            let metadata = fs::symlink_metadata(&path)?;
            let content = if metadata.is_dir() {
                for entry in fs::read_dir(&path)? {
                    open.push(entry?.path());
                }
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path)?.as_os_str().as_bytes().to_vec()
            } else if metadata.is_file() {
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?
            } else {
                // A pipe would make its reader wait for ever, and the mode says what it is.
                Vec::new()
            };
            entries.insert(path, (metadata.permissions().mode(), content));
        }
        Ok(Self(entries))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn pipe_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = StageTree::read(folder.path()).expect("it reads");
        let pipe = folder.path().join("pipe");
        let status = Command::new("mkfifo").arg(pipe).status();
        assert!(status.expect("mkfifo starts").success());
        assert_ne!(
            before,
            StageTree::read(folder.path()).expect("it does not hang")
        );
    }

    #[test]
    fn content_mode_and_links_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("inner/file");
        fs::create_dir(folder.path().join("inner")).expect("a folder");
        fs::write(&file, "one").expect("a file");
        let before = StageTree::read(folder.path()).expect("it reads");
        assert_eq!(before, StageTree::read(folder.path()).expect("it reads"));

        fs::write(&file, "two").expect("it writes");
        assert_ne!(before, StageTree::read(folder.path()).expect("it reads"));

        fs::write(&file, "one").expect("it writes");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).expect("a mode");
        assert_ne!(before, StageTree::read(folder.path()).expect("it reads"));

        fs::remove_file(&file).expect("it goes");
        std::os::unix::fs::symlink("/etc/shadow", &file).expect("a link");
        let linked = StageTree::read(folder.path()).expect("the target is not opened");
        assert_ne!(before, linked);
    }
}
