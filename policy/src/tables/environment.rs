//! `[env]`.

use std::collections::BTreeMap;

use super::declare::{by_kind, key_table};
use crate::read::SectionReader;
use crate::{flags, values};

key_table! {
    ["env"];
    /// `[env]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    policy JailEnvironment, read EnvironmentKeys;
    pass: list String {
        form: Texts, read: values::variable_name, same: |name| name, shown: "`[]`",
        about: "names handed through from the caller",
        flag: "env", value: "NAME[=VALUE]", under: "Inside the jail",
        help: "Pass this variable of the caller, or set it",
        apply: flags::environment,
    }
    set: map BTreeMap<String, String> {
        form: TextTable, read: fixed, shown: "`{}`",
        about: "names with fixed values; wins over `pass`; `{limits.memory}` in one is that limit in bytes, `{limits.memory/2M}` its half in MiB, `{limits.cpus}` the CPUs that `limits.cpu` comes to",
    }
}

fn fixed(section: &mut SectionReader<'_, '_, '_>, name: &str) -> BTreeMap<String, String> {
    section.text_table(name, values::variable_name, values::variable_value)
}
