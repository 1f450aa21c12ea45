//! The tables of a profile: every key of them is declared here, once.

mod accepted;
pub(crate) mod declare;
mod enforcement;
mod environment;
mod filesystem;
mod identity;
mod limits;
mod network;
mod rule;
mod scan;
mod syscalls;

use crate::behaviour;
use crate::keys::{ProfileKey, ValueForm, key};
use declare::KeyTable;

pub use accepted::AcceptedFinding;
pub(crate) use accepted::AcceptedKeys;
pub(crate) use enforcement::EnforcementKeys;
pub use enforcement::EnforcementPolicy;
pub(crate) use environment::EnvironmentKeys;
pub use environment::JailEnvironment;
pub(crate) use filesystem::FilesystemKeys;
pub use filesystem::{FilesystemPolicy, HostPath, ScratchMount, WorkdirPolicy};
pub(crate) use identity::IdentityKeys;
pub use identity::JailIdentity;
pub use limits::JailLimits;
pub(crate) use limits::LimitKeys;
pub(crate) use network::NetworkKeys;
pub use network::{AllowedHost, NetworkPolicy};
pub(crate) use rule::RuleKeys;
pub use rule::{LackingPlace, Rule};
pub(crate) use scan::ScanKeys;
pub use scan::ScanPolicy;
pub(crate) use syscalls::SyscallKeys;
pub use syscalls::SyscallPolicy;

/// The keys of every table, in the order in which the reference lists them.
const TABLES: &[&[ProfileKey]] = &[
    TOP,
    FilesystemKeys::KEYS,
    filesystem::READ,
    filesystem::WRITE,
    filesystem::ScratchKeys::KEYS,
    filesystem::WorkdirKeys::KEYS,
    NetworkKeys::KEYS,
    network::AllowedKeys::KEYS,
    LimitKeys::KEYS,
    IdentityKeys::KEYS,
    EnvironmentKeys::KEYS,
    SyscallKeys::KEYS,
    EnforcementKeys::KEYS,
    ScanKeys::KEYS,
    behaviour::KEYS,
    AcceptedKeys::KEYS,
    RuleKeys::KEYS,
];

/// The keys of profiles, table by table: what the reader accepts, what error messages suggest and what the reference in
/// `docs/profile.md` lists.
pub const KEYS: &[ProfileKey] = &joined::<{ count(TABLES) }>(TABLES);

const fn count(parts: &[&[ProfileKey]]) -> usize {
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

const fn joined<const COUNT: usize>(parts: &[&[ProfileKey]]) -> [ProfileKey; COUNT] {
    let mut all = [parts[0][0]; COUNT];
    let (mut next, mut part) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[next] = parts[part][index];
            next += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

/// The keys at the top.
#[rustfmt::skip]
const TOP: &[ProfileKey] = &[
    key("", "schema", ValueForm::Text, "", "`turnkey.profile/v1`"),
    key("", "name", ValueForm::Text, "", "the profile's name in reports"),
    key("", "description", ValueForm::Text, "`\"\"`", "one line for people"),
    key("", "extends", ValueForm::Texts, "`[]`", "profiles this one builds on, by name or by file"),
    key("", "filesystem", ValueForm::Table, "", "what the jail's tree holds"),
    key("", "network", ValueForm::Table, "", "what the jail may reach"),
    key("", "limits", ValueForm::Table, "", "what the whole tree of processes may use"),
    key("", "identity", ValueForm::Table, "", "who the program is inside"),
    key("", "env", ValueForm::Table, "", "what the program finds in its environment"),
    key("", "syscalls", ValueForm::Table, "", "which syscalls pass the filter"),
    key("", "enforcement", ValueForm::Table, "", "what must hold, and what happens when it does not"),
    key("", "scan", ValueForm::Table, "", "what a look at a script before it runs takes for a finding"),
    key("", "behaviour", ValueForm::Table, "", "the action for each behaviour, which is a course of several acts: see [Behaviours](behaviours.md)"),
    key("", "accept", ValueForm::Tables, "", "findings that are known and no reason for suspicion"),
    key("", "rule", ValueForm::Tables, "", "what an attempt means"),
];

/// The keys of one table.
pub fn keys_in_table(table: &str) -> impl Iterator<Item = &'static ProfileKey> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// The key of this name in a table.
#[must_use]
pub fn find_key(table: &str, name: &str) -> Option<&'static ProfileKey> {
    keys_in_table(table).find(|key| key.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::WiderValue;

    #[test]
    fn every_table_is_a_key_of_the_one_above() {
        for key in KEYS.iter().filter(|key| !key.table.is_empty()) {
            let (above, name) = key.table.rsplit_once('.').unwrap_or(("", key.table));
            assert!(find_key(above, name).is_some(), "{}", key.table);
        }
    }

    #[test]
    fn an_order_of_words_has_each_of_the_set() {
        for key in KEYS {
            let (WiderValue::Later(order), ValueForm::Word(words)) = (key.wider, key.form) else {
                assert!(!matches!(key.wider, WiderValue::Later(_)), "{}", key.path());
                continue;
            };
            let (mut order, mut words) = (order.to_vec(), words());
            order.sort_unstable();
            words.sort_unstable();
            assert_eq!(order, words, "{}", key.path());
        }
    }

    #[test]
    fn no_key_stands_twice() {
        for key in KEYS {
            let same = keys_in_table(key.table).filter(|other| other.name == key.name);
            assert_eq!(same.count(), 1, "{}", key.path());
        }
    }
}
