//! File discovery: a program lists a directory of the system, and does nothing with what is in it.
//!
//! Whoever looks for something to load lists a directory and then opens what it found there: interpreters their
//! modules, libraries of time zones and fonts their tables. So a listing counts when its process ends, or becomes another
//! program, without having opened or started anything directly in that directory; one by a program that only lists, as
//! ls(1), counts at once. Directories that the profile names, those of a process, and those in which programs look for
//! libraries and settings (`/usr/lib/…`, `….d`) are nobody's discovery; nor is a look through all the data in `/usr/share`.
//!
//! Who watches a directory by inotify(7) is told the same names, of those that come and go: one that is not there is told, as a listing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use turnkey_policy::{Behaviour, Policy};

use super::act::{ActOutcome, ObservedAct, Opened, Operation};
use super::discovery::is_command;
use super::path_classes::{HOMES, SYSTEM, below_any, is_in, is_in_any, telling_directory};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step};
use turnkey_facts::Kind;

/// Programs that list directories and do nothing else.
const LISTERS: &[&str] = &["dir", "du", "find", "ls", "tree", "vdir"];

/// Listings that are remembered, of all processes. Each beyond them counts for nothing.
const PENDING: usize = 256;

/// Directories of which only so many components are a place to look around in: what is deeper belongs to some package.
const SHALLOW: usize = 2;
/// Directories of which one component more is: each holds a directory for each package, service or person.
const WIDE: &[&str] = &[
    "/usr/share",
    "/var/lib",
    "/var/log",
    "/home",
    "/root",
    "/opt",
    "/srv",
];
/// Libraries, by the beginning of their path: below these, programs look for what they load.
const LIBRARIES: &[&str] = &["/lib", "/usr/lib", "/usr/local/lib", "/usr/include"];
/// Directories of programs, of which shells make lists.
const PROGRAMS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local"];
/// Directories that are the jail's own, or nobody's.
const OWN: &[&str] = &[
    "/tmp",
    "/run",
    "/workspace",
    "/dev/shm",
    "/dev/pts",
    "/dev/fd",
    "/var/tmp",
    "/var/cache",
];
/// Data that every host has alike, such as fonts, pages of manuals and licences: programs look through all of it for theirs. To list
/// one directory of it and use nothing is to look around as anywhere else.
const DATA: &str = "/usr/share";
/// The kernel's lists of devices: databases and libraries look there how to use a disk or a processor, and do without.
const DEVICES: &[&str] = &["/sys/block", "/sys/bus", "/sys/class", "/sys/devices"];
/// Directories of data that a process lists when it looks through them.
const THROUGH: usize = 8;
/// Listers that go through what is below a directory.
const WALKERS: &[&str] = &["du", "find", "tree"];

/// Files in the directory of a process that say who it is.
const NAMES: &[&[u8]] = &[b"cmdline", b"comm", b"environ"];

/// Processes that are not there and are asked who they are, which make a search.
const STRANGERS: usize = 8;

/// A process, by its number and start.
type Who = (u32, u64);

/// Remembers what was listed and not used yet.
#[derive(Debug)]
pub struct FileDiscovery {
    /// Paths that the profile gives beyond the system that every program needs.
    given: Vec<PathBuf>,
    pending: BTreeMap<(Who, Vec<u8>), Step>,
    /// The number of directories of data that a process listed.
    data: BTreeMap<Who, usize>,
    /// The place that a program was told to list when it was started, which it then opens.
    named: BTreeMap<Who, Vec<u8>>,
    /// The numbers of processes that were asked for by what says who each is, and that nobody has.
    strangers: BTreeSet<Vec<u8>>,
}

impl FileDiscovery {
    /// For a run under `policy`.
    pub fn new(policy: &Policy) -> Self {
        let files = &policy.filesystem;
        let read = files
            .read
            .iter()
            .filter(|one| one.list)
            .map(turnkey_policy::HostPath::place);
        // `/usr` is shown to have its programs, not to be looked through.
        let read = read.filter(|path| path.components().count() > 2 || !is_the_systems(path));
        let write = files.write.iter().map(turnkey_policy::HostPath::place);
        let scratch = files.scratch.iter().map(|one| &one.path);
        Self {
            given: read.chain(write).chain(scratch).cloned().collect(),
            pending: BTreeMap::new(),
            data: BTreeMap::new(),
            named: BTreeMap::new(),
            strangers: BTreeSet::new(),
        }
    }

