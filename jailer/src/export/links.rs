//! Files with several names: the first that is written is the file, and the others are hard links to it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::linkat;

use crate::sys;

/// A file's device and inode.
pub type FileId = (u64, u64);

/// The files that may be met again under another name.
#[derive(Default)]
pub struct WrittenFiles(HashMap<FileId, Written>);

/// The copy of such a file.
struct Written {
    /// Relative to the directory that is written to.
    path: CString,
    id: FileId,
}

impl WrittenFiles {
    /// Takes note of the copy at `path` of a file that has other names, and so an identity: [`linked`].
    pub fn note(&mut self, from: Option<FileId>, path: &[u8], made: &FileStat) {
        if let (Some(from), Ok(path)) = (from, CString::new(path)) {
            let written = Written { path, id: id(made) };
            self.0.insert(from, written);
        }
    }

    /// Gives the copy of a file one more name; false when there is no copy of it.
    ///
    /// The first name may have been turned since by another user who can write to the directory, so it is walked without
    /// symlinks, and what is there must be the copy.
    pub fn link(
        &self,
        from: FileId,
        root: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<bool, Errno> {
        let Some(written) = self.0.get(&from) else {
            return Ok(false);
        };
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let copy = sys::open_beneath(root, &written.path, flags, 0)?;
        if id(&fstat(&copy)?) != written.id {
            return Err(Errno::ESTALE);
        }
        let itself = format!("/proc/self/fd/{}", copy.as_fd().as_raw_fd());
        linkat(
            AT_FDCWD,
            itself.as_str(),
            to,
            name,
            AtFlags::AT_SYMLINK_FOLLOW,
        )?;
        Ok(true)
    }
}

/// The identity of a file that has several names.
pub fn linked(stat: &FileStat) -> Option<FileId> {
    (stat.st_nlink > 1).then(|| id(stat))
}

/// The identity of a file.
pub fn id(stat: &FileStat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    const NAME: &CStr = c"twin";

    /// Writes a copy, has others meddle, and gives it another name; the answer with the directory.
    fn linked(meddle: fn(&Path)) -> (Result<bool, Errno>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let place = root.path();
        for directory in ["d", "elsewhere"] {
            fs::create_dir(place.join(directory)).unwrap();
            fs::write(place.join(directory).join("file"), directory).unwrap();
        }
        let source = tempfile::tempdir().unwrap();
        fs::write(source.path().join("file"), "").unwrap();
        fs::hard_link(source.path().join("file"), source.path().join("twin")).unwrap();
        let stat = |path: &Path| fstat(File::open(path).unwrap()).unwrap();
        let from = stat(&source.path().join("file"));
        let mut files = WrittenFiles::default();
        files.note(
            super::linked(&from),
            b"d/file",
            &stat(&place.join("d/file")),
        );
        meddle(place);
        let to = File::open(place).unwrap();
        (files.link(id(&from), to.as_fd(), to.as_fd(), NAME), root)
    }

    #[test]
    fn another_name_is_the_copys() {
        let (answer, root) = linked(|_| {});
        assert_eq!(answer, Ok(true));
        let stat = |name: &str| root.path().join(name).metadata().unwrap();
        assert_eq!(stat("d/file").ino(), stat("twin").ino());
    }

    #[test]
    fn a_first_name_that_was_turned_meanwhile_leads_nowhere() {
        let by_a_symlink = |place: &Path| {
            fs::rename(place.join("d"), place.join("gone")).unwrap();
            symlink("elsewhere", place.join("d")).unwrap();
        };
        let by_another_file = |place: &Path| {
            fs::rename(place.join("elsewhere/file"), place.join("d/file")).unwrap();
        };
        let meddlers: [fn(&Path); 2] = [by_a_symlink, by_another_file];
        for (meddle, refusal) in meddlers.into_iter().zip([Errno::ELOOP, Errno::ESTALE]) {
            let (answer, root) = linked(meddle);
            assert_eq!(answer, Err(refusal));
            assert!(!root.path().join("twin").exists(), "no name was given");
        }
    }
}
