//! The depth to which a script is nested, by its tokens alone: a parser and whoever walks its tree need stack by that.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// Brackets within brackets.
const BRACKETS: usize = 200;

/// Tokens of one expression that may each be a level of its tree: those since the last comma of each bracket around.
const LINKS: usize = 6000;

/// Blocks within blocks; Python itself refuses more than 100.
const BLOCKS: usize = 100;

/// True when it is not nested more deeply than that.
pub fn is_bounded(source: &str) -> bool {
    let mut lexer = lexer::lex(source, Mode::Module);
    // Links of each bracket that is open, the innermost last.
    let (mut open, mut sum, mut blocks) = (vec![0_usize], 0_usize, 0_usize);
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return true,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => open.push(0),
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd
                if open.len() > 1 =>
            {
                sum -= open.pop().unwrap_or_default();
                count(&mut open, &mut sum);
            }
            TokenKind::Newline => (open, sum) = (vec![0], 0),
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::Comma => {
                sum -= open.last_mut().map(std::mem::take).unwrap_or_default();
            }
            TokenKind::Comment | TokenKind::NonLogicalNewline => {}
            _ => count(&mut open, &mut sum),
        }
        if open.len() > BRACKETS || sum > LINKS || blocks > BLOCKS {
            return false;
        }
    }
}

fn count(open: &mut [usize], sum: &mut usize) {
    if let Some(innermost) = open.last_mut() {
        *innermost += 1;
        *sum += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_too_deeply_is_seen_and_what_is_only_long_is_not() {
        for deep in [
            "(",
            "[",
            "-",
            "not ",
            "a.",
            "f(",
            "lambda:",
            "1+",
            "a if b else ",
            "~",
            "{",
            "f\"{",
        ] {
            assert!(!is_bounded(&deep.repeat(100_000)), "{deep}");
        }
        assert!(!is_bounded(&format!("x = a{}", "()".repeat(100_000))));
        let blocks: String = (0..200)
            .map(|depth| format!("{}if x:\n", " ".repeat(depth)))
            .collect();
        assert!(!is_bounded(&blocks));
        let table = format!("x = [{}]\n", "(1, -2, 'a'), ".repeat(50_000));
        assert!(is_bounded(&table));
        assert!(is_bounded(&"x = 1 + 2\n".repeat(50_000)));
        assert!(is_bounded(&format!("x = ({}1)\n", "1 + ".repeat(500))));
    }
}
