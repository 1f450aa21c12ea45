//! The file of a configuration: one of root's alone, which every run reads by its name.

use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{bail, ensure};
use nix::sys::stat::{Mode, SFlag, fstat};
use rustix::fs::{CWD, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Requires a file that means the same to every process, and that nobody changes but its owner, who is root or who reads it.
///
/// # Errors
/// When it is another one, with what helps.
pub fn require_own(path: &Path) -> anyhow::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mode = rustix::fs::Mode::empty();
    let opened = match openat2(CWD, path, flags, mode, ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::LOOP) => bail!(
            "it is a descriptor of this process, or a symlink to itself, and each run reads the file anew; fix: name the file"
        ),
        opened => opened?,
    };
    let stat = fstat(opened.as_fd())?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    ensure!(
        kind == SFlag::S_IFREG,
        "it is no regular file, and each run reads it anew; fix: name one"
    );
    let name = path.display();
    ensure!(
        stat.st_uid == 0 || stat.st_uid == nix::unistd::geteuid().as_raw(),
        "user {} owns it, who could give every caller more; fix: chown root {name}",
        stat.st_uid
    );
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    ensure!(
        !Mode::from_bits_truncate(stat.st_mode).intersects(others),
        "others than its owner may write it, who could give every caller more; fix: chmod go-w {name}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    fn refused(path: &Path) -> String {
        let refused = require_own(path).err();
        refused.map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_configuration_is_a_file_by_its_own_name_that_nobody_else_writes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let give = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        give(0o644);
        assert_eq!(refused(file.path()), "");
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert!(refused(Path::new(&descriptor)).contains("is a descriptor of this process"));
        assert!(refused(Path::new("/dev/null")).contains("no regular file"));
        for mode in [0o664, 0o646, 0o666] {
            give(mode);
            let told = refused(file.path());
            assert!(told.contains("fix: chmod go-w /"), "{mode:o}: {told}");
        }
        give(0o600);
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(file.path(), Some(4343), None).unwrap();
            let told = refused(file.path());
            assert!(told.starts_with("user 4343 owns it"), "{told}");
            assert!(told.contains("fix: chown root /"), "{told}");
        }
    }
}
