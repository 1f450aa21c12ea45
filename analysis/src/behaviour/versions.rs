//! Programs that delete what is kept elsewhere: version controls, and mv(1).

use super::accounts::is_installed;
use super::act::ObservedAct;
use super::process_state::{ObservedProcess, ProcessState, base_name};

/// True for a version control that puts another version of its files in their place: it has the one that goes. What `git clean` deletes it
/// never had.
pub(super) fn keeps_versions(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    const CONTROLS: &[&[u8]] = &[b"git", b"hg", b"jj", b"svn"];
    let is_control = |process: &&ObservedProcess| {
        is_installed(&process.exe) && CONTROLS.contains(&base_name(&process.exe))
    };
    let process = state.process(&act.event.task).filter(is_control);
    process.is_some_and(|process| {
        // `git stash` has kept what it has a `git clean` of its own delete.
        let stashes = || {
            let parent = process.parent.and_then(|parent| state.by_key(parent));
            let parent = parent.filter(is_control);
            parent.is_some_and(|parent| order(&parent.argv) == Some(b"stash"))
        };
        !matches!(order(&process.argv), Some(b"clean" | b"purge")) || stashes()
    }) || moves(act, state)
}

/// True for mv(1), which copies what a rename does not take to another file system, or out of a directory from before the run, and
/// deletes it then.
fn moves(act: &ObservedAct<'_>, state: &ProcessState) -> bool {
    let process = state.process(&act.event.task);
    process.is_some_and(|process| is_installed(&process.exe) && base_name(&process.exe) == b"mv")
}

/// The order of a version control: its first argument that is neither an option nor the value of one.
fn order(argv: &[Vec<u8>]) -> Option<&[u8]> {
    /// Options of git, hg and jj with a value behind them.
    const TAKES: &[&[u8]] = &[
        b"-C",
        b"-c",
        b"-R",
        b"--cwd",
        b"--git-dir",
        b"--work-tree",
        b"--namespace",
        b"--repository",
    ];
    let mut words = argv.iter().skip(1).map(Vec::as_slice);
    while let Some(word) = words.next() {
        if TAKES.contains(&word) {
            words.next();
        } else if !word.starts_with(b"-") {
            return Some(word);
        }
    }
    None
}
