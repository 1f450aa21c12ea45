//! The way that a path leads, and whether anything of the workspace had a say in that.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use turnkey_jailer::paths;
use turnkey_policy::{Policy, WORKSPACE};

use crate::directory::{self, RunDirectory};

/// As many links as the kernel follows, path_resolution(7).
const MOST_LINKS: usize = 40;

/// The places whose content may be the program's own: its working directory, and what it may write to.
#[derive(Debug)]
pub struct ProgramPlaces {
    workdir: PathBuf,
    /// The directory in which the command starts, relative to the other.
    start: PathBuf,
    written: Vec<PathBuf>,
}

impl ProgramPlaces {
    /// The places of a run in `directory`.
    pub fn new(policy: &Policy, directory: &RunDirectory) -> ProgramPlaces {
        let named = directory.named();
        let absolute = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        let written = policy.filesystem.write.iter();
        let canonical = |path: &Path| paths::canonical(path).unwrap_or_else(|_| path.to_owned());
        ProgramPlaces {
            workdir: canonical(&absolute),
            start: directory.start().unwrap_or_default(),
            written: written.map(|given| canonical(&given.path)).collect(),
        }
    }

    /// The canonical path of the working directory.
    pub fn workdir(&self) -> &Path {
        &self.workdir
    }

    /// True when a canonical path lies in one of the places.
    pub fn holds(&self, real: &Path) -> bool {
        let mut places = self.written.iter().chain([&self.workdir]);
        places.any(|place| real.starts_with(place))
    }

    /// The host's file of a path as the program would use it.
    pub fn on_host(&self, named: &Path) -> NamedPath {
        let file = match named.strip_prefix(WORKSPACE) {
            Ok(below) => self.workdir.join(below),
            Err(_) => self.workdir.join(&self.start).join(named),
        };
        NamedPath::absolute(file)
    }

    /// The place where the jail shows a canonical path of the working directory.
    pub fn in_jail(&self, real: &Path) -> Option<PathBuf> {
        directory::in_jail(&self.workdir, real)
    }
}

/// A file by a path of the host's.
#[derive(Clone, Debug)]
pub struct NamedPath {
    /// Absolute, without `.` and `..`.
    pub file: PathBuf,
}

impl NamedPath {
    /// By the path that the host and the jail have in common.
    pub fn absolute(file: PathBuf) -> NamedPath {
        NamedPath {
            file: normal(&file),
        }
    }
}

/// Without `.` and `..`, which is right because what a path leads to is looked at by its canonical path, too.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// A path, resolved.
#[derive(Debug)]
pub struct ResolvedPath {
    /// The canonical path.
    pub real: PathBuf,
    /// True when a directory of the workspace was passed.
    pub over_workspace: bool,
}

impl ResolvedPath {
    /// Walks a path name by name; `None` when it leads nowhere, or over another user's symlink.
    pub fn to(path: &Path, workspace: &ProgramPlaces) -> Option<ResolvedPath> {
        let mut way = ResolvedPath {
            real: PathBuf::from("/"),
            over_workspace: false,
        };
        let mut names = VecDeque::new();
        paths::put_before(&mut names, path);
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            way.over_workspace |= workspace.holds(&way.real);
            if name == ".." {
                way.real.pop();
                continue;
            }
            let next = way.real.join(&name);
            if let Ok(text) = std::fs::read_link(&next) {
                links += 1;
                if links > MOST_LINKS {
                    return None;
                }
                if text.is_absolute() {
                    way.real = PathBuf::from("/");
                }
                paths::put_before(&mut names, &text);
            } else {
                way.real = next;
            }
        }
        // The descriptor has the last word: it is not led by anybody else's symlinks, nor by a change meanwhile.
        (paths::canonical(path).ok()? == way.real).then_some(way)
    }
}
