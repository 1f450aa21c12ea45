//! Persistence: a file was opened for writing, or a name was given to one, that something runs later by
//! itself: see [`super::path_classes::STARTUPS`]; or a program was started, or was to be, that does nothing but arrange for
//! something to run later, or for somebody to log in; or a program was given the mode by which whoever runs it acts as its owner. The
//! attempt counts.
//!
//! An installer of Python packages writes `.pth` files, which is its work; and an environment that the
//! run made itself goes with it. Nobody logs in where the run made a home in the workspace. A repository that git makes gets the hooks of an installed template, and hooks in a repository that
//! the run made itself are new to nobody else.

use std::collections::BTreeSet;

use turnkey_policy::{AttemptKind, Behaviour, WORKSPACE};

use super::accounts::is_installed;
use super::act::{ObservedAct, Operation};
use super::interpreter::{installs, is_installed_by};
use super::path_classes::{PIPELINE, is_in_any};
use super::process_state::{ProcessState, base_name};
use super::{Detector, Sighting, Step, Verb};

/// Directories in which nothing outlives the run, so that nothing runs later.
const THROWN_AWAY: &[&str] = &["/tmp", "/dev/shm"];

/// Paths that are told of.
const TOLD: usize = 256;

/// Programs that only arrange for something to run later, or for somebody to log in.
const ARRANGE: &[&str] = &[
    "adduser",
    "at",
    "batch",
    "chkconfig",
    "chpasswd",
    "crontab",
    "newusers",
    "rc-update",
    "ssh-copy-id",
    "update-rc.d",
    "useradd",
    "usermod",
];
/// Words with which a manager of services does.
const MANAGE: &[(&str, &[&str])] = &[
    ("systemctl", &["enable", "link", "edit", "set-default"]),
    ("loginctl", &["enable-linger"]),
];
/// Settings of git that name programs which it runs, in all repositories where they are set for all.
const RUN_BY_GIT: &[&str] = &[
    "core.fsmonitor",
    "core.hookspath",
    "core.sshcommand",
    "init.templatedir",
];
/// Settings of git for a kind of file, by section and name, whose value is a command.
const RUN_ON_FILES: &[(&str, &str)] = &[
    ("diff.", ".command"),
    ("diff.", ".textconv"),
    ("filter.", ".clean"),
    ("filter.", ".process"),
    ("filter.", ".smudge"),
    ("merge.", ".driver"),
];
/// Words with which a program answers and arranges nothing.
const ANSWERS: &[&[u8]] = &[
    b"-l",
    b"--list",
    b"--help",
    b"-h",
    b"--version",
    b"-V",
    b"-D",
    b"--defaults",
];

const LENT: Verb = (
    "had whoever runs it act as its owner: ",
    "tried to have whoever runs it act as its owner: ",
);
const WROTE_FOR: Verb = ("wrote for ", "tried to write for ");

/// Each path is told of once.
#[derive(Debug, Default)]
pub struct Persistence {
    told: BTreeSet<Vec<u8>>,
}

impl Detector for Persistence {
    fn observe(
        &mut self,
        act: &ObservedAct<'_>,
        state: &ProcessState,
        tell: &mut dyn FnMut(Sighting),
    ) {
        let path: &[u8] = match &act.what {
            Operation::Executed { file, argv, .. } if arranges(&file.path, argv) => {
                let step = Step::from_event(act.event, &[b"ran ", &argv.join(&b' ')]);
                tell(Sighting::new(Behaviour::Persistence, vec![step]));
                return;
            }
            Operation::Execution(path) if arranges(path, &[]) => {
                let step = Step::from_event(act.event, &[b"wanted to run ", path]);
                tell(Sighting::new(Behaviour::Persistence, vec![step]));
                return;
            }
            Operation::Changed {
                path,
                mode: Some(mode),
                outcome,
                ..
            } if lends_its_owner(*mode) && outcome.is_attempt() => {
                let step = Step::by_outcome(act, LENT, &[path]);
                tell(Sighting::new(Behaviour::Persistence, vec![step]));
                return;
            }
            Operation::Opened(opened) if opened.writes => &opened.path,
            Operation::Changed {
                on: AttemptKind::Rename | AttemptKind::Link,
                new: Some(new),
                ..
            } => new,
            _ => return,
        };
        let Some(startup) = state.traits(path).startup else {
            return;
        };
        if is_in_any(path, THROWN_AWAY) {
            return;
        }
        if path.ends_with(b".pth") && is_of_an_installation(path, act, state) {
            return;
        }
        if is_of_a_made_home(path, state) {
            return;
        }
        // Who begins a project writes what it runs, too.
        let is_new = startup == PIPELINE && !state.found(path);
        if is_new || is_of_a_new_repository(path, act, state) {
            return;
        }
        if self.told.len() < TOLD && self.told.insert(path.to_vec()) {
            let step = Step::by_outcome(act, WROTE_FOR, &[startup.as_bytes(), b": ", path]);
            tell(Sighting::new(Behaviour::Persistence, vec![step]));
        }
    }
}

/// True for a file of a home in the workspace that the run has made: the directory of the first name that begins with a dot.
fn is_of_a_made_home(path: &[u8], state: &ProcessState) -> bool {
    let hidden = path.windows(2).position(|part| part == b"/.");
    let home = hidden.map(|at| &path[..at]);
    home.is_some_and(|home| {
        home.starts_with(WORKSPACE.as_bytes())
            && home != WORKSPACE.as_bytes()
            && state.made_directory(home)
    })
}

