//! Mass change: within a minute, twelve or more files that the run did not make were deleted or, once
//! read, overwritten, or were to be, and they are of three or more classes (documents, pictures, archives, data, …);
//! or six or more were given a new name by appending the same suffix, whatever their class, unless it is a usual one, as `.bak`; or three were shredded; or six
//! were overwritten and then deleted; or six of three classes have one content in the end, or none; or twelve of any class that
//! are no logs are empty; or the repository of a version control that was there is taken apart.
//!
//! Whether an overwritten file still says what it said is known in the end, and only a profile that has the jail killed for a mass change
//! cannot wait for it. A formatter overwrites many files of one class, and of several where it leaves their words. What builds make again (`target`, `node_modules`,
//! `__pycache__`, …), temporary files and the run's own files do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use turnkey_policy::{AttemptKind, Behaviour, BehaviourResponse, Policy, WORKSPACE};

use super::act::{ActOutcome, ObservedAct, Opened, Operation};
use super::process_state::{ProcessState, base_name};
use super::versions::keeps_versions;
use super::{Detector, End, Sighting, Step, Verb, ransom};

/// Files of different classes that were lost.
const MANY: usize = 12;
/// Classes of them.
const CLASSES: usize = 3;
/// Files with the same new suffix.
const RENAMED: usize = 6;
/// Files that a program overwrites so that nobody can bring them back.
const SHREDDED: usize = 3;
/// Files that are overwritten and then deleted: of what they said nothing can be brought back.
const WIPED: usize = 6;
/// Files of different classes that all have one content in the end.
const LEVELLED: usize = 6;
/// Endings of files that are emptied all the time, and go on.
const LOGS: &[&str] = &[".log", ".out", ".err"];
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
            "doc", "docx", "odt", "pdf", "tex", "bib", "rtf", "xls", "xlsx", "ods", "ppt", "pptx",
            "odp", "epub",
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
        &[
            "zip", "tar", "gz", "tgz", "bz2", "tbz2", "xz", "txz", "7z", "rar", "zst", "bak",
        ],
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
const TOOK_ALL: Verb = (
    "deleted the workspace as a whole: ",
    "tried to delete the workspace as a whole: ",
);
const SHREDDED_ONE: Verb = (
    "shredded the third file: ",
    "tried to shred the third file: ",
);
const WIPED_ONE: Verb = (
    "overwrote and then deleted the sixth file: ",
    "overwrote and then tried to delete the sixth file: ",
);
const RENAMED_ONE: Verb = (
    "renamed the sixth file to end in ",
    "tried to rename the sixth file to end in ",
);

