//! Finds the installation of a command of the caller's PATH when it lies outside of what the jail shows:
//! pyenv, nvm, conda, a venv, or a directory of one's own.
//!
//! Nothing is run to find out. Symlinks, the first line of scripts and `pyvenv.cfg` are followed
//! from the command on; each place they pass needs its installation, the directory above `bin`.
//!
//! A file of the workspace says where to look and never what is given: what it leads to is brought in only
//! when it is an installation by marks of its own that the caller has by another word as well.

mod installation;
#[cfg(test)]
mod property;
mod rustup;
mod script;
#[cfg(test)]
mod tests;
mod way;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use turnkey_jailer::paths::{self, PathError};
use turnkey_policy::{HostPath, Policy, ToolchainMode};

use crate::directory::{self, RunDirectory};
use crate::environment::CallerEnvironment;
use crate::files;
use installation::{is_program, prefix, prefix_of};
use rustup::RustupSettings;
pub use script::first_line;
use turnkey_report::{BroughtIn, escape};
pub use way::ProgramPlaces;
use way::{NamedPath, ResolvedPath};

/// The longest chain of symlinks and interpreters that is followed.
const LONGEST: usize = 32;

/// The needs of a command that the jail does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolchainNeed {
    /// The command's own file.
    pub program: PathBuf,
    /// Installations.
    pub prefixes: Vec<PathBuf>,
    /// The source that named each of them, in the same order.
    pub words: Vec<String>,
    /// Directories of programs, for PATH.
    pub directories: Vec<PathBuf>,
}

impl ToolchainNeed {
    /// Each installation for the report, and by whose word it is there.
    pub fn told(&self) -> impl Iterator<Item = BroughtIn> {
        let named = self.prefixes.iter().zip(&self.words);
        named.map(|(path, by)| BroughtIn {
            path: escape(path.as_os_str().as_bytes()),
            key: "toolchain".to_owned(),
            by: escape(by.as_bytes()),
        })
    }
}

/// An installation that is more than one, or none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the toolchain of {} would bring in {}, which {why} ({by}){}", program.display(), prefix.display(), fix.as_deref().unwrap_or(""))]
pub struct NoInstallation {
    program: PathBuf,
    prefix: PathBuf,
    why: &'static str,
    by: String,
    fix: Option<String>,
}

/// With a `toolchain`, adds to the policy what `program` needs when it is run in `directory`. The answer
/// is what was added.
///
/// # Errors
/// When that would be more than an installation.
pub fn bring_in(
    policy: &mut Policy,
    program: &OsStr,
    directory: &RunDirectory,
) -> Result<Option<ToolchainNeed>, NoInstallation> {
    let caller = CallerPaths::new(&directory.environment);
    let need = match policy.filesystem.toolchain {
        ToolchainMode::None => None,
        ToolchainMode::Command => find_required(policy, program, directory, &caller)?,
        ToolchainMode::Auto => find(policy, program, directory, &caller)?,
    };
    let Some(need) = need else {
        return Ok(None);
    };
    for prefix in &need.prefixes {
        policy.filesystem.read.push(HostPath {
            path: prefix.clone(),
            at: None,
            optional: false,
            list: true,
            why: format!("the toolchain of {}", need.program.display()),
        });
    }
    let front = need.directories.iter().map(|path| path.to_string_lossy());
    let before = policy.environment.set.get("PATH").cloned();
    let passes = policy.environment.pass.iter().any(|name| name == "PATH");
    let passed = || {
        let own = directory.environment.get("PATH").filter(|_| passes);
        own.map(|path| path.to_string_lossy().into_owned())
    };
    let before = before.or_else(passed);
    let before = before.unwrap_or_else(|| turnkey_jailer::plan::DEFAULT_PATH.to_owned());
    let path: Vec<_> = front.chain([before.as_str().into()]).collect();
    let path = path.join(":");
    policy.environment.set.insert("PATH".to_owned(), path);
    policy.settle_shown();
    Ok(Some(need))
}

/// The caller's settings that decide where a command is.
#[derive(Debug)]
pub struct CallerPaths {
    path: Vec<PathBuf>,
    home: Option<PathBuf>,
    /// The venv that is activated: `VIRTUAL_ENV`.
    venv: Option<PathBuf>,
    rustup: RustupSettings,
}

impl CallerPaths {
    /// From the caller's environment.
    pub fn new(environment: &CallerEnvironment) -> CallerPaths {
        let path = environment.get("PATH").unwrap_or_default();
        let home = environment.path("HOME");
        CallerPaths {
            path: std::env::split_paths(path).collect(),
            rustup: RustupSettings::new(environment, home.as_deref()),
            home,
            venv: environment.path("VIRTUAL_ENV"),
        }
    }

    fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        self.path.iter().filter(|directory| directory.is_absolute())
    }

    fn look_up(&self, name: &OsStr) -> Option<PathBuf> {
        let mut candidates = self.directories().map(|directory| directory.join(name));
        let found = candidates.find(|file| is_program(file))?;
        Some(self.rustup.behind(&found).unwrap_or(found))
    }

    fn home(&self) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        Some(paths::canonical(home).unwrap_or_else(|_| home.clone()))
    }
}

/// Finds what `program` needs beyond what `policy` shows, and the venvs that it may ask for; `None` when it needs
/// nothing, or is nowhere.
///
/// # Errors
/// When that would be more than an installation.
pub fn find(
    policy: &Policy,
    program: &OsStr,
    directory: &RunDirectory,
    caller: &CallerPaths,
) -> Result<Option<ToolchainNeed>, NoInstallation> {
    search(policy, program, directory, caller, venvs)
}

/// Finds what `program` itself does not start without, as [`find`] does.
///
/// # Errors
/// When that would be more than an installation.
pub fn find_required(
    policy: &Policy,
    program: &OsStr,
    directory: &RunDirectory,
    caller: &CallerPaths,
) -> Result<Option<ToolchainNeed>, NoInstallation> {
    search(policy, program, directory, caller, |_, _| Vec::new())
}

fn search(
    policy: &Policy,
    program: &OsStr,
    directory: &RunDirectory,
    caller: &CallerPaths,
    besides: impl FnOnce(&CallerPaths, &ProgramPlaces) -> Vec<SearchStep>,
) -> Result<Option<ToolchainNeed>, NoInstallation> {
    let workspace = ProgramPlaces::new(policy, directory);
    let by_name = !program.as_bytes().contains(&b'/');
    let found = match by_name {
        true => caller.look_up(program).map(NamedPath::absolute),
        false => Some(workspace.on_host(Path::new(program))),
    };
    let Some(found) = found.filter(|found| is_program(&found.file)) else {
        return Ok(None);
    };
    let by = if by_name { "your PATH" } else { "the command" };
    let mut open = VecDeque::from([SearchStep {
        named: found.clone(),
        by_name,
        word: NamedBy::Caller,
        by: by.to_owned(),
        is_needed: true,
    }]);
    open.extend(besides(caller, &workspace));
    let mut search = ToolchainSearch {
        policy,
        caller,
        home: caller.home(),
        workspace,
        need: ToolchainNeed {
            program: found.file.clone(),
            ..ToolchainNeed::default()
        },
        real: Vec::new(),
        open,
    };
    search.run()?;
    let is_something =
        |need: &ToolchainNeed| !need.prefixes.is_empty() || !need.directories.is_empty();
    Ok(Some(search.need).filter(is_something))
}

/// The Pythons that a script may ask for by name: of the venv that the caller has activated, and of those beside the
/// program, which it may activate itself. The run does not depend on them.
fn venvs(caller: &CallerPaths, workspace: &ProgramPlaces) -> Vec<SearchStep> {
    let step = |venv: PathBuf, by_name, word, by| SearchStep {
        named: NamedPath::absolute(venv.join("bin/python")),
        by_name,
        word,
        by,
        is_needed: false,
    };
    let activated = caller.venv.iter();
    let activated = activated.filter(|venv| directory::is_venv(venv));
    let activated = activated.map(|venv| {
        step(
            venv.clone(),
            true,
            NamedBy::Caller,
            "your VIRTUAL_ENV".to_owned(),
        )
    });
    let beside = directory::venvs(workspace.workdir()).into_iter();
    let beside = beside.map(|venv| {
        let by = format!("the venv {}", venv.display());
        step(venv, false, NamedBy::Workspace, by)
    });
    activated.chain(beside).collect()
}

/// The source of the word that a file is needed, from most trusted to least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NamedBy {
    /// The caller named it.
    Caller,
    /// An installed file named it.
    Installed,
    /// A file that may be the program's own named it.
    Workspace,
}

/// A file on the way from the command to what runs it.
struct SearchStep {
    named: NamedPath,
    by_name: bool,
    word: NamedBy,
    by: String,
    /// The command itself needs it; otherwise it stays away when it is no installation.
    is_needed: bool,
}

struct ToolchainSearch<'a> {
    policy: &'a Policy,
    caller: &'a CallerPaths,
    home: Option<PathBuf>,
    workspace: ProgramPlaces,
    need: ToolchainNeed,
    /// The canonical paths of what is needed.
    real: Vec<PathBuf>,
    open: VecDeque<SearchStep>,
}

