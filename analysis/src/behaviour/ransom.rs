//! Files that are replaced by a copy with an unusual ending appended to their name, as programs do that hold files for ransom. Part of
//! mass change; who made the files is of no account, as nothing else treats several so.
//!
//! Files of known classes that lose name and ending for another ending, the same for all, count as well.
//!
//! So do files that were there, under whatever names, when their content was one with a structure and is like random bytes in the end.
//!
//! And files of known classes that are gone from a directory in which as many new ones are, with other names and one ending of no class.
//!
//! And those that are deleted beside a note whose name makes a demand.
//!
//! And those that are deleted once a program was started that locks files with a password or a key: into one archive, as `zip -e` does.
//!
//! Packers and rotations (`x.gz`, `x.bak`, `x.1`) replace files, too, by endings that say so.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ObservedAct, Operation};
use super::mass::{OTHERS, class, counts};
use super::process_state::{ProcessState, base_name};
use super::{Detector, End, Sighting, Step};

/// Files with the same new ending that are many.
const MANY: usize = 6;
/// Files with the same new ending that are enough where a note is left; and those that are as if they had been encrypted, under their own names.
const WITH_NOTE: usize = 3;
/// Files that lost name and ending alike are many: who gives files other names changes one of the two.
const MANY_SCRAMBLED: usize = 12;
/// The mark of their ending, which no ending has.
const SCRAMBLED: &[u8] = b"/";
/// The mark of files that are gone after a program locked some; no ending has it.
const LOCKED: &[u8] = b"//";
/// The mark of those that have others in their places.
const EXCHANGED: &[u8] = b"///";
/// The mark of those that are gone beside a demand.
const DEMANDED: &[u8] = b"////";
/// Nanoseconds for which a name may be one in between: who renames many to names that others of them have does it in two steps.
const IN_BETWEEN: u64 = 2_000_000_000;
/// Files of one directory that are remembered, of those that are gone from it, and of each ending that is new there.
const IN_ONE_PLACE: usize = 48;
/// Files that are remembered.
const FILES: usize = 4096;

/// Endings by which packers, editors and compilers say what they did.
const USUAL: &[&str] = &[
    "7z", "asc", "backup", "bak", "br", "bz2", "d", "gz", "link", "log", "lz", "lz4", "lzma",
    "map", "md5", "min", "new", "o", "old", "orig", "out", "part", "pyc", "rej", "sha1", "sha256",
    "sig", "swp", "tar", "tmp", "txt", "xz", "zip", "zst",
];

/// Programs that encrypt files, each with a word that says so; `None` for those that do nothing else. A word is an option, its beginning,
/// or a command.
const LOCKS: &[(&str, Option<&[&str]>)] = &[
    ("7z", Some(&["-p", "-mhe"])),
    ("7za", Some(&["-p", "-mhe"])),
    ("7zz", Some(&["-p", "-mhe"])),
    ("age", Some(&["-p", "-r", "-R", "-e"])),
    ("ccencrypt", None),
    ("ccrypt", Some(&["-e", "-K", "-k"])),
    ("gpg", Some(&["-c", "-e", "--symmetric", "--encrypt"])),
    ("gpg2", Some(&["-c", "-e", "--symmetric", "--encrypt"])),
    ("mcrypt", None),
    ("openssl", Some(&["enc", "-encrypt"])),
    ("rar", Some(&["-p", "-hp"])),
    ("zip", Some(&["-P", "-e", "--password", "--encrypt"])),
];

/// Programs of those that take the letters of several options behind one dash.
const CLUSTERS: &[&str] = &["gpg", "gpg2", "zip"];

/// Words in the name of a note to whoever misses the files.
const NOTE: &[&str] = &[
    "bitcoin", "decrypt", "pay_", "ransom", "recover", "restore", "unlock", "readme", "read_me",
];

/// Words of such a name that nobody else has a use for.
const DEMANDS: &[&str] = &["bitcoin", "decrypt", "pay_", "ransom", "recover", "unlock"];

/// Names of files in one directory.
type Names = BTreeSet<Vec<u8>>;

