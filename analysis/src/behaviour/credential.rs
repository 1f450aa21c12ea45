//! Credential access: secrets of two kinds or more were opened, or were to be; or a decoy was; or a secret that the program's
//! home lacks was asked for by somebody who has no use for it; or a tool was told to pack or copy where secrets are kept, an
//! agent that holds them was spoken to out of reach, or a key of the kernel was to be read.
//!
//! One kind alone is what a program of that kind does: `ssh` opens SSH keys. A rule says what it means. Where the rules are
//! silent because there is no such file, who asks makes the difference: a client asks for settings of its own, `cat` and `cp`
//! have none, and no library of an interpreter opens a key or the store of a browser that it has not seen there.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use turnkey_policy::{Behaviour, Glob, Policy, WORKSPACE};

use super::accounts::is_installed;
use super::act::{ActOutcome, ObservedAct, Operation};
use super::history::keeps;
use super::interpreter::is_interpreter;
use super::path_classes::is_in;
use super::process_state::{ObservedProcess, ProcessState, base_name};
use super::{Detector, OPENED, SPOKE, Sighting, Step};
use turnkey_facts::{Address, Kind};

/// The error of a file that is not there, errno(3).
const ENOENT: i32 = 2;
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
/// Programs that take whole directories, and look for them before they open anything: what comes last is where to.
const COPIERS: &[&str] = &["cp", "mv", "rclone", "rsync", "scp"];
/// Programs that put what they are told of into an archive.
const PACKERS: &[&str] = &["7z", "7za", "zip"];
/// Programs that do so when an option says that they are to make one, and otherwise unpack.
const TAPES: &[&str] = &["bsdtar", "pax", "tar"];
/// Directories of a home that hold nothing but secrets.
const KEPT: &[&str] = &[
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".mozilla",
    ".mozilla/firefox",
    ".password-store",
    ".ssh",
    ".electrum/wallets",
    ".ethereum/keystore",
    ".local/share/keyrings",
    ".config/gcloud",
    ".config/google-chrome",
    ".config/chromium",
    "etc/NetworkManager/system-connections",
    "etc/openvpn",
    "etc/wireguard",
    "etc/wpa_supplicant",
];
/// keyctl(2): `KEYCTL_SEARCH` and `KEYCTL_READ`. The others make keys and sessions of the caller's own.
const SEARCHES: [u64; 2] = [10, 11];
/// Programs that talk to the agent of GnuPG.
const GNUPG: &[&str] = &["gpg", "gpg2", "gpg-connect-agent", "gpgconf", "gpgsm"];
/// The kind of what somebody typed, which a shell, an interpreter or a client reads when a person talks to it.
const HISTORIES: &str = "histories";
/// Kinds that programs of one sort alone keep for themselves.
const KEPT_BY_FEW: &[&str] = &[
    "SSH keys",
    "private keys",
    "browsers",
    "messengers",
    "wallets",
    "keyrings",
];

/// Remembers the first step for every kind of secret.
#[derive(Debug)]
pub struct Credentials {
    decoys: Vec<PathBuf>,
    /// The secrets that the program's home lacks, and about which no rule says anything for that; there are others, which no rule names.
    lacking: Vec<Glob>,
    kinds: BTreeMap<&'static str, Step>,
}