impl ToolchainSearch<'_> {
    fn run(&mut self) -> Result<(), NoInstallation> {
        for _ in 0..LONGEST {
            let Some(step) = self.open.pop_front() else {
                break;
            };
            let is_needed = step.is_needed;
            match self.step(step) {
                Err(error) if is_needed => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, mut step: SearchStep) -> Result<(), NoInstallation> {
        let file = step.named.file.clone();
        let Some(way) = ResolvedPath::to(&file, &self.workspace) else {
            // A command that is there and cannot be walked to.
            let foreign = "is behind another user's symlink";
            return match step.word {
                NamedBy::Caller => Err(self.too_much(&file, foreign, &step.by, false)),
                _ => Ok(()),
            };
        };
        // Only a program can be an interpreter, and only what is there can be needed.
        if !is_program(&way.real) {
            return Ok(());
        }
        if way.over_workspace {
            step.word = NamedBy::Workspace;
        }
        let named = self.workspace.in_jail(&file);
        let is_own = self.workspace.holds(&way.real);
        let needed = if is_own {
            self.workspace.in_jail(&way.real)
        } else {
            self.require(&way, &step)?
        };
        // Of the workspace the jail shows its own view, under one path.
        let directory = named
            .or(needed)
            .and_then(|file| Some(file.parent()?.to_owned()));
        if let Some(directory) = directory.filter(|_| step.by_name) {
            push_new(&mut self.need.directories, &directory);
        }
        self.follow(&file, &way, (step.word, step.is_needed));
        self.interpreter(&way.real, step.is_needed);
        Ok(())
    }

    fn too_much(&self, place: &Path, why: &'static str, by: &str, fix: bool) -> NoInstallation {
        let fix = fix.then(|| {
            let program = place.display();
            format!("; name what it needs instead, such as `--read {program}`")
        });
        NoInstallation {
            program: self.need.program.clone(),
            prefix: prefix(place).to_owned(),
            why,
            by: format!("by {by}"),
            fix,
        }
    }

    /// Adds the installation of a file when the jail does not show it; the answer is the program in it.
    fn require(
        &mut self,
        way: &ResolvedPath,
        step: &SearchStep,
    ) -> Result<Option<PathBuf>, NoInstallation> {
        // By way of the workspace, only the canonical path means the same when it is used.
        let file = match way.over_workspace {
            true => &way.real,
            false => &step.named.file,
        };
        if self.is_shown(file, &way.real) {
            return Ok(None);
        }
        let place = prefix(file);
        let refuse = |why, fix: bool| self.too_much(file, why, &step.by, fix);
        let real = paths::canonical(place).map_err(|error| match error {
            PathError::Foreign => refuse("is behind another user's symlink", false),
            PathError::Movable => {
                refuse("is behind a symlink that other users may have moved", false)
            }
            PathError::System(_) => refuse("is gone", false),
        })?;
        let home = self.home.as_deref();
        let parts = parts(place, &real, home);
        if parts.is_empty() {
            if let Some(why) = installation::too_much(&real, home) {
                // A key is not to be given by a copied line.
                return Err(refuse(why, step.word == NamedBy::Caller));
            }
            if let Some(why) = self.is_none(&real, file, step.word) {
                return Err(refuse(why, true));
            }
            self.add(place, &real, &step.by);
        }
        for part in parts {
            let real = paths::canonical(&part).unwrap_or_else(|_| part.clone());
            self.add(&part, &real, &step.by);
        }
        Ok(Some(file.to_owned()))
    }

    fn add(&mut self, place: &Path, real: &Path, by: &str) {
        if !self.need.prefixes.iter().any(|known| known == place) {
            self.need.prefixes.push(place.to_owned());
            self.need.words.push(by.to_owned());
            self.real.push(real.to_owned());
        }
    }

    /// The reason why a place is no installation that may be brought in by this word.
    fn is_none(&self, real: &Path, file: &Path, word: NamedBy) -> Option<&'static str> {
        let listed = || self.listed().any(|directory| prefix_of(&directory) == real);
        let known = || {
            let name = file.file_name().and_then(|name| self.caller.look_up(name));
            let named = name.and_then(|file| ResolvedPath::to(&file, &self.workspace));
            let by_name =
                named.is_some_and(|way| !way.over_workspace && way.real.starts_with(real));
            by_name || installation::is_in_a_layout(real, self.home.as_deref())
        };
        match word {
            NamedBy::Caller | NamedBy::Installed if installation::is_one(real) => None,
            _ if listed() => None,
            NamedBy::Workspace if installation::is_one(real) && known() => None,
            NamedBy::Workspace if installation::is_one(real) => {
                Some("nothing but a file of the workspace names")
            }
            _ => Some("is no installation"),
        }
    }

    /// The directories of the caller's PATH that do not go by way of the workspace.
    fn listed(&self) -> impl Iterator<Item = PathBuf> {
        let ways = self.caller.directories();
        let ways = ways.filter_map(|directory| ResolvedPath::to(directory, &self.workspace));
        ways.filter(|way| !way.over_workspace).map(|way| way.real)
    }

    /// True when the jail shows a file both where it is named and where it is.
    fn is_shown(&self, file: &Path, real: &Path) -> bool {
        let filesystem = &self.policy.filesystem;
        let given = filesystem.read.iter().chain(&filesystem.write);
        let given = given.filter(|given| *given.place() == given.path);
        let given = given.map(|given| given.path.as_path());
        let given: Vec<_> = given
            .chain(self.need.prefixes.iter().map(PathBuf::as_path))
            .collect();
        let shows = |file: &Path| given.iter().any(|place| file.starts_with(place));
        let is_needed = self.real.iter().any(|place| real.starts_with(place));
        shows(file) && (shows(real) || is_needed)
    }

    /// One symlink further, and where that lies when its directories are symlinks themselves; and
    /// the Python that a venv stands on.
    fn follow(&mut self, file: &Path, way: &ResolvedPath, (word, is_needed): (NamedBy, bool)) {
        let word = match self.is_installed(file) && !way.over_workspace {
            true => NamedBy::Installed,
            false => word.max(NamedBy::Installed),
        };
        if let Ok(text) = std::fs::read_link(file) {
            let to = file.parent().unwrap_or(file).join(text);
            let by = format!("the symlink {}", file.display());
            self.push(&to, word, by, is_needed);
        }
        if way.real != file {
            let by = format!("the symlinks of {}", file.display());
            self.push(&way.real, word, by, is_needed);
        }
        let venv = prefix(file);
        if let Some(python) = home_of_venv(venv) {
            let by = venv.join("pyvenv.cfg").display().to_string();
            self.push(&python, word, by, is_needed);
        }
    }

    /// True when a file is part of the system or of what is brought in, and not the program's own.
    fn is_installed(&self, file: &Path) -> bool {
        let mut brought = self.real.iter().chain(&self.need.prefixes);
        !self.workspace.holds(file)
            && (installation::is_of_the_system(file)
                || brought.any(|place| file.starts_with(place)))
    }

    /// Follows the first line of a script to its interpreter.
    fn interpreter(&mut self, file: &Path, is_needed: bool) {
        let Some(line) = script::first_line(file) else {
            return;
        };
        let word = match self.is_installed(file) {
            true => NamedBy::Installed,
            false => NamedBy::Workspace,
        };
        let by = format!("the first line of {}", file.display());
        let found = line.looked_up().and_then(|name| self.caller.look_up(name));
        self.push(&line.interpreter, word, by.clone(), is_needed);
        // The caller's PATH says where a name leads, whoever asks for it.
        self.open.extend(found.map(|file| SearchStep {
            named: NamedPath::absolute(file),
            by_name: true,
            word: NamedBy::Caller,
            by: format!("your PATH and {by}"),
            is_needed,
        }));
    }

    fn push(&mut self, to: &Path, word: NamedBy, by: String, is_needed: bool) {
        self.open.push_back(SearchStep {
            named: self.workspace.on_host(to),
            by_name: false,
            word,
            by,
            is_needed,
        });
    }
}

/// Of a directory in which a home keeps everything, beside programs, what programs are made of.
fn parts(place: &Path, real: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let is_local = home.is_some_and(|home| real == home.join(".local"));
    let parts = ["bin", "lib"].map(|name| place.join(name));
    let parts = parts.into_iter().filter(|part| is_local && part.is_dir());
    parts.collect()
}

fn push_new(list: &mut Vec<PathBuf>, path: &Path) {
    if !list.iter().any(|known| known == path) {
        list.push(path.to_owned());
    }
}

/// `home = …` of a pyvenv.cfg: where the Python is that a venv was made with.
fn home_of_venv(prefix: &Path) -> Option<PathBuf> {
    let text = files::read_text(prefix.join("pyvenv.cfg").to_str()?).ok()?;
    let home = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| value.trim().to_owned())
    })?;
    Some(PathBuf::from(home).join("python3")).filter(|python| python.exists())
}
