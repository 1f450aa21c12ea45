//! Fingerprints: equal for one finding in every run, by which viewers know what they have shown before.
//!
//! A finding is the rule, the kind of attempt, its object, and the program or script that made it. What differs from run
//! to run is no part of that: process ids, times, ports that the kernel chose, and the chance names of temporary files.

use sha2::{Digest, Sha256};

use super::source_root::{self, SourceRoot};
use crate::model::{Finding, Report, Violation};

/// The name of the fingerprint with its version: another way to make it is another name.
pub const NAME: &str = "turnkey/v1";

/// The first port that the kernel chooses by itself, ip_local_port_range of ip(7).
const FIRST_EPHEMERAL: u16 = 32768;

/// Directories in which programs make files by chance names.
const TEMPORARY: [&str; 4] = ["/tmp/", "/var/tmp/", "/dev/shm/", "/run/user/"];

/// The fingerprint of an attempt.
pub fn attempt(report: &Report, violation: &Violation, root: SourceRoot<'_>) -> String {
    let path = |path: &str| match root.below(path) {
        Some(below) => format!("{}/{}", source_root::ROOT, stable_path(below)),
        None => stable_path(path),
    };
    let optional = |text: &Option<String>| text.as_deref().map(path).unwrap_or_default();
    let source = source_root::source(report, violation, root).map(path);
    let program = source.unwrap_or_else(|| optional(&violation.process.exe));
    digest(&[
        &violation.rule,
        violation.on.name(),
        &optional(&violation.path),
        &optional(&violation.to),
        &violation
            .address
            .as_deref()
            .map(stable_address)
            .unwrap_or_default(),
        violation.syscall.as_deref().unwrap_or_default(),
        &program,
    ])
}

/// The fingerprint of a finding that is told as a whole.
pub fn finding(report: &Report, finding: &Finding, root: SourceRoot<'_>) -> String {
    let words = report.command.iter().map(|word| match root.below(word) {
        Some(below) => stable_path(below),
        None => stable_path(word),
    });
    let words: Vec<String> = words.collect();
    digest(&[&finding.id, &words.join(" ")])
}

/// No two lists of parts have the same text.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_string());
        hash.update(":");
        hash.update(part);
    }
    let digest = hash.finalize();
    let first = digest.iter().take(16);
    first.map(|byte| format!("{byte:02x}")).collect()
}

/// A peer without a port that was chosen by chance.
fn stable_address(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, port)) if port.parse().is_ok_and(|port: u16| port >= FIRST_EPHEMERAL) => {
            format!("{host}:*")
        }
        _ => match address.strip_prefix("unix:") {
            Some(path) => format!("unix:{}", stable_path(path)),
            None => address.to_owned(),
        },
    }
}

/// A path with a star for each part that is another one in every run.
fn stable_path(path: &str) -> String {
    let is_temporary = TEMPORARY.iter().any(|place| path.starts_with(place));
    let is_process = path.starts_with("/proc/");
    let parts = path.split('/').map(|part| match part {
        part if is_process && is_number(part) => "*".to_owned(),
        part if is_temporary => stable_name(part),
        part => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// mkstemp(3) of many languages: `tmpab12cd_x`, `tmp.Xy12AbCdEf`, `name.AbC123`, `job-48122`, `name-9f86d081e3`.
fn stable_name(name: &str) -> String {
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !is_chance(ending) => {
            (stem, format!(".{ending}"))
        }
        _ => (name, String::new()),
    };
    let mut parts: Vec<&str> = stem.split_inclusive(['-', '.', '_']).collect();
    // The letters of chance that Python makes begin with a word of its own, and may hold what parts names.
    if stem.len() == 11 && stem.starts_with("tmp") {
        parts = vec!["*"];
    }
    let stars = parts.into_iter().map(|part| {
        let word = part.trim_end_matches(['-', '.', '_']);
        match is_number(word) || is_chance(word) {
            true => format!("*{}", &part[word.len()..]),
            false => part.to_owned(),
        }
    });
    stars.collect::<String>() + &ending
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Six letters or more of which some are digits, or some large and some small: no word of a language.
fn is_chance(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
    let letters = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let small = has(u8::is_ascii_lowercase);
    let inner_large = word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    let has_digit = has(u8::is_ascii_digit);
    word.len() >= 6 && letters && (has_digit || small && inner_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_chance_are_one_and_names_of_people_are_many() {
        for (one, other) in [
            ("/tmp/tmpab_d12cx", "/tmp/tmpzzzzzzzz"),
            ("/tmp/tmp.Xy12AbCdEf/shadow", "/tmp/tmp.QqRrSsTtUu/shadow"),
            ("/tmp/build-48122.log", "/tmp/build-7.log"),
            ("/var/tmp/job.AbC123", "/var/tmp/job.xYz789"),
            ("/dev/shm/9f86d081e3-x", "/dev/shm/0a1b2c3d4e-x"),
            ("/proc/41/mem", "/proc/9999/mem"),
            ("/run/user/1000/bus", "/run/user/0/bus"),
        ] {
            assert_eq!(stable_path(one), stable_path(other), "{one} {other}");
        }
        let distinct = [
            "/tmp/tmpab_d12cx",
            "/tmp/tmp.Xy12AbCdEf/shadow",
            "/tmp/tmp.Xy12AbCdEf/passwd",
            "/tmp/build-48122.log",
            "/tmp/test-48122.log",
            "/tmp/output.json",
            "/tmp/outputs.json",
            "/tmp/a",
            "/tmp/b",
            "/tmp/payload.py",
            "/tmp/payload.sh",
            "/proc/self/mem",
            "/proc/41/mem",
            "/proc/41/maps",
            "/etc/x-48122",
            "/etc/x-48123",
        ];
        let stable: std::collections::BTreeSet<_> =
            distinct.iter().map(|path| stable_path(path)).collect();
        assert_eq!(stable.len(), distinct.len(), "{stable:?}");
    }

    #[test]
    fn a_port_that_the_kernel_chose_is_none() {
        assert_eq!(
            stable_address("127.0.0.1:40001"),
            stable_address("127.0.0.1:40002")
        );
        assert_ne!(
            stable_address("127.0.0.1:443"),
            stable_address("127.0.0.1:80")
        );
        assert_ne!(
            stable_address("[::1]:40001"),
            stable_address("127.0.0.1:40001")
        );
        assert_eq!(
            stable_address("unix:/tmp/tmp.Xy12AbCdEf/s"),
            stable_address("unix:/tmp/tmp.QqRrSsTtUu/s")
        );
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a", ""]), digest(&["a"]));
    }
}
