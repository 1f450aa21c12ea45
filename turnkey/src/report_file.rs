//! The file of `--report`: proved writable before anything runs, complete or absent afterwards.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};

/// Where the report goes.
#[derive(Debug)]
pub enum ReportFile {
    /// `-`
    StandardOutput,
    /// A terminal, a pipe, /dev/null: written as it is.
    Special(File),
    /// A regular file: without a name until it is whole, so that even a killed turnkey leaves no
    /// half of one.
    Regular {
        /// Unnamed, in the same directory.
        file: File,
        /// Its name to be.
        path: PathBuf,
    },
}

impl ReportFile {
    /// Makes sure that `path` can be written.
    pub fn open(path: &Path) -> io::Result<ReportFile> {
        if path == Path::new("-") {
            return Ok(ReportFile::StandardOutput);
        }
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Ok(ReportFile::Special(
                OpenOptions::new().write(true).open(path)?,
            ));
        }
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let file = OpenOptions::new()
            .write(true)
            .mode(0o644)
            .custom_flags(nix::libc::O_TMPFILE)
            .open(directory(path))?;
        Ok(ReportFile::Regular {
            file,
            path: path.to_owned(),
        })
    }

    /// Writes it all and, for a regular file, gives it its name.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            ReportFile::StandardOutput => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            ReportFile::Special(mut file) => file.write_all(bytes),
            ReportFile::Regular { mut file, path } => {
                file.write_all(bytes)?;
                publish(&file, &path)
            }
        }
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// open(2), O_TMPFILE: a link of /proc/self/fd names the file. linkat(2) does not replace, so a file
/// that was there is replaced by way of a name of our own.
fn publish(file: &File, path: &Path) -> io::Result<()> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |to: &Path| {
        nix::unistd::linkat(
            AT_FDCWD,
            unnamed.as_str(),
            AT_FDCWD,
            to,
            AtFlags::AT_SYMLINK_FOLLOW,
        )
    };
    match link(path) {
        Err(nix::errno::Errno::EEXIST) => {}
        other => return Ok(other?),
    }
    let beside = directory(path).join(format!(".turnkey-report-{}", std::process::id()));
    link(&beside)?;
    std::fs::rename(&beside, path).inspect_err(|_| {
        // The error of the rename is the one to tell.
        let _ = std::fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_appears_only_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        let report = ReportFile::open(&path).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        report.write(b"{}\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}\n");
    }

    #[test]
    fn an_older_report_is_replaced_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        std::fs::write(&path, "a much longer older report").unwrap();
        ReportFile::open(&path).unwrap().write(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_known_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        assert!(ReportFile::open(directory.path()).is_err());
        assert!(ReportFile::open(&directory.path().join("missing/report.json")).is_err());
    }
}
