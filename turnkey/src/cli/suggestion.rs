//! The flag that is proposed for an unknown one: turnkey's own for one of other tools, one that is nearly the same, or one that the
//! unknown one begins with. clap proposes whatever shares enough letters.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use super::foreign;

/// The same error, with a proposal that can be meant or none. `command` is the whole command line, `words` are its arguments.
pub fn corrected(mut error: Error, command: &Command, words: &[String]) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let Some(asked) = text(ContextKind::InvalidArg) else {
        return error;
    };
    let called = words
        .iter()
        .find_map(|word| command.find_subcommand(word))
        .unwrap_or(command);
    if let Some(tip) = foreign::tip(&asked, called) {
        error.remove(ContextKind::SuggestedArg);
        let tips = vec![StyledStr::from(tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        return error;
    }
    let Some(proposed) = text(ContextKind::SuggestedArg) else {
        return error;
    };
    if is_near(&asked, &proposed) {
        return error;
    }
    error.remove(ContextKind::SuggestedArg);
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
            ("--read-only-paths", Some("'--read'")),
            ("--privileged", None),
            ("--volume", None),
            ("--cpus", None),
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

    #[test]
    fn a_flag_of_other_tools_is_answered_with_turnkeys_own() {
        for (words, said) in [
            (
                &["run", "--timeout", "5", "true"][..],
                "tip: '--wall 30s' ends",
            ),
            (&["run", "--timeout=5", "true"], "tip: '--wall 30s' ends"),
            (&["run", "-m", "1g", "true"], "tip: '--memory 512M' is"),
            (
                &["run", "-p8080:80", "true"],
                "tip: '--publish 8080:80' leads",
            ),
            (&["run", "--rm", "true"], "tip: every run is like that"),
            (
                &["learn", "--volume", "/x", "true"],
                "tip: '--read /data' shows",
            ),
        ] {
            let told = told(&[&["turnkey"], words].concat());
            assert!(
                told.contains(said) && !told.contains("as a value"),
                "{told}"
            );
        }
        let elsewhere = told(&["turnkey", "doctor", "--timeout", "5"]);
        assert!(!elsewhere.contains("--wall"), "{elsewhere}");
    }
}
