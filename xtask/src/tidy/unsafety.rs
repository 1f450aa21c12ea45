//! `unsafe` stands only where the kernel is spoken to: in files that open the lint in their first lines, with the reason.
//!
//! The compiler denies it elsewhere and tells where the lint is opened for nothing, and clippy wants a `// SAFETY:` above each
//! block. But both let a module do what its parent may, so each file is asked by itself here.

use proc_macro2::{TokenStream, TokenTree};
use regex_lite::Regex;

use super::TidyProblem;
use super::tree::TextFile;

const FORBIDDEN: &str = "`unsafe` stands only where the kernel is spoken to: call those files, or open \
                         this one by `#![expect(unsafe_code, reason = \"…\")]`";

/// The attribute of the whole file.
const OPENED: &str = r#"(?m)^#!\[(?:allow|expect)\(\s*unsafe_code,\s*reason = "[^"]"#;

/// Finds the word, and openings of the lint, in files that do not open it in their first lines.
pub fn check(file: &TextFile) -> Vec<TidyProblem> {
    let is_opened = |text| Regex::new(OPENED).is_ok_and(|opened| opened.is_match(text));
    if !file.has_extension(&["rs"]) || is_opened(&file.text) {
        return Vec::new();
    }
    let Ok(tokens) = file.text.parse::<TokenStream>() else {
        return vec![TidyProblem::new(
            &file.path,
            0,
            "is no Rust that can be read",
        )];
    };
    let mut lines = Vec::new();
    collect(tokens, &mut lines);
    lines
        .into_iter()
        .map(|line| TidyProblem::new(&file.path, line, FORBIDDEN))
        .collect()
}

/// The lines, from 1, of the word and of the name of its lint.
fn collect(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "unsafe" || word == "unsafe_code" => {
                lines.push(word.span().start().line);
            }
            TokenTree::Group(group) => collect(group.stream(), lines),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_a_file_that_is_not_opened_is_found() {
        for text in [
            "fn f() {\n    unsafe { g() }\n}",
            "// one\nunsafe fn f() {}",
            "struct S;\nunsafe impl Send for S {}",
            "fn f() {}\n#[unsafe(no_mangle)]\nfn g() {}",
            "//! Opened without a reason.\n#![allow(unsafe_code)]",
            "mod a {\n#[expect(dead_code, unsafe_code)]\nmod b {}\n}",
        ] {
            let problems = check(&TextFile::new("turnkey/src/main.rs", text));
            assert_eq!(problems.len(), 1, "{text}");
            assert_eq!(problems[0].line, 2, "{text}");
        }
    }

    #[test]
    fn the_word_in_comments_and_strings_is_no_use_of_it() {
        let text = "//! unsafe\nconst A: &str = \"unsafe { }\";\n";
        assert_eq!(check(&TextFile::new("turnkey/src/main.rs", text)), []);
    }

    #[test]
    fn a_file_that_says_why_is_left_to_the_compiler() {
        let text = "//! Calls.\n\n#![expect(\n    unsafe_code,\n    reason = \"calls\"\n)]\n\nunsafe fn f() {}";
        assert_eq!(check(&TextFile::new("jailer/src/sys.rs", text)), []);
    }

    #[test]
    fn text_that_is_no_rust_is_a_problem() {
        assert_eq!(check(&TextFile::new("a.rs", "fn f( {")).len(), 1);
    }
}
