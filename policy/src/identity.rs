//! `[identity]`: every key of it is declared here, once.

use crate::key_table::key_table;
use crate::values;

key_table! {
    ["identity"] in identity under "Inside the jail";
    /// `[identity]`.
    policy JailIdentity, read IdentityKeys;
    user: String {
        form: Text, read: values::user, default: "jail".to_owned(), shown: "`jail`",
        about: "user and group name inside",
        flag: "user", value: "NAME", help: "User name in the jail",
    }
    hostname: String {
        form: Text, read: values::hostname, default: "jail".to_owned(), shown: "`jail`",
        about: "host name inside",
        flag: "hostname", value: "NAME", help: "Host name in the jail",
    }
}
