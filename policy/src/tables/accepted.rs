//! `[[accept]]`.

use super::declare::{by_kind, key_table};
use crate::values;

key_table! {
    ["accept"];
    /// A finding that is known and no reason for suspicion.
    #[derive(Clone, Debug, PartialEq, Eq)]
    entry AcceptedFinding, read AcceptedKeys;
    finding: needed String {
        form: Text, read: values::text, shown: "",
        about: "its id in a report: a rule's, `behaviour:…` or `turnkey:…`",
    }
    why: needed String {
        form: Text, read: values::reason, shown: "",
        about: "why it is no reason for suspicion",
    }
    until: needed time::Date {
        form: Text, read: values::date, shown: "",
        about: "the last day on which it is accepted, as `2027-12-31`, in UTC",
    }
}
