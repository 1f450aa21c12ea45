//! The folder that programs are pinned in, and the check that it can be trusted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use turnkey_abi::ABI_VERSION;

use crate::object::{JAILS, ObjectFile};
use crate::tier::Tier;

/// The mount point of the BPF file system by convention; `Documentation/bpf/fs`.
const BPF: &str = "/sys/fs/bpf";
const ROOT: &str = "/sys/fs/bpf/turnkey";
/// Mounted without options the file system lets every user make directories in it, also one of this name.
const TAKE_BACK: &str = "rm -r /sys/fs/bpf/turnkey && chmod go-w /sys/fs/bpf";
const TAKE_BACK_ALL: &str =
    "chown root /sys/fs/bpf && chmod go-w /sys/fs/bpf && rm -rf /sys/fs/bpf/turnkey";
/// Between the name of an object and the level of the groups that its programs watch.
const LEVEL: &str = "-level-";
/// The program without which there is no lsm tier: it tells which tier was loaded.
const TIER_PROGRAM: &str = "lsm_file_open";
/// Beginning of the names of folders that are being filled, or emptied.
pub(super) const UNFINISHED: &str = "loading";

/// Errors of using, making or taking away programs that are loaded for all.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// No BPF file system is mounted where it belongs, and it cannot be.
    #[error("no BPF file system can be mounted on {BPF}: mount -t bpf -o mode=0700 bpf {BPF}")]
    NotMounted(#[source] nix::Error),
    /// The mounts of this process leave with it, and no BPF file system is among them.
    #[error(
        "no BPF file system is mounted on {BPF}, and one mounted here would be gone with this process's mounts; in the host's mount namespace: mount -t bpf -o mode=0700 bpf {BPF}"
    )]
    NotLasting,
    /// Another process does not let go of a lock.
    #[error(
        "another turnkey holds {path} for long: if it was stopped, as by Ctrl-Z, let it go on or end it"
    )]
    Busy {
        /// The directory.
        path: String,
    },
    /// Another user than root could have put programs there.
    #[error("{path} is not root's alone ({why}), so what is in it cannot be trusted: {fix}")]
    Untrusted {
        /// The directory.
        path: &'static str,
        /// Wrong with it: its owner and mode.
        why: String,
        /// Commands that make it root's, and keep it so.
        fix: &'static str,
    },
    /// A file of it cannot be used.
    #[error("{path} cannot be used")]
    Pinned {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// As many jails as there can be are alive.
    #[error(
        "{} jails are watched at the same time, and there is no room for another",
        turnkey_abi::SLOTS
    )]
    Full,
}

impl SharedError {
    /// The command that helps, where the error does not name one itself.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let takes_away =
            || "take all programs that are loaded away: turnkey monitor unload".to_owned();
        matches!(self, Self::Pinned { .. }).then(takes_away)
    }

    pub(super) fn pinned(
        path: &Path,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Pinned {
            path: path.display().to_string(),
            source: Box::new(source),
        }
    }
}

/// An error about a file of the folder.
pub(super) fn found<E>(path: &Path) -> impl Fn(E) -> SharedError
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| SharedError::pinned(path, source)
}

