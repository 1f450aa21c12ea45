//! An export into a directory that holds files already: all of it, or nothing.
//!
//! It is written beside first, into a directory of its own in the destination, so on the same file system, and then renamed to its
//! place entry by entry, each by renameat2(2) without replacing, or as an exchange. The first failure undoes what was renamed.
//!
//! Another user may write to the destination, or to a directory in it. Every name is used in a directory that is held open, nothing is
//! followed, and what an exchange brings out must be the file that was looked at before.

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, RenameFlags, renameat2};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use turnkey_facts::export::Exported;

use super::walk::names;
use crate::sys;

/// Names that are told of those that are in the way.
const MOST_TOLD: usize = 10;

/// The reason why nothing was put into the directory.
#[derive(Debug, thiserror::Error)]
pub enum IntoError {
    /// Names that are taken.
    #[error("{0}")]
    Taken(TakenNames),
    /// A directory into which files of the export belong.
    #[error(
        "{} is a directory of another user, or another file system; leave it out, or name another directory", .0.display()
    )]
    Foreign(PathBuf),
    /// The directory for what is written beside.
    #[error("could not write beside what is there")]
    Stage(#[source] Errno),
    /// A rename, and everything is as it was.
    #[error("could not put {} in its place, and everything is as it was before", .0.display())]
    Rename(PathBuf, #[source] Errno),
    /// A rename, and not everything is as it was.
    #[error(
        "could not put {} in its place, and another user changed the directory meanwhile: what was there before, or should be, is in {}", .0.display(), .1.display()
    )]
    Torn(PathBuf, PathBuf),
}

/// Names of the export that the directory has already.
#[derive(Debug, Default)]
pub struct TakenNames {
    first: Vec<PathBuf>,
    more: usize,
    /// All of them are files, in the place of files.
    can_be_replaced: bool,
}

impl fmt::Display for TakenNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first.iter().map(|path| format!("{path:?}"));
        let first: Vec<String> = first.collect();
        let more = match self.more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let fix = match self.can_be_replaced {
            true => "; --export-replace replaces them",
            false => {
                ", and not all are files in the place of files; remove them, or name another directory"
            }
        };
        write!(
            formatter,
            "these are there already: {}{more}{fix}",
            first.join(", ")
        )
    }
}

/// A file, as it is told from others.
type FileId = (u64, u64);

/// One rename to the destination.
struct Move {
    from: Rc<OwnedFd>,
    to: Rc<OwnedFd>,
    name: CString,
    /// The entry that comes.
    new: FileId,
    /// The file in whose place it comes.
    old: Option<FileId>,
    /// Relative to the destination.
    path: PathBuf,
}

/// Has `write` fill a directory beside, and puts all that is in it into the destination. Where something that was asked for stayed
/// behind, nothing is put there.
pub(super) fn export(
    destination: &OwnedFd,
    replaces: bool,
    write: impl FnOnce(&OwnedFd) -> Exported,
) -> Result<Exported, IntoError> {
    let mut stage = Stage::new(destination).map_err(IntoError::Stage)?;
    let written = write(&stage.directory);
    if written.lost {
        return Ok(written.put_nowhere());
    }
    let plan = MovePlan::new(&stage.directory, destination, replaces)?;
    if !plan.taken.first.is_empty() {
        return Err(IntoError::Taken(plan.taken));
    }
    apply(&plan.moves, &mut stage)?;
    Ok(written)
}

struct MovePlan {
    replaces: bool,
    moves: Vec<Move>,
    taken: TakenNames,
}

impl MovePlan {
    /// The renames that bring all of `stage` into `destination`; none is done.
    fn new(stage: &OwnedFd, destination: &OwnedFd, replaces: bool) -> Result<MovePlan, IntoError> {
        let mut plan = MovePlan {
            replaces,
            moves: Vec::new(),
            taken: TakenNames {
                can_be_replaced: true,
                ..TakenNames::default()
            },
        };
        let shared = |directory| copy(directory).map(Rc::new).map_err(IntoError::Stage);
        plan.directory(&shared(stage)?, &shared(destination)?, Path::new(""))?;
        Ok(plan)
    }

