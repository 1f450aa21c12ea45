//! Facts and secrets of the host.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};

use crate::cmd::audit::finding::{Bait, Criterion, Finding};

use super::neighbours::{contains_token, holds_token};
use super::{Probe, raw};

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new(
            "environment",
            "finds secrets of the caller's environment",
            environment,
        ),
        Probe::new(
            "descriptor",
            "finds files that the caller has open",
            descriptor,
        ),
        Probe::new("home", "reads the caller's home", |bait| match &bait.home {
            Some(home) => holds_token(&home.join("secret").to_string_lossy(), bait).into(),
            None => Finding::unknown("the caller has no home that a file could be put into"),
        }),
        Probe::new(
            "private-file",
            "reads files that are the caller's alone",
            |bait| {
                let path = bait.folder.join("private");
                holds_token(&path.to_string_lossy(), bait).into()
            },
        ),
        Probe::new("password-hashes", "reads /etc/shadow", password_hashes),
        Probe::new("host-name", "learns the host's name", |bait| {
            same(bait, "/proc/sys/kernel/hostname")
        }),
        Probe::new("machine-id", "learns the host's machine id", |bait| {
            same(bait, "/etc/machine-id")
        }),
        Probe::new("boot-id", "learns the id of the host's boot", |bait| {
            same(bait, "/proc/sys/kernel/random/boot_id")
        }),
        Probe::new(
            "kernel-arguments",
            "learns how the kernel was started",
            |bait| same(bait, "/proc/cmdline"),
        ),
        Probe::new("accounts", "learns the host's accounts", |bait| {
            same(bait, "/etc/passwd")
        }),
        Probe::new("kernel-log", "reads the kernel's log", |_| {
            raw::kernel_log().into()
        }),
        Probe::new(
            "kernel-addresses",
            "learns addresses of the kernel",
            addresses,
        ),
        Probe::new("disks", "learns which disks the host has mounted", mounted),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::Leaks))
        .collect()
}

fn environment(bait: &Bait) -> Finding {
    match std::env::var(&bait.variable) {
        Ok(value) if value.contains(&bait.token) => Finding::open(format!("${}", bait.variable)),
        _ => Finding::stopped("the variable is not there"),
    }
}

fn descriptor(bait: &Bait) -> Finding {
    match raw::read_descriptor(bait.descriptor) {
        Ok(content) if contains_token(&content, bait) => {
            Finding::open(format!("descriptor {}", bait.descriptor))
        }
        Ok(_) => Finding::stopped("it is another file here"),
        Err(error) => Finding::stopped(error.to_string()),
    }
}

fn password_hashes(_: &Bait) -> Finding {
    match std::fs::read("/etc/shadow") {
        Ok(content) if content.contains(&b'$') => Finding::open("with hashes"),
        Ok(_) => Finding::stopped("there are no hashes in it"),
        Err(error) => Finding::stopped(error.to_string()),
    }
}

/// A digest of a file's content, by which the host's can be told from another without showing it.
pub fn digest(path: &str) -> Result<String, std::io::Error> {
    let mut hasher = DefaultHasher::new();
    std::fs::read(path)?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn same(bait: &Bait, path: &str) -> Finding {
    match (digest(path), bait.host.get(path)) {
        (Ok(inside), Some(outside)) if inside == *outside => Finding::open(path),
        (Ok(_), Some(_)) => Finding::stopped(format!("{path} is another one here")),
        (Err(error), _) => Finding::stopped(format!("{path}: {error}")),
        (_, None) => Finding::unknown(format!("the host has no {path}")),
    }
}

fn addresses(_: &Bait) -> Finding {
    let mut first = String::new();
    let read =
        File::open("/proc/kallsyms").and_then(|file| BufReader::new(file).read_line(&mut first));
    match read {
        Err(error) => Finding::stopped(error.to_string()),
        Ok(_) if first.trim_start_matches('0').starts_with(' ') || first.is_empty() => {
            Finding::stopped("they are 0")
        }
        Ok(_) => Finding::open("/proc/kallsyms"),
    }
}

fn mounted(_: &Bait) -> Finding {
    let text = match std::fs::read_to_string("/proc/self/mountinfo") {
        Ok(text) => text,
        Err(error) => return Finding::stopped(error.to_string()),
    };
    let sources = text
        .lines()
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').nth(1));
    match sources
        .into_iter()
        .find(|source| source.starts_with("/dev/"))
    {
        Some(source) => Finding::open(source),
        None => Finding::stopped("no device is named"),
    }
}
