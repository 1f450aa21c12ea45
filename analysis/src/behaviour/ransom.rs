//! Files that are replaced by a copy with an unusual ending appended to their name, as programs do that hold files for ransom. Part of
//! mass change; who made the files is of no account, as nothing else treats several so.
//!
//! Files of known classes that lose name and ending for another ending, the same for all, count as well.
//!
//! So do files that were there, under whatever names, when their content was one with a structure and is like random bytes in the end.
//!
//! Packers and rotations (`x.gz`, `x.bak`, `x.1`) replace files, too, by endings that say so.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Operation};
use super::mass::{OTHERS, class};
use super::process_state::{ProcessState, base_name};
use super::{Detector, End, Sighting, Step};

/// Files with the same new ending that are many.
const MANY: usize = 6;
/// Files with the same new ending that are enough where a note is left.
const WITH_NOTE: usize = 3;
/// Files that lost name and ending alike are many: who gives files other names changes one of the two.
const MANY_SCRAMBLED: usize = 12;
/// The mark of their ending, which no ending has.
const SCRAMBLED: &[u8] = b"/";
/// Files that are as if they had been encrypted, under their own names.
const SCRAMBLED_IN_PLACE: usize = 3;
/// Files that are remembered.
const FILES: usize = 4096;

/// Endings by which packers, editors and compilers say what they did.
const USUAL: &[&str] = &[
    "7z", "asc", "backup", "bak", "br", "bz2", "d", "gz", "link", "lock", "log", "lz", "lz4",
    "lzma", "map", "md5", "min", "new", "o", "old", "orig", "out", "part", "pyc", "rej", "sha1",
    "sha256", "sig", "swp", "tar", "tmp", "txt", "xz", "zip", "zst",
];

/// Words in the name of a note to whoever misses the files.
const NOTE: &[&str] = &[
    "decrypt", "ransom", "recover", "restore", "unlock", "readme", "read_me",
];

/// The copies that were made, and the files that are gone.
#[derive(Debug, Default)]
pub struct Ransom {
    /// By ending, the files that have such a copy; true for those that are gone.
    copies: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, bool>>,
    has_note: bool,
    told: BTreeSet<Vec<u8>>,
}

impl Detector for Ransom {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        match &act.what {
            Operation::Opened(opened) if opened.writes && opened.outcome.is_attempt() => {
                self.has_note |= is_note(&opened.path);
                if let Some((file, ending)) = unusual(&opened.path)
                    && (state.made(file) || state.found(file))
                {
                    self.copied(file, ending, false);
                }
            }
            Operation::Changed {
                on: AttemptKind::Rename,
                path,
                new: Some(new),
                outcome,
                ..
            } if outcome.is_attempt() => match unusual(new) {
                Some((file, ending)) if file == &path[..] => self.copied(file, ending, true),
                ending => {
                    self.gone(path);
                    if let Some((name, ending)) = ending
                        && is_scrambled(path, (name, new))
                    {
                        let ending = [SCRAMBLED, ending].concat();
                        self.copied(path, &ending, true);
                    }
                }
            },
            Operation::Changed {
                on: AttemptKind::Unlink,
                path,
                outcome,
                ..
            } if outcome.is_attempt() => self.gone(path),
            _ => return,
        }
        self.look(act, tell);
    }

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        let files = &end.scrambled;
        if files.len() < SCRAMBLED_IN_PLACE {
            return;
        }
        let shown = files.iter().take(SCRAMBLED_IN_PLACE);
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        let what = format!(
            "{} files that were there have content like random bytes now: {}, …",
            files.len(),
            shown.join(", ")
        );
        tell(Sighting::new(
            Behaviour::MassChange,
            vec![Step::of_run(what)],
        ));
    }
}

impl Ransom {
    fn copied(&mut self, file: &[u8], ending: &[u8], is_gone: bool) {
        let known: usize = self.copies.values().map(BTreeMap::len).sum();
        if known < FILES {
            let files = self.copies.entry(ending.to_vec()).or_default();
            *files.entry(file.to_vec()).or_default() |= is_gone;
        }
    }

    fn gone(&mut self, file: &[u8]) {
        let mut endings = self.copies.values_mut();
        if let Some(is_gone) = endings.find_map(|files| files.get_mut(file)) {
            *is_gone = true;
        }
    }

    fn look(&mut self, act: &ObservedAct<'_>, tell: &mut dyn FnMut(Sighting)) {
        let enough = |ending: &[u8]| match ending.starts_with(SCRAMBLED) {
            true => MANY_SCRAMBLED,
            false if self.has_note => WITH_NOTE,
            false => MANY,
        };
        let count = |files: &BTreeMap<_, bool>| files.values().filter(|is_gone| **is_gone).count();
        let mut endings = self.copies.iter();
        let Some((ending, files)) = endings.find(|(ending, files)| {
            count(files) >= enough(ending) && !self.told.contains(&ending[..])
        }) else {
            return;
        };
        let all = format!("replaced {} files by ones that end in .", count(files));
        let shown = ending.strip_prefix(SCRAMBLED).unwrap_or(ending);
        let step = Step::from_event(act.event, &[all.as_bytes(), shown]);
        self.told.insert(ending.clone());
        tell(Sighting::new(Behaviour::MassChange, vec![step]));
    }
}

/// A path as that of another file with an unusual ending appended.
fn unusual(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = path.iter().rposition(|byte| *byte == b'.')?;
    let (file, ending) = (&path[..dot], &path[dot + 1..]);
    let is_name = !base_name(file).is_empty() && !ending.is_empty() && !ending.contains(&b'/');
    // A source, a text or a picture beside another file is one of its own: those who want money leave what nothing opens.
    (is_name && !is_usual(ending) && class(path) == OTHERS).then_some((file, ending))
}

/// True for an ending by which packers, editors and rotations say what they did; some end in a number or a date.
pub(super) fn is_usual(ending: &[u8]) -> bool {
    let lower = ending.to_ascii_lowercase();
    let is_number = ending
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'-');
    is_number || USUAL.iter().any(|usual| usual.as_bytes() == lower)
}

/// True when a file of a known class gets another name, in which its own is no more, and an ending of no class.
fn is_scrambled(path: &[u8], (name, new): (&[u8], &[u8])) -> bool {
    let old = base_name(path);
    let stem = old
        .iter()
        .rposition(|byte| *byte == b'.')
        .map_or(old, |dot| &old[..dot]);
    let mut parts = base_name(name).windows(stem.len().max(1));
    let is_kept = parts.any(|part| part == stem);
    class(path) != OTHERS && class(new) == OTHERS && !is_kept
}

/// True for the name of a note: one that is meant to be seen.
fn is_note(path: &[u8]) -> bool {
    let name = String::from_utf8_lossy(base_name(path)).to_ascii_lowercase();
    NOTE.iter().any(|word| name.contains(word))
}
