//! Decoys in the workspace: which of what lies there the program did not write.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use turnkey_facts::ChangedFile;

/// The decoys planted in the workspace: path relative to it, and digest in lower-case hex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlantedDecoys(BTreeMap<Vec<u8>, String>);

impl PlantedDecoys {
    /// Takes note of one more.
    pub fn add(&mut self, inside: &Path, content: &[u8]) {
        let digest = hex(&Sha256::digest(content));
        self.0
            .insert(inside.as_os_str().as_bytes().to_vec(), digest);
    }

    /// True when a file of this path and content is an untouched decoy.
    pub fn is_planted(&self, path: &[u8], content: &[u8]) -> bool {
        let planted = self.0.get(path);
        planted.is_some_and(|digest| *digest == hex(&Sha256::digest(content)))
    }

    /// True when one was planted at this path.
    pub fn is_planted_at(&self, path: &[u8]) -> bool {
        self.0.contains_key(path)
    }

    /// True when a directory is on the way to one.
    pub fn has_below(&self, directory: &[u8]) -> bool {
        self.0.keys().any(|path| is_below(path, directory))
    }

    /// True for a decoy that is as it was planted.
    pub fn is_untouched(&self, file: &ChangedFile) -> bool {
        let planted = self.0.get(&file.path);
        planted.is_some() && planted == file.sha256.as_ref()
    }

    /// Takes out of a list of changes what turnkey wrote itself.
    pub fn forget(&self, changed: &mut Vec<ChangedFile>) {
        changed.retain(|file| !self.is_untouched(file));
        let paths: Vec<_> = changed.iter().map(|file| file.path.clone()).collect();
        changed.retain(|file| {
            let is_on_the_way = file.sha256.is_none() && self.has_below(&file.path);
            !is_on_the_way || paths.iter().any(|path| is_below(path, &file.path))
        });
    }
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.starts_with(b"/"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_facts::{Change, ContentFate};

    fn added(path: &str, content: Option<&[u8]>) -> ChangedFile {
        ChangedFile {
            path: path.into(),
            change: Change::Added,
            size: None,
            sha256: content.map(|content| hex(&Sha256::digest(content))),
            content: ContentFate::Unknown,
            backdated: false,
        }
    }

    #[test]
    fn what_was_planted_is_no_change_until_it_is_touched() {
        let mut decoys = PlantedDecoys::default();
        decoys.add(Path::new(".ssh/id_ed25519"), b"decoy");
        let way = added(".ssh", None);
        let mut untouched = vec![way.clone(), added(".ssh/id_ed25519", Some(b"decoy"))];
        decoys.forget(&mut untouched);
        assert_eq!(untouched, []);
        let edited = vec![way, added(".ssh/id_ed25519", Some(b"edited"))];
        let mut kept = edited.clone();
        decoys.forget(&mut kept);
        assert_eq!(kept, edited);
    }
}
