//! The source files that the BPF object is made of, and their digest.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fs_err as fs;
use sha2::{Digest, Sha256};

/// Single files. The manifest of the workspace is left out: it changes with every dependency of
/// the user side, and what it could change here, the edition, shows in the rebuilt bytes.
const FILES: [&str; 4] = [
    "abi/Cargo.toml",
    "monitor-ebpf/.cargo/config.toml",
    "monitor-ebpf/Cargo.lock",
    "monitor-ebpf/Cargo.toml",
];

/// Folders, with everything in them.
const FOLDERS: [&str; 2] = ["abi/src", "monitor-ebpf/src"];

/// Every source file, relative to `root`, sorted.
pub fn list(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<_> = FILES.iter().map(PathBuf::from).collect();
    for folder in FOLDERS {
        collect(root, Path::new(folder), &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// SHA-256 over name, length and content of every source file.
pub fn digest(root: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    for file in list(root)? {
        let content = fs::read(root.join(&file))?;
        hasher.update(file.as_os_str().as_encoded_bytes());
        // The zero and the length keep one file's end from passing for the next one's start.
        hasher.update([0]);
        hasher.update((content.len() as u64).to_le_bytes());
        hasher.update(&content);
    }
    Ok(hexadecimal(&hasher.finalize()))
}

/// SHA-256 of some bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A folder with the least that counts as sources.
    pub fn fixture() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        for folder in ["abi/src", "monitor-ebpf/src/deep", "monitor-ebpf/.cargo"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        for file in FILES {
            fs::write(root.path().join(file), file).expect("a file");
        }
        fs::write(root.path().join("abi/src/lib.rs"), "// abi").expect("a file");
        fs::write(root.path().join("monitor-ebpf/src/deep/main.rs"), "// main").expect("a file");
        root
    }

    #[test]
    fn list_is_sorted_and_deep() {
        let root = fixture();
        let files = list(root.path()).expect("a list");
        assert!(files.is_sorted());
        assert_eq!(files.len(), 6);
        assert!(files.contains(&PathBuf::from("monitor-ebpf/src/deep/main.rs")));
    }

    #[test]
    fn digest_changes_with_content_with_names_and_not_with_the_place() {
        let (here, there) = (fixture(), fixture());
        let before = digest(here.path()).expect("a digest");
        assert_eq!(before, digest(there.path()).expect("a digest"));

        fs::write(here.path().join("abi/src/lib.rs"), "// ABI").expect("a file");
        assert_ne!(before, digest(here.path()).expect("a digest"));

        let source = there.path().join("abi/src");
        fs::rename(source.join("lib.rs"), source.join("other.rs")).expect("renamed");
        assert_ne!(before, digest(there.path()).expect("a digest"));
    }

    #[test]
    fn missing_source_is_an_error() {
        let root = fixture();
        fs::remove_file(root.path().join("monitor-ebpf/Cargo.lock")).expect("removed");
        let error = digest(root.path()).expect_err("a file is missing");
        assert!(error.to_string().contains("monitor-ebpf/Cargo.lock"));
    }

    #[test]
    fn digest_of_nothing_is_the_known_one() {
        assert_eq!(
            digest_of(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
