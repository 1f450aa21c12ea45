//! The argument `--map` of `diff`.

use std::str::FromStr;

use serde::{Serialize, Serializer};
use turnkey_report::escape;

/// The argument of `--map`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapArgument {
    /// `auto`: what has moved is found.
    Auto,
    /// `FROM=TO`
    Given(Moved),
}

/// A directory, or a name wherever it stands, of A that is another one of B.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// An absolute path, or a single name.
    #[serde(serialize_with = "escaped")]
    pub from: Vec<u8>,
    /// The path or name of B that is the same, of the same kind.
    #[serde(serialize_with = "escaped")]
    pub to: Vec<u8>,
}

fn escaped<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&escape(bytes))
}

impl FromStr for MapArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write FROM=TO, two absolute paths or two names, such as /opt/app-1.2=/opt/app-1.3; or auto";
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let (from, to) = text.split_once('=').ok_or(FORM)?;
        let [from, to] = [from, to].map(|side| side.trim_end_matches('/'));
        let is_path = |side: &str| side.starts_with('/') && !side.contains("//");
        let is_name = |side: &str| !side.is_empty() && !side.contains('/');
        let is_right = is_path(from) && is_path(to) || is_name(from) && is_name(to);
        is_right
            .then(|| Self::Given(Moved::new(from, to)))
            .ok_or_else(|| FORM.to_owned())
    }
}

impl Moved {
    /// One is the other.
    pub fn new(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Self {
        Self {
            from: from.as_ref().to_vec(),
            to: to.as_ref().to_vec(),
        }
    }

    /// A path of A, as B has it.
    pub fn apply(&self, path: &[u8]) -> Vec<u8> {
        if self.from.starts_with(b"/") {
            let rest = path.strip_prefix(&self.from[..]);
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(b"/"));
            return rest.map_or_else(|| path.to_vec(), |rest| [&self.to[..], rest].concat());
        }
        let names = path.split(|byte| *byte == b'/');
        let names = names.map(|name| {
            if name == self.from {
                &self.to[..]
            } else {
                name
            }
        });
        names.collect::<Vec<_>>().join(&b'/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_paths_or_two_names_are_a_map() {
        for right in ["a=b", "/a=/b/c", "/a/=/b/", "auto"] {
            assert!(right.parse::<MapArgument>().is_ok(), "{right}");
        }
        for wrong in ["", "a", "a=", "=b", "/a=b", "a/b=c/d", "/a//b=/c", "/=/b"] {
            assert!(wrong.parse::<MapArgument>().is_err(), "{wrong}");
        }
    }
}
