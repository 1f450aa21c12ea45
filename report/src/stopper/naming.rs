//! Attribution of calls that name files: link(2), rename(2), unlink(2), mkdir(2), chmod(2), stat(2) and their relatives.
//!
//! The filter answers before all else, to a call or to its arguments. Of the rest each layer has an errno of its own, and
//! either name can be what it stands on.

use turnkey_facts::NamingCall;
use turnkey_policy::AttemptKind;
use turnkey_policy::syscalls;
use turnkey_policy::syscalls::arguments::{self, RefusalScope};

use super::{Attribution, Outcome, Place, Stopper};

impl Attribution {
    /// A call on the path `object`, which `new` gives another name or, for a symlink, is led to by it, that the
    /// kernel answered with `errno`.
    pub fn change(
        &self,
        (on, call): (AttemptKind, NamingCall),
        (object, new): (&[u8], Option<&[u8]>),
        errno: i32,
    ) -> Outcome {
        let new = new.filter(|_| matches!(on, AttemptKind::Link | AttemptKind::Rename));
        let places: Vec<Place> = std::iter::once(object)
            .chain(new)
            .map(|path| self.tree.place(path))
            .collect();
        let granted = |place: &Place| matches!(place, Place::Granted | Place::Relative);
        match errno {
            0 => Outcome::Allowed,
            _ if !self.has_layers => Outcome::Failed,
            _ if self.is_filtered(call, errno) => Outcome::Denied(Stopper::Seccomp),
            libc::EROFS => Outcome::Denied(Stopper::Mounts),
            libc::ENOENT if places.contains(&Place::Outside) => {
                Outcome::Denied(Stopper::MountNamespace)
            }
            libc::EACCES if is_landlocks(on) && !places.iter().all(granted) => {
                Outcome::Denied(Stopper::Landlock)
            }
            libc::EACCES => Outcome::Denied(Stopper::FilePermissions),
            libc::EPERM if !gives_a_name(on) => Outcome::Denied(Stopper::FilePermissions),
            libc::EINVAL if is_of_unknown_owner(call) => Outcome::Denied(Stopper::UserNamespace),
            _ => Outcome::Failed,
        }
    }

    /// As [`Attribution::for_arguments`], of a call that names files.
    pub fn for_named_arguments(&self, call: NamingCall, errno: i32) -> Option<RefusalScope> {
        let name =
            syscalls::name(call.nr).filter(|name| self.has_layers && self.allows_any(&[name]))?;
        let refusal = arguments::refusal(&self.syscalls, name, &call.args)?;
        (i32::from(refusal.answer.number()) == errno).then_some(refusal.only)
    }

    /// True when the errno is the filter's answer.
    fn is_filtered(&self, call: NamingCall, errno: i32) -> bool {
        let passes = syscalls::name(call.nr).is_some_and(|name| self.allows_any(&[name]));
        !passes && matches!(errno, libc::EPERM | libc::ENOSYS)
            || self.for_named_arguments(call, errno).is_some()
    }
}

/// True when Landlock is asked about such an attempt: it has no right for looking at a file, or for changing its attributes.
fn is_landlocks(on: AttemptKind) -> bool {
    !matches!(
        on,
        AttemptKind::Chmod | AttemptKind::Attribute | AttemptKind::Stat
    )
}

/// True when `EPERM` says as well that such a file cannot get such a name: a directory no second one, nothing a name
/// where the file system has no such files.
fn gives_a_name(on: AttemptKind) -> bool {
    matches!(on, AttemptKind::Link | AttemptKind::Open)
}

