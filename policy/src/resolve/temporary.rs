//! `/var/tmp`, where programs put temporary files that are large or are to stay a while: SQLite asks for it before `/tmp`.

use std::path::{Path, PathBuf};

use crate::tables::{FilesystemPolicy, HostPath, ScratchMount};

/// The directory that a profile gives for temporary files.
const FIRST: &str = "/tmp";
/// The one that programs expect beside it.
const SECOND: &str = "/var/tmp";

/// The file systems with a scratch at `/var/tmp` as large as the one at `/tmp`, unless the profile has something else in mind
/// for that place. It is a file system of its own: as a symlink, it would be a second name for each file below `/tmp`. A root of
/// the profile's own is left alone, as it need not have such a directory to mount on.
pub(super) fn beside(mut filesystem: FilesystemPolicy) -> FilesystemPolicy {
    let first = filesystem.scratch.iter();
    let size = first
        .filter(|one| one.path == Path::new(FIRST))
        .map(|one| one.size)
        .next();
    if let Some(size) = size
        && filesystem.root.is_none()
        && !is_spoken_for(&filesystem)
    {
        filesystem.scratch.push(ScratchMount {
            path: PathBuf::from(SECOND),
            size,
            why: format!("programs expect it beside {FIRST}"),
        });
    }
    filesystem
}

/// True when the place, or one above it, is given, or something in it that is not to be listed, or a decoy is planted there.
fn is_spoken_for(filesystem: &FilesystemPolicy) -> bool {
    let given = filesystem.read.iter().chain(&filesystem.write);
    let scratch = filesystem.scratch.iter().map(|one| &one.path);
    let mut by_name = given.clone().filter(|one| !one.list);
    let mut given = given.map(HostPath::place).chain(scratch);
    let mut decoys = filesystem.decoys.iter();
    given.any(|place| Path::new(SECOND).starts_with(place))
        || by_name.any(|one| one.place().starts_with(SECOND))
        || decoys.any(|one| one.starts_with(SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, Policy, load};

    /// The policy of a profile with this table `[filesystem]`.
    fn policy(filesystem: &str, flags: &[(&str, &str)]) -> Policy {
        let text = format!(
            "schema = \"turnkey.profile/v1\"\nname = \"t\"\nextends = [\"untrusted\"]\n[filesystem]\n{filesystem}"
        );
        let overrides = Overrides::from_flags(flags.iter().copied()).unwrap();
        load("./t.toml", &|_| Ok(text.clone()), &overrides).unwrap()
    }

    fn size(policy: &Policy) -> Option<u64> {
        let mut scratch = policy.filesystem.scratch.iter();
        let second = scratch.find(|one| one.path == Path::new(SECOND));
        second.map(|one| one.size)
    }

    #[test]
    fn the_second_directory_is_as_large_as_the_first() {
        assert_eq!(size(&policy("", &[])), Some(64 << 20));
        let large = "scratch = [{ path = \"/tmp\", size = \"1G\" }]";
        assert_eq!(size(&policy(large, &[])), Some(1 << 30));
        assert_eq!(size(&policy("", &[("scratch", "/tmp=2G")])), Some(2 << 30));
        assert_eq!(
            size(&policy("read = [{ path = \"/var/tmp/data\" }]", &[])),
            Some(64 << 20)
        );
    }

    #[test]
    fn a_place_that_the_profile_speaks_of_is_left_alone() {
        for filesystem in [
            "inherit = false",
            "root = \"/srv/rootfs\"",
            "read = [{ path = \"/var\" }]",
            "write = [{ path = \"/var/tmp\" }]",
            "read = [{ path = \"/srv/data\", at = \"/var/tmp\" }]",
            "read = [{ path = \"/var/tmp/data\", list = false }]",
            "decoys = [\"/var/tmp/key\"]",
        ] {
            assert_eq!(size(&policy(filesystem, &[])), None, "{filesystem}");
        }
        let own = "scratch = [{ path = \"/var/tmp\", size = \"3M\" }]";
        let policy = policy(own, &[]);
        assert_eq!(size(&policy), Some(3 << 20));
        let named = policy.filesystem.scratch.iter();
        assert_eq!(named.filter(|one| one.path == Path::new(SECOND)).count(), 1);
    }
}
