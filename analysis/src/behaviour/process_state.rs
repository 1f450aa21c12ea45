//! The state: the processes of the jail, what each runs, and what it has had to do with the
//! network.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use turnkey_policy::{AttemptKind, NetworkMode};

use super::act::{ActOutcome, ObservedAct, Operation};
use super::interpreter::{self, is_shell};
use super::path_classes::{PathClasses, Traits, is_in_any};
use turnkey_facts::symlinks::Symlinks;
use turnkey_facts::{Address, Event, Kind, NetworkAct, Task};

/// Processes that are remembered. A jail of more is told by their first.
const PROCESSES: usize = 4096;
/// Numbers of processes that are remembered. Behind so many, each may have been one.
const NUMBERS: usize = 16_384;

/// Paths that are remembered as made by the run, and as found there.
const PATHS: usize = 16_384;

/// Directories of the programs that packages of the system bring.
const TOOLS: &[&str] = &["/bin", "/sbin", "/usr/bin", "/usr/sbin"];

/// The directory in which an environment of Python holds its packages.
const LIBRARY: &[u8] = b"/lib/";

/// The settings of the C library's name services, nsswitch.conf(5).
const NAME_SERVICES: &[u8] = b"/etc/nsswitch.conf";

/// The facts known of a process.
#[derive(Clone, Debug, Default)]
pub struct ObservedProcess {
    /// The file that runs.
    pub exe: Vec<u8>,
    /// The script that it interprets.
    pub script: Option<Vec<u8>>,
    /// The arguments of the program.
    pub argv: Vec<Vec<u8>>,
    /// The peer outside of the jail that the process, or the image that forked it, spoke to first.
    pub network: Option<Vec<u8>>,
    /// The peer that it spoke to first, wherever that is, or the port of its own at which it waits; in words.
    pub talks: Option<Vec<u8>>,
    /// True when it opened the list of all processes.
    pub lists_processes: bool,
    /// The process that forked it, by the same key, where that was seen.
    pub parent: Option<(u32, u64)>,
    /// The number in the jail.
    pub jail_pid: u32,
    /// Forks since a program was started, from parent to child.
    pub generations: usize,
    /// The C library in it has looked up where names come from, as it does before it opens a list of them.
    pub asks_names: bool,
    /// The program that a shell has looked for last, and that is not there.
    sought: Option<Vec<u8>>,
}

/// The processes by their id and start, and the files that they made.
#[derive(Debug, Default)]
pub struct ProcessState {
    processes: HashMap<(u32, u64), ObservedProcess>,
    made: BTreeSet<Vec<u8>>,
    found: BTreeSet<Vec<u8>>,
    places: PathClasses,
    /// Loopback leads nowhere but to the jail itself.
    own_loopback: bool,
    /// Names are looked up by the host's own way.
    looks_up: bool,
    /// True when a process of the jail waits for connections, or could.
    serves: bool,
    /// The numbers in the jail of processes that were forked.
    numbers: BTreeSet<u32>,
    /// The symlinks that the run made.
    symlinks: Symlinks,
}

impl ProcessState {
    /// Of a jail with this network.
    pub fn new(network: NetworkMode) -> Self {
        Self {
            own_loopback: matches!(
                network,
                NetworkMode::None | NetworkMode::Loopback | NetworkMode::Sinkhole
            ),
            looks_up: network == NetworkMode::Host,
            ..Self::default()
        }
    }

    /// True for a script that a package of the system brought, such as Debian's `psql`: it is a tool, whatever interprets it.
    pub fn is_tool(&self, process: &ObservedProcess) -> bool {
        let brought = |script: &Vec<u8>| is_in_any(script, TOOLS) && !self.made.contains(script);
        process.script.as_ref().is_some_and(brought)
    }

    /// True when the jail itself answers at an address. Where nothing of it waits for connections,
    /// somebody else was meant, who is out of reach.
    pub fn is_own(&self, address: SocketAddr) -> bool {
        self.serves && self.own_loopback && address.ip().to_canonical().is_loopback()
    }

