//! Mass change: within a minute, twelve or more files that the run did not make were deleted or, once
//! read, overwritten, or were to be, and they are of three or more classes (documents, pictures, archives, data, …);
//! or six or more were given a new name by appending the same suffix, whatever their class; or three were shredded; or six of
//! three classes have one content in the end, or none; or the repository of a version control that was there is taken apart.
//!
//! A formatter overwrites many files of one class. What builds make again (`target`, `node_modules`,
//! `__pycache__`, …), temporary files and the run's own files do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use turnkey_policy::{AttemptKind, Behaviour};

use super::act::{ActOutcome, ObservedAct, Operation};
use super::process_state::{ProcessState, base_name};
use super::{Detector, End, Sighting, Step, Verb};

/// Files of different classes that were lost.
const MANY: usize = 12;
/// Classes of them.
const CLASSES: usize = 3;
/// Files with the same new suffix.
const RENAMED: usize = 6;
/// Files that a program overwrites so that nobody can bring them back.
const SHREDDED: usize = 3;
/// Files of different classes that all have one content in the end.
const LEVELLED: usize = 6;
/// Files without which a directory is no repository any more, and what the directory is called: gitrepository-layout(5), and Mercurial's.
const REPOSITORIES: &[&[u8]] = &[
    b"/.git/HEAD",
    b"/.git/objects",
    b"/.git/refs",
    b"/.hg/store",
    b"/.hg/requires",
];
/// Programs that do nothing else.
const SHREDDERS: &[&[u8]] = &[b"shred", b"wipe", b"srm", b"scrub", b"bleachbit"];
/// Nanoseconds within which it happens.
const WINDOW: u64 = 60_000_000_000;
/// Files that are remembered.
const FILES: usize = 4096;

/// Directories whose contents are made again.
const MADE_AGAIN: &[&str] = &[
    "node_modules",
    "__pycache__",
    ".git",
    "target",
    "build",
    "dist",
    "out",
    ".cache",
    ".venv",
    "venv",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "CMakeFiles",
    "coverage",
];

/// Endings by the class of what they name. Everything else is one more class.
const ENDINGS: &[(&str, &[&str])] = &[
    (
        "documents",
        &[
            "doc", "docx", "odt", "pdf", "rtf", "xls", "xlsx", "ods", "ppt", "pptx", "odp", "epub",
        ],
    ),
    (
        "pictures",
        &[
            "jpg", "jpeg", "png", "gif", "bmp", "tif", "tiff", "svg", "webp", "heic", "psd", "raw",
        ],
    ),
    (
        "recordings",
        &[
            "mp3", "wav", "flac", "ogg", "mp4", "mov", "avi", "mkv", "webm", "m4a",
        ],
    ),
    (
        "archives",
        &["zip", "tar", "gz", "bz2", "xz", "7z", "rar", "zst", "bak"],
    ),
    (
        "databases",
        &["db", "sqlite", "sqlite3", "sql", "mdb", "accdb", "parquet"],
    ),
    ("keys", &["pem", "key", "p12", "pfx", "kdbx", "gpg", "crt"]),
    (
        "texts",
        &[
            "txt", "md", "rst", "csv", "tsv", "json", "xml", "yaml", "yml", "toml", "ini", "log",
            "html",
        ],
    ),
    (
        "sources",
        &[
            "c", "h", "cc", "cpp", "hpp", "rs", "py", "js", "mjs", "ts", "jsx", "tsx", "go",
            "java", "rb", "php", "sh", "pl", "cs", "css", "scss", "vue",
        ],
    ),
    (
        "objects",
        &[
            "o", "a", "so", "d", "class", "pyc", "obj", "lib", "dll", "exe", "elf", "map",
        ],
    ),
];

/// The class of what has no known ending.
pub(super) const OTHERS: &str = "files of other kinds";

/// Repositories that are told of.
const REPOSITORIES_TOLD: usize = 64;
const TOOK_APART: Verb = ("deleted the repository ", "tried to delete the repository ");
const SHREDDED_ONE: Verb = (
    "shredded the third file: ",
    "tried to shred the third file: ",
);
const RENAMED_ONE: Verb = (
    "renamed the sixth file to end in ",
    "tried to rename the sixth file to end in ",
);

