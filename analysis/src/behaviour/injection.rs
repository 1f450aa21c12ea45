//! Injection: a program of the system loaded its first library from a place that the jail can write, as
//! `LD_PRELOAD` and `LD_LIBRARY_PATH` have it; or the list of preloaded libraries, or the code of a
//! package of Python or Node that was there already, was written to by something that is no installer.
//!
//! So does a program in a home's own directory of programs that is called as one of the system, which PATH finds first.
//!
//! A program of the workspace finds libraries beside itself, which is how it was built.
//!
//! And the memory of another process: who opens it for writing injects, who opens it for reading is after what is kept there. A
//! process may look at its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnkey_policy::{AttemptKind, Behaviour, WORKSPACE};

use super::accounts::is_installed;
use super::act::{ObservedAct, Opened, Operation};
use super::interpreter::{installs, is_interpreter};
use super::path_classes::is_system;
use super::process_state::{ProcessState, base_name};
use super::{Detector, End, OPENED, Sighting, Step, Verb};

/// Processes that are remembered between their start and their first library.
const STARTING: usize = 1024;
/// Paths that are told of.
const TOLD: usize = 256;

/// Directories of installed packages.
const PACKAGES: &[&[u8]] = &[b"/site-packages/", b"/dist-packages/", b"/node_modules/"];

/// Directories of a person's programs, which a search of PATH comes to before those of the system. The jail's home is a project's
/// directory, too, whose `bin` is nobody's PATH.
const OWN_PROGRAMS: &[&[u8]] = &[b"/.local/bin/", b"/bin/"];
const OWN_PROGRAMS_HERE: &[u8] = b"/.local/bin/";

/// Programs that are given passwords, keys or code to guard, and those that any script calls.
const MIMICKED: &[&str] = &[
    "apt",
    "aws",
    "bash",
    "cat",
    "cp",
    "curl",
    "docker",
    "doas",
    "gcloud",
    "git",
    "gpg",
    "gpg2",
    "grep",
    "kinit",
    "kubectl",
    "login",
    "ls",
    "mount",
    "mv",
    "mysql",
    "netstat",
    "openssl",
    "passwd",
    "ping",
    "pkexec",
    "ps",
    "psql",
    "rm",
    "rsync",
    "scp",
    "sftp",
    "sh",
    "ssh",
    "ssh-add",
    "sshd",
    "su",
    "sudo",
    "systemctl",
    "wget",
];

/// Endings of what is code in them; the manifest of a package of Node names the programs that its installation runs.
const CODE: &[&[u8]] = &[
    b".py",
    b".so",
    b".js",
    b".mjs",
    b".cjs",
    b".node",
    b"/package.json",
];

/// Directories of the programs that packages bring, which people and scripts call by name.
const PROGRAMS: &[&[u8]] = &[
    b"/node_modules/.bin/",
    b"/venv/bin/",
    b"/.venv/bin/",
    b"/env/bin/",
];

/// The processes that have started and not loaded a library yet.
#[derive(Debug, Default)]
pub struct Injection {
    starting: HashMap<(u32, u64), Vec<u8>>,
    told: BTreeSet<Vec<u8>>,
    /// Code of packages that was written anew, of which only the end tells whether there was another before.
    written: BTreeMap<Vec<u8>, Step>,
}

