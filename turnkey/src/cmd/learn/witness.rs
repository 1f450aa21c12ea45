//! Paths that a pattern stands for.

/// Paths that the pattern matches, or text close to one: every wildcard is tried empty, short, and, where it
/// may, over several directories. Of alternatives, each is tried.
pub fn witnesses(pattern: &str) -> Vec<Vec<u8>> {
    const MOST: usize = 256;
    let mut made = vec![Vec::new()];
    let mut rest = pattern.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let (pieces, next): (Vec<Vec<u8>>, &[u8]) = match first {
            b'\\' => match behind.split_first() {
                Some((byte, behind)) => (vec![vec![*byte]], behind),
                None => (vec![Vec::new()], behind),
            },
            b'*' if behind.first() == Some(&b'*') => (
                [&b""[..], b"q", b"q/q"].map(<[u8]>::to_vec).to_vec(),
                &behind[1..],
            ),
            b'*' => ([&b""[..], b"q"].map(<[u8]>::to_vec).to_vec(), behind),
            // No pattern names this byte, so whatever matches it matches any.
            b'?' => (vec![b"\x7f".to_vec()], behind),
            b'{' => alternatives(behind),
            byte => (vec![vec![*byte]], behind),
        };
        made = made
            .iter()
            .flat_map(|head| {
                pieces
                    .iter()
                    .map(move |piece| [head.as_slice(), piece].concat())
            })
            .take(MOST)
            .collect();
        rest = next;
    }
    made
}

/// What the alternatives up to the closing brace stand for, and what is behind it.
fn alternatives(text: &[u8]) -> (Vec<Vec<u8>>, &[u8]) {
    let (mut depth, mut from, mut at) = (0_usize, 0, 0);
    let mut pieces = Vec::new();
    let mut take = |piece: &[u8]| {
        pieces.extend(witnesses(&String::from_utf8_lossy(piece)));
    };
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                take(&text[from..at]);
                return (pieces, &text[at + 1..]);
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                take(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    (pieces, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnkey_policy::Glob;

    #[test]
    fn a_byte_that_may_be_any_is_matched_by_no_pattern_that_names_one() {
        let matches = |pattern: &str, path: &[u8]| Glob::parse(pattern).unwrap().matches(path);
        for path in witnesses("/a/???") {
            assert!(matches("/a/*", &path) && matches("/a/???", &path));
            assert!(!matches("/a/q??", &path) && !matches("/a/??q", &path));
        }
    }

    #[test]
    fn witnesses_are_matched() {
        for pattern in [
            "/a/*.so*",
            "/usr/lib/python3*/**",
            "/{a,b{c,d*}}/x",
            "/a\\*?",
        ] {
            let glob = Glob::parse(pattern).unwrap();
            let witnesses = witnesses(pattern);
            assert!(!witnesses.is_empty());
            for path in witnesses {
                assert!(glob.matches(&path), "{pattern}: {}", path.escape_ascii());
            }
        }
    }
}