    /// True for a name server where one answers, as every service has one looked up whom it talks to. Data in names are a tunnel's.
    pub fn looks_up(&self, address: SocketAddr) -> bool {
        const NAME_SERVER: u16 = 53;
        self.looks_up && address.port() == NAME_SERVER
    }

    /// The facts known of the process that acts.
    pub fn process(&self, task: &Task) -> Option<&ObservedProcess> {
        self.processes.get(&(task.pid, task.start_ns))
    }

    /// The process that was forked with this key.
    pub fn by_key(&self, key: (u32, u64)) -> Option<&ObservedProcess> {
        self.processes.get(&key)
    }

    /// The program that a shell has looked for last, in vain; `None` for another process than a shell.
    pub fn sought(&self, task: &Task) -> Option<&[u8]> {
        let process = self.process(task)?;
        process.sought.as_deref()
    }

    /// The remembered processes that are neither the one that acts nor one that it comes from.
    pub fn others(&self, task: &Task) -> impl Iterator<Item = &ObservedProcess> {
        let line: Vec<(u32, u64)> = self.line(task).map(|(key, _)| key).collect();
        let processes = self.processes.iter();
        processes
            .filter(move |(key, _)| !line.contains(key))
            .map(|(_, process)| process)
    }

    /// The process that acts and those that it comes from, as far as they are remembered.
    pub fn ancestry(&self, task: &Task) -> impl Iterator<Item = &ObservedProcess> {
        self.line(task).map(|(_, process)| process)
    }

    fn line(&self, task: &Task) -> impl Iterator<Item = ((u32, u64), &ObservedProcess)> {
        let keyed = |key: (u32, u64)| Some((key, self.processes.get(&key)?));
        std::iter::successors(keyed((task.pid, task.start_ns)), move |(_, process)| {
            keyed(process.parent?)
        })
        .take(PROCESSES)
    }

    /// True for a process of this number in the jail that comes from the one that acts.
    pub fn comes_from(&self, jail_pid: u32, task: &Task) -> bool {
        let key = (task.pid, task.start_ns);
        let mut processes = self.processes.iter();
        processes.any(|(one, process)| process.jail_pid == jail_pid && self.descends(*one, key))
    }

    /// True when one process comes from another; each by its id and start.
    pub fn descends(&self, process: (u32, u64), from: (u32, u64)) -> bool {
        let above = |key: &(u32, u64)| self.processes.get(key).and_then(|one| one.parent);
        let mut line = std::iter::successors(above(&process), above).take(PROCESSES);
        line.any(|key| key == from)
    }

    /// True when a process of the run has, or had, this number in the jail, as far as that is remembered.
    pub fn has_had(&self, jail_pid: i32) -> bool {
        let is_first =
            |process: &ObservedProcess| i64::from(process.jail_pid) == i64::from(jail_pid);
        self.numbers.len() >= NUMBERS
            || u32::try_from(jail_pid).is_ok_and(|number| self.numbers.contains(&number))
            || self.processes.values().any(is_first)
    }

    /// True when the run made this file, as far as it was seen.
    pub fn made(&self, path: &[u8]) -> bool {
        self.made.contains(path)
    }

    /// True when the run made something in a directory of this name.
    pub fn made_below(&self, directory: &[u8]) -> bool {
        let part = [b"/", directory, b"/"].concat();
        let is_below = |path: &Vec<u8>| path.windows(part.len()).any(|window| window == part);
        self.made.iter().any(is_below)
    }

    /// The files that the run was seen to open, those among them that it made first.
    pub fn opened(&self) -> impl Iterator<Item = &[u8]> {
        self.found.iter().map(|path| &path[..])
    }

    /// True when the run was seen to open this file before, and did not make it.
    pub fn found(&self, path: &[u8]) -> bool {
        self.found.contains(path) && !self.made(path)
    }

