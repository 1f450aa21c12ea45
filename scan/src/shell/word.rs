//! The value of a word: quotes taken off, variables put in, substitutions run through.

use super::lex;
use super::walk::Walk;
use crate::value::{HOLE, Origins, Value};

impl Walk<'_> {
    /// A word as the words that the shell makes of it.
    pub fn words(&mut self, raw: &str) -> Vec<Value> {
        let value = self.word(raw);
        let is_split = !raw.contains(['"', '\''])
            && raw.contains('$')
            && value.exact().is_some_and(|text| text.contains(' '));
        match value.exact().filter(|_| is_split && !value.one_of) {
            Some(text) => text
                .split_whitespace()
                .map(|word| Value::text(word).tainted(&value))
                .collect(),
            None => vec![value],
        }
    }

    /// A word as one value.
    pub fn word(&mut self, raw: &str) -> Value {
        if !self.judge.spend(1 + raw.len() / 8) {
            return Value::default();
        }
        if !raw.contains(['$', '`', '\'', '"', '\\', '~', '<', '>', '(']) {
            return Value::text(raw);
        }
        if let Some(inner) = ["<(", ">("].iter().find_map(|open| raw.strip_prefix(open)) {
            let output = self.substituted(inner.strip_suffix(')').unwrap_or(inner));
            return output;
        }
        if let Some(variable) = alone(raw)
            && let Some(value) = self.variable(variable)
        {
            return value;
        }
        let mut expansion = Expansion {
            raw,
            at: 0,
            text: String::new(),
            value: Value::default(),
            quoted: false,
        };
        expansion.run(self);
        let Expansion { text, value, .. } = expansion;
        Value::text(&text).tainted(&value)
    }

    /// The text of a here-document.
    pub fn document(&mut self, text: &str, expands: bool) -> Value {
        if !expands || !self.judge.spend(text.len() / 8) {
            return Value::text(text);
        }
        let mut expansion = Expansion {
            raw: text,
            at: 0,
            text: String::new(),
            value: Value::default(),
            quoted: true,
        };
        expansion.run(self);
        let Expansion { text, value, .. } = expansion;
        Value::text(&text).tainted(&value)
    }
}

/// The name of the variable that a word is, and nothing else.
fn alone(raw: &str) -> Option<&str> {
    let inner = raw
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(raw);
    let name = inner.strip_prefix('$')?;
    let name = name
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or(name);
    (!name.is_empty()
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || char == '_'))
    .then_some(name)
}

struct Expansion<'r> {
    raw: &'r str,
    at: usize,
    text: String,
    /// Origins of the value.
    value: Value,
    quoted: bool,
}

