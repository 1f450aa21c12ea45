//! The expectations that a run is held against: facts, written `key=value` and parted by spaces.
//!
//! Values with spaces stand in double quotes. Every fact has to hold. The facts about effects
//! (`listener`, `survivors`, `workdir`) hold for every run in the jail, asked for or not.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::seen::DemoObservation;

/// All the facts of one run.
#[derive(Debug)]
pub struct Expectation(Vec<Fact>);

/// One thing that must be so.
#[derive(Clone, Debug, PartialEq)]
enum Fact {
    /// `exit=121`: the exit code of turnkey, or of the program without the jail.
    Exit(i32),
    /// `status=exited`: a string in the report, under its key.
    Report(&'static str, String),
    /// `signal=31`: of the command, in the report.
    Signal(i64),
    /// `rule=ID` or `rule=ID/ACTION`: a violation in the report.
    Rule(String, Option<String>),
    /// `path=/etc/shadow` or `technique=T1003.008`: a value of some violation, under its key.
    Violation(&'static str, String),
    /// `violations=none`
    NoViolation,
    /// `network=127.0.0.1:80`: an attempt in the report, and none like it had its effect. A
    /// leading `*` stands for anything.
    Network(String),
    /// `files-changed=a,b`: exactly these in the report, or `none`.
    FilesChanged(BTreeSet<String>),
    /// `stdout-has=text`, `stderr-lacks=text` and so on.
    Text {
        stream: OutputStream,
        text: String,
        present: bool,
    },
    /// `stdout-at-most=1M`: bytes.
    AtMost(usize),
    /// `stderr-plain`: no control character besides the newline.
    Plain,
    /// `within=5s`: from start to end, building the jail included.
    Within(Duration),
    /// `listener=silent|reached`: whether anything arrived at the demo's own services.
    Listener { reached: bool },
    /// `survivors=none|some`: processes of the program that still live after the run.
    Survivors { some: bool },
    /// `workdir=unchanged|changed`: the caller's directory on the host.
    Workdir { changed: bool },
}

/// The stream that the program, or turnkey about it, printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputStream {
    Stdout,
    Stderr,
}

impl Expectation {
    /// The facts of a run in the jail; those about effects are added.
    pub fn in_the_jail(text: &str) -> Result<Self> {
        let mut facts = parse(text)?;
        ensure!(!facts.is_empty(), "`expect` is missing");
        for standing in [
            Fact::Listener { reached: false },
            Fact::Survivors { some: false },
            Fact::Workdir { changed: false },
        ] {
            if !facts.contains(&standing) {
                facts.push(standing);
            }
        }
        Ok(Self(facts))
    }

    /// The facts of a run without the jail, where there is no report to ask.
    pub fn outside(text: &str) -> Result<Self> {
        let facts = parse(text)?;
        match facts.iter().find(|fact| fact.needs_report()) {
            Some(fact) => bail!("{fact:?} needs a report, and there is none without the jail"),
            None => Ok(Self(facts)),
        }
    }

    /// The facts that do not hold, in words. `fill` replaces the words in braces.
    pub fn disagreements(
        &self,
        seen: &DemoObservation,
        fill: &dyn Fn(&str) -> String,
    ) -> Vec<String> {
        let wrong = |fact: &Fact| fact.filled(fill).disagreement(seen);
        let mut wrong: Vec<_> = self.0.iter().filter_map(wrong).collect();
        wrong.extend(seen.failure.clone());
        wrong
    }

