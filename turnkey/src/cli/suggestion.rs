//! The flag that is proposed for an unknown one: one that is nearly the same, or one that the unknown one begins with. clap proposes
//! whatever shares enough letters.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// The same error, with a proposal that can be meant or none. `command` is the whole command line, `words` are its arguments.
pub fn corrected(mut error: Error, command: &Command, words: &[String]) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (Some(asked), Some(proposed)) = (
        text(ContextKind::InvalidArg),
        text(ContextKind::SuggestedArg),
    ) else {
        return error;
    };
    if is_near(&asked, &proposed) {
        return error;
    }
    error.remove(ContextKind::SuggestedArg);
    let called = words
        .iter()
        .find_map(|word| command.find_subcommand(word))
        .unwrap_or(command);
    let usage = called
        .clone()
        .bin_name(format!("turnkey {}", called.get_name()));
    let usage = { usage }.render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    let begins = |flag: &String| asked.starts_with(&format!("{flag}-"));
    let flags = called.get_arguments().filter_map(|one| one.get_long());
    let flags = flags.map(|name| format!("--{name}")).filter(begins);
    if let Some(flag) = flags.max_by_key(String::len) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(flag));
    }
    error
}

/// True when a third of the letters at most are others.
fn is_near(asked: &str, proposed: &str) -> bool {
    let [asked, proposed] = [asked, proposed].map(|flag| flag.trim_start_matches('-'));
    strsim::levenshtein(asked, proposed) <= (asked.len().max(proposed.len()) / 3).max(1)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::CommandLine;

    fn told(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let error = CommandLine::try_parse_from(&words).unwrap_err();
        corrected(error, &CommandLine::command(), &words).to_string()
    }

    #[test]
    fn a_flag_is_proposed_only_when_it_can_be_meant() {
        for (asked, proposed) in [
            ("--memroy", Some("'--memory'")),
            ("--netwrok", Some("'--network'")),
            ("--open-file", Some("'--open-files'")),
            ("--env-file", Some("'--env'")),
            ("--read-only-paths", Some("'--read'")),
            ("--privileged", None),
            ("--volume", None),
        ] {
            let told = told(&["turnkey", "run", asked, "x", "--", "true"]);
            let found = told.split("a similar argument exists: ").nth(1);
            let found = found.and_then(|rest| rest.lines().next());
            assert_eq!(found, proposed, "{told}");
            let usage = told
                .lines()
                .any(|line| line.starts_with("Usage: turnkey run"));
            assert!(usage, "{told}");
        }
    }
}
