//! The place of a path, as far as the profile says what the jail's tree holds. Pure, and by the letters alone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use turnkey_facts::{Event, Kind};
use turnkey_policy::{FilesystemPolicy, ProcView, RootMode, WORKSPACE};

use super::Attribution;

/// File systems of every jail's own.
const FRESH: &[&[u8]] = &[b"/proc", b"/dev"];

/// Paths that every jail's tree holds besides what the profile names: fresh file systems, the
/// account and host files that turnkey writes, and the working directory.
const PROVIDED: &[&str] = &[
    "/proc",
    "/dev",
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/nsswitch.conf",
    WORKSPACE,
];

/// The relation of a path to the jail's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a part that the jail is given.
    Granted,
    /// In one of which it is given what it knows by name.
    ByName,
    /// A directory that only leads to one.
    Way,
    /// In none.
    Outside,
    /// The path is relative, and where to is not known.
    Relative,
}

/// The contents of the jail's tree.
#[derive(Clone, Debug)]
pub struct RootfsPlaces {
    /// Absolute paths, each with all that is below.
    parts: Vec<Vec<u8>>,
    /// The parts of which nothing is to be listed.
    by_name: Vec<Vec<u8>>,
    /// The view of `/proc` in the jail.
    proc: ProcView,
    /// True where all that the profile does not name is of a root that it brings, or of the host's.
    is_whole: bool,
}

impl RootfsPlaces {
    /// Of what a profile gives, and what every jail has.
    pub fn from_policy(files: &FilesystemPolicy) -> Self {
        let hosts = files.read.iter().chain(&files.write);
        let hosts = hosts.map(|host| host.place().as_path());
        let scratches = files.scratch.iter().map(|scratch| scratch.path.as_path());
        let decoys = files.decoys.iter().map(PathBuf::as_path);
        let provided = PROVIDED.iter().map(Path::new);
        let listed = files.read.iter().chain(&files.write);
        let listed = listed.filter(|host| host.list);
        let listed: HashSet<&Path> = listed.map(|host| host.place().as_path()).collect();
        let is_whole = |path: &Path| path.ancestors().any(|above| listed.contains(above));
        let by_name = files.read.iter().filter(|host| !is_whole(host.place()));
        let tree = hosts.chain(scratches).chain(decoys).chain(provided);
        Self {
            parts: tree.map(path_bytes).collect(),
            by_name: by_name.map(|host| path_bytes(host.place())).collect(),
            proc: files.proc,
            is_whole: files.root.is_some() || files.root_mode == RootMode::Overlay,
        }
    }

    /// True for a directory that no host's stands behind: one that leads to what is given, or the top of a file system of the jail's own.
    fn is_own_directory(&self, path: &[u8]) -> bool {
        let is_fresh = normal(path).is_some_and(|path| FRESH.contains(&path.as_slice()));
        !self.is_whole && (is_fresh || self.place(path) == Place::Way)
    }

    /// The place of `path`.
    pub fn place(&self, path: &[u8]) -> Place {
        let Some(path) = normal(path) else {
            return Place::Relative;
        };
        if self.proc == ProcView::Processes && is_of_the_machine(&path) {
            return Place::Outside;
        }
        let parts = self.parts.iter().filter(|part| is_below(&path, part));
        if let Some(innermost) = parts.max_by_key(|part| part.len()) {
            match self.by_name.contains(innermost) {
                true => Place::ByName,
                false => Place::Granted,
            }
        } else if self.parts.iter().any(|part| is_below(part, &path)) {
            Place::Way
        } else {
            Place::Outside
        }
    }
}

impl Attribution {
    /// True for a directory that turnkey has made for the jail: of the host's it shows what the profile gives, and nothing else.
    pub fn is_own_directory(&self, path: Option<&str>) -> bool {
        let is_own = |path: &str| self.tree.is_own_directory(path.as_bytes());
        self.has_layers && path.is_some_and(is_own)
    }

    /// True for an open of which no file is known, at a path where the jail's tree holds nothing.
    pub fn shows_nothing_to(&self, event: &Event, path: Option<&str>) -> bool {
        let is_unopened = matches!(
            event.kind,
            Kind::Open {
                file: None,
                by_handle: false,
                ..
            }
        );
        let is_known = !event.decision.is_some_and(|one| one.file_unknown);
        is_unopened && is_known && self.shows_nothing_at(path)
    }