/// The folder of one object.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The folder of this object, for jails or for groups at a level; it need not be there.
    pub(super) fn for_object(object: &ObjectFile<'_>, level: u32) -> Self {
        let digest: String = object.digest().chars().take(16).collect();
        let name = format!("{ABI_VERSION}-{digest}");
        Self(root().join(match level {
            JAILS => name,
            level => format!("{name}{LEVEL}{level}"),
        }))
    }

    /// True when its programs watch groups with all below them, which outlive those who watch.
    pub(super) fn is_for_trees(&self) -> bool {
        self.name().contains(LEVEL)
    }

    /// True when it is of the same object as that one, at whatever level.
    pub(super) fn is_of_the_object_of(&self, other: &Folder) -> bool {
        let [own, others] = [self.name(), other.name()];
        own.split(LEVEL).next() == others.split(LEVEL).next()
    }

    /// A folder by its path.
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn name(&self) -> String {
        let name = self.0.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// True when the object is loaded for all. Makes sure that only root can have loaded it.
    pub(super) fn is_there(&self) -> Result<bool, SharedError> {
        Ok(root_is_there()? && self.0.is_dir())
    }

    pub(super) fn maps(&self) -> PathBuf {
        self.0.join("maps")
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.0.join("programs")
    }

    /// The links of jails' programs to the kernel's hooks, and the lock of those links that processes hold.
    pub(super) fn links(&self) -> PathBuf {
        self.0.join("links")
    }

    /// The map of [`super::held`].
    pub(super) fn held(&self) -> PathBuf {
        self.0.join("held")
    }

    /// The links to the group of [`super::anchor`].
    pub(super) fn anchor(&self) -> PathBuf {
        self.0.join("anchor")
    }

    pub(super) fn slots(&self) -> PathBuf {
        self.0.join("slots")
    }

    pub(super) fn tables(&self) -> PathBuf {
        self.0.join("tables")
    }

    pub(super) fn filters(&self) -> PathBuf {
        self.0.join("filters")
    }

    /// The path that the folder gets to be emptied, out of everybody's sight.
    pub(super) fn aside(&self) -> PathBuf {
        let name = self.name();
        self.0.with_file_name(format!("{UNFINISHED}-{name}"))
    }

    /// The name of the one that was put here to be emptied.
    pub(super) fn put_aside(&self) -> Option<String> {
        let name = self.name();
        let name = name.strip_prefix(UNFINISHED)?.strip_prefix('-')?;
        Some(name.to_owned())
    }

    /// True when everything is in the folder that belongs there.
    pub(super) fn is_finished(&self) -> bool {
        !self.name().starts_with(UNFINISHED)
    }

    /// The tier that was loaded.
    pub(super) fn tier(&self) -> Tier {
        if self.programs().join(TIER_PROGRAM).exists() {
            Tier::Lsm
        } else {
            Tier::Tracepoint
        }
    }
}

/// The folder of all objects.
pub(super) fn root() -> &'static Path {
    Path::new(ROOT)
}

/// True when the folder of all objects exists; an error when it is not root's alone, on a BPF file system.
pub(super) fn root_is_there() -> Result<bool, SharedError> {
    let root = root();
    let data = match fs::symlink_metadata(root) {
        Ok(data) => data,
        // A BPF file system that only root may look into is not for another user.
        Err(error) if is_absent(&error) => return Ok(false),
        Err(error) => return Err(SharedError::pinned(root, error)),
    };
    let untrusted = |why: String| SharedError::Untrusted {
        path: ROOT,
        why,
        fix: TAKE_BACK,
    };
    if !data.is_dir() {
        let owner = data.uid();
        return Err(untrusted(format!("owner {owner}, and it is no directory")));
    }
    if data.uid() != 0 || data.mode() & 0o077 != 0 {
        return Err(untrusted(owner_and_mode(&data)));
    }
    let around = fs::symlink_metadata(BPF).map_err(found(Path::new(BPF)))?;
    if can_be_renamed_in(&around) {
        return Err(SharedError::Untrusted {
            path: BPF,
            why: owner_and_mode(&around),
            fix: TAKE_BACK_ALL,
        });
    }
    match statfs(root) {
        Ok(system) if system.filesystem_type() == BPF_FS_MAGIC => Ok(true),
        Ok(_) => Err(untrusted("it is on another file system".to_owned())),
        Err(error) => Err(SharedError::pinned(root, error)),
    }
}

fn owner_and_mode(data: &fs::Metadata) -> String {
    format!("owner {}, mode {:o}", data.uid(), data.mode() & 0o7777)
}

