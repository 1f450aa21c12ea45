//! Path patterns over bytes.
//!
//! | written | matches |
//! |---|---|
//! | `*` | any bytes except `/`, also none |
//! | `**` | any bytes, also `/`, also none |
//! | `/**/` | a `/`, or any whole directories between two: `/a/**/b` matches `/a/b` |
//! | `**/` | at the beginning, the same: `**/b` matches `/b` and `/a/b` |
//! | `?` | one byte, not `/` |
//! | `{a,b}` | one of the alternatives, each a pattern itself |
//! | `\*` | the character after the backslash, itself |
//!
//! A pattern always matches the whole path. Paths are the kernel's own, absolute and without
//! `.` or `..`; a memory file is `memfd:NAME`.

mod head;
mod parse;

use std::fmt::Write as _;

pub use parse::{GlobError, GlobErrorKind};

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    text: String,
    tokens: Vec<Token>,
    /// The names of one directory, where it has several.
    names: Vec<Vec<u8>>,
}

/// One piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// Literal bytes.
    Literal(Vec<u8>),
    /// `?`: one byte that is not `/`.
    AnyByte,
    /// `*`: any bytes that are not `/`.
    AnyName,
    /// `**`: any bytes.
    AnyPath,
    /// `**/` right after a `/`: nothing, or any bytes that end in `/`.
    AnyDirectories,
    /// `{a,b}`: one of these.
    OneOf(Vec<Vec<Token>>),
}

/// The specificity of a pattern. The greater decides: see [`mod@crate::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Specificity {
    /// True when the pattern has no wildcard.
    pub exact: bool,
    /// Literal bytes that every path it matches must hold: with alternatives, the fewest.
    pub literal_bytes: usize,
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// When the text is not a pattern; the error says where and why.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        let tokens = parse::tokens(text)?;
        Ok(Self::from_tokens(text.to_owned(), tokens))
    }

    fn from_tokens(text: String, tokens: Vec<Token>) -> Self {
        let names = Vec::new();
        Self {
            text,
            tokens,
            names,
        }
    }

    /// The pattern of these paths and of everything below them, whatever bytes they have.
    ///
    /// One pattern of all, because what is below each of them is then one part of it: an automaton that has
    /// several patterns which end in `**` keeps them apart for as long as a path is.
    #[must_use]
    pub fn at_or_below(paths: &[&[u8]]) -> Self {
        let bare = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
        let texts = paths.iter().map(|path| String::from_utf8_lossy(path));
        let heads = paths.iter().map(|path| vec![Token::Literal(bare(path))]);
        let below = vec![Token::Literal(b"/".to_vec()), Token::AnyPath];
        Self::from_tokens(
            format!("{{{}}}{{,/**}}", texts.collect::<Vec<_>>().join(",")),
            vec![
                Token::OneOf(heads.collect()),
                Token::OneOf(vec![Vec::new(), below]),
            ],
        )
    }

    /// The pattern of what any of these matches.
    #[must_use]
    pub(crate) fn any_of(globs: Vec<Self>) -> Self {
        let texts: Vec<&str> = globs.iter().map(Self::as_str).collect();
        let text = format!("{{{}}}", texts.join(","));
        let tokens = globs.into_iter().map(|glob| glob.tokens).collect();
        Self::from_tokens(text, vec![Token::OneOf(tokens)])
    }

    /// The pattern of what this one, which speaks of any directory, or of this one alone, matches in a directory.
    pub(crate) fn restricted_to(&self, directory: &[u8]) -> Option<Self> {
        let front = [directory, b"/"].concat();
        match self.tokens.as_slice() {
            [Token::Literal(root), Token::AnyDirectories, rest @ ..] if root == b"/" => {
                let text = format!(
                    "{}{}",
                    String::from_utf8_lossy(directory),
                    self.text.replacen("**/", "/", 1).replacen("//", "/", 1)
                );
                Some(Self::from_tokens(
                    text,
                    [&[Token::Literal(front)], rest].concat(),
                ))
            }
            [Token::Literal(start), ..] if start.starts_with(&front) => Some(self.clone()),
            _ => None,
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pattern's pieces, in order.
    #[must_use]
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The names of the directory that has several, if the pattern knows of one: what it says of a file in it, it says
    /// of that file under each of them.
    #[must_use]
    pub fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// Says what the pattern says of a file in a directory of several names under each of these.
    pub(crate) fn name(&mut self, names: &[Vec<u8>]) {
        self.names = names.to_vec();
    }

    /// True when the pattern matches the whole path.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.matches_spelling(path)
            || other_names(path, &self.names).any(|path| self.matches_spelling(&path))
    }

    fn matches_spelling(&self, path: &[u8]) -> bool {
        let mut start = vec![false; path.len() + 1];
        start[0] = true;
        advance_all(&self.tokens, start, path)[path.len()]
    }

    /// False when the path lacks bytes that every path has which the pattern matches: much quicker to ask first, of many.
    #[must_use]
    pub fn may_match(&self, path: &[u8]) -> bool {
        self.tokens.iter().all(|token| match token {
            Token::Literal(bytes) => path.windows(bytes.len().max(1)).any(|here| here == bytes),
            _ => true,
        })
    }

    /// True when the pattern may match this path or one below it; never wrongly false.
    #[must_use]
    pub fn may_match_below(&self, place: &[u8]) -> bool {
        self.heads().iter().any(|head| head.may_be_below(place))
    }

    /// The specificity of the pattern.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        Specificity {
            exact: is_exact(&self.tokens),
            literal_bytes: literal_bytes(&self.tokens),
        }
    }

    /// Every path that it matches, when it has no wildcard and they are no more than `most`.
    #[must_use]
    pub fn spellings(&self, most: usize) -> Option<Vec<Vec<u8>>> {
        spellings(&self.tokens, most)
    }

    /// An equivalent regular expression for bytes, anchored at both ends, in the syntax of the
    /// `regex` family. It needs a parser that allows invalid UTF-8 (`utf8(false)`).
    #[must_use]
    pub fn to_regex(&self) -> String {
        format!(r"\A{}\z", self.to_regex_body())
    }

    /// As [`Glob::to_regex`] without the anchors, for engines that anchor by themselves.
    #[must_use]
    pub fn to_regex_body(&self) -> String {
        let mut regex = String::from("(?s-u:");
        write_regex(&self.tokens, &mut regex);
        regex.push(')');
        regex
    }
}

