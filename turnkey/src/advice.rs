//! What to say when nothing ran: the chain of causes on one line each, and the fix.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use turnkey_jailer::JailError;

/// The error with its causes, and what would help.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut said = text.clone();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // A transparent error says the same as its cause.
        if cause != said {
            text = format!("{text}\n  because: {cause}");
        }
        said = cause;
    }
    if let Some(fix) = fix(error) {
        text = format!("{text}\n  fix: {fix}");
    }
    text
}

fn fix(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<JailError>()? {
        JailError::NotFound(program) => Some(bring_in(program)),
        _ => None,
    }
}

/// A program that is on the caller's PATH and not in the jail, such as one of pyenv or nvm, needs
/// its whole installation inside.
fn bring_in(program: &str) -> String {
    let Some(path) = on_path(program, std::env::var_os("PATH").as_deref()) else {
        return "the jail holds what the profile's `read` names; install the program, or give its path".into();
    };
    let installation = installation(&path);
    let (read, path) = (installation.display(), path.display());
    format!(
        "on this host it is {path}; bring it in with `--read {read}` and name it by its full path"
    )
}

fn on_path(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path?).map(|directory| directory.join(program));
    candidates
        .filter_map(|candidate| candidate.canonicalize().ok())
        .find(|candidate| candidate.is_file())
}

/// The directory above `bin`, or the one the program is in.
fn installation(program: &Path) -> PathBuf {
    let directory = program.parent().unwrap_or(Path::new("/"));
    let prefix = if directory.ends_with("bin") {
        directory.parent()
    } else {
        None
    };
    prefix.unwrap_or(directory).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_the_caller_would() {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("tool"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nonexistent"), &bin]).unwrap();
        let found = on_path("tool", Some(&path)).unwrap();
        assert_eq!(
            installation(&found),
            directory.path().canonicalize().unwrap()
        );
        assert_eq!(on_path("other", Some(&path)), None);
    }

    #[test]
    fn a_cause_is_not_said_twice() {
        let error = anyhow::Error::from(JailError::Group(never_made()));
        let text = explain(&error);
        assert_eq!(text.matches("could not").count(), 1, "{text}");
        assert!(text.contains("because: "), "{text}");
    }

    fn never_made() -> turnkey_jailer::GroupError {
        let hierarchies = turnkey_jailer::hierarchy::Hierarchies::probe().unwrap();
        let names = turnkey_jailer::groups::GroupNames::new(&hierarchies, "missing/group");
        turnkey_jailer::Groups::create(names).unwrap_err()
    }
}
