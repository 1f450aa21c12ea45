//! Credential access: secrets of two kinds or more were opened, or were to be; or a decoy was; or a secret that the program's
//! home lacks was asked for by somebody who has no use for it.
//!
//! One kind alone is what a program of that kind does: `ssh` opens SSH keys. A rule says what it means. Where the rules are
//! silent because there is no such file, who asks makes the difference: a client asks for settings of its own, `cat` and `cp`
//! have none, and no library of an interpreter opens a key or the store of a browser that it has not seen there.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use turnkey_policy::{Behaviour, Glob, Policy};

use super::act::{ObservedAct, Operation};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};

/// Kinds of secrets that make a sweep.
const KINDS: usize = 2;

/// Programs that show or copy a file that they are told of, and have no settings that are secrets.
const HANDLERS: &[&str] = &[
    "awk",
    "base32",
    "base64",
    "basenc",
    "busybox",
    "bzip2",
    "cat",
    "cp",
    "cpio",
    "cut",
    "dd",
    "diff",
    "ed",
    "egrep",
    "fgrep",
    "file",
    "gawk",
    "grep",
    "gzip",
    "head",
    "hexdump",
    "install",
    "less",
    "ln",
    "mawk",
    "md5sum",
    "more",
    "mv",
    "nl",
    "od",
    "paste",
    "rev",
    "rg",
    "sed",
    "sha256sum",
    "shred",
    "sort",
    "strings",
    "tac",
    "tail",
    "tar",
    "tee",
    "uniq",
    "wc",
    "xargs",
    "xxd",
    "xz",
    "zip",
    "zstd",
];
/// Programs that run what somebody wrote, by the beginning of their names.
const INTERPRETERS: &[&str] = &[
    "bash", "dash", "ksh", "lua", "node", "perl", "php", "python", "ruby", "sh", "zsh",
];
/// Kinds that programs of one sort alone keep for themselves.
const KEPT_BY_FEW: &[&str] = &["SSH keys", "private keys", "browsers", "wallets"];

/// Remembers the first step for every kind of secret.
#[derive(Debug)]
pub struct Credentials {
    decoys: Vec<PathBuf>,
    /// The secrets that the program's home lacks, and about which no rule says anything for that.
    lacking: Vec<Glob>,
    kinds: BTreeMap<&'static str, Step>,
}

impl Credentials {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        let rules = policy.rules.iter().filter(|rule| rule.present);
        Self {
            decoys: policy.filesystem.decoys.clone(),
            lacking: rules.filter_map(|rule| rule.silent.clone()).collect(),
            kinds: BTreeMap::new(),
        }
    }

    fn is_decoy(&self, path: &[u8]) -> bool {
        let mut decoys = self.decoys.iter();
        decoys.any(|decoy| decoy.as_os_str().as_bytes() == path)
    }

    fn is_lacking(&self, path: &[u8]) -> bool {
        self.lacking.iter().any(|glob| glob.matches(path))
    }
}

impl Detector for Credentials {
    fn see(&mut self, act: &ObservedAct<'_>, state: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let Operation::Opened(opened) = &act.what else {
            return;
        };
        if opened.reads && self.is_decoy(&opened.path) {
            let step = Step::of(act.event, &[b"opened the decoy ", &opened.path]);
            tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
            return;
        }
        let Some(kind) = state.traits(&opened.path).secret else {
            return;
        };
        if opened.reads && self.is_lacking(&opened.path) && !state.made(&opened.path) {
            let process = state.process(&act.event.task);
            if process.is_some_and(|one| has_no_use(&one.exe, kind)) {
                let step = Step::of(
                    act.event,
                    &[b"asked for ", kind.as_bytes(), b": ", &opened.path],
                );
                tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
            }
        }
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

/// True for a program that does not keep secrets of this kind itself.
fn has_no_use(exe: &[u8], kind: &str) -> bool {
    let Ok(name) = std::str::from_utf8(base_name(exe)) else {
        return false;
    };
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    let interprets = || {
        let mut ends = INTERPRETERS.iter().filter_map(|one| name.strip_prefix(one));
        ends.any(is_version)
    };
    HANDLERS.contains(&name) || KEPT_BY_FEW.contains(&kind) && interprets()
}
