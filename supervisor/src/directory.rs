//! The directory that a run sees as its workspace, the place in it where the program starts, and the names it has inside.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use turnkey_jailer::host::storage::mounts_below;
use turnkey_jailer::paths;
use turnkey_policy::{LARGEST_PROFILE, OwnPath, Policy, WORKSPACE, WorkdirMode, WorkdirPlace};

use crate::environment::CallerEnvironment;
use crate::files;
use turnkey_report::escape;

/// Entries of the directory that are looked at for venvs.
const MOST_ENTRIES: usize = 1000;

/// The directory that appears as the workspace, and where in it the program starts, as the caller named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDirectory {
    /// The directory; the current one when `None`.
    pub workdir: Option<PathBuf>,
    /// The directory below it in which the program starts: relative to it, or absolute, on the host or inside.
    pub start: Option<PathBuf>,
    /// The layer whose content shows over it: for rules on what is present there.
    pub layer: Option<PathBuf>,
    /// The caller's environment.
    pub environment: CallerEnvironment,
}

impl RunDirectory {
    /// The nearest directory around `start` that holds an entry of this name, such as `.git`; the program starts in `start`.
    ///
    /// # Errors
    /// When no directory around it has one.
    pub fn around(start: &Path, mark: &str) -> anyhow::Result<RunDirectory> {
        let start = canonical(start)?;
        let mut around = start.ancestors();
        let holds = |directory: &&Path| directory.join(mark).symlink_metadata().is_ok();
        let workdir = around.find(holds).with_context(|| {
            let start = start.display();
            format!(
                "no directory around {start} holds {mark}; name the workspace with --workdir DIR"
            )
        })?;
        Ok(RunDirectory {
            workdir: Some(workdir.to_owned()),
            start: Some(start.clone()),
            layer: None,
            environment: CallerEnvironment::default(),
        })
    }

    /// The directory by the name it was given.
    pub(crate) fn named(&self) -> &Path {
        self.workdir.as_deref().unwrap_or(Path::new("."))
    }

    /// The canonical path of the workspace's directory.
    ///
    /// # Errors
    /// When it cannot be opened, or is none.
    pub(crate) fn canonical(&self) -> anyhow::Result<PathBuf> {
        canonical(self.named())
    }

    /// The place where the program starts, relative to the workspace; empty for the workspace itself.
    ///
    /// # Errors
    /// When it is no directory of the workspace.
    pub(crate) fn start(&self) -> anyhow::Result<PathBuf> {
        let Some(start) = &self.start else {
            return Ok(PathBuf::new());
        };
        let workdir = self.canonical()?;
        let below = match start.strip_prefix(WORKSPACE) {
            Ok(below) => below.to_owned(),
            Err(_) if start.is_relative() => start.clone(),
            Err(_) => {
                let start = canonical(start)?;
                let below = start.strip_prefix(&workdir).with_context(|| {
                    let (start, workdir) = (start.display(), workdir.display());
                    format!(
                        "{start} is not below the workspace {workdir}; name one with --workdir DIR"
                    )
                })?;
                below.to_owned()
            }
        };
        let is_plain =
            |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        anyhow::ensure!(
            below.components().all(is_plain) && workdir.join(&below).is_dir(),
            "the program is to start in {}, which is no directory of the workspace {}; name one below it with --chdir DIR",
            below.display(),
            workdir.display()
        );
        Ok(below)
    }

    /// The mount points below the directory, relative to it, which an overlay shows without what is mounted there.
    pub(crate) fn mounts_hidden(&self, policy: &Policy) -> Vec<String> {
        const MOST: usize = 100;
        let (WorkdirMode::Overlay, Ok(workdir)) =
            (policy.filesystem.workdir.mode, self.canonical())
        else {
            return Vec::new();
        };
        let below = mounts_below(&workdir).into_iter().take(MOST);
        let names = below.filter_map(|place| Some(place.strip_prefix(&workdir).ok()?.to_owned()));
        names
            .map(|name| escape(name.as_os_str().as_bytes()))
            .collect()
    }

    /// The paths of the directory that lead to the workspace inside, too. None is told to a program that does not
    /// know it, unless the policy says so.
    pub(crate) fn own_paths(&self, policy: &Policy, command: &[OsString]) -> Vec<PathBuf> {
        let filesystem = &policy.filesystem;
        let Ok(workdir) = self.canonical() else {
            return Vec::new();
        };
        if filesystem.workdir.mode == WorkdirMode::None {
            return Vec::new();
        }
        let mut names = vec![workdir.clone()];
        names.extend(self.symlink_of(&workdir));
        let told = match filesystem.own_path {
            OwnPath::Known => self.told(policy, command, &workdir),
            OwnPath::Always | OwnPath::Never => Vec::new(),
        };
        let stands_there = filesystem.workdir.at == WorkdirPlace::Host;
        names.retain(|name| {
            let is_told = || told.iter().any(|text| names_path(text, name));
            let leads_there = filesystem.own_path == OwnPath::Always || is_told();
            leads_there || stands_there && *name == workdir
        });
        names
    }

