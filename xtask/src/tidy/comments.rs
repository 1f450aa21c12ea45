//! Documentation begins with what a thing is or does: a reader who comes by grep has no sentence before it.

use super::Problem;
use super::tree::File;

/// Folders whose items others read by their documentation.
const PRODUCT: [&str; 12] = [
    "abi/",
    "analysis/",
    "facts/",
    "jailer/",
    "monitor/",
    "monitor-ebpf/",
    "policy/",
    "report/",
    "supervisor/",
    "turnkey/src/cmd",
    "vfork/",
    "xtask/",
];

/// First words that need another sentence before them.
const LEANING: [&str; 24] = [
    "Everybody",
    "Everything",
    "How",
    "It",
    "Its",
    "Nobody",
    "Nothing",
    "Others",
    "Somebody",
    "Something",
    "That",
    "Their",
    "These",
    "They",
    "This",
    "Those",
    "What",
    "When",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whom",
    "Why",
];

/// Finds blocks of documentation whose first word is a pronoun or asks a question.
pub fn check(file: &File) -> Vec<Problem> {
    let is_product = PRODUCT.iter().any(|folder| file.path.starts_with(folder));
    if !is_product || file.path.extension().is_none_or(|end| end != "rs") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut before = false;
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        let text = line
            .strip_prefix("/// ")
            .or_else(|| line.strip_prefix("//! "));
        let first = text.and_then(|text| text.split(|c: char| !c.is_alphabetic()).next());
        if let Some(word) = first.filter(|word| !before && LEANING.contains(word)) {
            let message = format!("begins with `{word}`: say what the thing is or does");
            problems.push(Problem::new(&file.path, index + 1, message));
        }
        before = line.starts_with("///") || line.starts_with("//!");
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_block_is_looked_at_and_no_other() {
        let leaning = "/// Whether it is.\nfn a() {}\n/// The kind.\n/// It is one.\nfn b() {}\n";
        let problems = check(&File::new("policy/src/a.rs", leaning));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().starts_with("policy/src/a.rs:1: "));
        assert_eq!(check(&File::new("lab/src/a.rs", leaning)), []);
        assert_eq!(check(&File::new("policy/src/a.rs", "/// Italy.\n")), []);
    }
}
