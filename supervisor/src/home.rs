//! The contents of the program's home when the run begins, for rules on what is present.
//!
//! The home is the caller's directory in most runs, and what it holds is looked at by name alone, on the host: nothing is
//! opened. What cannot be looked at counts as there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::directory::RunDirectory;
use turnkey_policy::{Beginning, Policy, WORKSPACE, WorkdirMode};

/// Settles what the rules on what is present say nothing about, for a run in `directory`, under every name of the workspace.
pub fn settle(policy: &mut Policy, directory: &RunDirectory) {
    let (workdir, layer) = (directory.named(), directory.layer.as_deref());
    let caller = directory.environment.get("HOME").map(PathBuf::from);
    let homes = policy.homes(caller.as_deref());
    let places = Places::from_policy(policy, workdir);
    // What earlier runs have left is as much there as what the host has.
    let kept = layer.map(|layer| {
        let content = layer.join("content").join("%2Fworkspace");
        Places(names(policy).map(|name| (name, content.clone())).collect())
    });
    policy.settle_home(&homes, &|asked| {
        places.hold(asked) || kept.as_ref().is_some_and(|kept| kept.hold(asked))
    });
    if kept.is_none()
        && let Some(lacks) = look(policy, workdir, &homes)
    {
        if lacks.guarded {
            policy.settle_lacking_workspace(lacks.linked);
        }
        if lacks.run_later && !has_a_home(workdir, caller.as_deref()) {
            policy.settle_workspace_of_no_home(lacks.linked, &homes);
        }
    }
    policy.settle_workspace();
}

/// Most entries of a workspace that are looked at: it takes some milliseconds.
const MOST_ENTRIES: usize = 4096;

/// True for what the workspace has nothing of, and for symlinks when it has some.
#[derive(Clone, Copy, Debug)]
struct WorkspaceLacks {
    /// Of what rules on what is present guard.
    guarded: bool,
    /// Of what is run later, but for that of the program's homes.
    run_later: bool,
    linked: bool,
}

/// Looks for what rules on what is present speak of, at any depth of the workspace. `None`: something of each is there, or not all could
/// be looked at.
fn look(policy: &Policy, workdir: &Path, homes: &[PathBuf]) -> Option<WorkspaceLacks> {
    let mut lacks = WorkspaceLacks {
        guarded: true,
        run_later: true,
        linked: false,
    };
    if policy.filesystem.workdir.mode == WorkdirMode::None {
        return Some(lacks);
    }
    let names: Vec<PathBuf> = names(policy).collect();
    let (mut seen, mut next) = (0, vec![PathBuf::new()]);
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(workdir.join(&directory)).ok()? {
            let entry = entry.ok()?;
            let kind = entry.file_type().ok()?;
            let path = directory.join(entry.file_name());
            for name in &names {
                let path = name.join(&path);
                let path = path.as_os_str().as_bytes();
                lacks.guarded &= !policy.guards(path);
                lacks.run_later &= !policy.is_run_later(path, homes);
            }
            seen += 1;
            if seen > MOST_ENTRIES || !lacks.guarded && !lacks.run_later {
                return None;
            }
            lacks.linked |= kind.is_symlink();
            next.extend(kind.is_dir().then_some(path));
        }
    }
    Some(lacks)
}

/// True when the workspace is around somebody's home, who would run what is put there.
fn has_a_home(workdir: &Path, caller: Option<&Path>) -> bool {
    let Ok(workdir) = workdir.canonicalize() else {
        return true;
    };
    let homes = accounts().into_iter().map(|(_, home)| home);
    let mut homes = homes.chain(caller.map(PathBuf::from));
    homes.any(|home| {
        let home = home.canonicalize().unwrap_or(home);
        home != workdir && home.starts_with(&workdir)
    })
}

/// The users that passwd(5) has, each with the home.
#[expect(clippy::disallowed_methods, reason = "a file of root's")]
pub(crate) fn accounts() -> Vec<(u32, PathBuf)> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let account = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let user = fields.next()?.parse().ok()?;
        Some((user, PathBuf::from(fields.nth(2)?)))
    };
    text.lines().filter_map(account).collect()
}

/// The paths of the workspace in the jail.
fn names(policy: &Policy) -> impl Iterator<Item = PathBuf> {
    let others = policy.filesystem.names.iter().cloned();
    std::iter::once(PathBuf::from(WORKSPACE)).chain(others)
}

/// Directories and files of the jail, each with what of the host stands there.
struct Places(Vec<(PathBuf, PathBuf)>);

impl Places {
    fn from_policy(policy: &Policy, workdir: &Path) -> Self {
        let filesystem = &policy.filesystem;
        let given = filesystem.read.iter().chain(&filesystem.write);
        let given = given.map(|one| (one.place().clone(), one.path.clone()));
        let root = filesystem.root.iter();
        let root = root.map(|root| (PathBuf::from("/"), root.clone()));
        let has_own = filesystem.workdir.mode != WorkdirMode::None;
        let own = names(policy).filter(|_| has_own);
        let own = own.map(|name| (name, workdir.to_owned()));
        Self(root.chain(given).chain(own).collect())
    }

    /// True when any path of the jail begins so.
    fn hold(&self, asked: Beginning<'_>) -> bool {
        let path = Path::new(OsStr::from_bytes(asked.bytes));
        let begins = |place: &Path| {
            let place = place.as_os_str().as_bytes();
            place == asked.bytes || asked.is_open && place.starts_with(asked.bytes)
        };
        if self.0.iter().any(|(place, _)| begins(place)) {
            return true;
        }
        // The deepest place is mounted over the others; of two the later.
        let around = self.0.iter().filter(|(place, _)| path.starts_with(place));
        let Some((place, source)) = around.max_by_key(|(place, _)| place.components().count())
        else {
            return false;
        };
        let rest = &asked.bytes[place.as_os_str().len()..];
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        is_there(source, rest, asked.is_open)
    }
}

/// True when the directory has a file of this name, or any whose name begins so.
fn is_there(directory: &Path, name: &[u8], is_open: bool) -> bool {
    if !is_open {
        let found = directory.join(OsStr::from_bytes(name)).symlink_metadata();
        return !found.is_err_and(|error| is_absence(&error));
    }
    let split = name
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    let (above, start) = name.split_at(split);
    match fs::read_dir(directory.join(OsStr::from_bytes(above))) {
        Err(error) => !is_absence(&error),
        Ok(mut names) => names
            .any(|entry| entry.is_ok_and(|entry| entry.file_name().as_bytes().starts_with(start))),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