impl<'r> Expansion<'r> {
    fn rest(&self) -> &'r str {
        self.raw.get(self.at..).unwrap_or_default()
    }

    fn run(&mut self, walk: &mut Walk) {
        while let Some(char) = self.rest().chars().next() {
            if self.text.len() > crate::value::LONGEST {
                return;
            }
            let rest = self.rest();
            match char {
                '"' => {
                    self.quoted = !self.quoted;
                    self.at += 1;
                }
                '\'' if !self.quoted => self.single(),
                '$' if rest.starts_with("$'") && !self.quoted => self.dollar_quoted(),
                '$' => self.dollar(walk),
                '`' => self.backquoted(walk),
                '\\' => {
                    let next = rest[1..].chars().next();
                    self.text.extend(next.filter(|next| *next != '\n'));
                    self.at += 1 + next.map_or(0, char::len_utf8);
                }
                _ => {
                    self.text.push(char);
                    self.at += char.len_utf8();
                }
            }
        }
    }

    fn single(&mut self) {
        let inner = &self.rest()[1..];
        let end = inner.find('\'').unwrap_or(inner.len());
        self.text.push_str(&inner[..end]);
        self.at += end + 2;
    }

    /// `$'\x72\x6d'`: letters that are written as numbers are not meant to be read.
    fn dollar_quoted(&mut self) {
        self.at += 2;
        let mut numbers = 0;
        while let Some(char) = self.rest().chars().next() {
            self.at += char.len_utf8();
            match char {
                '\'' => break,
                '\\' => numbers += usize::from(self.escape()),
                char => self.text.push(char),
            }
        }
        if numbers >= 3 {
            self.value = std::mem::take(&mut self.value).also(Origins::HIDDEN);
        }
    }

    /// An escape after its backslash; true when it is a number.
    fn escape(&mut self) -> bool {
        let rest = self.rest();
        let Some(char) = rest.chars().next() else {
            return false;
        };
        let (digits, radix, skipped) = match char {
            'x' => (2, 16, 1),
            'u' => (4, 16, 1),
            '0'..='7' => (3, 8, 0),
            _ => {
                self.at += char.len_utf8();
                self.text.push(match char {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'e' => '\u{1b}',
                    char => char,
                });
                return false;
            }
        };
        let number: String = rest
            .chars()
            .skip(skipped)
            .take(digits)
            .take_while(|char| char.is_digit(radix))
            .collect();
        self.at += skipped + number.len();
        self.text.extend(
            u32::from_str_radix(&number, radix)
                .ok()
                .and_then(char::from_u32),
        );
        true
    }

    fn dollar(&mut self, walk: &mut Walk) {
        let rest = self.rest();
        if rest.starts_with("$((") || rest.starts_with("$[") {
            self.at += lex::length(rest)
                .unwrap_or(rest.len())
                .min(rest.len())
                .max(2);
            return self.text.push(HOLE);
        }
        if let Some(inner) = rest.strip_prefix("$(") {
            let inner = lex::balanced(inner, '(', ')');
            self.at += inner.len() + 3;
            let output = walk.substituted(inner);
            return self.put(&output);
        }
        if let Some(inner) = rest.strip_prefix("${") {
            let inner = lex::balanced(inner, '{', '}');
            self.at += inner.len() + 3;
            return self.parameter(walk, inner);
        }
        let name: String = name(&rest[1..]).to_owned();
        self.at += 1 + name.len();
        match name.is_empty() {
            true => self.text.push('$'),
            false => {
                let value = walk.variable(&name);
                self.put(&value.unwrap_or_default());
            }
        }
    }

    /// The text between the braces of `${…}`.
    fn parameter(&mut self, walk: &mut Walk, inner: &str) {
        let own = name(inner);
        let rest = &inner[own.len()..];
        let value = walk.variable(own);
        let default = rest
            .strip_prefix(":-")
            .or_else(|| rest.strip_prefix('-'))
            .or_else(|| rest.strip_prefix(":="));
        match (value, default) {
            (Some(value), _) if rest.is_empty() || default.is_some() => self.put(&value),
            (None, Some(default)) => {
                let value = walk.word(default);
                self.put(&value);
            }
            (value, _) => self.put(&substring(&value.unwrap_or_default(), rest)),
        }
    }

    fn backquoted(&mut self, walk: &mut Walk) {
        let inner = &self.rest()[1..];
        let mut end = 0;
        let bytes = inner.as_bytes();
        while end < bytes.len() && bytes[end] != b'`' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let end = end.min(inner.len());
        let Some(command) = inner.get(..end) else {
            self.at = self.raw.len();
            return;
        };
        self.at += end + 2;
        let output = walk.substituted(&command.replace("\\`", "`"));
        self.put(&output);
    }

    fn put(&mut self, value: &Value) {
        self.text.push_str(&value.shown());
        self.value = std::mem::take(&mut self.value).tainted(value);
    }
}

/// `${x:2:3}` of a known text; pieces of a text that are put together are not meant to be read.
fn substring(value: &Value, rest: &str) -> Value {
    let numbers = rest.strip_prefix(':').map(|rest| {
        rest.split(':')
            .map(|number| number.trim().parse::<usize>())
            .collect::<Result<Vec<_>, _>>()
    });
    match (value.exact(), numbers) {
        (Some(text), Some(Ok(numbers))) => {
            let start = numbers.first().copied().unwrap_or(0);
            let length = numbers.get(1).copied().unwrap_or(usize::MAX);
            let cut: String = text.chars().skip(start).take(length).collect();
            Value::text(&cut).tainted(value).also(Origins::HIDDEN)
        }
        _ => value.derived(),
    }
}

/// The name of a variable, or of a parameter, that a text begins with.
fn name(text: &str) -> &str {
    let letters = text.len()
        - text
            .trim_start_matches(|char: char| char.is_ascii_alphanumeric() || char == '_')
            .len();
    match text.chars().next() {
        Some(first) if first.is_ascii_digit() => &text[..1],
        Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => &text[..1],
        _ => &text[..letters],
    }
}
