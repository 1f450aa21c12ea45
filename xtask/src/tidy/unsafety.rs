//! `unsafe` stands only where the kernel is spoken to, and says why it holds.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Problem;
use super::tree::File;

/// The files that may hold `unsafe`, each with the reason. Everything else calls these.
const OPEN: [(&str, &str); 24] = [
    ("jailer/src/sys.rs", "system calls that nix does not wrap"),
    (
        "monitor-ebpf/src/read.rs",
        "reads of kernel and user memory",
    ),
    (
        "monitor-ebpf/src/read/actor.rs",
        "words of a map that all programs share",
    ),
    (
        "monitor-ebpf/src/read/area.rs",
        "a callback of the kernel, and the memory that it writes to",
    ),
    (
        "monitor-ebpf/src/read/claim.rs",
        "claims work memory of a map's value",
    ),
    (
        "monitor-ebpf/src/read/event.rs",
        "programs by the names and in the section that the loader looks for",
    ),
    (
        "monitor-ebpf/src/read/field.rs",
        "loads and copies of the kernel's structures",
    ),
    (
        "monitor-ebpf/src/read/jail.rs",
        "the state of jails is written by programs on all processors at once",
    ),
    (
        "monitor-ebpf/src/read/mark.rs",
        "words of a map that all programs share",
    ),
    (
        "monitor-ebpf/src/read/rings.rs",
        "records as the bytes that are sent",
    ),
    (
        "monitor-ebpf/src/read/signalled.rs",
        "values of a map that other CPUs write",
    ),
    (
        "monitor-ebpf/src/read/slot.rs",
        "memory that the threads of a jail share",
    ),
    (
        "monitor-ebpf/src/read/socket.rs",
        "contexts that the kernel hands over",
    ),
    (
        "monitor-ebpf/src/verifier.rs",
        "instructions that mean something to the verifier alone, and loops of bpf_loop(2)",
    ),
    ("monitor/src/sys.rs", "what aya does not wrap"),
    (
        "monitor/src/sys/bpf.rs",
        "programs and links that are in the kernel already",
    ),
    (
        "monitor/src/sys/pages.rs",
        "maps memory that is shared with the kernel",
    ),
    (
        "monitor/src/sys/bytes.rs",
        "bytes in memory that is shared with the kernel",
    ),
    (
        "monitor/src/sys/ring.rs",
        "records in memory that is shared with the kernel",
    ),
    (
        "monitor/src/sys/slot_data.rs",
        "rules in memory that is shared with the kernel",
    ),
    (
        "monitor/src/sys/table.rs",
        "rules in memory that is shared with the kernel",
    ),
    ("turnkey/src/malloc.rs", "how the C library gives memory"),
    (
        "vfork/src/helper.rs",
        "a process in this one's memory, beside its maker",
    ),
    ("vfork/src/lib.rs", "a process in this one's memory"),
];

const EXPLANATION: &str = "SAFETY:";

/// Rows of the table without a file: a permission that nobody needs any more.
pub fn check_table(files: &[File]) -> Vec<Problem> {
    OPEN.iter()
        .filter(|(path, _)| {
            let file = files.iter().find(|file| file.path == Path::new(path));
            !file.is_some_and(|file| file.text.contains("unsafe"))
        })
        .map(|(path, _)| {
            let message = "may hold `unsafe` and does not: take its row out of the table";
            Problem::new(Path::new(path), 0, message)
        })
        .collect()
}

/// Finds `unsafe` in files that may not hold it, and blocks that do not say why they are sound.
pub fn check(file: &File) -> Vec<Problem> {
    if !file.has_extension(&["rs"]) {
        return Vec::new();
    }
    let Ok(tokens) = file.text.parse::<TokenStream>() else {
        return vec![Problem::new(&file.path, 0, "is no Rust that can be read")];
    };
    let mut found = Vec::new();
    collect(tokens, &mut found);
    let open = OPEN.iter().any(|(path, _)| file.path == Path::new(path));
    if !open {
        return found
            .iter()
            .map(|place| Problem::new(&file.path, place.line, FORBIDDEN))
            .collect();
    }
    let lines: Vec<_> = file.text.lines().collect();
    found
        .iter()
        .filter(|place| place.needs_explanation && !explained(&lines, place.line))
        .map(|place| Problem::new(&file.path, place.line, UNEXPLAINED))
        .collect()
}