    /// True for a path at which the jail's tree holds nothing, whatever the host has there.
    fn shows_nothing_at(&self, path: Option<&str>) -> bool {
        let is_outside = |path: &str| self.tree.place(path.as_bytes()) == Place::Outside;
        self.has_layers && !self.tree.is_whole && path.is_some_and(is_outside)
    }
}

fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

/// Without `.`, `..`, doubled slashes and detours through a process's own root, by the letters
/// alone. `None` when it is relative.
fn normal(path: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.strip_prefix(b"/")?.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            b"root" if is_process(&parts) => parts.clear(),
            part => parts.push(part),
        }
    }
    Some(
        parts
            .iter()
            .flat_map(|part| [b"/", *part].concat())
            .collect(),
    )
}

/// True for a path in `/proc` that is no process's.
fn is_of_the_machine(path: &[u8]) -> bool {
    let Some(below) = path.strip_prefix(b"/proc/") else {
        return false;
    };
    let first = below.split(|byte| *byte == b'/').next().unwrap_or_default();
    !matches!(first, b"self" | b"thread-self") && !first.iter().all(u8::is_ascii_digit)
}

/// `/proc/self` or `/proc/PID`.
fn is_process(parts: &[&[u8]]) -> bool {
    match parts {
        [b"proc", process] => *process == b"self" || process.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// True when `path` is `root` or lies in it. The root directory is the empty path here.
fn is_below(path: &[u8], root: &[u8]) -> bool {
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use turnkey_policy::{Overrides, load};

    use super::*;

    fn own(profile: &str, flags: &[(&str, &str)]) -> impl Fn(&str) -> bool {
        let overrides = Overrides::from_flags(flags.iter().copied()).unwrap();
        let nothing = |_: &str| Err("no file".to_owned());
        let policy = load(profile, &nothing, &overrides).unwrap();
        let attribution = Attribution::new(&policy);
        move |path: &str| attribution.is_own_directory(Some(path))
    }

    #[test]
    fn nothing_is_where_the_tree_does_not_lead() {
        let shown = |profile: &str, flags: &[(&str, &str)], path: &str| {
            let overrides = Overrides::from_flags(flags.iter().copied()).unwrap();
            let nothing = |_: &str| Err("no file".to_owned());
            let policy = load(profile, &nothing, &overrides).unwrap();
            !Attribution::new(&policy).shows_nothing_at(Some(path))
        };
        const KEY: &str = "/root/.ssh/id_rsa";
        assert!(!shown("python", &[], KEY));
        assert!(!shown("python", &[("read", "/home/ada")], KEY));
        for given in ["/root", "/root/.ssh", KEY] {
            assert!(shown("python", &[("read", given)], KEY), "{given}");
        }
        for path in [
            "/workspace/.ssh/id_rsa",
            "/etc/passwd",
            "/tmp/x",
            "id_rsa",
            "/root/../tmp/y",
        ] {
            assert!(shown("python", &[], path), "{path}");
        }
        // The host's own tree, and one that belongs to somebody else's processes.
        assert!(shown("untrusted", &[("root-mode", "overlay")], KEY));
        assert!(shown("container", &[], KEY));
    }

    #[test]
    fn a_directory_of_the_jails_own_shows_nothing_of_the_hosts() {
        let sealed = own("sealed", &[]);
        for path in ["/", "/etc", "/etc/", "/usr", "/proc", "/dev", "/usr/bin/.."] {
            assert!(sealed(path), "{path}");
        }
        // Of the host's, about the machine, or the caller's.
        for path in ["/usr/bin", "/proc/cpuinfo", "/workspace", "/nowhere", "usr"] {
            assert!(!sealed(path), "{path}");
        }
        let given = own("sealed", &[("read", "/usr/src")]);
        assert!(!given("/usr/src") && given("/usr"));
        let whole = own("untrusted", &[("root-mode", "overlay")]);
        assert!(!whole("/var") && !whole("/etc"));
        let attached = own("container", &[]);
        assert!(!attached("/etc") && !attached("/proc"));
    }
}
