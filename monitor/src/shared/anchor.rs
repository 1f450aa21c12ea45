//! The anchor: a cgroup that never has a process, and that the programs for sockets are attached to as long as they are loaded.
//!
//! The first program of a kind that is attached to any group of the host, and the last that is taken off, have the
//! kernel rewrite its own code, for which every CPU waits (`cgroup_bpf_enabled_key` in `kernel/bpf/cgroup.c`).
//! There are seven kinds, and each jail has them attached twice, for its canaries and for itself: a tenth of a start.
//! While this group has them, a jail's are neither the first nor the last.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use aya::Ebpf;
use nix::errno::Errno;

use crate::error::{OpenError, explain_program, refused};
use crate::load::GROUP_HOOKS;
use crate::sys;

use super::claim::hierarchy;
use super::folder::{SharedError, found, make};

/// Beginning of the group's name. Not as those of jails do: it is no run's, and what runs leave is swept away.
const PREFIX: &str = "turnkey.";

/// The group of the programs of that name; `None` where version 2 of control groups is not mounted.
fn group(name: &str) -> Option<PathBuf> {
    Some(hierarchy()?.join(format!("{PREFIX}{name}")))
}

/// Most attempts to make a group that another load takes away in the same moment: a process with another BPF file
/// system, as in another mount namespace, has another lock, and the same groups.
const TRIES: usize = 8;

/// Makes it, and keeps the programs attached to it by links in `pins`.
pub(super) fn attach(name: &str, ebpf: &Ebpf, pins: &Path) -> Result<(), OpenError> {
    let Some(group) = group(name) else {
        return Ok(());
    };
    for _ in 0..TRIES {
        match fs::create_dir(&group) {
            // Left by a load that was ended half way.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Not ours to change, as in a container: starts take a tenth longer there, and are the same.
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
        if let Some(links) = link(&group, ebpf)? {
            return keep(&links, pins);
        }
    }
    // As where it is not ours to change.
    Ok(())
}

/// A link for each program; `None` when the group is not there any more.
fn link(group: &Path, ebpf: &Ebpf) -> Result<Option<Vec<(&'static str, OwnedFd)>>, OpenError> {
    let group = match File::open(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(found(group))?,
    };
    let mut links = Vec::new();
    for (name, hook) in GROUP_HOOKS {
        let program = ebpf.program(name).ok_or(OpenError::Incomplete { name })?;
        let program = program.fd();
        let program = program.map_err(|source| explain_program(name, source))?;
        match sys::link_to(program.as_fd(), group.as_fd(), hook) {
            Ok(link) => links.push((name, link)),
            // css_tryget_online_from_dir() in kernel/cgroup/cgroup.c, of a group that was removed.
            Err(Errno::ENOENT | Errno::ENODEV) => return Ok(None),
            Err(errno) => return Err(explain_program(name, refused("bpf_link_create", errno))),
        }
    }
    Ok(Some(links))
}

fn keep(links: &[(&str, OwnedFd)], pins: &Path) -> Result<(), OpenError> {
    make(pins)?;
    for (name, link) in links {
        let path = pins.join(name);
        sys::pin(link.as_fd(), &path).map_err(found(&path))?;
    }
    Ok(())
}

/// Takes it away, if it is there.
pub(super) fn detach(name: &str) -> Result<(), SharedError> {
    let Some(group) = group(name) else {
        return Ok(());
    };
    match fs::remove_dir(&group) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SharedError::pinned(&group, error))
        }
        _ => Ok(()),
    }
}
