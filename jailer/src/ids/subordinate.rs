//! A range of ids that the administrator gave the caller, subuid(5), mapped by newuidmap(1).
//!
//! The kernel lets nobody map another's ids; the two programs of the package `uidmap` may, for the
//! ranges of /etc/subuid and /etc/subgid. They have to be started from outside of the namespace,
//! so a helper is forked before it is entered. Everything here is optional: what does not
//! work is done without, and shows in what the namespace then has.
#![expect(clippy::disallowed_methods, reason = "files of root's")]

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};

use crate::sys;

/// The paths of the helpers on Debian, Fedora and Arch. Not looked up in PATH: the caller's own programs of that
/// name could not do it anyway.
const PROGRAMS: [&str; 2] = ["/usr/bin/newuidmap", "/usr/bin/newgidmap"];
/// More than a jail needs, and what a namespace of ids usually has.
const MOST: u32 = 65_536;

/// First id and count, for users and for groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubordinateIds {
    users: (u32, u32),
    groups: (u32, u32),
}

impl SubordinateIds {
    /// The ranges of `user`, when there are both and the programs to map them.
    pub fn for_user(user: u32) -> Option<SubordinateIds> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let name = name_of(&read("/etc/passwd"), user);
        let find = |path| range(&read(path), name.as_deref(), user);
        let has_programs = PROGRAMS
            .iter()
            .all(|path| std::path::Path::new(path).exists());
        let ranges = SubordinateIds {
            users: find("/etc/subuid")?,
            groups: find("/etc/subgid")?,
        };
        has_programs.then_some(ranges)
    }
}

fn name_of(accounts: &str, user: u32) -> Option<String> {
    let user = user.to_string();
    let mut lines = accounts.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == user).then(|| name.to_owned())
    })
}

/// subuid(5): `name or id:first:count`.
fn range(text: &str, name: Option<&str>, user: u32) -> Option<(u32, u32)> {
    let user = user.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let first = fields.next()?.parse().ok()?;
        let count: u32 = fields.next()?.trim().parse().ok()?;
        let is_callers = Some(owner) == name || owner == user;
        (is_callers && count > 1).then_some((first, count.min(MOST)))
    })
}

/// Waits outside of the namespace to map the ids of the process that forked it.
#[derive(Debug)]
pub struct IdMapper {
    helper: Pid,
    go: Option<OwnedFd>,
}

impl IdMapper {
    /// Forks it. The caller has a single thread, so its child may do whatever it likes.
    pub fn start(ranges: SubordinateIds, user: u32, group: u32) -> Result<IdMapper, Errno> {
        let (waiting, go) = pipe2(OFlag::O_CLOEXEC)?;
        let target = std::process::id();
        if let Some(helper) = sys::fork()? {
            return Ok(IdMapper {
                helper: Pid::from_raw(helper),
                go: Some(go),
            });
        }
        drop(go);
        let mut byte = [0];
        if nix::unistd::read(&waiting, &mut byte) != Ok(1) {
            sys::exit(1);
        }
        let [users, groups] = PROGRAMS;
        let mapped =
            map(groups, target, group, ranges.groups) && map(users, target, user, ranges.users);
        sys::exit(i32::from(!mapped))
    }

    /// Has it done, now that this process is in its namespace; whether it worked.
    pub fn map(mut self) -> bool {
        let Some(go) = self.go.take() else {
            return false;
        };
        let sent = nix::unistd::write(&go, b"g") == Ok(1);
        drop(go);
        sent && self.wait() == Ok(WaitStatus::Exited(self.helper, 0))
    }

    fn wait(&self) -> Result<WaitStatus, Errno> {
        loop {
            match waitpid(self.helper, None) {
                Err(Errno::EINTR) => {}
                ended => return ended,
            }
        }
    }
}

impl Drop for IdMapper {
    fn drop(&mut self) {
        // Without the sign it ends and has done nothing; after it, it has been waited for.
        if self.go.take().is_some() {
            let _ = self.wait();
        }
    }
}

/// The caller as root, and the range behind it.
fn map(program: &str, target: u32, own: u32, (first, count): (u32, u32)) -> bool {
    let numbers = [target, 0, own, 1, 1, first, count];
    let mut command = Command::new(program);
    command
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBUID: &str =
        "# a comment\nother:100000:65536\nanna:165536:100000\n1007:300000:10\nnone:1:0\n";

    #[test]
    fn a_range_is_found_by_name_and_by_number() {
        assert_eq!(range(SUBUID, Some("anna"), 1000), Some((165_536, 65_536)));
        assert_eq!(range(SUBUID, None, 1007), Some((300_000, 10)));
        assert_eq!(range(SUBUID, Some("somebody"), 1), None);
        assert_eq!(range(SUBUID, Some("none"), 1), None);
    }

    #[test]
    fn an_account_is_found_by_its_number() {
        let accounts = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/:/bin/sh\nbroken\n";
        assert_eq!(name_of(accounts, 1000).as_deref(), Some("anna"));
        assert_eq!(name_of(accounts, 7), None);
    }
}
