//! The walls themselves: a wall that is not there is open.

use std::io::{Error, ErrorKind};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::cmd::audit::finding::{Bait, Criterion, Finding};

use super::Probe;

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new("no-filter", "is under no filter of system calls", |_| {
            is_off("Seccomp", "0", "no seccomp filter")
        }),
        Probe::new("new-privileges", "may gain rights by execve(2)", |_| {
            is_off("NoNewPrivs", "0", "no_new_privs is not set")
        }),
        Probe::new(
            "cgroup-namespace",
            "shares the host's view of control groups",
            |bait| shares(bait, "cgroup"),
        ),
        Probe::new("ipc-namespace", "shares the host's IPC namespace", |bait| {
            shares(bait, "ipc")
        }),
        Probe::new("mount-namespace", "shares the host's mounts", |bait| {
            shares(bait, "mnt")
        }),
        Probe::new("network-namespace", "shares the host's network", |bait| {
            shares(bait, "net")
        }),
        Probe::new("pid-namespace", "shares the host's process ids", |bait| {
            shares(bait, "pid")
        }),
        Probe::new(
            "user-namespace-of-host",
            "shares the host's user ids",
            |bait| shares(bait, "user"),
        ),
        Probe::new("host-name-namespace", "shares the host's name", |bait| {
            shares(bait, "uts")
        }),
        Probe::new(
            "system-files",
            "may write to the directories of the system",
            system_files,
        ),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::Technology))
        .collect()
}

/// A field of /proc/self/status.
pub fn status(field: &str) -> Result<String, Error> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let mut values = text.lines().filter_map(|line| line.split_once(':'));
    let found = values.find(|(name, _)| *name == field);
    let missing = || Error::new(ErrorKind::NotFound, "/proc/self/status does not tell");
    found
        .map(|(_, value)| value.trim().to_owned())
        .ok_or_else(missing)
}

/// The name of a namespace of this process.
pub fn namespace(kind: &str) -> Result<String, Error> {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}"))?;
    Ok(link.to_string_lossy().into_owned())
}

fn is_off(field: &str, off: &str, words: &str) -> Finding {
    match status(field) {
        Ok(value) if value == off => Finding::open(words),
        Ok(value) => Finding::stopped(format!("{field} {value}")),
        Err(error) => Finding::unknown(error.to_string()),
    }
}

fn shares(bait: &Bait, kind: &str) -> Finding {
    match (namespace(kind), bait.namespaces.get(kind)) {
        (Ok(inside), Some(outside)) if inside == *outside => Finding::open(inside),
        (Ok(inside), Some(_)) => Finding::stopped(inside),
        (Err(error), _) => Finding::unknown(error.to_string()),
        (_, None) => Finding::unknown("the host does not tell its own"),
    }
}

fn system_files(_: &Bait) -> Finding {
    const FOLDERS: [&str; 6] = ["/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/var"];
    let may = |folder: &&&str| accessat(CWD, **folder, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    let writable: Vec<&str> = FOLDERS.iter().filter(may).copied().collect();
    match writable.is_empty() {
        true => Finding::stopped("none of six"),
        false => Finding::open(writable.join(", ")),
    }
}
