//! The command that runs a script in a fitting jail: a shipped profile, and what the script needs beyond it.

use std::path::Path;

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
    if scan.score >= GRAVE && hosts.clone().next().is_some() {
        // It is to be seen what it asks for, and not to get it.
        command += " --network sinkhole";
    } else {
        command.extend(hosts.map(|host| format!(" --allow {host}")));
    }
    let is_there =
        |path: &&String| is_plain(path) && Path::new(path.as_str()).exists() && !is_shown(path);
    for read in scan.needs.read.iter().filter(is_there) {
        command += &format!(" --read {read}");
    }
    Some(command + &format!(" -- {interpreter} {path}"))
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