/// The copies that were made, and the files that are gone.
#[derive(Debug, Default)]
pub struct Ransom {
    /// By ending, the files that have such a copy; true for those that are gone.
    copies: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, bool>>,
    /// The files that lost name and ending: by the new name, the mark with the ending, and the old name.
    scrambled: BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>,
    /// The time of the last of them.
    scrambled_ns: u64,
    has_note: bool,
    /// The note, where its name says what it is.
    demand: Option<Vec<u8>>,
    told: BTreeSet<Vec<u8>>,
    /// By directory, the files of known classes that are gone from it.
    lost_from: BTreeMap<Vec<u8>, Names>,
    lost_count: usize,
    /// By directory and ending of no class, the files that the run made there.
    made_in: BTreeMap<(Vec<u8>, Vec<u8>), Names>,
    made_count: usize,
    /// The program that locked something, in words, and the files that were there and are gone since.
    locked: Option<(Vec<u8>, BTreeSet<Vec<u8>>)>,
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
                self.has_note |= is_note(&opened.path, NOTE);
                if self.demand.is_none()
                    && is_note(&opened.path, DEMANDS)
                    && !state.found(&opened.path)
                {
                    self.demand = Some(base_name(&opened.path).to_vec());
                }
                if let Some((file, ending)) = unusual(&opened.path) {
                    if state.made(file) || state.found(file) {
                        self.copied(file, ending, false);
                    }
                    if opened.creates
                        && !state.found(&opened.path)
                        && !is_converted(&opened.path, state)
                    {
                        self.makes(act, &opened.path, ending, tell);
                    }
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
                    self.uncopied(path);
                    // A name in between.
                    if let Some((ending, file)) = self.scrambled.remove(&path[..])
                        && let Some(files) = self.copies.get_mut(&ending)
                    {
                        files.remove(&file);
                    }
                    let is_new = state.made(path) && !is_converted(new, state);
                    if let Some((_, ending)) = ending.filter(|_| is_new) {
                        self.makes(act, new, ending, tell);
                    }
                    self.gone(path);
                    if let Some((name, ending)) = ending
                        && is_scrambled(path, (name, new))
                    {
                        let ending = [SCRAMBLED, ending].concat();
                        self.copied(path, &ending, true);
                        if self.scrambled.len() < FILES {
                            self.scrambled.insert(new.to_vec(), (ending, path.to_vec()));
                        }
                        self.scrambled_ns = act.event.time_ns;
                    }
                }
            },
            Operation::Changed {
                on: AttemptKind::Unlink,
                path,
                outcome,
                ..
            } if outcome.is_attempt() => {
                self.gone(path);
                self.uncopied(path);
                self.lose(act, path, state, tell);
            }
            Operation::Executed { file, argv, .. } if self.locked.is_none() => {
                self.locked = locks(&file.path, argv).map(|words| (words, BTreeSet::new()));
                return;
            }
            _ => return,
        }
        self.look(act, tell);
        self.look_for_lost(act, tell);
        self.look_for_demand(act, tell);
    }

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        if let Some((_, what)) = self.replaced(None) {
            tell(Sighting::new(
                Behaviour::MassChange,
                vec![Step::of_run(what)],
            ));
        }
        let random = (
            &end.scrambled,
            "have content like random bytes now".to_owned(),
        );
        let demand = self.demand.as_ref().map(|note| {
            let note = String::from_utf8_lossy(note);
            (
                &end.replaced,
                format!("say nothing of what they said, beside {note}"),
            )
        });
        let all = demand.into_iter().chain([random]);
        let Some((files, how)) = all.into_iter().find(|(files, _)| files.len() >= WITH_NOTE) else {
            return;
        };
        let shown: Vec<&str> = files.iter().take(WITH_NOTE).map(String::as_str).collect();
        let what = format!(
            "{} files that were there {how}: {}, …",
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

    /// Forgets a copy that is gone itself, or takes the place of its file: who holds files for ransom keeps the copies.
    fn uncopied(&mut self, copy: &[u8]) {
        if let Some((file, ending)) = unusual(copy)
            && let Some(files) = self.copies.get_mut(ending)
        {
            files.remove(file);
        }
    }

    fn gone(&mut self, file: &[u8]) {
        let mut endings = self.copies.values_mut();
        if let Some(is_gone) = endings.find_map(|files| files.get_mut(file)) {
            *is_gone = true;
        }
    }

    /// Remembers a file that the run made, and that has an ending of no class.
    fn makes(
        &mut self,
        act: &ObservedAct<'_>,
        file: &[u8],
        ending: &[u8],
        tell: &mut dyn FnMut(Sighting),
    ) {
        let directory = directory_of(file).to_vec();
        if self.made_count >= FILES {
            return;
        }
        let files = self.made_in.entry((directory.clone(), ending.to_vec()));
        let files = files.or_default();
        if files.len() < IN_ONE_PLACE && files.insert(base_name(file).to_vec()) {
            self.made_count += 1;
            self.look_for_exchanged(act, (&directory, ending), tell);
        }
    }

    /// Tells of files that were there and have others in their places, of which nobody can say which is whose.
    fn look_for_exchanged(
        &mut self,
        act: &ObservedAct<'_>,
        (directory, ending): (&[u8], &[u8]),
        tell: &mut dyn FnMut(Sighting),
    ) {
        let enough = if self.has_note { WITH_NOTE } else { MANY };
        let place = (directory.to_vec(), ending.to_vec());
        let (Some(lost), Some(made)) = (self.lost_from.get(directory), self.made_in.get(&place))
        else {
            return;
        };
        let told = [EXCHANGED, ending].concat();
        if lost.len() < enough || made.len() < lost.len() || self.told.contains(&told) {
            return;
        }
        let is_other = |name: &&Vec<u8>| !lost.iter().any(|old| has_stem(name, old));
        if made.iter().filter(is_other).count() < lost.len() {
            return;
        }
        let all = format!(
            "deleted {} files beside as many new ones under other names that end in .",
            lost.len()
        );
        self.told.insert(told);
        let step = Step::from_event(act.event, &[all.as_bytes(), ending]);
        tell(Sighting::new(Behaviour::MassChange, vec![step]));
    }

    /// Remembers a file that was there and is deleted; after others were locked, and beside new ones.
    fn lose(
        &mut self,
        act: &ObservedAct<'_>,
        file: &[u8],
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let is_lost = counts(file) && class(file) != OTHERS && !state.made(file);
        if is_lost && self.lost_count < FILES {
            let directory = directory_of(file);
            let files = self.lost_from.entry(directory.to_vec()).or_default();
            if files.len() < IN_ONE_PLACE && files.insert(base_name(file).to_vec()) {
                self.lost_count += 1;
                let here = (directory.to_vec(), Vec::new())..;
                let here = self
                    .made_in
                    .range(here)
                    .take_while(|((place, _), _)| place == directory);
                let endings: Vec<Vec<u8>> = here.map(|((_, ending), _)| ending.clone()).collect();
                for ending in endings {
                    self.look_for_exchanged(act, (directory, &ending), tell);
                }
            }
        }
        if let Some((_, lost)) = &mut self.locked
            && lost.len() < FILES
            && counts(file)
            && !state.made(file)
        {
            lost.insert(file.to_vec());
        }
    }

    /// Tells of files that were there and are deleted, beside a note that makes a demand: wherever their copies are.
    fn look_for_demand(&mut self, act: &ObservedAct<'_>, tell: &mut dyn FnMut(Sighting)) {
        let lost = self.lost_count;
        let Some(note) = self.demand.as_ref().filter(|_| lost >= WITH_NOTE) else {
            return;
        };
        if self.told.insert(DEMANDED.to_vec()) {
            let all = format!("deleted {lost} files beside ");
            let step = Step::from_event(act.event, &[all.as_bytes(), note]);
            tell(Sighting::new(Behaviour::MassChange, vec![step]));
        }
    }

    fn look_for_lost(&mut self, act: &ObservedAct<'_>, tell: &mut dyn FnMut(Sighting)) {
        let enough = if self.has_note { WITH_NOTE } else { MANY };
        let Some((words, lost)) = &self.locked else {
            return;
        };
        if lost.len() >= enough && self.told.insert(LOCKED.to_vec()) {
            let all = format!("deleted {} files after it ran ", lost.len());
            let step = Step::from_event(act.event, &[all.as_bytes(), words]);
            tell(Sighting::new(Behaviour::MassChange, vec![step]));
        }
    }

    fn look(&mut self, act: &ObservedAct<'_>, tell: &mut dyn FnMut(Sighting)) {
        if let Some((ending, what)) = self.replaced(Some(act.event.time_ns)) {
            self.told.insert(ending);
            let step = Step::from_event(act.event, &[&what]);
            tell(Sighting::new(Behaviour::MassChange, vec![step]));
        }
    }

    /// The mark and ending of files that were replaced and not yet told of, in words; `now` is `None` at the end of the run. A name without
    /// anything of the old one may be one in between.
    fn replaced(&self, now: Option<u64>) -> Option<(Vec<u8>, Vec<u8>)> {
        let enough = |ending: &[u8]| match ending.starts_with(SCRAMBLED) {
            true => MANY_SCRAMBLED,
            false if self.has_note => WITH_NOTE,
            false => MANY,
        };
        let lasts = now.is_none_or(|now| now >= self.scrambled_ns + IN_BETWEEN);
        let count = |files: &BTreeMap<_, bool>| files.values().filter(|is_gone| **is_gone).count();
        let mut endings = self.copies.iter();
        let (ending, files) = endings.find(|(ending, files)| {
            count(files) >= enough(ending)
                && !self.told.contains(&ending[..])
                && (lasts || !ending.starts_with(SCRAMBLED))
        })?;
        let shown = ending.strip_prefix(SCRAMBLED).unwrap_or(ending);
        let all = format!(
            "replaced {} files or more by ones that end in .",
            count(files)
        );
        Some((ending.clone(), [all.as_bytes(), shown].concat()))
    }
}

