//! A group in which nobody ever is, and that the programs for sockets are attached to as long as they are loaded.
//!
//! The first program of a kind that is attached to any group of the host, and the last that is taken off, have the
//! kernel rewrite its own code, for which every processor waits (`cgroup_bpf_enabled_key` in `kernel/bpf/cgroup.c`).
//! There are seven kinds, and each jail has them attached twice, for its canaries and for itself: a tenth of a start.
//! While this group has them, a jail's are neither the first nor the last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::{CgroupAttachMode, FdLink, LinkError};
use aya::programs::{CgroupSock, CgroupSockAddr};

use crate::open::{OpenError, explain_program, pin_failed};
use crate::programs::{ADDRESS_HOOKS, SOCKET_HOOK, program};

use super::claim::hierarchy;
use super::folder::{SharedError, found, make};

/// How its name begins. Not as those of jails do: it is no run's, and what runs leave is swept away.
const PREFIX: &str = "turnkey.";

/// The group of the programs of that name; `None` where version 2 of control groups is not mounted.
fn group(name: &str) -> Option<PathBuf> {
    Some(hierarchy()?.join(format!("{PREFIX}{name}")))
}

/// Makes it, and keeps the programs attached to it by links in `pins`.
pub(super) fn stand(name: &str, ebpf: &mut Ebpf, pins: &Path) -> Result<(), OpenError> {
    let Some(group) = group(name) else {
        return Ok(());
    };
    match fs::create_dir(&group) {
        // Left by a load that was ended half way.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // Not ours to change, as in a container: starts take a tenth longer there, and are the same.
        Err(_) => return Ok(()),
        Ok(()) => {}
    }
    make(pins)?;
    let group = File::open(&group).map_err(found(&group))?;
    for name in ADDRESS_HOOKS {
        let hook: &mut CgroupSockAddr = program(ebpf, name)?;
        let link = hook
            .attach(&group, MODE)
            .and_then(|id| hook.take_link(id))
            .map_err(|source| explain_program(name, source))?;
        pin(name, FdLink::try_from(link), pins)?;
    }
    let hook: &mut CgroupSock = program(ebpf, SOCKET_HOOK)?;
    let link = hook
        .attach(&group, MODE)
        .and_then(|id| hook.take_link(id))
        .map_err(|source| explain_program(SOCKET_HOOK, source))?;
    pin(SOCKET_HOOK, FdLink::try_from(link), pins)
}

/// For a link, the kernel wants no flag and means "many".
const MODE: CgroupAttachMode = CgroupAttachMode::Single;

fn pin(name: &'static str, link: Result<FdLink, LinkError>, pins: &Path) -> Result<(), OpenError> {
    let link = link.map_err(|source| OpenError::Program {
        name,
        source: Box::new(source),
    })?;
    let path = pins.join(name);
    link.pin(&path).map(drop).map_err(pin_failed(&path))
}

/// Takes it away, if it is there.
pub(super) fn fall(name: &str) -> Result<(), SharedError> {
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