/// The files that were read, and those that were lost and when.
#[derive(Debug, Default)]
pub struct MassChange {
    read: BTreeSet<Vec<u8>>,
    /// The last ones of each class, at most as many as make the whole.
    lost: BTreeMap<&'static str, VecDeque<(u64, Vec<u8>)>>,
    suffixes: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    shredded: BTreeSet<Vec<u8>>,
    /// Files that were given another name, and what each was called at first.
    renamed: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Files that were opened for writing. Which of them were there is known in the end.
    written: BTreeSet<Vec<u8>>,
    /// Repositories that were told of.
    repositories: BTreeSet<Vec<u8>>,
}

impl Detector for MassChange {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        self.take_apart(act, state, tell);
        match &act.what {
            Operation::Opened(opened) if opened.outcome.is_attempt() && counts(&opened.path) => {
                if opened.writes && opened.done() && self.written.len() < FILES {
                    self.written.insert(opened.path.to_vec());
                }
                if opened.writes && !state.made(&opened.path) && shreds(act, state) {
                    self.shred(act, &opened.path, tell);
                } else if opened.writes && self.read.contains(&*opened.path) {
                    self.lose(
                        act,
                        (&opened.path, opened.outcome),
                        ("overwrote ", "tried to overwrite "),
                        tell,
                    );
                } else if opened.done()
                    && opened.reads
                    && !state.made(&opened.path)
                    && self.read.len() < FILES
                {
                    self.read.insert(opened.path.to_vec());
                }
            }
            Operation::Changed {
                on,
                path,
                new,
                outcome,
                ..
            } if outcome.is_attempt() && counts(path) && !state.made(path) => match (on, new) {
                (AttemptKind::Unlink, _) => self.lose(
                    act,
                    (path, *outcome),
                    ("deleted ", "tried to delete "),
                    tell,
                ),
                (AttemptKind::Rename, Some(new)) => self.rename(act, path, new, tell),
                _ => {}
            },
            _ => {}
        }
    }

    /// Tells of files that were made alike: whoever writes over them without a look reads none, as a generator does, whose files differ.
    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        // A new mode changes a file as well, and leaves its content.
        let is_written = |path: &&String| {
            let end = [b"/", path.as_bytes()].concat();
            self.written.iter().any(|written| written.ends_with(&end))
        };
        let files: Vec<&String> = end.levelled.iter().filter(is_written).collect();
        let classes: BTreeSet<&str> = files.iter().map(|path| class(path.as_bytes())).collect();
        if files.len() < LEVELLED || classes.len() < CLASSES {
            return;
        }
        let shown: Vec<&str> = files
            .iter()
            .take(CLASSES)
            .map(|path| path.as_str())
            .collect();
        let what = format!(
            "{} files that were there have one content now, or none: {}, …",
            files.len(),
            shown.join(", ")
        );
        tell(Sighting::new(
            Behaviour::MassChange,
            vec![Step::of_run(what)],
        ));
    }
}

impl MassChange {
    /// Tells of a repository that was there and is none any more: what it kept of the past is gone with it.
    fn take_apart(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let Operation::Changed {
            on: AttemptKind::Unlink,
            path,
            outcome,
            ..
        } = &act.what
        else {
            return;
        };
        let part = REPOSITORIES.iter().find(|part| path.ends_with(part));
        let Some(part) = part.filter(|_| outcome.is_attempt() && !state.made(path)) else {
            return;
        };
        let end = part.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let repository = &path[..path.len() - part.len() + end];
        if state.made_directory(repository) || self.repositories.len() >= REPOSITORIES_TOLD {
            return;
        }
        if self.repositories.insert(repository.to_vec()) {
            let step = Step::by_outcome(act, TOOK_APART, &[repository]);
            tell(Sighting::new(Behaviour::MassChange, vec![step]));
        }
    }