/// Options with which such a program gives files back.
const UNLOCKS: &[&[u8]] = &[b"-d", b"--decrypt"];
/// Commands, the first word, of those that have some, with which they give files back or tell of them.
const UNPACKS: &[&[u8]] = &[b"x", b"e", b"l", b"t"];

/// The words of a program that encrypts files; `None` for any other, and for one that gives them back.
fn locks(exe: &[u8], argv: &[Vec<u8>]) -> Option<Vec<u8>> {
    let called = argv.first().map_or(exe, |name| &name[..]);
    let words = argv.get(1..).unwrap_or_default();
    let mut known = LOCKS.iter();
    let (name, by) = known.find(|(name, _)| name.as_bytes() == base_name(called))?;
    let is_said = |word: &[u8], one: &[u8]| match one {
        [b'-', letter] if *letter != b'-' && CLUSTERS.contains(name) => has_letter(word, *letter),
        [b'-', ..] => word.starts_with(one),
        _ => word == one,
    };
    let says = |all: &[&str]| {
        let mut words = words.iter();
        words.any(|word| all.iter().any(|one| is_said(word, one.as_bytes())))
    };
    let unlocks = words.iter().any(|word| UNLOCKS.contains(&&word[..]))
        || words
            .first()
            .is_some_and(|word| UNPACKS.contains(&&word[..]));
    let locks = !unlocks && by.is_none_or(says);
    locks.then(|| [base_name(called), b" ", &words.join(&b' ')].concat())
}

