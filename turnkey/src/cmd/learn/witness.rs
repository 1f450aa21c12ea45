//! Paths that a pattern stands for.

use turnkey_policy::{Glob, Token};

/// The most paths that are made of one pattern.
const MOST: usize = 256;

/// Paths that the pattern matches: every wildcard is tried empty, short, and, where it may, over several directories. Of
/// alternatives, each is tried.
pub fn witnesses(pattern: &Glob) -> Vec<Vec<u8>> {
    witnesses_of(pattern.tokens())
}

fn witnesses_of(tokens: &[Token]) -> Vec<Vec<u8>> {
    let mut made = vec![Vec::new()];
    for token in tokens {
        let pieces = pieces(token);
        let longer = made.iter().flat_map(|head: &Vec<u8>| {
            let pieces = pieces.iter();
            pieces.map(move |piece| [head.as_slice(), piece].concat())
        });
        made = longer.take(MOST).collect();
    }
    made
}

fn pieces(token: &Token) -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = match token {
        Token::Literal(bytes) => &[bytes],
        // No pattern names this byte, so whatever matches it matches any.
        Token::AnyByte => &[b"\x7f"],
        Token::AnyName => &[b"", b"q"],
        Token::AnyPath => &[b"", b"q", b"q/q"],
        Token::AnyDirectories => &[b"", b"q/", b"q/q/"],
        Token::OneOf(alternatives) => {
            return alternatives
                .iter()
                .flat_map(|tokens| witnesses_of(tokens))
                .collect();
        }
    };
    texts.iter().map(|text| text.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_may_be_any_is_matched_by_no_pattern_that_names_one() {
        let matches = |pattern: &str, path: &[u8]| Glob::parse(pattern).unwrap().matches(path);
        for path in witnesses(&Glob::parse("/a/???").unwrap()) {
            assert!(matches("/a/*", &path) && matches("/a/???", &path));
            assert!(!matches("/a/q??", &path) && !matches("/a/??q", &path));
        }
    }

    #[test]
    fn witnesses_are_matched() {
        for pattern in [
            "/a/*.so*",
            "/usr/lib/python3*/**",
            "/srv/**/{x,y/**/z}",
            "/{a,b{c,d*}}/x",
            "/a\\*?",
        ] {
            let glob = Glob::parse(pattern).unwrap();
            let witnesses = witnesses(&glob);
            assert!(!witnesses.is_empty());
            for path in witnesses {
                assert!(glob.matches(&path), "{pattern}: {}", path.escape_ascii());
            }
        }
    }
}