    fn lose(
        &mut self,
        act: &ObservedAct<'_>,
        (path, outcome): (&[u8], ActOutcome),
        (done, wanted): (&str, &str),
        tell: &mut dyn FnMut(Sighting),
    ) {
        let now = act.event.time_ns;
        let path = self
            .renamed
            .get(path)
            .cloned()
            .unwrap_or_else(|| path.to_vec());
        let path = &path[..];
        let lost = self.lost.entry(class(path)).or_default();
        if lost.iter().any(|(_, one)| one == path) {
            return;
        }
        if lost.len() == MANY {
            lost.pop_front();
        }
        lost.push_back((now, path.to_vec()));
        for lost in self.lost.values_mut() {
            while lost.front().is_some_and(|(then, _)| then + WINDOW < now) {
                lost.pop_front();
            }
        }
        self.lost.retain(|_, lost| !lost.is_empty());
        let files: usize = self.lost.values().map(VecDeque::len).sum();
        if files >= MANY && self.lost.len() >= CLASSES {
            let classes: Vec<&str> = self.lost.keys().copied().collect();
            let (took, how) = match outcome {
                ActOutcome::Done => ("deleted or overwrote", done),
                _ => ("tried to delete or overwrite", wanted),
            };
            let all = format!(
                "{took} {files} files within a minute: {}",
                classes.join(", ")
            );
            let steps = vec![
                Step::from_event(act.event, &[all.as_bytes()]),
                Step::from_event(act.event, &[how.as_bytes(), path]),
            ];
            self.lost.clear();
            tell(Sighting::new(Behaviour::MassChange, steps));
        }
    }

    fn shred(&mut self, act: &ObservedAct<'_>, path: &[u8], tell: &mut dyn FnMut(Sighting)) {
        if self.shredded.len() < SHREDDED
            && self.shredded.insert(path.to_vec())
            && self.shredded.len() == SHREDDED
        {
            let steps = vec![Step::by_outcome(act, SHREDDED_ONE, &[path])];
            tell(Sighting::new(Behaviour::MassChange, steps));
        }
    }

    fn rename(
        &mut self,
        act: &ObservedAct<'_>,
        path: &[u8],
        new: &[u8],
        tell: &mut dyn FnMut(Sighting),
    ) {
        let first = self.renamed.remove(path).unwrap_or_else(|| path.to_vec());
        if self.renamed.len() < FILES {
            self.renamed.insert(new.to_vec(), first);
        }
        let suffix = new
            .strip_prefix(path)
            .filter(|suffix| suffix.first() == Some(&b'.'));
        let Some(suffix) = suffix else {
            return;
        };
        if self.suffixes.len() >= FILES && !self.suffixes.contains_key(suffix) {
            return;
        }
        let files = self.suffixes.entry(suffix.to_vec()).or_default();
        if files.len() < FILES {
            files.insert(path.to_vec());
        }
        if files.len() == RENAMED {
            let steps = vec![Step::by_outcome(act, RENAMED_ONE, &[suffix, b": ", path])];
            tell(Sighting::new(Behaviour::MassChange, steps));
        }
    }
}

fn shreds(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let process = state.process(&act.event.task);
    process.is_some_and(|process| SHREDDERS.contains(&base_name(&process.exe)))
}

/// True when the loss of such a file is a loss.
fn counts(path: &[u8]) -> bool {
    const PASSING: &[&[u8]] = &[b"/tmp/", b"/var/tmp/", b"/dev/", b"/proc/", b"/run/"];
    let again = |component: &[u8]| MADE_AGAIN.iter().any(|one| one.as_bytes() == component);
    let name = base_name(path);
    let directories = path.split(|byte| *byte == b'/').rev().skip(1);
    !PASSING.iter().any(|one| path.starts_with(one))
        && !directories.into_iter().any(again)
        && !name.ends_with(b"~")
        && !name.ends_with(b".lock")
        && !name.ends_with(b".tmp")
}

/// The class of a file by its ending; [`OTHERS`] of one that is not known.
pub(super) fn class(path: &[u8]) -> &'static str {
    let name = base_name(path);
    let ending = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let ending = String::from_utf8_lossy(ending).to_ascii_lowercase();
    let found = ENDINGS
        .iter()
        .find(|(_, endings)| endings.contains(&&*ending));
    found.map_or(OTHERS, |(class, _)| class)
}
