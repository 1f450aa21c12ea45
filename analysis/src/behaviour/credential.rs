//! Credential access: secrets of two kinds or more were opened, or were to be; or a decoy was.
//!
//! One kind alone is what a program of that kind does: `ssh` opens SSH keys. A rule says what it means.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use turnkey_policy::Behaviour;

use super::act::{Act, What};
use super::scene::Scene;
use super::{Detector, Sighting, Step};

/// Kinds of secrets that make a sweep.
const KINDS: usize = 2;

/// Remembers the first step for every kind of secret.
#[derive(Debug)]
pub struct Credentials {
    decoys: Vec<PathBuf>,
    kinds: BTreeMap<&'static str, Step>,
}

impl Credentials {
    /// `decoys` are what was planted to be taken.
    pub fn new(decoys: &[PathBuf]) -> Self {
        Self {
            decoys: decoys.to_vec(),
            kinds: BTreeMap::new(),
        }
    }

    fn is_decoy(&self, path: &[u8]) -> bool {
        let mut decoys = self.decoys.iter();
        decoys.any(|decoy| decoy.as_os_str().as_bytes() == path)
    }
}

impl Detector for Credentials {
    fn see(&mut self, act: &Act<'_>, scene: &Scene, tell: &mut dyn FnMut(Sighting)) {
        let What::Opened(opened) = &act.what else {
            return;
        };
        if opened.reads && self.is_decoy(&opened.path) {
            let step = Step::of(act.event, &[b"opened the decoy ", &opened.path]);
            tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
            return;
        }
        let Some(kind) = scene.traits(&opened.path).secret else {
            return;
        };
        if !opened.reads || self.kinds.contains_key(kind) {
            return;
        }
        let step = Step::of(
            act.event,
            &[b"went for ", kind.as_bytes(), b": ", &opened.path],
        );
        self.kinds.insert(kind, step);
        if self.kinds.len() >= KINDS {
            let steps = self.kinds.values().cloned().collect();
            tell(Sighting::new(Behaviour::CredentialAccess, steps));
        }
    }
}