impl std::fmt::Display for Glob {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&self.text)
    }
}

impl std::str::FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        Self::parse(text)
    }
}

/// The path by each of the names of a directory that it lies in, or is.
fn other_names<'a>(path: &'a [u8], names: &'a [Vec<u8>]) -> impl Iterator<Item = Vec<u8>> + 'a {
    let rests = names.iter().filter_map(|name| {
        let rest = path.strip_prefix(name.as_slice())?;
        (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
    });
    rests.flat_map(|rest| names.iter().map(move |name| [name, rest].concat()))
}

fn spellings(tokens: &[Token], most: usize) -> Option<Vec<Vec<u8>>> {
    let mut spelled = vec![Vec::new()];
    for token in tokens {
        let next: Vec<Vec<u8>> = match token {
            Token::Literal(bytes) => vec![bytes.clone()],
            Token::OneOf(alternatives) => {
                let each = alternatives.iter().map(|tokens| spellings(tokens, most));
                each.collect::<Option<Vec<_>>>()?.concat()
            }
            Token::AnyByte | Token::AnyName | Token::AnyPath | Token::AnyDirectories => {
                return None;
            }
        };
        if spelled.len().saturating_mul(next.len()) > most {
            return None;
        }
        spelled = spelled
            .iter()
            .flat_map(|head| {
                next.iter()
                    .map(move |tail| [head.as_slice(), tail].concat())
            })
            .collect();
    }
    Some(spelled)
}

/// The set of offsets into the path that a prefix of the pattern can reach. Stepping sets rather
/// than backtracking keeps matching linear in the path for every pattern, also a hostile one.
type Offsets = Vec<bool>;

fn advance_all(tokens: &[Token], start: Offsets, path: &[u8]) -> Offsets {
    tokens
        .iter()
        .fold(start, |from, token| advance(token, &from, path))
}

fn advance(token: &Token, from: &Offsets, path: &[u8]) -> Offsets {
    match token {
        Token::Literal(bytes) => after_literal(bytes, from, path),
        Token::AnyByte => after_any_byte(from, path),
        Token::AnyName => after_run(from, |at| path[at] != b'/'),
        Token::AnyPath => after_run(from, |_| true),
        Token::AnyDirectories => after_directories(from, path),
        Token::OneOf(alternatives) => after_any_of(alternatives, from, path),
    }
}

fn after_literal(bytes: &[u8], from: &Offsets, path: &[u8]) -> Offsets {
    let mut reached = vec![false; from.len()];
    for at in (0..from.len()).filter(|at| from[*at]) {
        if path[at..].starts_with(bytes) {
            reached[at + bytes.len()] = true;
        }
    }
    reached
}

fn after_any_byte(from: &Offsets, path: &[u8]) -> Offsets {
    let mut reached = vec![false; from.len()];
    for at in 0..path.len() {
        reached[at + 1] = from[at] && path[at] != b'/';
    }
    reached
}

/// Any number of bytes, each of which `passes`.
fn after_run(from: &Offsets, passes: impl Fn(usize) -> bool) -> Offsets {
    let mut reached = from.clone();
    for at in 1..reached.len() {
        reached[at] |= reached[at - 1] && passes(at - 1);
    }
    reached
}

fn after_directories(from: &Offsets, path: &[u8]) -> Offsets {
    let mut reached = from.clone();
    let mut started = false;
    for at in 1..reached.len() {
        started |= from[at - 1];
        reached[at] |= started && path[at - 1] == b'/';
    }
    reached
}

fn after_any_of(alternatives: &[Vec<Token>], from: &Offsets, path: &[u8]) -> Offsets {
    let mut reached = vec![false; from.len()];
    for alternative in alternatives {
        let ends = advance_all(alternative, from.clone(), path);
        reached
            .iter_mut()
            .zip(ends)
            .for_each(|(reached, end)| *reached |= end);
    }
    reached
}

fn is_exact(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| match token {
        Token::Literal(_) => true,
        Token::OneOf(alternatives) => alternatives.iter().all(|tokens| is_exact(tokens)),
        Token::AnyByte | Token::AnyName | Token::AnyPath | Token::AnyDirectories => false,
    })
}

