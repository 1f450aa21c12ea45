//! A place of our own among the groups of a host that systemd runs.
//!
//! There the tree of control groups is systemd's: others make groups only below one that it has
//! delegated (systemd.io/CGROUP_DELEGATION). Where this process is in none, it asks for a scope,
//! as `systemd-run --scope -p Delegate=yes` would, and moves into a leaf of it, because a group
//! with processes in it can have no limited children. systemd removes the scope when it is empty.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use turnkey_jailer::OwnGroup;

/// The longest time that systemd may take to move this process.
const PATIENCE: Duration = Duration::from_secs(5);

/// The facts that decide where the jail's groups are made.
#[derive(Clone, Copy, Debug)]
struct ScopeFacts {
    /// sd_booted(3)
    systemd: bool,
    /// The v2 hierarchy holds the controllers; on hybrid hosts they are in v1, where systemd
    /// delegates nothing.
    unified: bool,
    /// The unit that we are in was delegated, or a group that it has made.
    delegated: bool,
    /// True when we may ask: the system's manager as root, or a manager of this user's own.
    may_ask: bool,
}

impl ScopeFacts {
    fn wants_scope(self) -> bool {
        self.systemd && self.unified && !self.delegated && self.may_ask
    }
}

/// Gets a scope where one is needed, as the user whom a manager knows: before this process is in a
/// user namespace of its own. The answer is why there is none all the same: the groups are
/// then made where the kernel allows it, and the user is told.
pub fn enter() -> anyhow::Result<()> {
    let root = nix::unistd::geteuid().is_root();
    let systemd = Path::new("/run/systemd/system").is_dir();
    if !systemd {
        return Ok(());
    }
    let Some(own) = OwnGroup::find() else {
        return Ok(());
    };
    let facts = ScopeFacts {
        systemd,
        unified: own.offers_memory(),
        delegated: is_delegated(&own),
        may_ask: root || has_own_manager(),
    };
    if !facts.wants_scope() {
        return Ok(());
    }
    let name = format!("turnkey-{}.scope", std::process::id());
    ask(&name, root)?;
    wait_for(&name)?
        .settle()
        .context("could not enter the scope that systemd gave")
}

fn has_own_manager() -> bool {
    std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|run| Path::new(&run).join("bus").exists())
}

/// systemd marks what it delegates with an extended attribute.
fn is_delegated(own: &OwnGroup) -> bool {
    nearest_unit_is(own.upwards(), |group| {
        ["trusted.delegate", "user.delegate"].iter().any(|name| {
            let mut value = [0; 1];
            rustix::fs::getxattr(group, *name, &mut value)
                .is_ok_and(|length| value[..length] == *b"1")
        })
    })
}

/// True when the unit that these groups are in is marked, or a group of its own making below it.
/// What is above that unit was delegated to another manager, such as that of a user, and not to
/// us.
fn nearest_unit_is<'a>(
    mut upwards: impl Iterator<Item = &'a Path>,
    marked: impl Fn(&Path) -> bool,
) -> bool {
    let is_unit = |group: &Path| {
        let end = group.extension().unwrap_or_default();
        end == "service" || end == "scope"
    };
    upwards
        .find(|group| marked(group) || is_unit(group))
        .is_some_and(marked)
}

/// org.freedesktop.systemd1(5), `StartTransientUnit`.
fn ask(name: &str, root: bool) -> anyhow::Result<()> {
    let own = std::process::id().to_string();
    let mut busctl = Command::new("busctl");
    busctl.args(if root { &[][..] } else { &["--user"] }).args([
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        name,
        "fail",
    ]);
    // Three properties and no further unit.
    busctl.args(["3", "PIDs", "au", "1", &own, "Delegate", "b", "true"]);
    busctl.args(["Description", "s", "a jail of turnkey", "0"]);
    let answer = busctl.stdin(Stdio::null()).output();
    let answer = answer.context("could not start busctl, which comes with systemd")?;
    if !answer.status.success() {
        let words = String::from_utf8_lossy(&answer.stderr);
        bail!("systemd refused a scope: {}", words.trim());
    }
    Ok(())
}

/// The move is a job of systemd's that takes a moment.
fn wait_for(name: &str) -> anyhow::Result<OwnGroup> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(own) = OwnGroup::find().filter(|own| own.directory().ends_with(name)) {
            return Ok(own);
        }
        if Instant::now() > deadline {
            bail!("systemd gave the scope {name} and did not move turnkey into it");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS_ONE: ScopeFacts = ScopeFacts {
        systemd: true,
        unified: true,
        delegated: false,
        may_ask: true,
    };

    #[test]
    fn what_was_delegated_to_another_manager_is_not_ours() {
        let ours = |path: &str, delegated: &str| {
            nearest_unit_is(Path::new(path).ancestors(), |it| it == Path::new(delegated))
        };
        let manager = "/user.slice/user-1000.slice/user@1000.service";
        let shell = format!("{manager}/app.slice/shell.scope");
        assert!(!ours(&shell, manager));
        assert!(ours(&shell, &shell));
        assert!(ours(&format!("{shell}/leaf"), &shell));
        assert!(ours("/container/leaf", "/container"));
        assert!(!ours("/container/leaf", "/other"));
    }

    #[test]
    fn a_scope_is_asked_for_only_where_systemd_says_so() {
        assert!(NEEDS_ONE.wants_scope());
        let others = [
            ScopeFacts {
                systemd: false,
                ..NEEDS_ONE
            },
            ScopeFacts {
                unified: false,
                ..NEEDS_ONE
            },
            ScopeFacts {
                delegated: true,
                ..NEEDS_ONE
            },
            ScopeFacts {
                may_ask: false,
                ..NEEDS_ONE
            },
        ];
        for facts in others {
            assert!(!facts.wants_scope(), "{facts:?}");
        }
    }
}
