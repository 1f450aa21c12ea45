//! The programs that a text for a shell starts, by the places where commands stand: words of arguments, of quotes and of comments start
//! nothing. The text is all there is: a shell tells what it did not find to whoever reads its standard error.

/// Shells that take a text behind `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Words behind which a command stands.
const BEFORE: [&str; 14] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "exec", "command",
    "nohup", "env",
];

/// Words that begin something else: none of what follows on the line is a command.
const OTHERS: [&str; 5] = ["for", "case", "select", "function", "in"];

/// The text that a shell was handed, by its words: the one behind an option such as `-c` or `-ec`.
pub fn text(words: &[String]) -> Option<&str> {
    let (program, rest) = words.split_first()?;
    let name = program.rsplit('/').next()?;
    if !SHELLS.contains(&name.trim_start_matches('-')) {
        return None;
    }
    let is_option = |word: &&String| word.starts_with(['-', '+']);
    let options = rest.iter().take_while(is_option).count();
    let takes_text = |word: &String| !word.starts_with("--") && word.ends_with('c');
    let at = rest[..options].iter().position(takes_text)?;
    rest.get(at + 1..)?
        .iter()
        .find(|word| !is_option(word))
        .map(String::as_str)
}

/// The names that stand where a command does, each as often as it does. A path is no name, and one that is put together by the shell is
/// not known.
pub fn in_text(text: &str) -> Vec<String> {
    let mut reader = Reader {
        at_command: true,
        ..Reader::default()
    };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (reader.quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => reader.quote = None,
            (Some('"') | None, '\\') => reader.take(chars.next()),
            (Some(_), c) => reader.take(Some(c)),
            (None, '\'' | '"') => {
                reader.quote = Some(c);
                reader.has_word = true;
            }
            (None, '#') if !reader.has_word => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '<' | '>') => reader.redirect(),
            (None, '&') if reader.is_target && !reader.has_word => {}
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | '`') => {
                reader.end_word();
                reader.at_command = true;
                reader.is_target = false;
            }
            (None, c) if c.is_whitespace() => reader.end_word(),
            (None, c) => reader.take(Some(c)),
        }
    }
    reader.end_word();
    reader.names
}

#[derive(Default)]
struct Reader {
    names: Vec<String>,
    word: String,
    has_word: bool,
    quote: Option<char>,
    /// The next word is a command's name.
    at_command: bool,
    /// The next word is a file that a stream goes to or comes from.
    is_target: bool,
}

impl Reader {
    fn take(&mut self, c: Option<char>) {
        self.has_word = true;
        self.word.extend(c);
    }

    /// The digits before it are a descriptor's.
    fn redirect(&mut self) {
        if self.word.chars().all(|c| c.is_ascii_digit()) {
            self.word.clear();
            self.has_word = false;
        }
        self.end_word();
        self.is_target = true;
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if !std::mem::take(&mut self.has_word) {
            return;
        }
        if std::mem::take(&mut self.is_target) || !self.at_command || is_assignment(&word) {
            return;
        }
        if BEFORE.contains(&word.as_str()) {
            return;
        }
        self.at_command = false;
        let is_name = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
        if !OTHERS.contains(&word.as_str()) && word.chars().all(is_name) {
            self.names.push(word);
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_stands_where_a_command_does_is_one() {
        for (text, names) in [
            ("cargo build", vec!["cargo"]),
            (
                "cd src && npm test; make -j4 | tee log",
                vec!["cd", "npm", "make", "tee"],
            ),
            (
                "if node -v; then yarn install; fi",
                vec!["node", "yarn", "fi"],
            ),
            ("A=1 B='x y' exec go run .", vec!["go"]),
            ("2>/dev/null >out rustc --version", vec!["rustc"]),
            ("x=$(uv sync) 2>&1", vec!["uv"]),
            ("'deno' fmt", vec!["deno"]),
            ("! pip list &\nruby -v", vec!["pip", "ruby"]),
        ] {
            let found = in_text(text);
            let known: Vec<&str> = found
                .iter()
                .map(String::as_str)
                .filter(|name| !name.is_empty())
                .collect();
            assert_eq!(known, names, "{text}");
        }
    }

    #[test]
    fn words_that_start_nothing_are_none() {
        for text in [
            "echo 'install node and cargo first'",
            "echo \"cargo; npm\"",
            "echo node npm cargo",
            "echo x # cargo build",
            "echo > cargo",
            "echo a\\;cargo",
            "A='cargo build' echo",
            "echo 'it'\\''s cargo'",
        ] {
            assert_eq!(in_text(text), ["echo"], "{text}");
        }
        for text in [
            "/opt/bin/cargo",
            "$CARGO build",
            "for cargo in a b",
            "\"my cargo\"",
            "",
        ] {
            assert_eq!(in_text(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn only_a_shell_s_text_is_read() {
        assert_eq!(text(&words("sh -c cargo")), Some("cargo"));
        assert_eq!(text(&words("/bin/bash -e -uc cargo")), Some("cargo"));
        assert_eq!(text(&words("bash -c -e cargo")), Some("cargo"));
        for other in [
            "sh build.sh cargo",
            "make cargo",
            "python3 -c cargo",
            "sh -e build.sh -c cargo",
            "sh --rcfile cargo",
            "sh -c",
        ] {
            assert_eq!(text(&words(other)), None, "{other}");
        }
    }
}