/// True when another user than root could replace root's directory after it was looked at.
fn can_be_renamed_in(directory: &fs::Metadata) -> bool {
    let mode = directory.mode();
    directory.uid() != 0 || mode & 0o022 != 0 && mode & 0o1000 == 0
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

/// Makes the folder of all objects, where it is not there, and waits for its lock.
pub(super) fn lock_root() -> Result<Flock<File>, SharedError> {
    mount_bpf()?;
    loop {
        make(root())?;
        root_is_there()?;
        let directory = File::open(root()).map_err(found(root()))?;
        let inode = directory.metadata().map_err(found(root()))?.ino();
        let lock = lock(directory, root(), PATIENCE)?;
        // Unloading the last version takes the folder away, too.
        if fs::metadata(root()).is_ok_and(|now| now.ino() == inode) {
            return Ok(lock);
        }
    }
}

/// The longest time that whoever loads, attaches or leaves is waited for. A process that was stopped there would hold up
/// every run of the host.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks at a lock.
const AGAIN: Duration = Duration::from_millis(2);

/// Locks a directory as soon as nobody else has it.
pub(super) fn lock(
    mut directory: File,
    path: &Path,
    most: Duration,
) -> Result<Flock<File>, SharedError> {
    let begun = Instant::now();
    loop {
        match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, Errno::EWOULDBLOCK)) if begun.elapsed() < most => directory = again,
            Err((_, Errno::EWOULDBLOCK)) => {
                let path = path.display().to_string();
                return Err(SharedError::Busy { path });
            }
            Err((_, error)) => return Err(SharedError::pinned(path, error)),
        }
        thread::sleep(AGAIN);
    }
}

/// True when what is mounted now is seen by others than this process and those that it makes, and its programs are
/// taken: the mounts are those of the first process, and every user is who they are.
pub(super) fn mounts_last() -> bool {
    let [own, first] = ["/proc/self/ns/mnt", "/proc/1/ns/mnt"].map(fs::read_link);
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_everybody = users.split_whitespace().eq(["0", "0", "4294967295"]);
    is_everybody && own.is_ok_and(|own| first.is_ok_and(|first| own == first))
}

/// True when the BPF file system is mounted where it belongs.
pub(super) fn is_mounted() -> bool {
    statfs(BPF).is_ok_and(|system| system.filesystem_type() == BPF_FS_MAGIC)
}

/// Mounts the BPF file system where hosts have it, if it is not mounted: most do at boot.
fn mount_bpf() -> Result<(), SharedError> {
    if is_mounted() {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), BPF, Some("bpf"), flags, Some("mode=0700")).map_err(SharedError::NotMounted)
}

/// Makes a directory that is root's alone, if it is not there.
pub(super) fn make(path: &Path) -> Result<(), SharedError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(SharedError::pinned(path, error))
        }
        _ => Ok(()),
    }
}

/// Takes a directory away with all that is in it; that it is gone already is fine.
pub(super) fn remove(path: &Path) -> Result<(), SharedError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.raw_os_error() != Some(Errno::ENOENT as i32) => {
            Err(SharedError::pinned(path, error))
        }
        _ => Ok(()),
    }
}

/// The folders of all objects, whatever their version.
pub(super) fn all() -> Result<Vec<Folder>, SharedError> {
    if !root_is_there()? {
        return Ok(Vec::new());
    }
    let names = names(root().to_owned())?;
    let paths = names.iter().map(|name| root().join(name));
    Ok(paths.map(Folder::at).collect())
}

/// The names in a directory, in order.
pub(super) fn names(directory: PathBuf) -> Result<Vec<String>, SharedError> {
    let listed = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&directory)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    };
    listed().map_err(found(&directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_waited_for_and_not_for_ever() {
        let name = format!("turnkey-lock-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        make(&directory).unwrap();
        let open = || File::open(&directory).unwrap();
        let held = lock(open(), &directory, PATIENCE).unwrap();
        let begun = Instant::now();
        let busy = lock(open(), &directory, Duration::from_millis(50));
        assert!(matches!(busy, Err(SharedError::Busy { .. })), "{busy:?}");
        assert!(begun.elapsed() >= Duration::from_millis(50));
        drop(held);
        assert!(lock(open(), &directory, PATIENCE).is_ok());
        remove(&directory).unwrap();
    }
}
