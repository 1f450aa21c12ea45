//! Files that turnkey reads and writes for itself: no trap that somebody planted in their place, and
//! nothing that the program could reach.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use turnkey_policy::Policy;

/// A file that the program would be able to change.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} {} lies in {}, which the jail may write: the program could change it; move it elsewhere",
    file.display(), write.display()
)]
pub struct Reachable {
    what: &'static str,
    file: PathBuf,
    write: PathBuf,
}

/// Makes sure that a program cannot write its own next profile, nor the evidence against it.
pub fn require_unreachable(policy: &Policy, events: Option<&Path>) -> Result<(), Reachable> {
    let profiles = policy
        .files
        .iter()
        .map(|file| ("the profile", file.as_path()));
    let files = profiles.chain(events.map(|file| ("the file of --events", file)));
    for (what, file) in files {
        let place = real(file);
        let mut writes = policy.filesystem.write.iter().map(|write| &write.path);
        if let Some(write) = writes.find(|write| place.starts_with(real(write))) {
            return Err(Reachable {
                what,
                file: file.to_owned(),
                write: write.clone(),
            });
        }
    }
    Ok(())
}

/// Without symlinks, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(path);
    let beside = || {
        let above = path.parent().filter(|above| *above != Path::new(""));
        let above = std::fs::canonicalize(above.unwrap_or(Path::new("."))).ok()?;
        Some(above.join(path.file_name()?))
    };
    whole
        .ok()
        .or_else(beside)
        .unwrap_or_else(|| path.to_owned())
}

/// Opens a file to write from its beginning. A symlink is followed to a terminal or a pipe alone,
/// such as /dev/stderr; one that leads to a file, and a file of another user, were put there by
/// somebody who wants it written, or wants to read it.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o644);
    let opened = options
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => follow_to_a_stream(path)?,
        other => other?,
    };
    let metadata = file.metadata()?;
    if metadata.is_file() {
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(refused(
                "it is there already and belongs to another user; remove it",
            ));
        }
        file.set_len(0)?;
    }
    nix::fcntl::fcntl(
        &file,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()),
    )?;
    Ok(file)
}

fn follow_to_a_stream(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    if kind.is_ok_and(|kind| kind.is_char_device() || kind.is_fifo()) {
        return OpenOptions::new().write(true).open(path);
    }
    Err(refused("it is a symlink; name the file itself"))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_emptied_and_a_symlink_to_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "before").unwrap();
        symlink(&file, &link).unwrap();
        assert!(create(&link).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"before");
        create(&file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
        symlink(
            directory.path().join("missing"),
            directory.path().join("dangling"),
        )
        .unwrap();
        assert!(create(&directory.path().join("dangling")).is_err());
        assert!(!directory.path().join("missing").exists());
    }

    #[test]
    fn a_link_to_a_device_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink("/dev/null", &link).unwrap();
        assert!(create(&link).is_ok());
        assert!(create(Path::new("/dev/null")).is_ok());
    }
}
