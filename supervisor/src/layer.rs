//! Layers that outlive their runs: their place on this host, and what a run may do with one.

use std::path::{Path, PathBuf};

use anyhow::Context;
pub use turnkey_jailer::layer::KeptLayer;
use turnkey_jailer::{JailExit, paths};
use turnkey_policy::{Policy, WorkdirMode};
use turnkey_report::Kept;

use crate::advice;
use crate::directory::RunDirectory;

mod guarded;

pub(crate) use guarded::{GuardedFiles, spoilt};

/// The directory of this caller's named layers: `$XDG_STATE_HOME/turnkey/layers`, or `/var/lib/turnkey/layers` for root and
/// `~/.local/state/turnkey/layers` for others. To be asked before [`enter`](crate::enter), which makes everybody look like root.
///
/// # Errors
/// When the caller has no home.
pub fn directory() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    let state = match variable("XDG_STATE_HOME").filter(absolute) {
        Some(state) => state,
        None if nix::unistd::geteuid().is_root() => PathBuf::from("/var/lib"),
        None => {
            let home = variable("HOME").filter(absolute);
            let home = home.context(
                "there is no place for named layers: HOME is not set; name a directory with --layer DIR",
            )?;
            home.join(".local/state")
        }
    };
    Ok(state.join("turnkey/layers"))
}

/// The directory of a named layer.
///
/// # Errors
/// When the name is none.
pub fn named(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    anyhow::ensure!(
        begins && name.len() <= 64 && name.bytes().all(is_plain),
        "{name:?} is no name of a layer; write up to 64 letters, digits, ., _ and -, beginning with a letter or digit"
    );
    Ok(directory.join(name))
}

/// The named layers, in the order of their names.
///
/// # Errors
/// When the directory cannot be listed.
pub fn list(directory: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("could not list {}", directory.display()))?,
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    Ok(names)
}

/// Makes sure that a run has something to keep, and that no program sees the layer but through its jail's tree.
pub(crate) fn require_apart(
    layer: &KeptLayer,
    policy: &Policy,
    directory: &RunDirectory,
) -> anyhow::Result<()> {
    let filesystem = &policy.filesystem;
    anyhow::ensure!(
        filesystem.workdir.mode == WorkdirMode::Overlay,
        "a layer keeps what was written over the working directory; it needs `--workdir-mode overlay`"
    );
    let given = filesystem.read.iter().chain(&filesystem.write);
    let given =
        given.map(|given| paths::canonical(&given.path).unwrap_or_else(|_| given.path.clone()));
    let shown = given
        .chain(filesystem.root.clone())
        .chain([directory.canonical()?]);
    for shown in shown {
        anyhow::ensure!(
            !layer.place().starts_with(&shown),
            "the layer {} lies in {}, which the jail shows; name a directory elsewhere with --layer DIR",
            layer.path().display(),
            shown.display()
        );
    }
    Ok(())
}

/// Refuses what a run has left that nobody watched to one that is watched: guarded files may be in it by other names.
pub(crate) fn require_watched(layer: &KeptLayer, is_watched: bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        !is_watched || !layer.is_unwatched()?,
        "the layer {} has been written by a run without the monitor, and may hold files that rules guard by other names; \
         go on with --unmonitored, or begin anew: {}",
        layer.path().display(),
        advice::removal(layer)
    );
    Ok(())
}

/// Keeps what the run has written. The program has run and has its own outcome: what fails here is part of the report.
pub(crate) fn keep(layer: &KeptLayer, exit: &JailExit, policy: &Policy, is_watched: bool) -> Kept {
    let saved = exit.keep(layer, policy.limits.disk, is_watched);
    let saved = saved.map(|saved| (saved.files, saved.bytes, saved.left_out));
    Kept::new(
        layer.path(),
        saved.map_err(|error| advice::explained_in_one_line(&error.into())),
    )
}

/// The words on a run whose writes are not kept.
pub(crate) fn refused(layer: &KeptLayer, reason: &str) -> Kept {
    let reason = format!("{reason}, and the layer is as it was before");
    Kept::new(layer.path(), Err(reason))
}
