//! Subjects: a file by its SHA-256, a directory by that of its manifest.
//!
//! A manifest is a text: the line `turnkey.manifest/v1`, then one line for each entry below the directory, sorted by the bytes of
//! their paths: `file 644 SHA256 PATH`, `file 755 SHA256 PATH` where its owner may execute it, `link - SHA256-OF-TARGET PATH`,
//! `directory - - PATH`. Paths are relative, and escaped as in reports. Owners, times and other bits of modes are not in it.

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use nix::fcntl::OFlag;
use rustix::fs::{FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use turnkey_jailer::paths::{self, LastSymlink};
use turnkey_report::escape;
use turnkey_supervisor::files;

use super::{hex, sha256};

/// The media type of a manifest; a file has none.
const MANIFEST: &str = "application/vnd.turnkey.manifest.v1";
/// Directories in each other; more are nobody's build.
const DEEPEST: usize = 200;

/// A thing that an attestation is about: a ResourceDescriptor of in-toto.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// As it was named, for people.
    pub name: String,
    digest: SubjectDigest,
    #[serde(rename = "mediaType", default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SubjectDigest {
    sha256: String,
}

impl Subject {
    /// A file or a directory, as it is now.
    ///
    /// # Errors
    /// When it cannot be read whole, or something below it is neither file, directory nor symlink.
    pub fn read(path: &Path) -> anyhow::Result<Subject> {
        let told = || format!("the subject {} could not be read", path.display());
        let named = || escape(path.as_os_str().as_encoded_bytes());
        if !path.is_dir() {
            let digest = digest_of(files::open(path).with_context(told)?).with_context(told)?;
            return Ok(Subject::new(named(), digest, None));
        }
        let opened = paths::open(path, LastSymlink::Follow).map_err(anyhow::Error::from);
        let opened = opened.with_context(told)?;
        let directory = nix::fcntl::openat(
            &opened,
            c".",
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            nix::sys::stat::Mode::empty(),
        );
        let mut lines = Vec::new();
        list(&directory.with_context(told)?, Path::new(""), 0, &mut lines).with_context(told)?;
        Ok(Subject::new(
            named(),
            sha256(manifest(lines).as_bytes()),
            Some(MANIFEST),
        ))
    }

    /// The bytes of a file that was read before.
    pub fn of_bytes(path: &Path, bytes: &[u8]) -> Subject {
        let name = escape(path.as_os_str().as_encoded_bytes());
        Subject::new(name, sha256(bytes), None)
    }

    fn new(name: String, sha256: String, media_type: Option<&str>) -> Subject {
        Subject {
            name,
            digest: SubjectDigest { sha256 },
            media_type: media_type.map(str::to_owned),
        }
    }

    /// True when the other is the same thing, under whichever name.
    pub fn is(&self, other: &Subject) -> bool {
        self.digest == other.digest && self.media_type == other.media_type
    }
}

fn digest_of(mut file: File) -> std::io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            length => digest.update(&buffer[..length]),
        }
    }
}

/// An entry by the bytes of its path, and its line without the path.
type ManifestLine = (Vec<u8>, String);

fn manifest(mut lines: Vec<ManifestLine>) -> String {
    lines.sort();
    let lines = lines
        .iter()
        .map(|(path, line)| format!("{line} {}\n", escape(path)));
    std::iter::once("turnkey.manifest/v1\n".to_owned())
        .chain(lines)
        .collect()
}

fn list(
    directory: &OwnedFd,
    below: &Path,
    depth: usize,
    lines: &mut Vec<ManifestLine>,
) -> anyhow::Result<()> {
    ensure!(depth < DEEPEST, "{} is too deep", below.display());
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let path = below.join(OsString::from_vec(name.to_bytes().to_vec()));
        let told = || escape(path.as_os_str().as_bytes());
        let line = match kind(directory, name).with_context(told)? {
            FileType::RegularFile => file_line(directory, name).with_context(told)?,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, name, Vec::new());
                format!("link - {}", sha256(target.with_context(told)?.to_bytes()))
            }
            FileType::Directory => {
                let inner = open(directory, name, OFlags::DIRECTORY).with_context(told)?;
                list(&inner, &path, depth + 1, lines)?;
                "directory - -".to_owned()
            }
            _ => bail!(
                "{} is neither a file, a directory nor a symlink, and no attestation is about such a thing",
                told()
            ),
        };
        lines.push((path.into_os_string().into_vec(), line));
    }
    Ok(())
}

fn kind(directory: &OwnedFd, name: &CStr) -> rustix::io::Result<FileType> {
    let stat = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn file_line(directory: &OwnedFd, name: &CStr) -> anyhow::Result<String> {
    let file = open(directory, name, OFlags::NONBLOCK)?;
    let stat = rustix::fs::fstat(file.as_fd())?;
    // Between the two looks it may have become a FIFO.
    ensure!(
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        "it changed while it was read"
    );
    let mode = match stat.st_mode & 0o100 {
        0 => "644",
        _ => "755",
    };
    Ok(format!("file {mode} {}", digest_of(File::from(file))?))
}

fn open(directory: &OwnedFd, name: &CStr, how: OFlags) -> rustix::io::Result<OwnedFd> {
    let how = how | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, how, Mode::empty())
}

/// The paths of subjects, read.
///
/// # Errors
/// Where one cannot be read.
pub fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Subject>> {
    paths.iter().map(|path| Subject::read(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_manifest_is_the_text_that_its_format_says() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("b")).unwrap();
        std::fs::write(at("b/a\nfile 644"), "x").unwrap();
        std::fs::write(at("b.txt"), "x").unwrap();
        symlink("b.txt", at("link")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(at("b.txt"), mode).unwrap();
        // sha256sum of `x` and of `b.txt`.
        let x = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        let target = sha256(b"b.txt");
        let expected = format!(
            "turnkey.manifest/v1\ndirectory - - b\nfile 755 {x} b.txt\nfile 644 {x} b/a\\nfile 644\nlink - {target} link\n"
        );
        let subject = Subject::read(place.path()).unwrap();
        assert_eq!(subject.digest.sha256, sha256(expected.as_bytes()));
        // A file with that text is another thing.
        assert!(!subject.is(&Subject::of_bytes(place.path(), expected.as_bytes())));
    }

    #[test]
    fn what_is_deployed_differs_when_anything_of_it_does() {
        let make = |change: &dyn Fn(&Path)| {
            let place = tempfile::tempdir().unwrap();
            std::fs::write(place.path().join("run"), "x").unwrap();
            symlink("run", place.path().join("link")).unwrap();
            change(place.path());
            Subject::read(place.path()).unwrap()
        };
        let as_it_was = make(&|_| ());
        assert!(as_it_was.is(&make(&|_| ())), "the same under another name");
        let changes: [&dyn Fn(&Path); 5] = [
            &|at| std::fs::write(at.join("run"), "y").unwrap(),
            &|at| std::fs::write(at.join("more"), "").unwrap(),
            &|at| std::fs::create_dir(at.join("empty")).unwrap(),
            &|at| {
                let mode = std::fs::Permissions::from_mode(0o700);
                std::fs::set_permissions(at.join("run"), mode).unwrap();
            },
            &|at| {
                std::fs::remove_file(at.join("link")).unwrap();
                symlink("/bin/sh", at.join("link")).unwrap();
            },
        ];
        for change in changes {
            assert!(!as_it_was.is(&make(change)));
        }
    }

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&place.path().join("fifo"), mode).unwrap();
        let refused = Subject::read(place.path()).unwrap_err();
        assert!(
            format!("{refused:#}").contains("fifo is neither"),
            "{refused:#}"
        );
    }
}