    /// True when the run was seen to open a file before whose path begins so, and did not make it.
    pub fn found_beginning(&self, begin: &[u8]) -> bool {
        let mut paths = self.found.range(begin.to_vec()..);
        let mut paths = paths.by_ref().take_while(|path| path.starts_with(begin));
        paths.any(|path| !self.made(path))
    }

    /// True when the run made this directory, where nothing was before, and has put nothing into it that it did not make: mkdir(2) fails
    /// where there is one, while an open with `O_CREAT` makes nothing of a file that is there.
    pub fn made_directory(&self, directory: &[u8]) -> bool {
        let below = [directory, b"/"].concat();
        let inside = self.found.range(below.clone()..);
        let mut inside = inside.take_while(|path| path.starts_with(&below));
        self.made(directory) && inside.all(|path| self.made(path))
    }

    /// True for a path in a home that the run made, and has put nothing into that was there before. Of a home that is there, programs
    /// make the directories for settings.
    pub fn is_in_new_home(&self, path: &[u8]) -> bool {
        let slashes = (1..path.len()).filter(|at| path[*at] == b'/');
        let mut directories = slashes.map(|at| &path[..at]);
        directories.any(|one| !base_name(one).starts_with(b".") && self.made_directory(one))
    }

    /// True when the run made the environment of Python that a package lies in: what is put there
    /// is new to nobody else. A copy of one has its settings last. A user's own packages are no environment: every Python of the user's
    /// looks there.
    pub fn made_environment_of(&self, path: &[u8]) -> bool {
        let mut ends = path.windows(LIBRARY.len()).enumerate();
        let end = ends.find(|(_, part)| *part == LIBRARY).map(|(at, _)| at);
        end.is_some_and(|end| {
            let root = &path[..end];
            self.made(&[root, b"/pyvenv.cfg"].concat())
                || base_name(root) != b".local" && self.made_directory(root)
        })
    }

    /// The properties that a path is known for.
    pub fn traits(&self, path: &[u8]) -> Traits {
        self.places.traits_of(path)
    }

    /// The path of a socket, however it is spelled: the kernel tells no more than the name that it was called by.
    pub fn socket(&self, path: &[u8]) -> Vec<u8> {
        let plain = self.symlinks.lead(path, true);
        let inside = plain.strip_prefix(b"/proc/").and_then(|rest| {
            let at = rest.iter().position(|byte| *byte == b'/')?;
            rest[at..]
                .strip_prefix(b"/root")
                .filter(|rest| rest.starts_with(b"/"))
        });
        inside.map_or(plain.clone(), <[u8]>::to_vec)
    }

    /// Notes what has to be known before detectors look at the act.
    pub(super) fn note(&mut self, act: &ObservedAct<'_>) {
        self.symlinks.note(act.event);
        let key = (act.event.task.pid, act.event.task.start_ns);
        if let Operation::Spoke {
            address: Address::Inet(address),
            done: true,
        } = &act.what
        {
            let is_own = self.is_own(*address);
            if let Some(process) = self.entry(key) {
                let peer = address.to_string().into_bytes();
                process
                    .talks
                    .get_or_insert_with(|| [b"spoke to ", &peer[..]].concat());
                if !is_own {
                    process.network.get_or_insert(peer);
                }
            }
        }
        if let Kind::Network {
            act: NetworkAct::Listen,
            address: Address::Inet(address),
            errno: 0,
            ..
        } = &act.event.kind
            && let Some(process) = self.entry(key)
        {
            process
                .talks
                .get_or_insert_with(|| format!("waited at {address}").into_bytes());
        }
        self.serves |= matches!(act.what, Operation::Served);
        let Operation::Executed { file, script, argv } = &act.what else {
            return;
        };
        if let Some(process) = self.entry(key) {
            if interpreter::is_installer(process) {
                // A compiler that an installer starts has fetched nothing.
                process.network = None;
            }
            process.exe.clone_from(&file.path);
            process.script = script.as_deref().map(<[u8]>::to_vec);
            process.argv = argv.to_vec();
            process.asks_names = false;
            process.sought = None;
            process.lists_processes = false;
            process.generations = 0;
        }
    }

