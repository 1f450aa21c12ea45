//! The files that the rules are about: what git tracks or would track.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use fs_err as fs;

use crate::command;

/// A text file of the checkout.
pub struct TextFile {
    /// Relative to the checkout.
    pub path: PathBuf,
    /// The file's content.
    pub text: String,
}

impl TextFile {
    /// True when its name ends like this.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        let own = self.path.extension();
        own.is_some_and(|own| extensions.iter().any(|one| own == *one))
    }

    /// For fixtures.
    #[cfg(test)]
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: PathBuf::from(path),
            text: text.to_owned(),
        }
    }
}

/// Every text file that is tracked, or would be after `git add --all`. Files that are no UTF-8
/// are not text: the BPF object is one.
pub fn tracked(root: &Path) -> Result<Vec<TextFile>> {
    let mut list = Command::new("git");
    list.args("ls-files -z --cached --others --exclude-standard".split(' '))
        .current_dir(root);
    let listed = command::output(&mut list).context("tidy looks at what git tracks")?;
    let mut files = Vec::new();
    for name in listed.split_terminator('\0') {
        let path = PathBuf::from(name);
        let full = root.join(&path);
        // Deleted and not yet staged, or a link to a file that is listed itself.
        if !full.symlink_metadata().is_ok_and(|file| file.is_file()) {
            continue;
        }
        if let Ok(text) = String::from_utf8(fs::read(&full)?) {
            files.push(TextFile { path, text });
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    files.dedup_by(|left, right| left.path == right.path);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_count_and_ignored_and_binary_ones_do_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        let git = |arguments: &[&str]| {
            command::output(Command::new("git").args(arguments).current_dir(root))
                .expect("git works")
        };
        git(&["init", "--quiet"]);
        fs::write(root.join(".gitignore"), "ignored\n").expect("a file");
        fs::write(root.join("ignored"), "").expect("a file");
        fs::write(root.join("binary"), [0xff, 0xfe]).expect("a file");
        fs::write(root.join("new file"), "text").expect("a file");
        fs::write(root.join("staged"), "text").expect("a file");
        git(&["add", "staged"]);

        let files = tracked(root).expect("a list");
        let names: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(
            names,
            [".gitignore", "new file", "staged"].map(PathBuf::from)
        );
    }
}