/// True for options of one letter each, this one among them: `-re`.
fn has_letter(word: &[u8], letter: u8) -> bool {
    let letters = word.strip_prefix(b"-").unwrap_or_default();
    !letters.starts_with(b"-")
        && letters
            .iter()
            .take_while(|one| one.is_ascii_alphanumeric())
            .any(|one| *one == letter)
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

/// True for a file that has the name of one that was there, but for the ending: it says the same in another way.
fn is_converted(path: &[u8], state: &ProcessState) -> bool {
    let dot = path.iter().rposition(|byte| *byte == b'.');
    dot.is_some_and(|dot| state.found_beginning(&path[..=dot]))
}

/// The directory of a path.
fn directory_of(path: &[u8]) -> &[u8] {
    &path[..path.len() - base_name(path).len()]
}

/// True when a name has that of another file in it, without its ending.
fn has_stem(name: &[u8], old: &[u8]) -> bool {
    let dot = old.iter().rposition(|byte| *byte == b'.');
    let stem = dot.map_or(old, |dot| &old[..dot]);
    name.windows(stem.len().max(1)).any(|part| part == stem)
}

/// True when a file of a known class gets another name, in which its own is no more, and an ending of no class.
fn is_scrambled(path: &[u8], (name, new): (&[u8], &[u8])) -> bool {
    let is_kept = has_stem(base_name(name), base_name(path));
    class(path) != OTHERS && class(new) == OTHERS && !is_kept
}

/// True for the name of a note, by one of these words: it is meant to be seen.
fn is_note(path: &[u8], words: &[&str]) -> bool {
    let name = String::from_utf8_lossy(base_name(path)).to_ascii_lowercase();
    words.iter().any(|word| name.contains(word))
}
