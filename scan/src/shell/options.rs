//! Arguments of a command: options apart from what they are about.

use crate::value::Value;

/// The arguments of a command.
pub struct Arguments<'a> {
    words: &'a [Value],
    /// Options that have a value after them, such as `o` or `output`.
    valued: &'a [&'a str],
}

impl<'a> Arguments<'a> {
    pub fn new(words: &'a [Value], valued: &'a [&'a str]) -> Self {
        Arguments { words, valued }
    }

    /// Operands: words that are no options nor their values.
    pub fn operands(&self) -> Vec<&'a Value> {
        let (mut operands, mut only, mut skips) = (Vec::new(), false, false);
        for word in self.words {
            let text = word.known().unwrap_or_default();
            if skips {
                skips = false;
            } else if only || !text.starts_with('-') || text == "-" {
                operands.push(word);
            } else if text == "--" {
                only = true;
            } else {
                skips = self.takes_value(text);
            }
        }
        operands
    }

    fn takes_value(&self, option: &str) -> bool {
        match option.strip_prefix("--") {
            Some(long) => self.valued.contains(&long),
            None => option
                .chars()
                .last()
                .is_some_and(|last| self.valued.iter().any(|name| name.chars().eq([last]))),
        }
    }

    /// True with an option of one of these names; of one letter, it may stand among others.
    pub fn has(&self, names: &[&str]) -> bool {
        self.words
            .iter()
            .filter_map(Value::known)
            .any(|word| names.iter().any(|name| is_option(word, name)))
    }

    /// The values of options of these names.
    pub fn values(&self, names: &[&str]) -> Vec<Value> {
        let mut values = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let Some(text) = word.known() else { continue };
            for name in names {
                if let Some(value) = text.strip_prefix(&format!("--{name}=")) {
                    values.push(Value::text(value).tainted(word));
                } else if is_option(text, name) && self.takes_value(text) {
                    values.extend(self.words.get(index + 1).cloned());
                } else if name.len() == 1 && text.len() > 2 && text.starts_with(&format!("-{name}"))
                {
                    values.push(Value::text(&text[2..]).tainted(word));
                }
            }
        }
        values
    }
}

fn is_option(word: &str, name: &str) -> bool {
    match (word.strip_prefix("--"), name.len()) {
        (Some(long), _) => long.split('=').next() == Some(name),
        (None, 1) => word
            .strip_prefix('-')
            .is_some_and(|letters| letters.contains(name)),
        // Long names with one dash, as in `find -delete`.
        (None, _) => word.strip_prefix('-') == Some(name),
    }
}
