//! One name for the workspace in all that is told of a run, where the jail has it under several.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;

use turnkey_facts::Event;
use turnkey_policy::{Policy, WORKSPACE};

/// The paths besides `/workspace` that lead to the workspace.
#[derive(Debug)]
pub struct WorkspaceNames(Vec<Vec<u8>>);

impl WorkspaceNames {
    /// The paths of a settled policy.
    pub fn from_policy(policy: &Policy) -> WorkspaceNames {
        let names = policy.filesystem.names.iter();
        let names = names.map(|name| name.as_os_str().as_bytes().to_vec());
        WorkspaceNames(names.collect())
    }

    /// The event with the files of the workspace named below `/workspace`.
    pub fn told<'e>(&self, event: &'e Event) -> Cow<'e, Event> {
        if self.0.is_empty() {
            return Cow::Borrowed(event);
        }
        let mut event = event.clone();
        for path in event.kind.paths_mut() {
            let rest = self.0.iter().find_map(|name| below(path, name));
            if let Some(rest) = rest.map(<[u8]>::to_vec) {
                *path = [WORKSPACE.as_bytes(), &rest].concat();
            }
        }
        Cow::Owned(event)
    }
}

fn below<'p>(path: &'p [u8], directory: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(directory)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_the_directory_is_below_it() {
        assert_eq!(below(b"/home/a/p", b"/home/a/p"), Some(b"".as_slice()));
        assert_eq!(below(b"/home/a/p/x", b"/home/a/p"), Some(b"/x".as_slice()));
        assert_eq!(below(b"/home/a/pp", b"/home/a/p"), None);
    }
}
