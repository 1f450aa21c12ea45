//! Words and operators of a shell script. One pass, with a stack of its own for what is nested.
//!
//! Written by hand, because what reads hostile text must be done with any in its time: brush-parser 0.4 parses what shells accept, but
//! takes three times as long for each further `$(` without an end within a word: 14 of them take 0.6 s, and 20 more than a minute.

use crate::judge::Position;

/// Quotes and substitutions within others, in one word.
pub const NESTED: usize = 60;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'s> {
    pub kind: Kind<'s>,
    pub at: Position,
    /// The offset of its end: a number right before a redirection is a descriptor.
    pub end: usize,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'s> {
    /// As it is written, with its quotes.
    Word(&'s str),
    Operator(&'static str),
    /// The text of a here-document, and whether the shell expands what is in it.
    Document(&'s str, bool),
}

/// The reason why the rest was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A quote, a substitution or a document has no end.
    Open(Position),
    /// Nested more than [`NESTED`] times.
    Nested(Position),
}

const OPERATORS: &[&str] = &[
    "&>>", ";;&", "<<<", "<<-", "&>", "&&", "||", "|&", ";;", ";&", "<<", "<&", "<>", ">>", ">&",
    ">|", "&", "|", ";", "<", ">", "(", ")", "\n",
];

/// The tokens, and why there are no more of them.
pub fn lex(source: &str) -> (Vec<Token<'_>>, Option<Broken>) {
    let mut lexer = Lexer {
        source,
        at: 0,
        line: 1,
        column: 1,
        tokens: Vec::new(),
        documents: Vec::new(),
    };
    let broken = lexer.all().err();
    (lexer.tokens, broken)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: usize,
    column: usize,
    tokens: Vec<Token<'s>>,
    /// Documents that begin after this line.
    documents: Vec<Pending>,
}

/// A document that is named and not read yet.
struct Pending {
    tag: String,
    /// Tabs before the tag do not count.
    tabs: bool,
    /// The number of its token.
    token: usize,
    at: Position,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn position(&self) -> Position {
        Position {
            line: self.line,
            column: self.column,
        }
    }

    /// Moves on, and counts lines.
    fn advance(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.source.len());
        for byte in &self.source.as_bytes()[self.at..end] {
            match byte {
                b'\n' => (self.line, self.column) = (self.line + 1, 1),
                // The first byte of a character.
                byte if byte & 0xc0 != 0x80 => self.column += 1,
                _ => {}
            }
        }
        self.at = end;
    }

    fn all(&mut self) -> Result<(), Broken> {
        while let Some(char) = self.rest().chars().next() {
            let rest = self.rest();
            if char == '#' {
                self.advance(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("\\\n") {
                self.advance(2);
            } else if char != '\n' && char.is_whitespace() {
                self.advance(char.len_utf8());
            } else if let Some(operator) = self.operator() {
                self.operates(operator)?;
            } else {
                self.word()?;
            }
        }
        match self.documents.first() {
            Some(pending) => Err(Broken::Open(pending.at)),
            None => Ok(()),
        }
    }

    fn operator(&self) -> Option<&'static str> {
        let rest = self.rest();
        // A command whose output or input is named like a file is a word.
        if rest.starts_with("<(") || rest.starts_with(">(") {
            return None;
        }
        OPERATORS
            .iter()
            .find(|operator| rest.starts_with(**operator))
            .copied()
    }

    fn operates(&mut self, operator: &'static str) -> Result<(), Broken> {
        let at = self.position();
        self.advance(operator.len());
        self.tokens.push(Token {
            kind: Kind::Operator(operator),
            at,
            end: self.at,
        });
        match operator {
            "<<" | "<<-" => self.tag(operator == "<<-", at),
            "\n" => self.read_documents(),
            _ => Ok(()),
        }
    }

    /// The word after `<<`, which ends the document.
    fn tag(&mut self, tabs: bool, at: Position) -> Result<(), Broken> {
        let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        self.advance(blanks);
        let start = self.at;
        self.word()?;
        self.tokens.pop();
        let written = &self.source[start..self.at];
        let is_quoted = written.contains(['\'', '"', '\\']);
        let tag = written.replace(['\'', '"', '\\'], "");
        let token = self.tokens.len();
        self.documents.push(Pending {
            tag,
            tabs,
            token,
            at,
        });
        let kind = Kind::Document("", !is_quoted);
        self.tokens.push(Token {
            kind,
            at,
            end: self.at,
        });
        Ok(())
    }

    /// The documents whose tags stood in the line that has just ended.
    fn read_documents(&mut self) -> Result<(), Broken> {
        for Pending {
            tag,
            tabs,
            token,
            at,
        } in std::mem::take(&mut self.documents)
        {
            let start = self.at;
            loop {
                let rest = self.rest();
                if rest.is_empty() {
                    return Err(Broken::Open(at));
                }
                let line = rest.split('\n').next().unwrap_or_default();
                let is_end = if tabs {
                    line.trim_start_matches('\t') == tag
                } else {
                    line == tag
                };
                let end = self.at;
                self.advance(line.len() + 1);
                if is_end {
                    let text = &self.source[start..end];
                    if let Some(Kind::Document(own, _)) =
                        self.tokens.get_mut(token).map(|token| &mut token.kind)
                    {
                        *own = text;
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), Broken> {
        let (at, start) = (self.position(), self.at);
        let length = length(self.rest()).map_err(|broken| match broken {
            Broken::Open(_) => Broken::Open(at),
            Broken::Nested(_) => Broken::Nested(at),
        })?;
        self.advance(length.max(1));
        while !self.source.is_char_boundary(self.at) {
            self.at += 1;
        }
        let kind = Kind::Word(&self.source[start..self.at]);
        self.tokens.push(Token {
            kind,
            at,
            end: self.at,
        });
        Ok(())
    }
}

/// The quotes and brackets that are open around a character of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Single,
    /// `$'…'`, in which a backslash counts.
    Dollar,
    Double,
    Back,
    Paren,
    Brace,
}

/// The length of the word that a text begins with, in bytes.
pub fn length(text: &str) -> Result<usize, Broken> {
    let bytes = text.as_bytes();
    let (mut at, mut open): (usize, Vec<Around>) = (0, Vec::new());
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        let innermost = open.last().copied();
        if open.len() > NESTED {
            return Err(Broken::Nested(Position::default()));
        }
        match (innermost, byte) {
            (Some(Around::Single), b'\'')
            | (Some(Around::Dollar), b'\'')
            | (Some(Around::Double), b'"')
            | (Some(Around::Back), b'`') => {
                open.pop();
            }
            (Some(Around::Single), _) => {}
            (_, b'\\') => at += 1,
            (Some(Around::Dollar | Around::Back), _) => {}
            (_, b'$') if next == b'(' => {
                open.push(Around::Paren);
                at += 1;
            }
            (_, b'$') if next == b'{' => {
                open.push(Around::Brace);
                at += 1;
            }
            (_, b'`') => open.push(Around::Back),
            (Some(Around::Brace), b'}') | (Some(Around::Paren), b')') => {
                open.pop();
            }
            (Some(Around::Double), _) => {}
            (_, b'"') => open.push(Around::Double),
            (_, b'\'') if before == b'$' => open.push(Around::Dollar),
            // In `${x:-it's}` within quotes it is a letter.
            (Some(Around::Brace), b'\'') if open.contains(&Around::Double) => {}
            (_, b'\'') => open.push(Around::Single),
            (Some(Around::Paren), b'(') => open.push(Around::Paren),
            (Some(Around::Paren), b'#') if before.is_ascii_whitespace() => {
                at += text[at..]
                    .find('\n')
                    .map_or(text.len() - at, |end| end.saturating_sub(1));
            }
            (None, b'<' | b'>') if next == b'(' && at == 0 => {
                open.push(Around::Paren);
                at += 1;
            }
            // A list is assigned, or a pattern has several parts.
            (None, b'(') if at > 0 && b"=@?*+!".contains(&before) => open.push(Around::Paren),
            (
                None,
                b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')',
            ) => return Ok(at),
            _ => {}
        }
        at += 1;
    }
    match open.is_empty() {
        true => Ok(text.len()),
        false => Err(Broken::Open(Position::default())),
    }
}

/// The text up to the bracket that closes it; quotes are respected.
pub fn balanced(text: &str, open: char, close: char) -> &str {
    let (mut depth, mut chars) = (0, text.char_indices());
    let mut quote = None;
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (Some('\''), char) if char != '\'' => {}
            (_, '\\') => drop(chars.next()),
            (Some(own), char) if char == own => quote = None,
            (Some('\''), _) => {}
            (None, '\'' | '"') => quote = Some(char),
            // A substitution within quotes has brackets of its own.
            (Some('"'), char) if char != open && char != close => {}
            (_, char) if char == open => depth += 1,
            (_, char) if char == close && depth == 0 => return &text[..at],
            (_, char) if char == close => depth -= 1,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        let (tokens, broken) = lex(source);
        assert_eq!(broken, None, "{source}");
        let shown = |token: Token<'_>| match token.kind {
            Kind::Word(word) => word.to_owned(),
            Kind::Operator(operator) => format!("<{operator}>"),
            Kind::Document(text, expands) => format!("doc {expands} {text}"),
        };
        tokens.into_iter().map(shown).collect()
    }

    #[test]
    fn words_and_operators_are_told_apart() {
        for (source, are) in [
            (
                "echo 'a b' \"c $(d \"e\")\" # f",
                vec!["echo", "'a b'", "\"c $(d \"e\")\""],
            ),
            (
                "a&&b||c|d&",
                vec!["a", "<&&>", "b", "<||>", "c", "<|>", "d", "<&>"],
            ),
            (
                "x >& /dev/tcp/1/2 2>&1",
                vec!["x", "<>&>", "/dev/tcp/1/2", "2", "<>&>", "1"],
            ),
            (
                "a=(1 2) ${x:-it\\'s} `b c`",
                vec!["a=(1 2)", "${x:-it\\'s}", "`b c`"],
            ),
            ("source <(curl x)", vec!["source", "<(curl x)"]),
            (
                "cat <<E | b\nhi\nE\nc",
                vec!["cat", "<<<>", "doc true hi\n", "<|>", "b", "<\n>", "c"],
            ),
            (
                "cat <<-'E'\n\thi\n\tE\n",
                vec!["cat", "<<<->", "doc false \thi\n", "<\n>"],
            ),
            ("a\\\nb $'it\\'s' é", vec!["a\\\nb", "$'it\\'s'", "é"]),
            (
                "f(){ :|:& };f",
                vec![
                    "f", "<(>", "<)>", "{", ":", "<|>", ":", "<&>", "}", "<;>", "f",
                ],
            ),
        ] {
            assert_eq!(words(source), are, "{source}");
        }
    }

    #[test]
    fn what_has_no_end_or_is_nested_without_end_is_told() {
        assert!(
            matches!(lex("a\n 'b"), (tokens, Some(Broken::Open(Position { line: 2, column: 2 }))) if tokens.len() == 2)
        );
        assert!(matches!(lex("cat <<E\nx"), (_, Some(Broken::Open(_)))));
        for deep in ["$(", "\"$(", "${a:-", "$(("] {
            assert!(
                matches!(lex(&deep.repeat(100_000)), (_, Some(Broken::Nested(_)))),
                "{deep}"
            );
        }
        for flat in ["(", "{ ", "if ", "`", "! ", "a|"] {
            lex(&flat.repeat(100_000));
        }
    }
}
