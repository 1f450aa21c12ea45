//! A root of the profile's own: its top entries, one by one, on a root that is still turnkey's.
//!
//! What turnkey makes itself in every jail is never taken from there: a symlink or a fake in its
//! place is not even looked at.

use std::path::{Path, PathBuf};

use turnkey_policy::WORKSPACE;
use turnkey_policy::reserved::RESERVED_ITSELF;

use super::RootfsStep;
use super::rootfs::{MountOrigin, RootfsBuilder};
use crate::host::PathFact;
use crate::landlock::PathUse;
use crate::rootfs::root::RootFacts;

/// Directories of every jail; and /tmp, which is a scratch or not there.
const OWN: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/tmp", WORKSPACE];
/// Names that turnkey uses at the top while it builds.
const OWN_NAMES: [&str; 3] = ["/.turnkey", "/.lower", "/.upper"];

impl RootfsBuilder {
    /// Brings in what `facts` says is in `root`.
    pub(super) fn root(&mut self, root: &Path, facts: &RootFacts, decoys: &[PathBuf]) {
        for (path, fact) in &facts.entries {
            if is_own(path) || decoys.contains(path) {
                continue;
            }
            match fact {
                PathFact::Directory => self.root_entry(root, path, true),
                PathFact::File => self.root_entry(root, path, false),
                PathFact::Symlink { text, .. } => self.symlink(path, text),
                // Doors, not files; and what went away meanwhile.
                PathFact::Special
                | PathFact::Missing
                | PathFact::Foreign
                | PathFact::Reserved(_) => {}
            }
        }
        self.places.clone_from(&facts.places);
    }

    fn root_entry(&mut self, root: &Path, path: &Path, directory: bool) {
        let (root, path) = (root.to_owned(), path.to_owned());
        if directory {
            self.directory(&path);
        } else {
            self.file(&path, Vec::new());
        }
        self.mounted.insert(path.clone(), MountOrigin::Root);
        self.grant(&path, PathUse::ReadExecute, directory);
        self.steps.push(RootfsStep::RootEntry {
            root,
            path,
            directory,
        });
    }
}

fn is_own(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    OWN.iter()
        .chain(&RESERVED_ITSELF)
        .any(|own| path == Path::new(own))
        || OWN_NAMES
            .iter()
            .any(|name| text.starts_with(name.as_bytes()))
}