const FORBIDDEN: &str = "`unsafe` stands only where the kernel is spoken to: \
                         call those files, or give this one a row with a reason in xtask";
const UNEXPLAINED: &str = "a block of `unsafe` says right above it in a `// SAFETY:` comment which \
                           invariant makes it sound and who upholds it";

/// The place of the word.
struct Place {
    /// Counted from 1.
    line: usize,
    /// True when it opens a block or an implementation, which promise something, rather than only
    /// asking the caller for a promise.
    needs_explanation: bool,
}

fn collect(tokens: TokenStream, found: &mut Vec<Place>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "unsafe" => {
                let needs_explanation = match tokens.peek() {
                    Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                    Some(TokenTree::Ident(next)) => next == "impl",
                    _ => false,
                };
                found.push(Place {
                    line: word.span().start().line,
                    needs_explanation,
                });
            }
            // Opening the lint is as much as using it.
            TokenTree::Ident(word) if word == "allow" || word == "expect" => {
                if let Some(TokenTree::Group(group)) = tokens.peek()
                    && names_the_lint(group.stream())
                {
                    found.push(Place {
                        line: word.span().start().line,
                        needs_explanation: false,
                    });
                }
            }
            TokenTree::Group(group) => collect(group.stream(), found),
            _ => {}
        }
    }
}

fn names_the_lint(tokens: TokenStream) -> bool {
    tokens
        .into_iter()
        .any(|token| matches!(token, TokenTree::Ident(word) if word == "unsafe_code"))
}

/// True when the statement around `line` (from 1) has the comment above it or beside it.
fn explained(lines: &[&str], line: usize) -> bool {
    let index = line.saturating_sub(1);
    if lines[index].contains(EXPLANATION) {
        return true;
    }
    lines[..index]
        .iter()
        .rev()
        .map(|above| above.trim())
        .take_while(|above| above.starts_with("//") || !ends_a_statement(above))
        .any(|above| above.contains(EXPLANATION))
}

fn ends_a_statement(line: &str) -> bool {
    line.is_empty() || line.ends_with([';', '{', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENED: &str = "jailer/src/sys.rs";

    #[test]
    fn the_word_outside_the_table_is_found() {
        for text in [
            "fn f() {\n    unsafe { g() }\n}",
            "// one\nunsafe fn f() {}",
            "struct S;\nunsafe impl Send for S {}",
            "fn f() {}\n#[unsafe(no_mangle)]\nfn g() {}",
            "//! Opened.\n#![allow(unsafe_code)]",
            "mod a {\n#[expect(dead_code, unsafe_code)]\nmod b {}\n}",
        ] {
            let problems = check(&File::new("turnkey/src/main.rs", text));
            assert_eq!(problems.len(), 1, "{text}");
            assert_eq!(problems[0].line, 2, "{text}");
        }
    }

    #[test]
    fn the_word_in_comments_strings_and_denials_is_no_use_of_it() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe { }\";\n";
        assert_eq!(check(&File::new("turnkey/src/main.rs", text)), []);
    }

    #[test]
    fn block_in_the_table_needs_an_explanation() {
        let bare = "fn f() {\n    unsafe { g() }\n}";
        let problems = check(&File::new(OPENED, bare));
        assert_eq!(problems, [Problem::new(Path::new(OPENED), 2, UNEXPLAINED)]);

        let elsewhere =
            "fn f() {\n    // SAFETY: of another statement.\n    h();\n    unsafe { g() }\n}";
        assert_eq!(check(&File::new(OPENED, elsewhere)).len(), 1);
    }

    #[test]
    fn explained_block_passes() {
        for text in [
            "fn f() {\n    // SAFETY: g takes nothing.\n    unsafe { g() }\n}",
            "fn f() {\n    // SAFETY: g takes nothing;\n    // and more.\n    let x =\n        unsafe { g() };\n}",
            "/// Asks for a promise.\npub unsafe fn f() {}",
        ] {
            assert_eq!(check(&File::new(OPENED, text)), [], "{text}");
        }
    }

    #[test]
    fn row_without_use_is_found() {
        let files = OPEN.map(|(path, _)| File::new(path, "unsafe"));
        assert_eq!(check_table(&files), []);
        assert_eq!(check_table(&files[1..]).len(), 1);
    }

    #[test]
    fn text_that_is_no_rust_is_a_problem() {
        assert_eq!(check(&File::new("a.rs", "fn f( {")).len(), 1);
    }
}
