//! The command that runs a script in a fitting jail: a shipped profile, and what the script needs beyond it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use turnkey_policy::endpoint::Endpoint;
use turnkey_report::unescape;
use turnkey_scan::{Language, Scan};

/// The command. `None` for a script that is no file, or has a name that a shell would have to be told of with care.
pub fn command(path: &str, scan: &Scan) -> Option<String> {
    let (profile, interpreter) = match scan.language? {
        Language::Python => ("python", "python3"),
        Language::Shell => ("shell", "bash"),
    };
    if path == "-" || !is_plain(path) || unescape(path) != path.as_bytes() {
        return None;
    }
    let mut command = format!("turnkey run --profile {profile}");
    let hosts = scan.needs.connect.iter();
    let hosts = hosts.filter(|host| is_plain(host) && Endpoint::parse(host).is_some());
    // A server of the script's own would find its port taken.
    let (own, hosts): (Vec<_>, Vec<_>) = hosts.partition(|host| is_own(host));
    let mut hosts = hosts.into_iter();
    if hosts.len() == 0 && !own.is_empty() {
        command += " --network loopback";
    }
    if scan.score >= GRAVE && hosts.len() > 0 {
        // It is to be seen what it asks for, and not to get it.
        command += " --network sinkhole";
    } else {
        command.extend(hosts.by_ref().map(|host| format!(" --allow {host}")));
    }
    let is_there =
        |path: &&String| is_plain(path) && Path::new(path.as_str()).exists() && !is_shown(path);
    for read in scan.needs.read.iter().filter(is_there) {
        command += &format!(" --read {read}");
    }
    if let Some(outside) = outside(path) {
        let place = outside.to_str().filter(|place| is_plain(place))?;
        return Some(command + &format!(" --read {place} -- {interpreter} {place}"));
    }
    Some(command + &format!(" -- {interpreter} {path}"))
}

/// The script's own path, where it lies outside of the working directory, which is all that the jail shows of the caller's.
fn outside(path: &str) -> Option<PathBuf> {
    let place = Path::new(path).canonicalize().ok()?;
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    (!place.starts_with(here)).then_some(place)
}

/// True for a port of the jail's own loopback.
fn is_own(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let ip = name.trim_start_matches('[').trim_end_matches(']').parse();
    name == "localhost" || ip.is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The score from which on a script's hosts are answered by nobody.
const GRAVE: u32 = 50;

/// Places that every jail has, of its own or the host's.
const SHOWN: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/proc",
    "/dev",
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
];

fn is_shown(path: &str) -> bool {
    let below = |directory: &&str| {
        let rest = path.strip_prefix(*directory);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    path == "/" || SHOWN.iter().any(below)
}

/// True for words that every shell takes as they are.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('-')
        && word
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "/._-:@+".contains(char))
}