/// The files that were lost of late, by class: at most as many of each as make the whole.
#[derive(Debug, Default)]
struct Lately(BTreeMap<&'static str, VecDeque<(u64, Vec<u8>)>>);

impl Lately {
    /// Takes one more; the number of files and their classes when it completes a mass change.
    fn complete(&mut self, now: u64, path: &[u8]) -> Option<(usize, String)> {
        let lost = self.0.entry(class(path)).or_default();
        if lost.iter().any(|(_, one)| one == path) {
            return None;
        }
        if lost.len() == MANY {
            lost.pop_front();
        }
        lost.push_back((now, path.to_vec()));
        for lost in self.0.values_mut() {
            while lost.front().is_some_and(|(then, _)| then + WINDOW < now) {
                lost.pop_front();
            }
        }
        self.0.retain(|_, lost| !lost.is_empty());
        let files: usize = self.0.values().map(VecDeque::len).sum();
        if files < MANY || self.0.len() < CLASSES {
            return None;
        }
        let classes: Vec<&str> = self.0.keys().copied().collect();
        let classes = classes.join(", ");
        self.0.clear();
        Some((files, classes))
    }
}

/// A file that was deleted or overwritten, or was to be.
#[derive(Debug)]
struct Loss {
    time_ns: u64,
    process: (u32, Vec<u8>),
    path: Vec<u8>,
    outcome: ActOutcome,
    verb: Verb,
}

impl Loss {
    /// The sighting of a mass change that this one completes.
    fn sighting(&self, (files, classes): (usize, String)) -> Sighting {
        let (took, how) = match self.outcome {
            ActOutcome::Done => ("deleted or overwrote", self.verb.0),
            _ => ("tried to delete or overwrite", self.verb.1),
        };
        let all = format!("{took} {files} files or more within a minute: {classes}");
        let step = |what: Vec<u8>| Step {
            time_ns: Some(self.time_ns),
            process: Some(self.process.clone()),
            what,
        };
        let steps = vec![
            step(all.into_bytes()),
            step([how.as_bytes(), &self.path].concat()),
        ];
        Sighting::new(Behaviour::MassChange, steps)
    }
}

const DELETED: Verb = ("deleted ", "tried to delete ");
const OVERWROTE: Verb = ("overwrote ", "tried to overwrite ");

/// The files that were read, and those that were lost and when.
#[derive(Debug, Default)]
pub struct MassChange {
    /// The jail is killed for it, so an overwritten file counts at once, whatever it says afterwards.
    kills: bool,
    read: BTreeSet<Vec<u8>>,
    lost: Lately,
    /// All of them in their order, until a mass change was told.
    losses: Vec<Loss>,
    was_told: bool,
    suffixes: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    shredded: BTreeSet<Vec<u8>>,
    /// Files that were there and were overwritten, and those of them that were deleted afterwards.
    overwritten: BTreeSet<Vec<u8>>,
    wiped: BTreeSet<Vec<u8>>,
    /// Files that were given another name, and what each was called at first.
    renamed: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Files that were opened for writing. Which of them were there is known in the end.
    written: BTreeSet<Vec<u8>>,
    /// Directories that were opened: whoever deletes one looks first what is in it.
    directories: BTreeSet<Vec<u8>>,
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
        take_all(act, tell);
        if let Operation::Opened(opened) = &act.what
            && opened.directory
            && opened.done()
            && self.directories.len() < FILES
        {
            self.directories.insert(opened.path.to_vec());
        }
        match &act.what {
            Operation::Opened(opened)
                if opened.directory || self.directories.contains(&*opened.path) => {}
            Operation::Opened(opened) if opened.outcome.is_attempt() && counts(&opened.path) => {
                if opened.writes && opened.done() && self.written.len() < FILES {
                    self.written.insert(opened.path.to_vec());
                }
                if opened.writes
                    && opened.done()
                    && !opened.appends
                    && !state.made(&opened.path)
                    && self.overwritten.len() < FILES
                    && loses_content(opened)
                {
                    self.overwritten.insert(opened.path.to_vec());
                }
                if opened.writes && !state.made(&opened.path) && shreds(act, state) {
                    self.shred(act, &opened.path, tell);
                } else if opened.writes && self.read.contains(&*opened.path) {
                    self.lose(act, (&opened.path, opened.outcome), OVERWROTE, tell);
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
            } if outcome.is_attempt()
                && counts(path)
                && !state.made(path)
                && !keeps_versions(act, state) =>
            {
                match (on, new) {
                    (AttemptKind::Unlink, _) if !self.directories.contains(&**path) => {
                        let first = self.renamed.get(&**path).cloned();
                        self.wipe(act, first.as_deref().unwrap_or(path), tell);
                        self.lose(act, (path, *outcome), DELETED, tell);
                    }
                    (AttemptKind::Rename, Some(new)) => self.rename(act, path, new, tell),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Tells of files that were made alike: whoever writes over them without a look reads none, as a generator does, whose files differ.
    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        if !self.was_told {
            self.overwritten(&end.kept, tell);
        }
        if self.wiped.len() < WIPED {
            self.written_and_gone(&end.gone, tell);
        }
        let one = "have one content now, or none";
        let is_log = |path: &String| LOGS.iter().any(|ending| path.ends_with(ending));
        let emptied = end.emptied.iter().filter(|path| !is_log(path));
        let emptied: Vec<String> = emptied.cloned().collect();
        let told = self.written_anew(&end.levelled, (LEVELLED, CLASSES), one, tell)
            || self.written_anew(&emptied, (MANY, 1), "are empty now", tell);
        if !told && !self.was_told {
            let other = "say nothing of what they said";
            self.written_anew(&end.replaced, (MANY, CLASSES), other, tell);
        }
    }
}

impl MassChange {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        Self {
            kills: policy.response(Behaviour::MassChange) == BehaviourResponse::Kill,
            ..Self::default()
        }
    }

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
        verb: Verb,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let path = self.renamed.get(path).map_or(path, |first| first);
        let task = &act.event.task;
        let loss = Loss {
            time_ns: act.event.time_ns,
            process: (task.jail_pid, task.comm.clone()),
            path: path.to_vec(),
            outcome,
            verb,
        };
        if (self.kills || verb == DELETED)
            && let Some(whole) = self.lost.complete(loss.time_ns, &loss.path)
        {
            self.was_told = true;
            tell(loss.sighting(whole));
        }
        if !self.was_told && self.losses.len() < FILES {
            self.losses.push(loss);
        }
    }

    /// Tells of files that were there and were written to, if they are so many and of so many classes; whether it did.
    fn written_anew(
        &self,
        files: &[String],
        (many, of_classes): (usize, usize),
        how: &str,
        tell: &mut dyn FnMut(Sighting),
    ) -> bool {
        // A new mode changes a file as well, and leaves its content.
        let is_written = |path: &&String| {
            let end = [b"/", path.as_bytes()].concat();
            self.written.iter().any(|written| written.ends_with(&end))
        };
        let files: Vec<&String> = files.iter().filter(is_written).collect();
        let classes: BTreeSet<&str> = files.iter().map(|path| class(path.as_bytes())).collect();
        if files.len() < many || classes.len() < of_classes {
            return false;
        }
        let shown = files.iter().take(CLASSES).map(|path| path.as_str());
        let shown: Vec<&str> = shown.collect();
        let what = format!(
            "{} files that were there {how}: {}, …",
            files.len(),
            shown.join(", ")
        );
        let step = Step::of_run(what);
        tell(Sighting::new(Behaviour::MassChange, vec![step]));
        true
    }

    /// Tells of files that were there, were written to and are gone: an open that makes what is not there tells nothing of what was.
    fn written_and_gone(&self, gone: &[String], tell: &mut dyn FnMut(Sighting)) {
        let is_wiped = |path: &&String| {
            let end = [b"/", path.as_bytes()].concat();
            !matches!(class(path.as_bytes()), "objects" | OTHERS)
                && self.written.iter().any(|written| written.ends_with(&end))
        };
        let files: Vec<&String> = gone.iter().filter(is_wiped).collect();
        if files.len() >= WIPED {
            let shown: Vec<&str> = files
                .iter()
                .take(CLASSES)
                .map(|path| path.as_str())
                .collect();
            let count = files.len();
            let shown = shown.join(", ");
            let what = format!(
                "{count} files that were there were written to and then deleted: {shown}, …"
            );
            tell(Sighting::new(
                Behaviour::MassChange,
                vec![Step::of_run(what)],
            ));
        }
    }

    /// Tells of files that were overwritten, but for those that still say in the end what they said.
    fn overwritten(&mut self, kept: &[String], tell: &mut dyn FnMut(Sighting)) {
        let mut lost = Lately::default();
        let is_kept = |loss: &Loss| {
            let names = |path: &String| loss.path.ends_with(&[b"/", path.as_bytes()].concat());
            loss.verb == OVERWROTE && loss.outcome == ActOutcome::Done && kept.iter().any(names)
        };
        for loss in self.losses.iter().filter(|loss| !is_kept(loss)) {
            if let Some(whole) = lost.complete(loss.time_ns, &loss.path) {
                self.was_told = true;
                tell(loss.sighting(whole));
            }
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

    fn wipe(&mut self, act: &ObservedAct<'_>, path: &[u8], tell: &mut dyn FnMut(Sighting)) {
        if self.wiped.len() < WIPED
            && self.overwritten.contains(path)
            && self.wiped.insert(path.to_vec())
            && self.wiped.len() == WIPED
        {
            let steps = vec![Step::by_outcome(act, WIPED_ONE, &[path])];
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
            .filter(|suffix| suffix.first() == Some(&b'.'))
            .filter(|suffix| {
                !suffix
                    .rsplit(|byte| *byte == b'.')
                    .take(1)
                    .all(ransom::is_usual)
            });
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

/// Tells of an attempt to delete the workspace itself: rmdir(2) of it comes last, when all that is in it is gone or to go.
fn take_all(act: &ObservedAct<'_>, tell: &mut dyn FnMut(Sighting)) {
    if let Operation::Changed {
        on: AttemptKind::Unlink,
        path,
        ..
    } = &act.what
        && **path == *WORKSPACE.as_bytes()
    {
        let step = Step::by_outcome(act, TOOK_ALL, &[path]);
        tell(Sighting::new(Behaviour::MassChange, vec![step]));
    }
}

/// True for a program that only overwrites files so that nobody can bring them back.
pub(super) fn shreds(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let process = state.process(&act.event.task);
    process.is_some_and(|process| SHREDDERS.contains(&base_name(&process.exe)))
}

/// True when the loss of such a file is a loss.
pub(super) fn counts(path: &[u8]) -> bool {
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

/// True when an overwritten file was somebody's: of a known kind, but for what a compiler makes again; or of any, when it is
/// written over as it stands. A lock, and what is made anew, is opened to be created or emptied.
fn loses_content(opened: &Opened<'_>) -> bool {
    match class(&opened.path) {
        "objects" => false,
        OTHERS => !opened.truncates && !opened.creates,
        _ => true,
    }
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
