//! The directory an export goes to: new or empty, the caller's own, and no symlink.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::stat::Mode;
use nix::unistd::AccessFlags;

use super::into::IntoError;
use crate::rootfs::paths::{self, LastSymlink, PathError};
use crate::sys;

/// The treatment of what is in the directory already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportMode {
    /// The directory is new or empty.
    New,
    /// The export comes beside what is there, all of it or nothing.
    Into {
        /// Files come in the place of files of the same name, which else keep all of it away.
        replaces: bool,
    },
}

/// The directory that an export will go to. Checked before the run, made after it, so that a run that fails or
/// is killed leaves no directory behind.
#[derive(Debug)]
pub struct ExportDestination {
    parent: OwnedFd,
    name: CString,
    path: PathBuf,
    place: PathBuf,
    mode: ExportMode,
}

/// The reason why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The path ends in nothing that can be made.
    #[error("{} names no directory of its own; give it a name", .0.display())]
    NoName(PathBuf),
    /// The place exists and is not a directory.
    #[error("{} is no directory, or a symlink to one; name a directory that is empty or not there yet", .0.display())]
    NoDirectory(PathBuf),
    /// The directory is not empty.
    #[error("{} is not empty; name a directory that is empty or not there yet, or use --export-into for one that is not", .0.display())]
    NotEmpty(PathBuf),
    /// The directory's owner could put things into it meanwhile.
    #[error("{} belongs to another user; name a directory that is not there yet", .0.display())]
    Foreign(PathBuf),
    /// The way to it cannot be walked, or another user could turn it elsewhere.
    #[error("could not use {} as the directory to export to", .0.display())]
    Above(PathBuf, #[source] PathError),
    /// The export could not come beside what is there.
    #[error("could not export into {}", .0.display())]
    Into(PathBuf, #[source] IntoError),
    /// Any other error of the system.
    #[error("could not use {} as the directory to export to", .0.display())]
    System(PathBuf, #[source] Errno),
    /// The workspace took no writes.
    #[error(
        "there is nothing to export: the working directory is no overlay; use `--workdir-mode overlay`"
    )]
    NoOverlay,
}

impl ExportDestination {
    /// Makes sure, as far as that can be known now, that an export can go to `path`.
    ///
    /// # Errors
    /// When it is neither a directory of the caller, empty where it has to be, nor a name that can be made.
    pub fn check(path: &Path, mode: ExportMode) -> Result<ExportDestination, DestinationError> {
        let failed = |errno| DestinationError::System(path.to_owned(), errno);
        let is_above = |error| DestinationError::Above(path.to_owned(), error);
        // As of `.` and `..`, which are directories of their own by another name.
        let named = match path.file_name() {
            Some(_) => path.to_owned(),
            None => paths::canonical(path).map_err(is_above)?,
        };
        let last = named.file_name().unwrap_or_default();
        let name = Some(last)
            .filter(|name| !name.is_empty())
            .and_then(|name| CString::new(name.as_bytes()).ok())
            .ok_or_else(|| DestinationError::NoName(path.to_owned()))?;
        let above = match named.parent() {
            Some(above) if above != Path::new("") => above,
            _ => Path::new("."),
        };
        let parent = paths::open(above, LastSymlink::Follow).map_err(is_above)?;
        let place = paths::place_of(&parent).map_err(failed)?;
        let destination = ExportDestination {
            place: place.join(last),
            parent,
            name,
            path: path.to_owned(),
            mode,
        };
        match destination.open_existing() {
            Err(DestinationError::System(_, Errno::ENOENT)) => {
                destination.require_writable_parent()
            }
            other => other.map(drop),
        }?;
        Ok(destination)
    }

    /// The treatment of what is there.
    #[must_use]
    pub fn mode(&self) -> ExportMode {
        self.mode
    }

    pub(super) fn refused(&self, error: IntoError) -> DestinationError {
        DestinationError::Into(self.path.clone(), error)
    }

