//! Words that say that something is not finished.

use super::Problem;
use super::tree::File;

/// Put together here, so that this file does not hold them.
const FORBIDDEN: [(&str, &str); 5] = [
    (concat!("todo", "!("), "finish it, or leave it out"),
    (concat!("unimplemented", "!("), "finish it, or leave it out"),
    (concat!("FIX", "ME"), "mend it, or file an issue"),
    (concat!("XX", "X"), "mend it, or file an issue"),
    (
        concat!("#[", "ignore"),
        "a test that does not run here guards nothing: make it run, or delete it",
    ),
];

/// Finds them in any text; only program text can hold the last, and elsewhere nobody writes it.
pub fn check(file: &File) -> Vec<Problem> {
    // Other people's names are other people's words.
    if file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, advice) in FORBIDDEN {
            if holds(line, word) {
                let message = format!("`{word}`: {advice}");
                problems.push(Problem::new(&file.path, index + 1, message));
            }
        }
    }
    problems
}

/// True when the word stands there by itself: `mktemp` patterns end in a longer row of that letter.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, found)| {
        let before = line[..start].chars().next_back();
        let after = line[start + found.len()..].chars().next();
        let edge_is_word = |edge: Option<char>| edge.is_some_and(|it| it.is_alphanumeric());
        let starts_as_word = word.starts_with(char::is_alphanumeric);
        let ends_as_word = word.ends_with(char::is_alphanumeric);
        !(starts_as_word && edge_is_word(before) || ends_as_word && edge_is_word(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_on_its_line() {
        for (word, _) in FORBIDDEN {
            let text = format!("fn fine() {{}}\n    {word}\n");
            let problems = check(&File::new("a.rs", &text));
            let shown = problems.iter().map(ToString::to_string).collect::<String>();
            assert_eq!(problems.len(), 1, "{word}: {shown}");
            assert!(shown.starts_with("a.rs:2: "), "{shown}");
        }
    }

    #[test]
    fn ignored_test_is_found_with_and_without_a_reason() {
        let word = concat!("#[", "ignore");
        for rest in ["]", " = \"slow\"]"] {
            let problems = check(&File::new("a.rs", &format!("{word}{rest}\n")));
            assert_eq!(problems.len(), 1, "{rest}");
        }
    }

    #[test]
    fn longer_words_are_other_words() {
        let text = concat!("mktemp /tmp/a.XX", "XXXX\nmy_todo", "_list()\n");
        assert_eq!(check(&File::new("a.sh", text)), []);
    }

    #[test]
    fn lock_file_may_hold_any_name() {
        let text = format!("name = \"{}\"", FORBIDDEN[3].0);
        assert_eq!(check(&File::new("Cargo.lock", &text)), []);
    }
}