fn literal_bytes(tokens: &[Token]) -> usize {
    let counts = tokens.iter().map(|token| match token {
        Token::Literal(bytes) => bytes.len(),
        Token::OneOf(alternatives) => alternatives
            .iter()
            .map(|tokens| literal_bytes(tokens))
            .min()
            .unwrap_or(0),
        Token::AnyByte | Token::AnyName | Token::AnyPath | Token::AnyDirectories => 0,
    });
    counts.sum()
}

fn write_regex(tokens: &[Token], regex: &mut String) {
    for token in tokens {
        match token {
            Token::Literal(bytes) => bytes.iter().for_each(|byte| write_byte(*byte, regex)),
            Token::AnyByte => regex.push_str("[^/]"),
            Token::AnyName => regex.push_str("[^/]*"),
            Token::AnyPath => regex.push_str(".*"),
            Token::AnyDirectories => regex.push_str("(?:.*/)?"),
            Token::OneOf(alternatives) => write_alternatives(alternatives, regex),
        }
    }
}

fn write_byte(byte: u8, regex: &mut String) {
    if byte.is_ascii_alphanumeric() || byte == b'/' {
        regex.push(char::from(byte));
    } else {
        // Writing to a String cannot fail.
        let _ = write!(regex, r"\x{byte:02X}");
    }
}

fn write_alternatives(alternatives: &[Vec<Token>], regex: &mut String) {
    regex.push_str("(?:");
    for (index, alternative) in alternatives.iter().enumerate() {
        if index > 0 {
            regex.push('|');
        }
        write_regex(alternative, regex);
    }
    regex.push(')');
}
