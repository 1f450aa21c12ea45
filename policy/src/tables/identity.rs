//! `[identity]`: every key of it is declared here, once.

use super::declare::{by_kind, key_table};
use crate::values;

key_table! {
    ["identity"];
    /// `[identity]`.
    #[derive(Clone, Debug, PartialEq)]
    compared JailIdentity, read IdentityKeys;
    user: one String {
        form: Text, read: values::user, default: "jail".to_owned(), shown: "`jail`",
        about: "name of the user and group inside; the ids of `root` are 0, without any capability, those of any other name 1000",
        flag: "user", value: "NAME", under: "Inside the jail", help: "User name in the jail",
    }
    hostname: one String {
        form: Text, read: values::hostname, default: "jail".to_owned(), shown: "`jail`",
        about: "host name inside",
        flag: "hostname", value: "NAME", under: "Inside the jail", help: "Host name in the jail",
    }
}

impl JailIdentity {
    /// The number of the user and of the group inside. As 0, a program that only asks who it is takes itself for root.
    #[must_use]
    pub fn id(&self) -> u32 {
        if self.user == "root" { 0 } else { 1000 }
    }
}