/// True for the mode of a program that acts as its owner, whoever runs it later: set-user-ID, inode(7).
fn lends_its_owner(mode: u32) -> bool {
    const SET_USER_ID: u32 = 0o4000;
    const EXECUTABLE: u32 = 0o111;
    mode & SET_USER_ID != 0 && mode & EXECUTABLE != 0
}

/// True for a `.pth` file that an installer of Python packages writes, for one of an environment that the run made, and for the list of packages
/// that are used where they are developed, which what pip has them built by writes.
fn is_of_an_installation(path: &[u8], act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let is_list = base_name(path) == b"easy-install.pth";
    installs(act, state)
        || state.made_environment_of(path)
        || is_list && is_installed_by(act, state)
}

/// The directory of a repository's hooks.
const HOOKS: &[u8] = b"/.git/hooks/";

/// True for a hook in a repository that the run has made; and for one that git puts into a repository which it makes: `git init` or
/// `git clone`, where none was, and from a template that is installed. In one that is there it reads the settings first.
fn is_of_a_new_repository(path: &[u8], act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let at = path.windows(HOOKS.len()).position(|part| part == HOOKS);
    let (Some(at), Some(process)) = (at, state.process(&act.event.task)) else {
        return false;
    };
    if state.made_directory(&[&path[..at], b"/.git"].concat()) {
        return true;
    }
    let makes = |word: &Vec<u8>| matches!(&word[..], b"init" | b"clone");
    let is_git = is_installed(&process.exe)
        && base_name(&process.exe) == b"git"
        && process.argv.iter().skip(1).any(makes);
    let settings = [&path[..at], b"/.git/config"].concat();
    let end = [b"/hooks/", base_name(path)].concat();
    is_git && !state.found(&settings) && is_installed_alone(&end, state)
}

/// True when files whose paths end so were opened, and each is installed: a template of the program's own is no
/// administrator's. A repository's own hook is opened to be run, and was told of if the program wrote it.
fn is_installed_alone(end: &[u8], state: &ProcessState) -> bool {
    let is_source =
        |path: &&[u8]| path.ends_with(end) && !path.windows(HOOKS.len()).any(|part| part == HOOKS);
    let mut sources = state.opened().filter(is_source).peekable();
    sources.peek().is_some() && sources.all(|path| is_installed(path) && !state.made(path))
}

/// True for `git config --global KEY VALUE`, where git runs what the value names, in every repository; and for one of a repository's own
/// where the value is a command that is no help of git's own.
fn has_git_run(argv: &[Vec<u8>]) -> bool {
    let mut words = argv.iter().skip(1);
    if !words.any(|word| word == b"config") {
        return false;
    }
    let is_for_all = |word: &Vec<u8>| matches!(&word[..], b"--global" | b"--system");
    let is_for_all = argv.iter().any(is_for_all);
    let words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let mut pairs = words.iter().zip(words.iter().skip(1));
    pairs.any(|(key, value)| {
        let key = key.to_ascii_lowercase();
        match key.as_str() {
            _ if is_for_all && RUN_BY_GIT.contains(&key.as_str()) => true,
            "core.fsmonitor" => !matches!(value.as_str(), "true" | "false" | "1" | "0" | ""),
            "core.sshcommand" => has_more(value, "ssh"),
            "core.pager" | "core.editor" | "sequence.editor" | "core.askpass" => {
                has_more(value, "")
            }
            // Filters of contents, drivers and textconv run with each checkout, diff or merge: those of git's own are called git-lfs.
            _ if RUN_ON_FILES
                .iter()
                .any(|(section, name)| key.starts_with(section) && key.ends_with(name)) =>
            {
                has_more(value, "") || fetches(value)
            }
            alias if alias.starts_with("alias.") => value
                .strip_prefix('!')
                .is_some_and(|command| has_more(command, "git") && fetches(command)),
            _ => false,
        }
    })
}

/// True for the text of a shell that does more than call one program, which is `usual` where that is named.
fn has_more(text: &str, usual: &str) -> bool {
    let is_usual = text
        .split_whitespace()
        .next()
        .is_some_and(|first| usual.is_empty() || base_name(first.as_bytes()) == usual.as_bytes());
    !is_usual || text.contains(['|', ';', '&', '`', '>']) || text.contains("$(")
}

/// True for the text of a shell that calls a downloader, or hands something to a shell.
fn fetches(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"._/-".contains(c));
    words.any(|word| {
        matches!(
            base_name(word.as_bytes()),
            b"curl" | b"wget" | b"nc" | b"ncat" | b"sh" | b"bash" | b"python3" | b"eval"
        )
    })
}

/// True for a program that arranges for something to happen later, with these arguments.
fn arranges(path: &[u8], argv: &[Vec<u8>]) -> bool {
    let called = argv.first().map_or(path, |name| &name[..]);
    let Ok(name) = std::str::from_utf8(base_name(called)) else {
        return false;
    };
    let has = |word: &[u8]| argv.iter().skip(1).any(|one| one == word);
    let manages = || {
        let words = MANAGE.iter().find(|(manager, _)| *manager == name);
        words.is_some_and(|(_, words)| words.iter().any(|word| has(word.as_bytes())))
    };
    (ARRANGE.contains(&name) || manages() || name == "git" && has_git_run(argv))
        && !ANSWERS.iter().any(|word| has(word))
}
