//! `[syscalls]`.

use super::declare::{by_kind, key_table};
use crate::values;

key_table! {
    ["syscalls"] of syscalls;
    /// `[syscalls]`, resolved from groups to names.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    policy SyscallPolicy and {
        /// True when files may be given set-user-ID bits. Inside they have no effect; on the host they
        /// would, so not where the policy lets the jail write to it.
        set_id_files: bool = true,
    },
    read SyscallKeys and {
        inherit: bool {
            form: Truth, read: values::truth, shown: "`true`",
            about: "`false`: what the profiles below allow falls away",
        }
    };
    /// Names as in the kernel's table; all from [`mod@crate::syscalls`].
    allow: union &'static str {
        form: Texts, read: values::syscalls, shown: "",
        about: "groups such as `@basic`, or names of syscalls that stand in one",
    }
}