    /// True for a directory in which a program has no business.
    fn is_place(&self, path: &[u8]) -> bool {
        let depth = path
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty())
            .count();
        let most = match is_in_any(path, WIDE) {
            true => SHALLOW + 1,
            false => SHALLOW,
        };
        depth <= most
            && path.first() == Some(&b'/')
            && !is_in_library(path)
            && !is_in_any(path, OWN)
            && !is_in_any(path, PROGRAMS)
            && !is_of_process(path)
            && !below_any(path, &self.given)
    }

    /// Notes that a process opened or started a path, which uses the listing of its directory.
    fn used(&mut self, who: Who, path: &[u8]) {
        // Every open of a jail comes here.
        if !self.pending.is_empty() {
            self.pending.remove(&(who, parent(path).to_vec()));
            // What is asked of a process is in a directory of its own; by its name somebody else is sought.
            if is_numbered(path) && !NAMES.contains(&base_name(path)) {
                self.pending.remove(&(who, b"/proc".to_vec()));
            }
        }
    }

    /// Tells everything that a process listed and did not use.
    fn settle(&mut self, who: Who, tell: &mut dyn FnMut(Sighting)) {
        let all = (who, Vec::new())..((who.0, who.1 + 1), Vec::new());
        let listed: Vec<_> = self
            .pending
            .range(all)
            .map(|(key, _)| key.clone())
            .collect();
        self.named.remove(&who);
        let looked_through = self.data.remove(&who).is_some_and(|count| count >= THROUGH);
        for key in listed {
            let step = self.pending.remove(&key);
            let counts = !looked_through || !is_in(&key.1, DATA);
            if let Some(step) = step.filter(|_| counts) {
                tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
            }
        }
    }

    /// True when by this so many numbers of processes were tried that somebody else is looked for.
    fn searches(&mut self, path: &[u8], opened: &Opened<'_>) -> bool {
        let is_in_vain = opened.reads && opened.outcome == ActOutcome::Absent;
        if !is_in_vain || !is_numbered(path) || !NAMES.contains(&base_name(path)) {
            return false;
        }
        self.strangers.len() < STRANGERS
            && self.strangers.insert(path.to_vec())
            && self.strangers.len() == STRANGERS
    }

    /// The place that a program that lists is told to list.
    fn named<'a>(&self, argv: &'a [Vec<u8>], name: &[u8]) -> Option<&'a [u8]> {
        let is_lister = LISTERS.iter().any(|one| one.as_bytes() == name);
        let words = argv.get(1..).unwrap_or_default();
        let operands = match name {
            b"find" => starting_points(words),
            _ => words,
        };
        let mut operands = operands.iter().map(|word| trimmed(word));
        let is_place = |word: &&[u8]| self.is_place(word) && !is_file(word);
        let place = operands.find(|word| is_lister && is_place(word))?;
        let goes_through = WALKERS.iter().any(|one| one.as_bytes() == name);
        (!goes_through || !is_in(place, DATA)).then_some(place)
    }
}

impl Detector for FileDiscovery {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let who = (act.event.task.pid, act.event.task.start_ns);
        match &act.what {
            Operation::Executed { file, argv, .. } => {
                self.used(who, &file.path);
                self.settle(who, tell);
                let called = argv.first().map_or(&file.path[..], |name| &name[..]);
                let name = base_name(called);
                if let Some(place) = self.named(argv, name) {
                    let step = Step::from_event(act.event, &[b"ran ", name, b" to list ", place]);
                    if self.named.len() < PENDING {
                        self.named.insert(who, place.to_vec());
                    }
                    tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
                }
            }
            Operation::Opened(opened) => {
                let path = trimmed(&opened.path);
                self.used(who, path);
                // A shell lists the processes, and a program of its own reads what is said of each.
                let parent = state.process(&act.event.task).and_then(|one| one.parent);
                if let Some(parent) = parent.filter(|_| path.starts_with(b"/proc/")) {
                    self.used(parent, path);
                }
                if self.named.get(&who).is_some_and(|named| named == path) {
                    return;
                }
                if self.searches(path, opened) {
                    let words: &[&[u8]] = &[b"looked for processes by their numbers: ", path];
                    let step = Step::from_event(act.event, words);
                    tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
                }
                let lists = opened.reads && (opened.directory || telling_directory(path));
                let has_room = self.data.len() < PENDING || self.data.contains_key(&who);
                if lists && opened.done() && is_in(path, DATA) && has_room {
                    *self.data.entry(who).or_default() += 1;
                }
                // Programs read their settings from such directories.
                if !lists || path.ends_with(b".d") || !self.is_place(path) {
                    return;
                }
                let process = state.process(&act.event.task);
                if process.is_some_and(|one| is_its_work(base_name(&one.exe), opened)) {
                    return;
                }
                // A tool that a package brought looks for its own settings.
                if is_in(path, "/etc") && process.is_some_and(|one| state.is_tool(one)) {
                    return;
                }
                match opened.outcome {
                    ActOutcome::Absent if is_asked_for_ones_own(path) => {}
                    ActOutcome::Absent | ActOutcome::Refused => {
                        let step = Step::from_event(act.event, &[b"tried to list ", path]);
                        tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
                    }
                    ActOutcome::Done if self.pending.len() < PENDING => {
                        let step = Step::from_event(act.event, &[b"listed ", path]);
                        self.pending.insert((who, path.to_vec()), step);
                    }
                    ActOutcome::Done | ActOutcome::Failed => {}
                }
            }
            Operation::WatchedInVain(path) => {
                let path = trimmed(path);
                if self.is_place(path) && !path.ends_with(b".d") && !is_asked_for_ones_own(path) {
                    let step = Step::from_event(act.event, &[b"tried to watch ", path]);
                    tell(Sighting::new(Behaviour::FileDiscovery, vec![step]));
                }
            }
            _ => {}
        }
        if matches!(act.event.kind, Kind::Exit { .. }) {
            self.settle(who, tell);
        }
    }

    fn end(&mut self, _end: &super::End, tell: &mut dyn FnMut(Sighting)) {
        while let Some((who, _)) = self.pending.keys().next() {
            self.settle(*who, tell);
        }
    }
}

