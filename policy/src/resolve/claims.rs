//! Claims of a profile's paths on the jail's file system, and collisions of two claims.
//!
//! Nothing here looks at a disk; the jailer builds the tree without following a name twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use crate::WORKSPACE;
use crate::error::{Problem, TextSpan};
use crate::model::WorkdirMode;
use crate::profile::ParsedProfile;

/// Folders of the jail that are its own from top to bottom.
const OWN_FOLDERS: &[(&str, &str)] = &[
    ("/proc", "the jail has a fresh one of its own"),
    ("/dev", "the jail has a minimal one of its own"),
    (WORKSPACE, "the caller's directory appears there"),
];

/// Files that the jailer writes for each jail.
const OWN_FILES: &[&str] = &["/etc/group", "/etc/hostname", "/etc/hosts", "/etc/passwd"];

/// One path that a profile puts into the jail's tree.
struct PathClaim<'p> {
    key: &'static str,
    path: &'p Path,
    at: &'p TextSpan,
}

/// Reports every path that cannot be where it was put.
pub(super) fn check(profile: &ParsedProfile, problems: &mut Vec<Problem>) {
    let (refused, given): (Vec<_>, Vec<_>) = given_paths(profile)
        .into_iter()
        .partition(|claim| check_own(claim).is_some());
    problems.extend(refused.iter().filter_map(check_own));
    let mut claims: BTreeMap<&Path, &PathClaim<'_>> = BTreeMap::new();
    for claim in &given {
        match claims.entry(claim.path) {
            Entry::Occupied(twin) => problems.push(twice(twin.get(), claim)),
            Entry::Vacant(place) => {
                place.insert(claim);
            }
        }
    }
    for decoy in &profile.filesystem.decoys {
        let decoy = PathClaim {
            key: "filesystem.decoys",
            path: &decoy.value,
            at: &decoy.at,
        };
        if is_in_workspace(decoy.path) {
            problems.extend(check_workspace(profile, &decoy));
            continue;
        }
        problems.extend(check_own(&decoy));
        let mut above = decoy.path.ancestors();
        let covering = above.find_map(|above| claims.get(above));
        // What lies in a directory stands right behind it.
        let next = claims.range(decoy.path..).next();
        let below = next.filter(|(path, _)| path.starts_with(decoy.path));
        let covering = covering.or(below.map(|(_, claim)| claim));
        problems.extend(covering.map(|covering| covered_decoy(&decoy, covering)));
    }
}

fn is_in_workspace(path: &Path) -> bool {
    path.starts_with(WORKSPACE) && path != Path::new(WORKSPACE)
}

/// A decoy in the workspace lands where the program's own writes do.
fn check_workspace(profile: &ParsedProfile, decoy: &PathClaim<'_>) -> Option<Problem> {
    let workdir = profile.filesystem.workdir.mode.as_ref()?;
    if workdir.value != WorkdirMode::ReadOnly {
        return None;
    }
    let path = decoy.path.display();
    let message = format!("the decoy {path} cannot be planted in a read-only working directory");
    let problem = Problem::new(message).help("use the mode \"overlay\", or plant it elsewhere");
    Some(
        problem
            .with_label(decoy.at, "planted here")
            .with_label(&workdir.at, "read-only here"),
    )
}

fn given_paths(profile: &ParsedProfile) -> Vec<PathClaim<'_>> {
    let read = profile
        .filesystem
        .read
        .iter()
        .map(|entry| ("filesystem.read", entry.value.place(), &entry.at));
    let write = profile
        .filesystem
        .write
        .iter()
        .map(|entry| ("filesystem.write", entry.value.place(), &entry.at));
    let scratch = profile
        .filesystem
        .scratch
        .iter()
        .map(|entry| ("filesystem.scratch", &entry.value.path, &entry.at));
    let all = read.chain(write).chain(scratch);
    all.map(|(key, path, at)| PathClaim { key, path, at })
        .collect()
}

/// A claim on what the jail makes by itself.
fn check_own(claim: &PathClaim<'_>) -> Option<Problem> {
    let PathClaim { key, path, at } = claim;
    let shown = path.display();
    if let Some((folder, why)) = OWN_FOLDERS
        .iter()
        .find(|(folder, _)| path.starts_with(folder))
    {
        let problem = Problem::new(format!("`{key}`: nothing can be put at {shown}"));
        return Some(
            problem
                .help(format!("{folder}: {why}"))
                .with_label(at, "here"),
        );
    }
    let own = OWN_FILES
        .iter()
        .find(|file| Path::new(file).starts_with(path))?;
    let (problem, help) = match Path::new(own) == *path {
        true => (
            format!("`{key}`: {shown} is a file that the jail makes itself"),
            "leave it out: every jail has one of its own; where the host's content is needed, put a copy into the workspace".to_owned(),
        ),
        false => (
            format!("`{key}`: {shown} would cover {own}, which the jail makes itself"),
            "give the jail the paths below it that are needed, one by one".to_owned(),
        ),
    };
    let problem = Problem::new(problem);
    Some(problem.help(help).with_label(at, "here"))
}

fn twice(earlier: &PathClaim<'_>, later: &PathClaim<'_>) -> Problem {
    let path = later.path.display();
    let problem = Problem::new(format!(
        "{path} is in `{}` and in `{}`",
        earlier.key, later.key
    ));
    problem
        .help("decide for one of them")
        .with_label(later.at, "and here")
}

fn covered_decoy(decoy: &PathClaim<'_>, given: &PathClaim<'_>) -> Problem {
    let (path, covering) = (decoy.path.display(), given.path.display());
    Problem::new(format!(
        "the decoy {path} collides with {covering} of `{}`",
        given.key
    ))
    .help("a decoy stands where the jail has nothing else; give the jail less, or move the decoy")
    .with_label(given.at, "given here")
}
