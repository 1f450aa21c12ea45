//! `[scan]`.

use super::declare::{by_kind, key_table};
use crate::values;

key_table! {
    ["scan"];
    /// `[scan]`: the look at a script before it runs, which decides nothing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    policy ScanPolicy, read ScanKeys;
    /// The modules that Python scripts may import; without any, all.
    allowed_imports: union String {
        form: Texts, read: values::module, shown: "all",
        about: "Python modules that a script may import: `run --scan` and `scan --profile` report each other one; an empty list permits all",
    }
}