impl Detector for Injection {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let key = (act.event.task.pid, act.event.task.start_ns);
        match &act.what {
            Operation::Executed { file, .. } => {
                self.starting.remove(&key);
                if is_system(&file.path) && self.starting.len() < STARTING {
                    self.starting.insert(key, file.path.clone());
                }
            }
            Operation::Opened(opened) => {
                // What is not there is looked for in the next place.
                if opened.done()
                    && let Some(program) = self.starting.remove(&key)
                {
                    first_open(act, opened, &program, tell);
                }
                memory(act, opened, state, tell);
                self.write(act, opened, state, tell);
            }
            Operation::Changed {
                on: AttemptKind::Rename | AttemptKind::Link | AttemptKind::Symlink,
                path,
                new,
                outcome,
                ..
            } if outcome.is_attempt() => {
                let path = new.as_ref().unwrap_or(path);
                if mimics(path) {
                    self.tell_of(act, path, tell);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, end: &End, tell: &mut dyn FnMut(Sighting)) {
        for (path, step) in std::mem::take(&mut self.written) {
            let was_there = end.replaced.iter().any(|one| one.as_bytes() == path);
            if was_there && self.told.insert(path) {
                tell(Sighting::new(Behaviour::Injection, vec![step]));
            }
        }
    }
}

/// The loader opens what is to be preloaded before anything else but its own cache.
fn first_open(
    act: &ObservedAct<'_>,
    opened: &Opened<'_>,
    program: &[u8],
    tell: &mut dyn FnMut(Sighting),
) {
    let is_library = opened.path.windows(3).any(|part| part == b".so");
    if is_library && !is_system(&opened.path) && opened.reads {
        let words: [&[u8]; 4] = [
            program,
            b" loaded ",
            &opened.path,
            b" before its own libraries",
        ];
        let step = Step::from_event(act.event, &words);
        tell(Sighting::new(Behaviour::Injection, vec![step]));
    }
}

/// Files of proc(5) about what a process has in its memory, and where: for those who look for it in there.
const ABOUT_MEMORY: &[&[u8]] = &[b"environ", b"maps", b"pagemap", b"smaps"];

/// An open of another process's memory, proc_pid_mem(5), also of one that is refused; or of what is said of it, by no program of the
/// system and of a process that is none of the run.
fn memory(
    act: &ObservedAct<'_>,
    opened: &Opened<'_>,
    state: &ProcessState,
    tell: &mut dyn FnMut(Sighting),
) {
    let Some((other, file)) = memory_of(&opened.path).filter(|_| opened.outcome.is_attempt())
    else {
        return;
    };
    if other == act.event.task.jail_pid {
        return;
    }
    if file != b"mem" {
        let is_known = i32::try_from(other).is_ok_and(|number| state.has_had(number));
        let process = state.process(&act.event.task);
        let is_tool = process.is_none_or(|one| is_installed(&one.exe) && !is_interpreter(&one.exe));
        if is_known || is_tool || !opened.reads {
            return;
        }
        let step = Step::by_outcome(act, OPENED, &[&opened.path]);
        tell(Sighting::new(Behaviour::CredentialAccess, vec![step]));
        return;
    }
    let (behaviour, verb) = if opened.writes {
        (Behaviour::Injection, "write")
    } else {
        (Behaviour::CredentialAccess, "read")
    };
    let what = format!("the memory of process {other} to {verb} it");
    let step = Step::by_outcome(act, OPENED, &[what.as_bytes()]);
    tell(Sighting::new(behaviour, vec![step]));
}

/// The process whose memory a path of procfs is about, and the name of the file.
fn memory_of(path: &[u8]) -> Option<(u32, &[u8])> {
    let rest = path.strip_prefix(b"/proc/")?;
    let mut parts = rest.split(|byte| *byte == b'/');
    let process = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let rest: Vec<&[u8]> = parts.collect();
    let ([file] | [b"task", _, file]) = rest[..] else {
        return None;
    };
    (file == b"mem" || ABOUT_MEMORY.contains(&file)).then_some((process, file))
}

const WROTE_INTO: Verb = ("wrote into ", "tried to write into ");

impl Injection {
    fn write(
        &mut self,
        act: &ObservedAct<'_>,
        opened: &Opened<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        if !opened.writes
            || opened.path.ends_with(b".pyc")
            || contains(&opened.path, b"/__pycache__/")
        {
            return;
        }
        let is_program = PROGRAMS.iter().any(|one| contains(&opened.path, one));
        let package = is_program
            || PACKAGES.iter().any(|one| contains(&opened.path, one))
                && state.traits(&opened.path).startup.is_none();
        let code = is_program || CODE.iter().any(|end| opened.path.ends_with(end));
        // A new file is nobody's code yet; whether it is new is not always known.
        let theirs = is_system(&opened.path)
            || state.found(&opened.path)
            || !opened.truncates && !state.made(&opened.path);
        let own = state.made_environment_of(&opened.path) || is_among_new(&opened.path, state);
        let is_changed = package && code && !own && !installs(act, state);
        let injects = state.traits(&opened.path).library || mimics(&opened.path);
        if injects || is_changed && theirs {
            self.tell_of(act, &opened.path, tell);
        } else if is_changed && opened.done() && self.written.len() < TOLD {
            let step = Step::by_outcome(act, WROTE_INTO, &[&opened.path]);
            self.written.insert(opened.path.to_vec(), step);
        }
    }

    fn tell_of(&mut self, act: &ObservedAct<'_>, path: &[u8], tell: &mut dyn FnMut(Sighting)) {
        if self.told.len() < TOLD && self.told.insert(path.to_vec()) {
            let step = Step::by_outcome(act, WROTE_INTO, &[path]);
            tell(Sighting::new(Behaviour::Injection, vec![step]));
        }
    }
}

/// True for a program of a home that is called as one of the system, so that whoever types its name starts this one.
fn mimics(path: &[u8]) -> bool {
    let name = base_name(path);
    let directory = &path[..path.len() - name.len()];
    let is_home = |rest: &[u8]| {
        let home = rest.strip_prefix(b"/home/");
        rest == b"/root" || home.is_some_and(|user| !user.is_empty() && !user.contains(&b'/'))
    };
    let mut places = OWN_PROGRAMS.iter();
    let is_own = places.any(|place| directory.strip_suffix(*place).is_some_and(is_home));
    let is_here = directory.strip_suffix(OWN_PROGRAMS_HERE) == Some(WORKSPACE.as_bytes());
    (is_own || is_here) && MIMICKED.iter().any(|one| one.as_bytes() == name)
}

/// True for a package, or its program, in a directory that the run has made, as a copy of a project has.
fn is_among_new(path: &[u8], state: &ProcessState) -> bool {
    let end = |part: &&[u8]| {
        let at = path
            .windows(part.len())
            .position(|window| window == *part)?;
        Some(at + part.len() - 1)
    };
    let mut ends = PACKAGES.iter().chain(PROGRAMS).filter_map(end);
    ends.any(|end| state.made_directory(&path[..end]))
}

fn contains(path: &[u8], part: &[u8]) -> bool {
    path.windows(part.len()).any(|window| window == part)
}
