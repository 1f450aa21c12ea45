//! Programs that can be run.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cmd::audit::finding::{Bait, Criterion, Finding, Outcome};

use super::child::{in_child, left_behind};
use super::network::send_to;
use super::{Probe, raw};

/// Time after which a process that was left behind speaks.
pub const LATER: Duration = Duration::from_secs(1);

pub fn probes() -> Vec<Probe> {
    let probes = [
        Probe::new("shell", "runs a shell", shell),
        Probe::new(
            "written-program",
            "runs a program that it wrote itself",
            written,
        ),
        Probe::new(
            "memory-program",
            "runs a program that is in memory alone",
            in_memory,
        ),
        Probe::new(
            "writable-code",
            "has memory that is writable and executable",
            |_| raw::writable_code().into(),
        ),
        Probe::new(
            "debugger",
            "is the debugger of a process of its own",
            debugger,
        ),
        Probe::new("compiler", "runs a compiler", |_| {
            probe_command("cc", "--version")
        }),
        Probe::new("downloader", "runs curl or wget", |_| {
            let curl = probe_command("curl", "--version");
            let found = curl.outcome == Outcome::Open;
            if found {
                curl
            } else {
                probe_command("wget", "--version")
            }
        }),
        Probe::new(
            "left-behind",
            "leaves a process that goes on after its end",
            outlives,
        )
        .seen_outside(),
    ];
    probes
        .into_iter()
        .map(|probe| probe.with_criterion(Criterion::Commands))
        .collect()
}

fn probe_command(program: &str, argument: &str) -> Finding {
    let ran = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match ran {
        Ok(ran) if ran.status.success() => Finding::open(format!("{program} {argument}")),
        Ok(ran) => Finding::stopped(format!("{program} ended with {}", ran.status)),
        Err(error) => Finding::stopped(format!("{program}: {error}")),
    }
}

fn shell(_: &Bait) -> Finding {
    let ran = Command::new("/bin/sh")
        .args(["-c", "echo $((6*7))"])
        .output();
    match ran {
        Ok(ran) if ran.stdout == b"42\n" => Finding::open("/bin/sh answered"),
        Ok(ran) => Finding::stopped(format!("/bin/sh ended with {}", ran.status)),
        Err(error) => Finding::stopped(format!("/bin/sh: {error}")),
    }
}

/// A program that does nothing and ends well: true(1) itself, or a script where there is none.
fn program() -> Vec<u8> {
    std::fs::read("/bin/true").unwrap_or_else(|_| b"#!/bin/sh\n".to_vec())
}

fn written(_: &Bait) -> Finding {
    let mut last = Finding::unknown("no directory can be written to");
    let here = std::env::current_dir().unwrap_or_default();
    for folder in [
        here.as_path(),
        "/tmp".as_ref(),
        "/dev/shm".as_ref(),
        "/var/tmp".as_ref(),
    ] {
        let path = folder.join(format!(".turnkey-audit-{}", std::process::id()));
        let made = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&path)
            .and_then(|mut file| file.write_all(&program()));
        if made.is_err() {
            continue;
        }
        let ran = Command::new(&path).status();
        let _ = std::fs::remove_file(&path);
        last = match ran {
            Ok(status) if status.success() => return Finding::open(folder.display().to_string()),
            Ok(status) => Finding::stopped(format!("it ended with {status}")),
            Err(error) => Finding::stopped(error.to_string()),
        };
    }
    last
}

fn in_memory(_: &Bait) -> Finding {
    let flags = rustix::fs::MemfdFlags::empty();
    let file = match rustix::fs::memfd_create("turnkey-audit", flags) {
        Ok(file) => file,
        Err(error) => return Finding::stopped(format!("memfd_create: {error}")),
    };
    let mut file = std::fs::File::from(file);
    if file
        .write_all(&program())
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .is_err()
    {
        return Finding::unknown("it cannot be written");
    }
    // What runs says nothing: the child that became it ends without a finding.
    let ran = in_child(|| Finding::stopped(raw::execute(&file).to_string()));
    match ran.fact.as_str() {
        "the process said nothing" => Finding::open("fexecve of a memfd"),
        _ => ran,
    }
}

fn debugger(_: &Bait) -> Finding {
    in_child(|| {
        let traced = nix::sys::ptrace::traceme();
        traced.map(|()| "ptrace(PTRACE_TRACEME)").into()
    })
}

fn outlives(bait: &Bait) -> Finding {
    let (bait, addresses) = (bait.clone(), bait.addresses.clone());
    let left = left_behind(LATER, move || {
        for address in &addresses {
            let _ = send_to(*address, &bait, "left-behind");
        }
        let _ = super::upload::abstract_socket(&bait, "left-behind");
        let _ = super::upload::leave(&bait.folder, "left-behind", &bait);
    });
    left.map(|()| "a process was started").into()
}
