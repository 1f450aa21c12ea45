//! Whatever a directory of the host does not show to everybody, where its owner appears as the jail's user. What others may not use at
//! all is absent. A view without the translation covers what they may use and not read, and what leads to another mount of the jail:
//! it stays as it is for anybody else. So does one over what is mounted there, which an overlay does not show.
//!
//! Runs as: the supervisor, in the host's namespaces, with its full privileges.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::fstat;

use super::private::{self, PrivateFiles, is_directory};
use super::{ReplayStep, RootfsError, attach, failed, paths, relative, view};
use crate::host::kernel;
use crate::host::storage::mounts_below;
use crate::sys;

/// The attributes of a view of the host that nobody changes.
pub(super) const CLOSED: u64 =
    kernel::MOUNT_ATTR_RDONLY | kernel::MOUNT_ATTR_NOSUID | kernel::MOUNT_ATTR_NODEV;

/// Whatever of a directory does not show as its owner has it.
pub(super) struct Covers {
    /// Mounts over it.
    pub views: Vec<ReplayStep>,
    /// Names that are not there, relative to the directory.
    pub absent: Vec<PathBuf>,
}

/// The covers of what lies in `directory`, which is `source` on the host and at `path` in the jail, where these places are
/// `used`.
pub(super) fn over(
    directory: BorrowedFd<'_>,
    source: &Path,
    path: &Path,
    used: &[PathBuf],
) -> Result<Covers, RootfsError> {
    let inside = |place: &PathBuf| place.strip_prefix(path).ok().map(Path::to_owned);
    let used = used.iter().filter_map(inside).collect();
    let PrivateFiles {
        used: mut covered,
        unused: absent,
    } = private::search(directory, source, used)?;
    for place in mounted_in(directory, source)? {
        let is_hidden = absent.iter().any(|known| place.starts_with(known));
        if !is_hidden && !covered.iter().any(|(known, _)| place.starts_with(known)) {
            let opened = sys::open_beneath(directory, &relative(&place), libc::O_PATH, 0);
            match opened {
                Ok(opened) => covered.push((place, opened)),
                // Hidden by another mount, and so from the jail.
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(errno) => return Err(failed("open", &source.join(place))(errno)),
            }
        }
    }
    let cover = |(place, opened): (PathBuf, OwnedFd)| {
        let kind = fstat(&opened).map_err(failed("look at", source))?;
        let mount = view(&opened, &source.join(&place), is_directory(&kind), CLOSED)?;
        Ok(attach(mount, &path.join(place)))
    };
    let views: Result<_, _> = covered.into_iter().map(cover).collect();
    Ok(Covers {
        views: views?,
        absent,
    })
}

/// The outermost mount points below a directory, relative to it.
fn mounted_in(directory: BorrowedFd<'_>, source: &Path) -> Result<Vec<PathBuf>, RootfsError> {
    let copy = directory.try_clone_to_owned();
    let copy = copy.map_err(|_| failed("look at", source)(Errno::EMFILE))?;
    let place = paths::place_of(&copy).map_err(failed("look at", source))?;
    let mut outermost: Vec<PathBuf> = Vec::new();
    for mounted in mounts_below(&place) {
        let Ok(inside) = mounted.strip_prefix(&place) else {
            continue;
        };
        if !outermost.iter().any(|known| inside.starts_with(known)) {
            outermost.push(inside.to_owned());
        }
    }
    Ok(outermost)
}