    /// Exit code, status, verdict and rules, for the table.
    pub fn summary(&self) -> String {
        let shown = self.0.iter().filter_map(|fact| match fact {
            Fact::Exit(code) => Some(code.to_string()),
            Fact::Report(_, value) => Some(value.clone()),
            Fact::Rule(rule, _) => Some(rule.clone()),
            _ => None,
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

fn parse(text: &str) -> Result<Vec<Fact>> {
    let facts = words(text)?;
    facts
        .iter()
        .map(|word| Fact::parse(word).with_context(|| format!("in the fact `{word}`")))
        .collect()
}

impl Fact {
    fn parse(word: &str) -> Result<Self> {
        if word == "stderr-plain" {
            return Ok(Self::Plain);
        }
        let (key, value) = word.split_once('=').context("it is not `key=value`")?;
        ensure!(!value.is_empty(), "the value is empty");
        let text = |stream, present| Self::Text {
            stream,
            text: value.to_owned(),
            present,
        };
        Ok(match key {
            "exit" => Self::Exit(value.parse()?),
            "status" => Self::Report("status", value.to_owned()),
            "verdict" => Self::Report("verdict", value.to_owned()),
            "signal" => Self::Signal(value.parse()?),
            "rule" => match value.split_once('/') {
                Some((rule, action)) => Self::Rule(rule.to_owned(), Some(action.to_owned())),
                None => Self::Rule(value.to_owned(), None),
            },
            "path" => Self::Violation("path", value.to_owned()),
            "technique" => Self::Violation("technique", value.to_owned()),
            "on" => Self::Violation("on", value.to_owned()),
            "syscall" => Self::Violation("syscall", value.to_owned()),
            "violations" => one_of(value, [("none", Self::NoViolation)])?,
            "network" => Self::Network(value.to_owned()),
            "files-changed" => Self::FilesChanged(list(value)),
            "stdout-has" => text(OutputStream::Stdout, true),
            "stdout-lacks" => text(OutputStream::Stdout, false),
            "stderr-has" => text(OutputStream::Stderr, true),
            "stderr-lacks" => text(OutputStream::Stderr, false),
            "stdout-at-most" => Self::AtMost(bytes(value)?),
            "within" => Self::Within(seconds(value)?),
            "listener" => {
                let fact = |reached| Self::Listener { reached };
                one_of(value, [("silent", fact(false)), ("reached", fact(true))])?
            }
            "survivors" => {
                let fact = |some| Self::Survivors { some };
                one_of(value, [("none", fact(false)), ("some", fact(true))])?
            }
            "workdir" => {
                let fact = |changed| Self::Workdir { changed };
                one_of(value, [("unchanged", fact(false)), ("changed", fact(true))])?
            }
            _ => bail!("unknown key `{key}`"),
        })
    }

    fn needs_report(&self) -> bool {
        matches!(
            self,
            Self::Report(..)
                | Self::Signal(_)
                | Self::Rule(..)
                | Self::Violation(..)
                | Self::NoViolation
                | Self::Network(_)
                | Self::FilesChanged(_)
        )
    }

    /// The fact with the words in braces replaced.
    fn filled(&self, fill: &dyn Fn(&str) -> String) -> Self {
        let mut fact = self.clone();
        match &mut fact {
            Self::Report(_, text)
            | Self::Violation(_, text)
            | Self::Network(text)
            | Self::Text { text, .. } => *text = fill(text),
            _ => {}
        }
        fact
    }

    /// The disagreement with what was seen, in words, or nothing.
    fn disagreement(&self, seen: &DemoObservation) -> Option<String> {
        match self {
            Self::Exit(code) => differs("exit code", Some(*code), seen.exit),
            Self::Report(key, value) => differs(key, Some(value.as_str()), seen.text(key)),
            Self::Signal(number) => differs("signal", Some(*number), seen.signal()),
            Self::Rule(rule, action) => missing_rule(seen, rule, action.as_deref()),
            Self::Violation(key, value) => {
                missing(key, value, seen.values("violations", key), |it| it == value)
            }
            Self::NoViolation => differs("violations", Some(0), seen.count("violations")),
            Self::Network(pattern) => missing_attempt(seen, pattern),
            Self::FilesChanged(paths) => {
                let changed = seen.values("files_changed", "path");
                let changed = changed.into_iter().map(str::to_owned).collect();
                differs("changed files", Some(paths), Some(&changed))
            }
            Self::Text {
                stream,
                text,
                present,
            } => disagreement_on_text(seen, *stream, text, *present),
            Self::AtMost(limit) => (seen.stdout.len() > *limit)
                .then(|| format!("stdout holds {} bytes", seen.stdout.len())),
            Self::Plain => control_character(&seen.stderr),
            Self::Within(limit) => {
                (seen.elapsed > *limit).then(|| format!("it took {:.1?}", seen.elapsed))
            }
            Self::Listener { reached } => differs(
                "listener reached",
                Some(*reached),
                Some(seen.listener_reached),
            ),
            Self::Survivors { some } => differs("survivors", Some(*some), Some(seen.survivors)),
            Self::Workdir { changed } => differs(
                "working directory changed",
                Some(*changed),
                Some(seen.workdir_changed),
            ),
        }
    }
}

fn differs<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: Option<T>,
    seen: Option<T>,
) -> Option<String> {
    match (expected, seen) {
        (expected, seen) if expected == seen => None,
        (Some(expected), Some(seen)) => {
            Some(format!("{what}: {expected:?} expected, {seen:?} seen"))
        }
        (Some(expected), None) => Some(format!("{what}: {expected:?} expected, none seen")),
        (None, _) => None,
    }
}

fn missing(
    what: &str,
    wanted: &str,
    seen: Vec<&str>,
    is_it: impl Fn(&str) -> bool,
) -> Option<String> {
    let found = seen.iter().any(|it| is_it(it));
    (!found).then(|| format!("{what} {wanted} is missing; seen: {}", few(&seen)))
}

fn missing_rule(seen: &DemoObservation, rule: &str, action: Option<&str>) -> Option<String> {
    let violations = seen.pairs("violations", "rule", "action");
    let found = violations
        .iter()
        .any(|(id, done)| *id == rule && action.is_none_or(|action| *done == action));
    let shown: Vec<_> = violations
        .iter()
        .map(|(id, done)| format!("{id}/{done}"))
        .collect();
    let wanted = action.map_or_else(|| rule.to_owned(), |action| format!("{rule}/{action}"));
    (!found).then(|| format!("violation of {wanted} is missing; seen: {}", few(&shown)))
}

fn missing_attempt(seen: &DemoObservation, pattern: &str) -> Option<String> {
    let attempts = seen.pairs("network_attempts", "address", "result");
    let allowed = |(address, result): &(&str, &str)| fits(pattern, address) && *result == "allowed";
    if let Some((address, _)) = attempts.iter().find(|attempt| allowed(attempt)) {
        return Some(format!("network attempt {address} was allowed"));
    }
    let addresses = attempts.into_iter().map(|(address, _)| address).collect();
    missing("network attempt", pattern, addresses, |it| {
        fits(pattern, it)
    })
}

/// The first entries of a list, for a message that stays short.
fn few<T: AsRef<str>>(list: &[T]) -> String {
    const SHOWN: usize = 8;
    let first = list.iter().take(SHOWN).map(AsRef::as_ref);
    let shown = first.collect::<Vec<_>>().join(", ");
    match list.len() {
        0 => "nothing".to_owned(),
        count if count > SHOWN => format!("{shown} and {} more", count - SHOWN),
        _ => shown,
    }
}

fn disagreement_on_text(
    seen: &DemoObservation,
    stream: OutputStream,
    text: &str,
    present: bool,
) -> Option<String> {
    let (name, output) = match stream {
        OutputStream::Stdout => ("stdout", &seen.stdout),
        OutputStream::Stderr => ("stderr", &seen.stderr),
    };
    let found = contains(output, text.as_bytes());
    let verb = if present { "lacks" } else { "holds" };
    (found != present).then(|| format!("{name} {verb} {text:?}: {}", beginning(output)))
}

/// Whether `part` stands somewhere in `whole`.
pub fn contains(whole: &[u8], part: &[u8]) -> bool {
    part.is_empty() || whole.windows(part.len()).any(|window| window == part)
}

/// The first bytes of an output, escaped.
fn beginning(output: &[u8]) -> String {
    const SHOWN: usize = 300;
    let shown = &output[..output.len().min(SHOWN)];
    format!("\"{}\"", shown.escape_ascii())
}

/// The first control character that a terminal would obey, whether of one byte or, as UTF-8, of two.
fn control_character(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let found = text.chars().find(|it| it.is_control() && *it != '\n')?;
    Some(format!("stderr holds the control character {found:?}"))
}

fn fits(pattern: &str, value: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(ending) => value.ends_with(ending),
        None => value == pattern,
    }
}

fn one_of<const N: usize>(value: &str, choices: [(&str, Fact); N]) -> Result<Fact> {
    let names = choices.each_ref().map(|(name, _)| *name).join(" or ");
    let chosen = choices.into_iter().find(|(name, _)| *name == value);
    let (_, fact) = chosen.ok_or_else(|| anyhow!("`{value}` is not {names}"))?;
    Ok(fact)
}

fn list(value: &str) -> BTreeSet<String> {
    match value {
        "none" => BTreeSet::new(),
        _ => value.split(',').map(str::to_owned).collect(),
    }
}

fn bytes(value: &str) -> Result<usize> {
    let mebibytes = value.strip_suffix('M').context("bytes are written as 1M")?;
    Ok(mebibytes.parse::<usize>()? << 20)
}

fn seconds(value: &str) -> Result<Duration> {
    let seconds = value.strip_suffix('s').context("times are written as 5s")?;
    Ok(Duration::from_secs(seconds.parse()?))
}

/// Splits at spaces, except between double quotes, which are taken away.
pub fn words(text: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for character in text.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    ensure!(!quoted, "a double quote is not closed");
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
#[path = "expectation_tests.rs"]
mod tests;