    fn directory(
        &mut self,
        from: &Rc<OwnedFd>,
        to: &Rc<OwnedFd>,
        path: &Path,
    ) -> Result<(), IntoError> {
        let failed = |errno| IntoError::Rename(path.to_owned(), errno);
        let mut names = names(from.as_fd(), usize::MAX).map_err(failed)?;
        names.sort_unstable();
        for name in names {
            self.entry(from, to, &name, &path.join(os(&name)))?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &Rc<OwnedFd>,
        to: &Rc<OwnedFd>,
        name: &CStr,
        path: &Path,
    ) -> Result<(), IntoError> {
        let failed = |errno| IntoError::Rename(path.to_owned(), errno);
        let new = look(from, name).map_err(failed)?;
        let old = match look(to, name) {
            Err(Errno::ENOENT) => None,
            other => Some(other.map_err(failed)?),
        };
        let is_directory = |stat: &FileStat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
        if let Some(old) = &old {
            if is_directory(&new) && is_directory(old) {
                let from = open(from, name).map_err(failed)?;
                let to = open(to, name).map_err(|_| IntoError::Foreign(path.to_owned()))?;
                if !is_own(&to).map_err(failed)? {
                    return Err(IntoError::Foreign(path.to_owned()));
                }
                return self.directory(&Rc::new(from), &Rc::new(to), path);
            }
            let kind = old.st_mode & libc::S_IFMT;
            let is_replaceable =
                !is_directory(&new) && matches!(kind, libc::S_IFREG | libc::S_IFLNK);
            if !self.replaces || !is_replaceable {
                self.taken.note(path, is_replaceable);
                return Ok(());
            }
        }
        self.moves.push(Move {
            from: Rc::clone(from),
            to: Rc::clone(to),
            name: name.to_owned(),
            new: id(&new),
            old: old.as_ref().map(id),
            path: path.to_owned(),
        });
        Ok(())
    }
}

impl TakenNames {
    fn note(&mut self, path: &Path, is_replaceable: bool) {
        self.can_be_replaced &= is_replaceable;
        if self.first.len() < MOST_TOLD {
            self.first.push(path.to_owned());
        } else {
            self.more += 1;
        }
    }
}

/// Does all of it, or undoes what was done.
fn apply(moves: &[Move], stage: &mut Stage<'_>) -> Result<(), IntoError> {
    for (index, step) in moves.iter().enumerate() {
        let Err(errno) = step.apply() else {
            continue;
        };
        let undone = moves[..index].iter().rev().map(Move::undo);
        // Each is tried, whatever came of the one before.
        let failures = undone.filter(Result::is_err).count();
        if failures > 0 || errno == TORN {
            stage.stays = true;
            return Err(IntoError::Torn(step.path.clone(), stage.path()));
        }
        return Err(IntoError::Rename(step.path.clone(), errno));
    }
    Ok(())
}

/// The answer of an exchange that brought out another file and could not be undone.
const TORN: Errno = Errno::ENOTRECOVERABLE;

impl Move {
    fn apply(&self) -> Result<(), Errno> {
        let Some(old) = self.old else {
            return self.rename(&self.from, &self.to, RenameFlags::RENAME_NOREPLACE);
        };
        self.rename(&self.from, &self.to, RenameFlags::RENAME_EXCHANGE)?;
        if look(&self.from, &self.name).is_ok_and(|stat| id(&stat) == old) {
            return Ok(());
        }
        self.undo().map_err(|_| TORN)?;
        Err(Errno::ESTALE)
    }

    /// Takes back what came, if it is still that.
    fn undo(&self) -> Result<(), Errno> {
        let is_new =
            |directory| look(directory, &self.name).is_ok_and(|stat| id(&stat) == self.new);
        if !is_new(&self.to) {
            return Err(Errno::ESTALE);
        }
        let flags = match self.old {
            Some(_) => RenameFlags::RENAME_EXCHANGE,
            None => RenameFlags::RENAME_NOREPLACE,
        };
        self.rename(&self.to, &self.from, flags)?;
        // Of another user, who was faster: it goes back, and nothing of it is removed.
        if !is_new(&self.from) {
            let _ = self.rename(&self.from, &self.to, flags);
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    fn rename(&self, from: &OwnedFd, to: &OwnedFd, flags: RenameFlags) -> Result<(), Errno> {
        let name = self.name.as_c_str();
        renameat2(from, name, to, name, flags)
    }
}

/// The directory for what is written beside, which nobody else can enter; removed with all that is left in it.
struct Stage<'d> {
    destination: &'d OwnedFd,
    name: CString,
    directory: OwnedFd,
    /// True when it holds what could not be put back.
    stays: bool,
}

impl<'d> Stage<'d> {
    fn new(destination: &'d OwnedFd) -> Result<Stage<'d>, Errno> {
        const TRIES: u32 = 100;
        for number in 0..TRIES {
            let name = format!(".turnkey-export-{}-{number}", std::process::id());
            let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
            match mkdirat(destination, name.as_c_str(), Mode::S_IRWXU) {
                Err(Errno::EEXIST) => continue,
                made => made?,
            }
            let directory = open(destination, &name)?;
            let stat = fstat(&directory)?;
            // Whoever turned the name meanwhile keeps what they put there.
            if !is_own(&directory)?
                || stat.st_mode & 0o777 != 0o700
                || !names(directory.as_fd(), 1)?.is_empty()
            {
                return Err(Errno::ESTALE);
            }
            return Ok(Stage {
                destination,
                name,
                directory,
                stays: false,
            });
        }
        Err(Errno::EEXIST)
    }

    fn path(&self) -> PathBuf {
        let above = crate::rootfs::paths::place_of(self.destination).unwrap_or_default();
        above.join(os(&self.name))
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        clear(&self.directory);
        let is_it = |stat: FileStat| fstat(&self.directory).is_ok_and(|own| id(&own) == id(&stat));
        if look(self.destination, &self.name).is_ok_and(is_it) {
            let _ = unlinkat(
                self.destination,
                self.name.as_c_str(),
                UnlinkatFlags::RemoveDir,
            );
        }
    }
}

/// Removes all that is in a directory, as far as it can be.
fn clear(directory: &OwnedFd) {
    for name in names(directory.as_fd(), usize::MAX).unwrap_or_default() {
        if unlinkat(directory, name.as_c_str(), UnlinkatFlags::NoRemoveDir).is_ok() {
            continue;
        }
        if let Ok(inner) = open(directory, &name) {
            clear(&inner);
        }
        let _ = unlinkat(directory, name.as_c_str(), UnlinkatFlags::RemoveDir);
    }
}

fn look(directory: &OwnedFd, name: &CStr) -> Result<FileStat, Errno> {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

fn open(directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    sys::open_on_same_mount(directory.as_fd(), name, flags)
}

fn is_own(directory: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstat(directory)?.st_uid == nix::unistd::geteuid().as_raw())
}

fn copy(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    directory.try_clone().map_err(|_| Errno::EMFILE)
}

fn id(stat: &FileStat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

fn os(name: &CStr) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())
}

#[cfg(test)]
#[path = "into/tests.rs"]
mod tests;
