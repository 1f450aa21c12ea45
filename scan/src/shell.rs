//! Shell: words and operators are followed in their order, twice to learn what variables and parameters hold, then to say
//! what is done. No tree is made: what a script does stands in its commands, and nothing can be nested too deeply.

mod command;
mod decoding;
mod lex;
mod manage;
mod options;
mod transfer;
mod walk;
mod word;

use crate::judge::{Judge, Position};
use crate::rule;
use lex::Broken;
use walk::Walk;

/// Passes that only learn.
const LEARNING: usize = 1;

/// Tells the judge what a script would do.
pub fn read(source: &str, judge: &mut Judge) {
    let (tokens, broken) = lex::lex(source);
    match broken {
        // What could be read of it is looked at all the same.
        Some(Broken::Open(at)) => {
            judge.at(at);
            judge.not_parsed("is no shell script: a quote, a bracket or a document has no end");
        }
        Some(Broken::Nested(at)) => {
            judge.at(at);
            judge.find(&rule::TOO_NESTED, "nests quotes or substitutions more deeply than any script needs, and the rest is not looked at");
        }
        None => {}
    }
    let listens = judge.listens();
    let mut walk = Walk::new(judge);
    for pass in 0..=LEARNING {
        walk.judge.listen(listens && pass == LEARNING);
        walk.judge.at(Position { line: 1, column: 1 });
        walk.script(&tokens);
    }
}

#[cfg(test)]
mod tests;