    /// The name by which the caller knows the directory, when that is a symlink in a directory without any.
    fn symlink_of(&self, workdir: &Path) -> Option<PathBuf> {
        let name = match &self.workdir {
            Some(named) => std::path::absolute(named).ok()?,
            None => PathBuf::from(self.environment.get("PWD")?),
        };
        let parent = name.parent()?;
        let is_it = name != workdir && paths::canonical(&name).is_ok_and(|real| real == workdir);
        (is_it && paths::canonical(parent).is_ok_and(|real| real == parent)).then_some(name)
    }

    /// The texts that tell the program of paths: its arguments, its environment, and the scripts of venvs in its directory.
    fn told(&self, policy: &Policy, command: &[OsString], workdir: &Path) -> Vec<Vec<u8>> {
        let environment = &policy.environment;
        let caller = |name: &String| self.environment.get(name).map(OsStr::to_owned);
        let passed = environment.pass.iter().filter_map(caller);
        let set = environment.set.values().map(OsString::from);
        let words = command.iter().cloned().chain(passed).chain(set);
        words
            .map(|word| word.as_bytes().to_vec())
            .chain(
                venvs(workdir)
                    .iter()
                    .filter_map(|venv| activates(workdir, venv)),
            )
            .collect()
    }
}

fn canonical(directory: &Path) -> anyhow::Result<PathBuf> {
    let canonical = paths::canonical(directory).with_context(|| {
        let directory = directory.display();
        format!("could not open the working directory {directory}; name another with --workdir DIR")
    })?;
    anyhow::ensure!(
        canonical.is_dir(),
        "the working directory {} is not a directory",
        canonical.display()
    );
    Ok(canonical)
}

/// The Python venvs in a directory, in the order of their names.
pub(crate) fn venvs(workdir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(workdir).into_iter().flatten();
    let entries = entries.take(MOST_ENTRIES).flatten();
    let beside = entries.map(|entry| entry.path());
    let mut venvs: Vec<PathBuf> = beside.filter(|place| is_venv(place)).collect();
    venvs.sort_unstable();
    venvs
}

pub(crate) fn is_venv(directory: &Path) -> bool {
    directory.join("pyvenv.cfg").is_file()
}

/// The script by which a venv puts itself on PATH: it names its own place. One elsewhere, to which a symlink leads, is none
/// of the workspace's: the program would learn what a file of the caller's says.
fn activates(workdir: &Path, venv: &Path) -> Option<Vec<u8>> {
    let script = venv.strip_prefix(workdir).ok()?.join("bin/activate");
    files::read_below(workdir, &script, LARGEST_PROFILE).ok()
}

/// True when a text has this path in it, or one below it.
fn names_path(text: &[u8], path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    let continues = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || !byte.is_ascii()
    };
    let mut places = text.windows(path.len().max(1)).enumerate();
    places.any(|(at, window)| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let after = text.get(at + path.len());
        window == path && !after.is_some_and(continues) && !before.is_some_and(continues)
    })
}

/// The directory itself, in the jail, of a file of the host that lies in the workspace.
pub(crate) fn in_jail(workdir: &Path, real: &Path) -> Option<PathBuf> {
    let below = real.strip_prefix(workdir).ok()?;
    // Joined with nothing, it would end in a slash.
    let inside = Path::new(WORKSPACE).components().chain(below.components());
    Some(inside.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_whole() {
        let named = |text: &str| names_path(text.as_bytes(), Path::new("/home/a/p"));
        for text in [
            "/home/a/p",
            "cat /home/a/p/x",
            "'/home/a/p'",
            "A=/home/a/p:/usr",
            "cd /home/a/p;ls",
        ] {
            assert!(named(text), "{text}");
        }
        for text in [
            "/home/a/pp",
            "/home/a/p2/x",
            "/home/a",
            "x/home/a/p",
            "/srv/home/a/p-1",
        ] {
            assert!(!named(text), "{text}");
        }
    }

    #[test]
    fn the_start_is_below_the_workspace() {
        let place = tempfile::tempdir().unwrap();
        let workdir = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(workdir.join("a/b")).unwrap();
        let start = |start: &str| {
            let directory = RunDirectory {
                workdir: Some(workdir.clone()),
                start: Some(PathBuf::from(start)),
                ..RunDirectory::default()
            };
            directory.start().map_err(|error| error.to_string())
        };
        let absolute = workdir.join("a/b");
        for given in ["a/b", "/workspace/a/b", absolute.to_str().unwrap()] {
            assert_eq!(start(given).unwrap(), Path::new("a/b"), "{given}");
        }
        for given in ["..", "a/../..", "none", "/workspace/none"] {
            assert!(start(given).unwrap_err().contains("--chdir DIR"), "{given}");
        }
        assert!(start("/").unwrap_err().contains("--workdir DIR"));
    }
}