impl Credentials {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        let rules = policy.rules.iter().filter(|rule| rule.present);
        Self {
            decoys: policy
                .filesystem
                .decoys
                .iter()
                .filter(|decoy| !policy.filesystem.planted.contains_key(*decoy))
                .cloned()
                .collect(),
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

    /// The step that goes after a secret with no open(2) of one: a tool that looks with stat(2) first, and finds nothing; an
    /// agent that is out of reach; a key of the kernel.
    fn without_open(&self, act: &ObservedAct<'_>, state: &ProcessState) -> Option<Step> {
        match &act.what {
            Operation::Executed { file, argv, .. } => {
                let called = argv.first().map_or(&file.path[..], |name| &name[..]);
                let name = std::str::from_utf8(base_name(called)).ok()?;
                let place = taken(name, argv)?
                    .iter()
                    .find(|word| is_kept_there(word, state))?;
                let words: [&[u8]; 4] = [b"ran ", name.as_bytes(), b" on ", place];
                Some(Step::from_event(act.event, &words))
            }
            Operation::Spoke {
                address: Address::UnixPath(path),
                done: false,
            } if state.traits(&state.socket(path)).agent
                && !looks_for_its_own(act, path, state) =>
            {
                Some(Step::by_outcome(act, SPOKE, &[b"the agent at ", path]))
            }
            Operation::Called { name, args, .. } if takes_key(name, args) => {
                let words: [&[u8]; 3] = [b"called ", name.as_bytes(), b" for a key"];
                Some(Step::from_event(act.event, &words))
            }
            _ => None,
        }
    }
}

/// True for a program of GnuPG that finds no agent in the jail's own home: it starts one then, and nobody else's was ever there.
fn looks_for_its_own(act: &ObservedAct<'_>, path: &[u8], state: &ProcessState) -> bool {
    let is_missing = matches!(&act.event.kind, Kind::Network { errno, .. } if *errno == ENOENT);
    let process = state.process(&act.event.task);
    let is_client = process.is_some_and(|one| {
        let name = base_name(&one.exe);
        is_installed(&one.exe) && GNUPG.iter().any(|known| known.as_bytes() == name)
    });
    is_missing && is_client && is_in(path, WORKSPACE)
}

impl Detector for Credentials {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        if let Some(step) = self.without_open(act, state) {
            tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
            return;
        }
        let Operation::Opened(opened) = &act.what else {
            return;
        };
        if opened.reads && self.is_decoy(&opened.path) {
            let step = Step::by_outcome(act, OPENED, &[b"the decoy ", &opened.path]);
            tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
            return;
        }
        let Some(kind) = state.traits(&opened.path).secret else {
            return;
        };
        // A home that the run has made holds what the run has put there, and what it has read elsewhere was told then.
        if state.is_in_new_home(&opened.path) {
            return;
        }
        let is_lacking = self.is_lacking(&opened.path)
            || opened.outcome == ActOutcome::Absent && act.event.decision.is_none();
        if opened.reads && is_lacking && !state.made(&opened.path) {
            let process = state.process(&act.event.task);
            if process.is_some_and(|one| has_no_use(one, kind, &opened.path)) {
                let step = Step::from_event(
                    act.event,
                    &[b"asked for ", kind.as_bytes(), b": ", &opened.path],
                );
                tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
            }
        }
        if !opened.reads || self.kinds.contains_key(kind) {
            return;
        }
        let step = Step::from_event(
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

/// The arguments that a program takes something from; `None` when it is no such program, or only puts something there.
fn taken<'a>(name: &str, argv: &'a [Vec<u8>]) -> Option<&'a [Vec<u8>]> {
    let (_, words) = argv.split_first()?;
    if COPIERS.contains(&name) {
        return words.split_last().map(|(_, from)| from);
    }
    let (first, rest) = words.split_first()?;
    let packs = || {
        let letters = [b'c', b'r', b'u'];
        let short =
            |word: &[u8]| !word.starts_with(b"--") && letters.iter().any(|one| word.contains(one));
        let long = |word: &[u8]| matches!(word, b"--create" | b"--append" | b"--update");
        let options = words.iter().filter(|word| word.first() == Some(&b'-'));
        short(first) || options.into_iter().any(|word| short(word) || long(word))
    };
    let packs = PACKERS.contains(&name) || TAPES.contains(&name) && packs();
    packs.then_some(rest)
}

/// True for a word that names a directory of secrets, or is a path to one secret, unless the run has put something there.
fn is_kept_there(word: &[u8], state: &ProcessState) -> bool {
    let end = word
        .iter()
        .rposition(|byte| !matches!(byte, b'/' | b'*' | b'.'));
    let path = end.map_or(word, |end| &word[..=end]);
    let is_directory = |one: &&&str| {
        let before = path.strip_suffix(one.as_bytes());
        before.is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
    };
    match KEPT.iter().find(is_directory) {
        Some(one) => !state.made_below(one.as_bytes()),
        None => path.starts_with(b"/") && state.traits(path).secret.is_some() && !state.made(path),
    }
}

/// True for a call that asks for what a key of the kernel holds.
fn takes_key(name: &str, args: &[u64; 3]) -> bool {
    name == "request_key" || name == "keyctl" && SEARCHES.contains(&(args[0] & 0xffff_ffff))
}

/// True for a program that does not keep secrets of this kind itself, and is not the one that keeps this list of what was typed.
fn has_no_use(process: &ObservedProcess, kind: &str, path: &[u8]) -> bool {
    let is_few = KEPT_BY_FEW.contains(&kind) || kind == HISTORIES && !keeps(process, path);
    handles_files(&process.exe) || is_few && is_interpreter(&process.exe)
}

/// True for a program that shows or copies a file that it is told of, and has no settings in it.
pub fn handles_files(exe: &[u8]) -> bool {
    std::str::from_utf8(base_name(exe)).is_ok_and(|name| HANDLERS.contains(&name))
}