    /// Notes what matters to later acts.
    pub(super) fn follow(&mut self, act: &ObservedAct<'_>) {
        self.follow_process(act.event);
        match &act.what {
            Operation::Opened(opened) if &*opened.path == NAME_SERVICES => {
                let key = (act.event.task.pid, act.event.task.start_ns);
                if let Some(process) = self.entry(key) {
                    process.asks_names = true;
                }
            }
            Operation::LookedForInVain(path) if is_in_any(path, TOOLS) => {
                let key = (act.event.task.pid, act.event.task.start_ns);
                if let Some(process) = self.entry(key).filter(|one| is_shell(&one.exe)) {
                    process.sought = Some(path.to_vec());
                }
            }
            Operation::Opened(opened) if opened.done() && &*opened.path == b"/proc" => {
                let key = (act.event.task.pid, act.event.task.start_ns);
                if let Some(process) = self.entry(key) {
                    process.lists_processes = true;
                }
            }
            Operation::Opened(opened)
                if opened.done() && opened.creates && !self.found.contains(&*opened.path) =>
            {
                insert(&mut self.made, &opened.path);
            }
            Operation::Opened(opened) if opened.done() => insert(&mut self.found, &opened.path),
            Operation::Changed {
                on: AttemptKind::Rename,
                path,
                new: Some(new),
                outcome: ActOutcome::Done,
                ..
            } if !self.made.contains(&**path) => {
                self.move_made(path, new);
                insert(&mut self.found, path);
                insert(&mut self.found, new);
            }
            Operation::Changed {
                on: AttemptKind::Unlink,
                path,
                outcome: ActOutcome::Done,
                ..
            } if !self.made.contains(&**path) => insert(&mut self.found, path),
            Operation::Changed {
                path,
                new: Some(new),
                outcome: ActOutcome::Done,
                ..
            } if self.made.contains(&**path) && !self.found.contains(&**new) => {
                insert(&mut self.made, new);
            }
            _ => {}
        }
    }

    fn follow_process(&mut self, event: &Event) {
        let key = (event.task.pid, event.task.start_ns);
        match &event.kind {
            Kind::Fork {
                child_pid,
                child_jail_pid,
                child_start_ns,
            } => {
                if self.numbers.len() < NUMBERS {
                    self.numbers.insert(*child_jail_pid);
                }
                let parent = self.processes.get(&key).cloned().unwrap_or_default();
                if let Some(child) = self.entry((*child_pid, *child_start_ns)) {
                    *child = parent;
                    child.parent = Some(key);
                    child.jail_pid = *child_jail_pid;
                    child.generations += 1;
                }
            }
            Kind::Exit { .. } => drop(self.processes.remove(&key)),
            _ => {}
        }
    }

    /// Files that the run made in a directory go with it under its new name.
    fn move_made(&mut self, directory: &[u8], new: &[u8]) {
        let below = [directory, b"/"].concat();
        let moved = self.made.range(below.clone()..);
        let moved = moved.take_while(|path| path.starts_with(&below));
        let moved: Vec<Vec<u8>> = moved.cloned().collect();
        for path in moved {
            self.made.remove(&path);
            let path = [new, &path[directory.len()..]].concat();
            if !self.found.contains(&path) {
                self.made.insert(path);
            }
        }
    }

    fn entry(&mut self, key: (u32, u64)) -> Option<&mut ObservedProcess> {
        let room = self.processes.len() < PROCESSES;
        if !room && !self.processes.contains_key(&key) {
            return None;
        }
        Some(self.processes.entry(key).or_default())
    }
}

fn insert(paths: &mut BTreeSet<Vec<u8>>, path: &[u8]) {
    if paths.len() < PATHS && !paths.contains(path) {
        paths.insert(path.to_vec());
    }
}

/// The last component of a path.
pub fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
