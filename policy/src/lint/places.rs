//! Places that the jail can write to and that hold what it is judged by.

use std::path::{Path, PathBuf};

use super::{Lint, LintFinding};
use crate::error::{Located, Problem};
use crate::profile::ParsedProfile;
use crate::tables::HostPath;

pub(super) fn own_profile(
    profile: &ParsedProfile,
    files: &[PathBuf],
    known_as: &dyn Fn(&Path) -> Vec<PathBuf>,
) -> Vec<LintFinding> {
    let held = |entry: &Located<HostPath>| {
        let places = known_as(&entry.value.path);
        let file = files.iter().find(|file| {
            let names = known_as(file);
            names
                .iter()
                .any(|name| places.iter().any(|place| name.starts_with(place)))
        })?;
        Some(finding(entry, file))
    };
    profile.filesystem.write.iter().filter_map(held).collect()
}

fn finding(entry: &Located<HostPath>, file: &Path) -> LintFinding {
    let (place, file) = (entry.value.path.display(), file.display());
    LintFinding {
        lint: Lint::OwnProfileWritable,
        why: "the program could rewrite the rules of its next run".to_owned(),
        problem: Problem::new(format!(
            "the jail can write to {place}, which holds the profile {file}"
        ))
        .help("keep the profile elsewhere, or give the jail only the directory below that it needs")
        .with_label(&entry.at, "writable on the host"),
    }
}
