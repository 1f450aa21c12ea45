//! `[identity]`: every key of it is declared here, once.

use super::declare::{by_kind, key_table};
use crate::values;

key_table! {
    ["identity"] of identity;
    /// `[identity]`.
    #[derive(Clone, Debug, PartialEq)]
    policy JailIdentity, read IdentityKeys;
    user: one String {
        form: Text, read: values::user, default: "jail".to_owned(), shown: "`jail`",
        about: "user and group name inside",
        flag: "user", value: "NAME", under: "Inside the jail", help: "User name in the jail",
    }
    hostname: one String {
        form: Text, read: values::hostname, default: "jail".to_owned(), shown: "`jail`",
        about: "host name inside",
        flag: "hostname", value: "NAME", under: "Inside the jail", help: "Host name in the jail",
    }
}
