//! Places that no profile can give, because turnkey fills them itself.

use std::path::Path;

use crate::WORKSPACE;

/// Places that turnkey fills itself.
const RESERVED: [&str; 5] = ["/proc", "/dev", "/sys", "/run", WORKSPACE];
/// Places of which only parts can come from the host, and files turnkey writes itself.
pub const RESERVED_ITSELF: [&str; 6] = [
    "/",
    "/etc",
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
];
/// Directories that hold the things of several people or services.
const COMMON: [&str; 14] = [
    "/",
    "/boot",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/root",
    "/srv",
    "/tmp",
    "/var",
    "/var/backups",
    "/var/lib",
    "/var/log",
    "/var/spool",
];

/// True for a home, and for a directory with the things of several people or services: no advice proposes to show it as a whole.
#[must_use]
pub fn is_too_much_to_show(path: &Path) -> bool {
    let is_home = path.parent() == Some(Path::new("/home"));
    is_home || COMMON.iter().any(|common| path == Path::new(common))
}

/// True for a path that every jail has of its own, so that no profile can give the host's.
#[must_use]
pub fn is_reserved(path: &Path) -> bool {
    let inside = RESERVED.iter().any(|reserved| path.starts_with(reserved));
    inside
        || RESERVED_ITSELF
            .iter()
            .any(|reserved| path == Path::new(reserved))
}
