//! `[syscalls]`.

use super::declare::{by_kind, key_table};
use crate::syscalls;
use crate::values::{self, ValueError, nearest, suggest};

key_table! {
    ["syscalls"];
    /// `[syscalls]`, resolved from groups to names.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    policy SyscallPolicy and {
        /// True when files may be given set-user-ID bits. Inside they have no effect; on the host they
        /// would, so not where the policy lets the jail write to it.
        set_id_files: bool = true,
        /// True in the network mode `host`, where sockets lead to what is the host's.
        host_network: bool = false,
    },
    read SyscallKeys and {
        inherit: bool {
            form: Truth, read: values::truth, shown: "`true`",
            about: "`false`: what the profiles of `extends` allow does not apply",
        }
    };
    /// Names as in the kernel's table; all from [`mod@crate::syscalls`].
    allow: union &'static str {
        form: Texts, read: named, shown: "",
        about: "groups such as `@basic`, or names of syscalls that one contains",
    }
}

/// The syscalls of a group, or the one of this name.
fn named(text: &str) -> Result<Vec<&'static str>, ValueError> {
    if text.starts_with('@') {
        let names: Vec<&str> = syscalls::names().collect();
        return syscalls::named(text).ok_or_else(|| {
            ValueError::new(format!("there is no group {text:?}"), suggest(text, &names))
        });
    }
    if let Some(name) = syscalls::allowable(text) {
        return Ok(vec![name]);
    }
    if let Some(why) = syscalls::why_never(text) {
        return Err(ValueError::new(
            format!("the syscall {text} is never allowed in a jail"),
            format!("{why}; remove it"),
        ));
    }
    let grouped = syscalls::GROUPS
        .iter()
        .flat_map(|group| group.syscalls.iter().copied());
    let help = match nearest(text, grouped) {
        Some(name) => format!("did you mean {name}?"),
        None => "write a name as in syscalls(2), or a group such as @basic".to_owned(),
    };
    Err(ValueError::new(
        format!("there is no syscall {text:?}"),
        help,
    ))
}