    /// The path at which the directory lies or will lie, without any symlink.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The directory, made when it is not there.
    pub(super) fn open(&self) -> Result<OwnedFd, DestinationError> {
        match nix::sys::stat::mkdirat(&self.parent, self.name.as_c_str(), Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => self.open_existing(),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn open_existing(&self) -> Result<OwnedFd, DestinationError> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = sys::open_beneath(self.parent.as_fd(), &self.name, flags, 0);
        let directory = opened.map_err(|errno| match errno {
            Errno::ENOTDIR | Errno::ELOOP => DestinationError::NoDirectory(self.path.clone()),
            other => self.failed(other),
        })?;
        let stat = nix::sys::stat::fstat(&directory).map_err(|errno| self.failed(errno))?;
        if stat.st_uid != nix::unistd::geteuid().as_raw() {
            return Err(DestinationError::Foreign(self.path.clone()));
        }
        if self.mode == ExportMode::New
            && holds_something(directory.as_fd()).map_err(|errno| self.failed(errno))?
        {
            return Err(DestinationError::NotEmpty(self.path.clone()));
        }
        Ok(directory)
    }

    fn require_writable_parent(&self) -> Result<(), DestinationError> {
        let access = AccessFlags::W_OK | AccessFlags::X_OK;
        let itself = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&self.parent)
        );
        nix::unistd::faccessat(AT_FDCWD, itself.as_str(), access, AtFlags::AT_EACCESS)
            .map_err(|errno| self.failed(errno))
    }

    fn failed(&self, errno: Errno) -> DestinationError {
        DestinationError::System(self.path.clone(), errno)
    }
}

fn holds_something(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(!super::walk::names(directory, 1)?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use turnkey_expectations::expected;

    #[test]
    fn a_new_directory_is_made_late_and_for_the_caller_alone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("out");
        let destination = ExportDestination::check(&path, ExportMode::New).unwrap();
        assert!(!path.exists());
        destination.open().unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // The same again: it is there now, and empty.
        destination.open().unwrap();
    }

    #[test]
    fn a_directory_without_a_name_of_its_own_is_found_by_its_place() {
        let above = tempfile::tempdir().unwrap();
        let inner = above.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let into = ExportMode::Into { replaces: false };
        let destination = ExportDestination::check(&inner.join(".."), into).unwrap();
        let place = above.path().canonicalize().unwrap();
        assert_eq!(destination.place(), place);
        let opened = destination.open().unwrap();
        assert_eq!(paths::place_of(&opened).unwrap(), place);
    }

    #[test]
    fn what_is_full_or_leads_elsewhere_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let (full, link, file) = (
            above.path().join("full"),
            above.path().join("link"),
            above.path().join("file"),
        );
        std::fs::create_dir_all(full.join("inner")).unwrap();
        symlink("/etc", &link).unwrap();
        std::fs::write(&file, "").unwrap();
        let refused = |path: &Path| ExportDestination::check(path, ExportMode::New).unwrap_err();
        assert!(matches!(refused(&full), DestinationError::NotEmpty(_)));
        assert!(matches!(refused(&link), DestinationError::NoDirectory(_)));
        assert!(matches!(refused(&file), DestinationError::NoDirectory(_)));
        assert!(matches!(
            refused(Path::new("/")),
            DestinationError::NoName(_)
        ));
        let missing = above.path().join("missing/out");
        assert!(matches!(
            refused(&missing),
            DestinationError::Above(_, PathError::System(Errno::ENOENT))
        ));
    }

    expected!(
        a_way_that_another_user_bends_is_refused: as_root,
        "act as another user, or make files of another's"
    );
    #[test]
    fn a_way_that_another_user_bends_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (above, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = above.path().join("link");
        symlink(victim.path(), &link).unwrap();
        let path = link.join("out");
        assert!(
            ExportDestination::check(&path, ExportMode::New).is_ok(),
            "the control"
        );
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        let refused = ExportDestination::check(&path, ExportMode::New).unwrap_err();
        assert!(matches!(
            refused,
            DestinationError::Above(_, PathError::Foreign)
        ));
    }

    #[test]
    fn a_symlink_that_appears_meanwhile_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        let path = above.path().join("out");
        let destination = ExportDestination::check(&path, ExportMode::New).unwrap();
        symlink(victim.path(), &path).unwrap();
        let refused = destination.open().unwrap_err();
        assert!(matches!(refused, DestinationError::NoDirectory(_)));
    }
}