/// True when `EINVAL` says that an owner or a group is none in the user namespace. fchownat(2) alone has flags, which
/// could be wrong instead.
fn is_of_unknown_owner(call: NamingCall) -> bool {
    const FLAGS: u64 = 0x1100;
    match syscalls::name(call.nr) {
        Some("chown" | "lchown" | "fchown") => true,
        Some("fchownat") => call.args[4] & u64::from(u32::MAX) & !FLAGS == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;
    use Outcome::{Allowed, Denied, Failed};
    use turnkey_facts::{Address, NetworkAct};
    use turnkey_policy::AttemptKind::{Attribute, Chmod, Link, Open, Rename, Stat, Unlink};
    use turnkey_policy::Policy;

    fn call(name: &str, args: [u64; 6]) -> NamingCall {
        let nr = (0..1000).find(|nr| syscalls::name(*nr) == Some(name));
        NamingCall {
            nr: nr.unwrap(),
            args,
        }
    }

    /// A policy under which files can be managed.
    fn policy() -> Policy {
        let mut policy = fixture::policy();
        let group = syscalls::GROUPS.iter().find(|it| it.name == "@file-manage");
        policy.syscalls.allow.extend(group.unwrap().syscalls);
        policy
    }

    fn changed(on: AttemptKind, name: &str, names: (&str, Option<&str>), errno: i32) -> Outcome {
        let attribution = Attribution::new(&policy());
        let names = (names.0.as_bytes(), names.1.map(str::as_bytes));
        attribution.change((on, call(name, [0; 6])), names, errno)
    }

    #[test]
    fn either_name_can_be_the_one_that_is_not_there_or_not_granted() {
        let inside = "/workspace/a";
        let both = |one: &str, other: &str, errno| {
            let link = changed(Link, "link", (one, Some(other)), errno);
            assert_eq!(link, changed(Rename, "rename", (one, Some(other)), errno));
            link
        };
        for (one, other) in [("/root/x", inside), (inside, "/root/x")] {
            let told = both(one, other, libc::ENOENT);
            assert_eq!(told, Denied(Stopper::MountNamespace), "{one} {other}");
        }
        for (one, other) in [("/etc/x", inside), (inside, "/etc/x")] {
            let told = both(one, other, libc::EACCES);
            assert_eq!(told, Denied(Stopper::Landlock), "{one} {other}");
        }
        assert_eq!(both(inside, "b", libc::ENOENT), Failed);
        assert_eq!(
            both(inside, "b", libc::EACCES),
            Denied(Stopper::FilePermissions)
        );
        assert_eq!(both(inside, "/usr/b", libc::EROFS), Denied(Stopper::Mounts));
        assert_eq!(both(inside, "/tmp/b", libc::EXDEV), Failed);
        assert_eq!(both(inside, "b", 0), Allowed);
    }

    #[test]
    fn where_a_symlink_leads_is_no_place_that_it_needs() {
        let made = changed(
            Open,
            "symlink",
            ("/workspace/a", Some("/root/x")),
            libc::ENOENT,
        );
        assert_eq!(made, Failed);
    }

    #[test]
    fn landlock_has_no_say_in_attributes_and_looks() {
        for (on, name) in [(Chmod, "chmod"), (Attribute, "utimensat"), (Stat, "access")] {
            let told = changed(on, name, ("/etc", None), libc::EACCES);
            assert_eq!(told, Denied(Stopper::FilePermissions), "{name}");
        }
        for (on, name) in [(Unlink, "rmdir"), (Open, "mkdir"), (Open, "truncate")] {
            let told = changed(on, name, ("/etc/x", None), libc::EACCES);
            assert_eq!(told, Denied(Stopper::Landlock), "{name}");
        }
    }

    #[test]
    fn not_permitted_is_about_the_owner_only_where_it_says_nothing_else() {
        for (on, name) in [
            (Chmod, "chown"),
            (Unlink, "unlink"),
            (Rename, "rename"),
            (Attribute, "setxattr"),
        ] {
            let told = changed(on, name, ("/workspace/a", None), libc::EPERM);
            assert_eq!(told, Denied(Stopper::FilePermissions), "{name}");
        }
        for (on, name) in [(Link, "link"), (Open, "mkdir"), (Open, "symlinkat")] {
            let told = changed(on, name, ("/workspace/a", None), libc::EPERM);
            assert_eq!(told, Failed, "{name}");
        }
    }

    #[test]
    fn the_filter_answers_to_calls_and_to_arguments() {
        let mut policy = policy();
        policy.syscalls.set_id_files = false;
        policy.syscalls.allow.remove("symlink");
        let attribution = Attribution::new(&policy);
        let told = |on, name, args| {
            attribution.change((on, call(name, args)), (b"/workspace/a", None), libc::EPERM)
        };
        let filtered = Denied(Stopper::Seccomp);
        for follows in [0x400, 0x1000, 0x1400, 0xffff_0000_0000_0400] {
            let args = [0, 0, 0, 0, follows, 0];
            assert_eq!(told(Link, "linkat", args), filtered, "{follows:x}");
        }
        assert_eq!(told(Link, "linkat", [0; 6]), Failed);
        assert_eq!(told(Chmod, "chmod", [0, 0o4755, 0, 0, 0, 0]), filtered);
        assert_eq!(told(Chmod, "fchmodat", [0, 0, 0o2755, 0, 0, 0]), filtered);
        let denied = Denied(Stopper::FilePermissions);
        assert_eq!(told(Chmod, "chmod", [0, 0o755, 0, 0, 0, 0]), denied);
        // What another call would be refused for.
        assert_eq!(told(Chmod, "fchownat", [0, 0, 0o4755, 0, 0, 0]), denied);
        assert_eq!(told(Open, "symlink", [0; 6]), filtered);
        assert_eq!(told(Open, "symlinkat", [0; 6]), Failed);
    }

    #[test]
    fn an_owner_that_is_nobody_inside_is_a_matter_of_the_user_namespace() {
        let owner = Denied(Stopper::UserNamespace);
        for name in ["chown", "lchown", "fchown", "fchownat"] {
            let told = changed(Chmod, name, ("/workspace/a", None), libc::EINVAL);
            assert_eq!(told, owner, "{name}");
        }
        assert_eq!(
            changed(Chmod, "fchmodat2", ("a", None), libc::EINVAL),
            Failed
        );
        let attribution = Attribution::new(&policy());
        let wrong = call("fchownat", [0, 0, 0, 0, 0x8000, 0]);
        let told = attribution.change((Chmod, wrong), (b"a", None), libc::EINVAL);
        assert_eq!(told, Failed);
    }

    /// A container's own filter or mounts are no layers of turnkey's.
    #[test]
    fn nothing_is_blamed_on_layers_that_an_attachment_does_not_make() {
        let no_files = |path: &str| Err(format!("{path} was asked for"));
        let policy = turnkey_policy::load("container", &no_files, &Default::default()).unwrap();
        let attribution = Attribution::new(&policy);
        for errno in [
            libc::EPERM,
            libc::EACCES,
            libc::EROFS,
            libc::ENOENT,
            libc::ENOSYS,
        ] {
            assert_eq!(attribution.file(b"/root/x", errno), Failed);
            assert_eq!(
                attribution.syscall(Some("prctl"), None, [0; 3], errno),
                Failed
            );
            let unix = Address::UnixPath(b"/run/docker.sock".to_vec());
            assert_eq!(
                attribution.network(NetworkAct::Connect, &unix, errno),
                Failed
            );
        }
        // Turnkey's programs stand on its sockets all the same.
        let inet = Address::Inet("192.0.2.1:80".parse().unwrap());
        let refused = attribution.network(NetworkAct::Connect, &inet, libc::EPERM);
        assert_eq!(refused, Denied(Stopper::CgroupProgram));
    }
}