/// The places where find(1) begins: what its expression names it only compares with.
fn starting_points(words: &[Vec<u8>]) -> &[Vec<u8>] {
    let is_option =
        |word: &&Vec<u8>| matches!(&word[..], b"-H" | b"-L" | b"-P") || word.starts_with(b"-O");
    let options = words.iter().take_while(is_option).count();
    let words = &words[options..];
    let is_expression =
        |word: &Vec<u8>| word.starts_with(b"-") || matches!(&word[..], b"(" | b"!" | b",");
    let end = words.iter().position(is_expression);
    &words[..end.unwrap_or(words.len())]
}

/// True when a program of this name opens a directory for what it is asked, and lists nothing that counts: df(1) opens a mount point,
/// and find(1) goes through data.
fn is_its_work(name: &[u8], opened: &Opened<'_>) -> bool {
    let walks = || WALKERS.iter().any(|one| one.as_bytes() == name);
    match opened.directory {
        true => is_in(&opened.path, DATA) && walks(),
        false => is_command(name),
    }
}

/// True for data, and settings in a home, which are not there: whoever looks for its own asks for them.
fn is_asked_for_ones_own(path: &[u8]) -> bool {
    is_in(path, "/usr") || is_in_any(path, DEVICES) || base_name(path).starts_with(b".")
}

/// True for a directory of the root that the system, or somebody's home, is in.
fn is_the_systems(path: &std::path::Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    is_in_any(path, SYSTEM) || is_in_any(path, HOMES)
}

/// True for what is in a directory of libraries, not for that directory itself.
fn is_in_library(path: &[u8]) -> bool {
    let is_below = |library: &&str| {
        let rest = path.strip_prefix(library.as_bytes());
        // `/lib`, `/lib64`, `/usr/libexec` are such directories all.
        rest.is_some_and(|rest| rest.contains(&b'/'))
    };
    LIBRARIES.iter().any(is_below)
}

/// True for what is in the directory of a process, by its number.
fn is_numbered(path: &[u8]) -> bool {
    let rest = path.strip_prefix(b"/proc/");
    let first = rest.and_then(|rest| rest.first());
    first.is_some_and(u8::is_ascii_digit)
}

/// True for the directory of a process, and what is in it.
fn is_of_process(path: &[u8]) -> bool {
    is_numbered(path) || is_in(path, "/proc/self") || is_in(path, "/proc/thread-self")
}

/// True for what is a file wherever there is one: a device of every jail, a list of accounts, or a name with an ending that says of what kind it is.
fn is_file(path: &[u8]) -> bool {
    const FILES: &[&[u8]] = &[
        b"passwd",
        b"group",
        b"shadow",
        b"gshadow",
        b"hosts",
        b"hostname",
        b"fstab",
        b"sudoers",
        b"crontab",
        b"issue",
        b"motd",
        b"environment",
        b"profile",
        b"services",
        b"protocols",
    ];
    const ENDINGS: &[&[u8]] = &[
        b".conf", b".cnf", b".cfg", b".ini", b".txt", b".so", b".cache",
    ];
    const DEVICES: &[&[u8]] = &[
        b"console", b"full", b"null", b"ptmx", b"random", b"stderr", b"stdin", b"stdout", b"tty",
        b"urandom", b"zero",
    ];
    let name = base_name(path);
    is_in(path, "/etc") && FILES.contains(&name)
        || is_in(path, "/dev") && DEVICES.contains(&name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// A path without slashes at its end.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/');
    match end {
        Some(end) => &path[..=end],
        None => &path[..path.len().min(1)],
    }
}

/// The directory that a path is in.
fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => b"/",
        Some(end) => &path[..end],
        None => b"",
    }
}
