//! Literal heads: the beginnings, up to the first wildcard, of the paths that a pattern matches.

use super::{Glob, Token};
use crate::home::Beginning;

/// More beginnings than this are taken for any.
const MOST: usize = 4096;

/// One beginning, of which a pattern has several when alternatives stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternHead {
    bytes: Vec<u8>,
    /// A wildcard comes next; otherwise this is the whole path.
    is_open: bool,
}

impl PatternHead {
    const ANY: Self = Self {
        bytes: Vec::new(),
        is_open: true,
    };

    /// True when a path with this head may be `place`, or lie below it; never wrongly false.
    pub(crate) fn may_be_below(&self, place: &[u8]) -> bool {
        let place = place.strip_suffix(b"/").unwrap_or(place);
        match self.bytes.strip_prefix(place) {
            Some(rest) => rest.is_empty() || rest[0] == b'/',
            None => self.is_open && place.starts_with(&self.bytes),
        }
    }

    /// The same, for who looks whether there is such a path.
    pub(crate) fn beginning(&self) -> Beginning<'_> {
        Beginning {
            bytes: &self.bytes,
            is_open: self.is_open,
        }
    }

    fn then(&self, token: &Token) -> Vec<Self> {
        if self.is_open {
            return vec![self.clone()];
        }
        match token {
            Token::Literal(bytes) => vec![Self {
                bytes: [self.bytes.as_slice(), bytes].concat(),
                is_open: false,
            }],
            Token::OneOf(alternatives) => {
                let each = alternatives.iter();
                each.flat_map(|tokens| after(vec![self.clone()], tokens))
                    .collect()
            }
            Token::AnyByte | Token::AnyName | Token::AnyPath | Token::AnyDirectories => {
                vec![Self {
                    is_open: true,
                    ..self.clone()
                }]
            }
        }
    }
}

impl Glob {
    /// The literal heads of the paths that the pattern matches.
    pub(crate) fn heads(&self) -> Vec<PatternHead> {
        let nothing = PatternHead {
            is_open: false,
            ..PatternHead::ANY
        };
        after(vec![nothing], self.tokens())
    }
}

fn after(heads: Vec<PatternHead>, tokens: &[Token]) -> Vec<PatternHead> {
    let mut heads = heads;
    for token in tokens {
        heads = heads.iter().flat_map(|head| head.then(token)).collect();
        if heads.len() > MOST {
            return vec![PatternHead::ANY];
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn may_be_below(pattern: &str, place: &str) -> bool {
        let glob = Glob::parse(pattern).unwrap();
        let heads = glob.heads();
        heads.iter().any(|head| head.may_be_below(place.as_bytes()))
    }

    #[test]
    fn a_pattern_meets_the_places_that_it_reaches_and_those_that_it_lies_in() {
        let pattern = "/{home/*,root}/.{profile,config/**}";
        for place in ["/", "/home", "/home/ada", "/root", "/root/.config/git"] {
            assert!(may_be_below(pattern, place), "{place}");
        }
        for place in ["/usr", "/ro", "/rooted", "/root/src", "/root/.profiles"] {
            assert!(!may_be_below(pattern, place), "{place}");
        }
        assert!(may_be_below("/etc/a", "/etc/a"));
        assert!(!may_be_below("/etc/a", "/etc/a/b"));
    }

    #[test]
    fn too_many_beginnings_are_any() {
        let pattern = "/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}";
        assert!(may_be_below(pattern, "/elsewhere"));
    }

    /// A piece of a pattern, with a text that it may match there.
    fn piece() -> impl Strategy<Value = (&'static str, &'static str)> {
        prop::sample::select(vec![
            ("a", "a"),
            ("/", "/"),
            ("*", "ba"),
            ("**", "b/a"),
            ("?", "b"),
            ("{a/b,b}", "a/b"),
            ("{a,b*}", "baa"),
        ])
    }

    proptest! {
        #[test]
        fn no_path_below_a_place_is_left_out(
            pieces in prop::collection::vec(piece(), 1..6),
            cut in 1_usize..12,
        ) {
            let pattern: String = pieces.iter().map(|(pattern, _)| *pattern).collect();
            let path: String = pieces.iter().map(|(_, path)| *path).collect();
            let (pattern, path) = (format!("/{pattern}"), format!("/{path}"));
            let Ok(glob) = Glob::parse(&pattern) else {
                return Ok(());
            };
            let place = &path[..cut.min(path.len())];
            let rest = &path[place.len()..];
            let is_below = place == "/" || rest.is_empty() || rest.starts_with('/');
            if is_below && glob.matches(path.as_bytes()) {
                prop_assert!(may_be_below(&pattern, place), "{pattern} {path} {place}");
            }
        }
    }
}
