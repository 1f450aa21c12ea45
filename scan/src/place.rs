//! Paths and addresses that a script names, by what is known of them elsewhere in this workspace.

use std::net::IpAddr;

use turnkey_analysis::behaviour::{PathClasses, Traits, is_system, telling_directory};

use crate::value::HOLE;

/// Directories whose files say how a machine is set up and what goes on there; libraries and programs are not among them.
const STATE: &[&str] = &[
    "/etc", "/proc", "/sys", "/root", "/home", "/var", "/boot", "/run", "/dev", "/usr/etc",
];

/// Files there that programs read and write for honest ends.
const USUAL: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/tty",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/urandom",
    "/dev/random",
    "/dev/full",
    "/dev/fd",
    "/dev/shm",
    "/proc/self",
    "/proc/mounts",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/var/tmp",
    "/var/cache",
    "/etc/os-release",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/localtime",
    "/etc/ssl/certs",
];

/// The kind of a path.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Absolute, without `.` and `..`.
    pub path: String,
    /// The traits by which detectors of behaviours know it.
    pub traits: Traits,
    /// True for settings or state of the system or of users.
    pub is_state: bool,
    /// True for a directory whose listing tells of the machine, or one of the system.
    pub tells_listed: bool,
    /// True where `..` in it leads out of where it begins, into the system.
    pub climbs: bool,
    /// True where it is the root, a home or a whole directory of the system.
    pub is_whole: bool,
}

impl Place {
    /// True where it is neither in the workspace nor relative to it.
    pub fn is_outside(&self) -> bool {
        !self.path.starts_with("/workspace")
    }
}

/// The place that a path means, as it is written. A relative one is taken to begin below a home.
pub fn place(written: &str) -> Place {
    let home = written
        .replacen("${HOME}", "~", 1)
        .replacen("$HOME", "~", 1);
    let rooted = match home.strip_prefix('~') {
        Some(rest) => format!("/root{}", rest.find('/').map_or("", |at| &rest[at..])),
        None if home.starts_with('/') => home.clone(),
        None if home.starts_with(HOLE) => {
            format!("/{}", home.trim_start_matches(HOLE).trim_start_matches('/'))
        }
        None => format!("/workspace/{home}"),
    };
    let (path, climbs) = normal(&rooted);
    let bytes = path.as_bytes();
    let below = |all: &[&str]| {
        all.iter()
            .any(|one| path == *one || path.starts_with(&format!("{one}/")))
    };
    let is_state = !home.starts_with(HOLE) && below(STATE) && !below(USUAL);
    let trimmed = path.trim_end_matches(['*', '/']);
    let depth = trimmed.matches('/').count();
    Place {
        traits: PathClasses::default().traits_of(bytes),
        is_state,
        tells_listed: telling_directory(trimmed.as_bytes())
            || path == "/"
            || is_state
            || (is_system(bytes) && depth <= 2),
        climbs: climbs && (is_state || is_system(bytes)) && !home.starts_with(HOLE),
        is_whole: path == "/"
            || trimmed.is_empty()
            || (depth <= 1 && (is_system(bytes) || is_state))
            || trimmed == "/root",
        path,
    }
}

/// Without `.` and `..`, and true when a `..` led out of a directory that was named.
fn normal(path: &str) -> (String, bool) {
    let (mut parts, mut climbs): (Vec<&str>, bool) = (Vec::new(), false);
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                climbs = true;
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    (format!("/{}", parts.join("/")), climbs)
}

/// The host of an address or a URL, and its port.
pub fn host(written: &str) -> Option<(String, Option<u16>)> {
    let rest = written.split_once("://").map_or(written, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return Some((
            host.to_owned(),
            port.strip_prefix(':').and_then(|port| port.parse().ok()),
        ));
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_host = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    let port = port.parse().ok().or_else(|| scheme_port(written));
    (!host.is_empty() && host.chars().all(is_host)).then(|| (host.to_owned(), port))
}

fn scheme_port(url: &str) -> Option<u16> {
    match url.split_once("://")?.0 {
        "https" => Some(443),
        "http" => Some(80),
        "ftp" => Some(21),
        _ => None,
    }
}

/// True for an address in numbers that is somebody's.
pub fn is_number(host: &str) -> bool {
    host.parse::<IpAddr>()
        .is_ok_and(|address| !address.is_unspecified())
}

/// True for a URL of one of the schemes that are fetched.
pub fn is_url(text: &str) -> bool {
    ["http://", "https://", "ftp://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_for_what_it_leads_to() {
        assert_eq!(place("/etc/shadow").traits.secret, Some("password hashes"));
        assert_eq!(place("~/.ssh/id_rsa").traits.secret, Some("SSH keys"));
        assert!(place("/usr/../etc/group").climbs);
        assert!(place("../../etc/group").climbs);
        assert!(!place("../data/x").climbs);
        assert!(place("/etc/security/limits.conf").is_state);
        assert!(!place("/dev/null").is_state);
        assert!(!place("etc/x").is_state);
        assert!(place("/*").is_whole && place("/etc").is_whole && !place("/etc/x/y").is_whole);
        assert!(!place("/workspace/x").tells_listed && place("/etc/ssl/*").tells_listed);
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(
            host("http://1.2.3.4:8/x"),
            Some(("1.2.3.4".to_owned(), Some(8)))
        );
        assert_eq!(host("https://a.b/"), Some(("a.b".to_owned(), Some(443))));
        assert_eq!(host("[::1]:5"), Some(("::1".to_owned(), Some(5))));
        assert_eq!(host("a b"), None);
        assert!(is_number("127.0.0.1") && !is_number("0.0.0.0") && !is_number("a.b"));
    }
}
