//! The text of a pattern to its pieces.

use std::fmt;
use std::ops::Range;

use super::Token;

/// Longer than any path the kernel takes (`PATH_MAX`).
const LONGEST: usize = 4096;
/// Deep enough for any pattern a person writes, shallow enough for the stack.
const DEEPEST: usize = 8;

/// An error in a pattern, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct GlobError {
    /// Bytes of the text that are at fault.
    pub span: Range<usize>,
    /// The kind of the error.
    pub kind: GlobErrorKind,
}

/// The kinds of errors in patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobErrorKind {
    /// An empty text.
    Empty,
    /// More than 4096 bytes.
    TooLong,
    /// A zero byte, which no path can hold.
    Zero,
    /// A backslash at the very end.
    NothingEscaped,
    /// `{` without `}`.
    Unclosed,
    /// `}` without `{`.
    Unopened,
    /// More than 8 levels of braces.
    TooDeep,
    /// `***`
    ThreeStars,
    /// `[`, which other tools read as a set of characters.
    Bracket,
}

impl fmt::Display for GlobErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Empty => "the pattern is empty",
            Self::TooLong => "the pattern is longer than any path",
            Self::Zero => "no path holds a zero byte",
            Self::NothingEscaped => "the backslash escapes nothing",
            Self::Unclosed => "the brace is never closed",
            Self::Unopened => "the brace was never opened",
            Self::TooDeep => "the braces are nested too deep",
            Self::ThreeStars => "three stars have no meaning",
            Self::Bracket => "patterns have no sets of characters",
        })
    }
}

impl GlobErrorKind {
    /// The fix: what to write instead.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Empty => "write a path such as /etc/shadow, or ** for every path",
            Self::TooLong => "the kernel takes paths of up to 4096 bytes",
            Self::Zero => "remove it",
            Self::NothingEscaped => "write \\\\ for a backslash itself",
            Self::Unclosed => "close it with }, or write \\{ for a brace itself",
            Self::Unopened => "open it with {, or write \\} for a brace itself",
            Self::TooDeep => "write several patterns instead",
            Self::ThreeStars => {
                "write * for one name, or ** for anything below; \\* is a star itself"
            }
            Self::Bracket => "write {a,b} for alternatives, or \\[ for a bracket itself",
        }
    }

    fn error_at(self, span: Range<usize>) -> GlobError {
        GlobError { span, kind: self }
    }
}

/// Parses a whole pattern.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, GlobError> {
    let text = text.as_bytes();
    if text.is_empty() {
        return Err(GlobErrorKind::Empty.error_at(0..0));
    }
    if text.len() > LONGEST {
        return Err(GlobErrorKind::TooLong.error_at(0..text.len()));
    }
    if let Some(at) = text.iter().position(|byte| *byte == 0) {
        return Err(GlobErrorKind::Zero.error_at(at..at + 1));
    }
    let mut parser = GlobParser { text, at: 0 };
    let tokens = parser.sequence(PrecedingPiece::Start, 0)?;
    match parser.peek() {
        // A sequence stops at a comma or brace only within braces, or at one never opened.
        Some(_) => Err(GlobErrorKind::Unopened.error_at(parser.at..parser.at + 1)),
        None => Ok(tokens),
    }
}

/// The piece in front of a piece; it decides what `**/` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedingPiece {
    /// The beginning of the pattern.
    Start,
    /// A literal byte.
    Byte(u8),
    /// A wildcard, or alternatives.
    Wildcard,
}

struct GlobParser<'a> {
    text: &'a [u8],
    at: usize,
}

impl GlobParser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Tokens up to the end, or up to the end of an alternative when `depth` is not zero.
    fn sequence(
        &mut self,
        mut before: PrecedingPiece,
        depth: usize,
    ) -> Result<Vec<Token>, GlobError> {
        let mut tokens = Vec::new();
        if before == PrecedingPiece::Start && self.text[self.at..].starts_with(b"**/") {
            // Paths are absolute, so this begins as if it were written `/**/`.
            tokens.push(Token::Literal(vec![b'/']));
            before = PrecedingPiece::Byte(b'/');
        }
        while let Some(byte) = self.peek() {
            if byte == b'}' || (byte == b',' && depth > 0) {
                break;
            }
            let token = self.token(byte, before, depth)?;
            before = match &token {
                Token::Literal(bytes) => bytes
                    .last()
                    .map_or(PrecedingPiece::Wildcard, |b| PrecedingPiece::Byte(*b)),
                // It ends in a slash, or in nothing after the slash in front of it.
                Token::AnyDirectories => PrecedingPiece::Byte(b'/'),
                _ => PrecedingPiece::Wildcard,
            };
            push(&mut tokens, token);
        }
        Ok(tokens)
    }

    fn token(
        &mut self,
        byte: u8,
        before: PrecedingPiece,
        depth: usize,
    ) -> Result<Token, GlobError> {
        let start = self.at;
        self.at += 1;
        match byte {
            b'?' => Ok(Token::AnyByte),
            b'*' => self.stars(start, before),
            b'{' => self.alternatives(start, before, depth + 1),
            b'[' => Err(GlobErrorKind::Bracket.error_at(start..start + 1)),
            b'\\' => {
                let escaped = self
                    .peek()
                    .ok_or(GlobErrorKind::NothingEscaped.error_at(start..start + 1))?;
                self.at += 1;
                Ok(Token::Literal(vec![escaped]))
            }
            literal => Ok(Token::Literal(vec![literal])),
        }
    }

    /// After the first star.
    fn stars(&mut self, start: usize, before: PrecedingPiece) -> Result<Token, GlobError> {
        while self.peek() == Some(b'*') {
            self.at += 1;
        }
        match self.at - start {
            1 => Ok(Token::AnyName),
            2 if before == PrecedingPiece::Byte(b'/') && self.peek() == Some(b'/') => {
                self.at += 1;
                Ok(Token::AnyDirectories)
            }
            2 => Ok(Token::AnyPath),
            _ => Err(GlobErrorKind::ThreeStars.error_at(start..self.at)),
        }
    }

    /// After the opening brace.
    fn alternatives(
        &mut self,
        start: usize,
        before: PrecedingPiece,
        depth: usize,
    ) -> Result<Token, GlobError> {
        if depth > DEEPEST {
            return Err(GlobErrorKind::TooDeep.error_at(start..start + 1));
        }
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.sequence(before, depth)?);
            let end = self
                .peek()
                .ok_or(GlobErrorKind::Unclosed.error_at(start..start + 1))?;
            self.at += 1;
            if end == b'}' {
                return Ok(Token::OneOf(alternatives));
            }
        }
    }
}

/// Adjacent literals are one literal.
fn push(tokens: &mut Vec<Token>, token: Token) {
    match (tokens.last_mut(), token) {
        (Some(Token::Literal(bytes)), Token::Literal(more)) => bytes.extend(more),
        (_, token) => tokens.push(token),
    }
}
