//! The caller's environment: this process's own, or that of a caller whom it serves, whose variables never become this process's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variables of the caller, environ(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerEnvironment(BTreeMap<OsString, OsString>);

impl Default for CallerEnvironment {
    /// The variables of this process.
    fn default() -> Self {
        Self(std::env::vars_os().collect())
    }
}

impl FromIterator<(OsString, OsString)> for CallerEnvironment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl CallerEnvironment {
    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable that is an absolute path.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.get(name)?);
        path.is_absolute().then_some(path)
    }

    /// The variables with their values, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }
}
