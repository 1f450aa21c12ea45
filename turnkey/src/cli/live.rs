//! `turnkey events` and `turnkey top`.

use std::str::FromStr;

use clap::Args;

/// The examples of `events`.
pub const EVENTS_HELP: &str = "Exit codes:
  0    every followed run is over, or there was none
  125  a filter is invalid, or the live runs cannot be listed

Examples:
  turnkey events --filter kind=connect                   connections of the runs that live now
  turnkey events --follow --filter kind=finding --filter severity=high --filter severity=critical";

/// `turnkey events`.
#[derive(Debug, Args)]
pub struct EventsArguments {
    /// Take up runs that begin later as well, until Ctrl-C; otherwise end with the runs that live now
    #[arg(long, short)]
    pub follow: bool,
    /// Print only lines with this value: run=, profile=, kind=, rule=, severity=, verdict=; of several values of one key any,
    /// of several keys all
    #[arg(long = "filter", value_name = "KEY=VALUE")]
    pub filters: Vec<LineFilter>,
}

/// `turnkey top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
    /// For programs: one JSON object, schema turnkey.top/v1
    #[arg(long)]
    pub json: bool,
}

/// The properties that lines are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterKey {
    /// The id of a run, or its beginning.
    Run,
    /// The name of a profile.
    Profile,
    /// The kind of a line.
    Kind,
    /// The rule that decided, or the id of a finding.
    Rule,
    /// The severity of a finding.
    Severity,
    /// The verdict at the end, or of the moment of joining.
    Verdict,
}

impl FilterKey {
    /// Each with its word.
    const WORDS: [(&'static str, FilterKey); 6] = [
        ("run", FilterKey::Run),
        ("profile", FilterKey::Profile),
        ("kind", FilterKey::Kind),
        ("rule", FilterKey::Rule),
        ("severity", FilterKey::Severity),
        ("verdict", FilterKey::Verdict),
    ];
}

/// One `--filter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFilter {
    /// The key.
    pub key: FilterKey,
    /// The value.
    pub value: String,
}

impl FromStr for LineFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<LineFilter, String> {
        let words = FilterKey::WORDS.map(|(word, _)| word).join(", ");
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("a filter is KEY=VALUE, with one of these keys: {words}"))?;
        let mut keys = FilterKey::WORDS.iter();
        let (_, key) = keys
            .find(|(word, _)| *word == key)
            .ok_or_else(|| format!("there is no key `{key}`; the keys are: {words}"))?;
        if value.is_empty() {
            return Err("nothing stands behind the `=`".to_owned());
        }
        Ok(LineFilter {
            key: *key,
            value: value.to_owned(),
        })
    }
}
