//! Credentials in what a run tells are replaced by what they are: `[redacted: github-token]`.
//!
//! This is done to texts that are finished, after every decision: no rule, no finding and no verdict sees
//! a redacted text. What looks like a credential is told by its shape alone, from the tables below; the
//! matcher takes time linear in the text. Captured output is the program's own word and stays.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use serde_json::Value;

use super::model::Report;

/// Shapes that are credentials wherever they stand: the kind, and the shape. Of several groups the first
/// stays in front of what is redacted, and the last behind it.
const SHAPES: &[(&str, &str)] = &[
    (
        "private-key",
        r"()-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)()",
    ),
    (
        "aws-access-key",
        r"()(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?-u:\b)()",
    ),
    (
        "github-token",
        r"()(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})(?-u:\b)()",
    ),
    (
        "gitlab-token",
        r"()(?-u:\b)gl(?:pat|ptt|rt|dt|oas|cbt|ft|soat|imt|agent)-[A-Za-z0-9_.-]{20,}()",
    ),
    (
        "slack-token",
        r"()(?-u:\b)(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,})()",
    ),
    (
        "slack-webhook",
        r"((?-u:\b)hooks\.slack\.com/services/)T[A-Z0-9]{6,20}/B[A-Z0-9]{6,20}/[A-Za-z0-9]{20,40}()",
    ),
    (
        "anthropic-key",
        r"()(?-u:\b)sk-ant-[a-z0-9]{2,20}-[A-Za-z0-9_-]{20,}()",
    ),
    (
        "openai-key",
        r"()(?-u:\b)sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48})()",
    ),
    (
        "google-key",
        r"()(?-u:\b)(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})()",
    ),
    (
        "jwt",
        r"()(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}()",
    ),
    (
        "url-password",
        r"((?-u:\b)[A-Za-z][A-Za-z0-9+.-]{1,20}://[^/\s:@?#]*:)[^/\s@\[]{1,}(@)",
    ),
    (
        "url-token",
        r"((?-u:\b)[A-Za-z][A-Za-z0-9+.-]{1,20}://)[A-Za-z0-9_-]{20,}(@)",
    ),
    (
        "password",
        r#"((?-u:\b)curl(?-u:\b)[^\n]{0,400}?[\s"'](?:-[A-Za-z]*u *|--user[ =]+)["']?)[^\s"':=\[]+:[^\s"']+()"#,
    ),
    (
        "authorization",
        r#"((?i-u:\bauthorization *[:=] *(?:basic|bearer|token|digest|negotiate)) +)[^\s"'\\\[]{3,}()"#,
    ),
    // Longer than the name of any scheme.
    (
        "authorization",
        r#"((?i-u:\bauthorization) *[:=] *)[^\s"'\\\[]{10,}()"#,
    ),
];

/// Names whose value is a secret, when they are the end of a name: `GITHUB_TOKEN`, `--api-key`.
const SECRETS: &str = "[A-Za-z0-9_-]*(?:password|passwd|passphrase|[_-]pwd|secret|token|apikey|api[_-]key|access[_-]key|private[_-]key)";
/// A value: in quotes, or to the next blank or separator; not a variable, a comparison or nothing.
const VALUE: &str = r#"(?:"[^"\[$][^"]*"|'[^'\[$][^']*'|[^\s"'&;,|$=<>({\[\\-][^\s"'&;,|)]*)"#;

/// One of these is in every text with a credential that the first table tells by itself. The matchers take longer
/// to make than all else that is done to a short report, and most runs have none of these.
const HINTS: &[&str] = &[
    "-----BEGIN ",
    "AKIA",
    "ASIA",
    "ABIA",
    "ACCA",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "glptt-",
    "glrt-",
    "gldt-",
    "gloas-",
    "glcbt-",
    "glft-",
    "glsoat-",
    "glimt-",
    "glagent-",
    "xox",
    "xapp-",
    "hooks.slack.com/",
    "sk-",
    "AIza",
    "ya29.",
    "eyJ",
];
/// As [`HINTS`], how the names end whose value is a secret, in any case: [`SECRETS`] in other words.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "-pwd",
    "_pwd",
    "secret",
    "token",
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "access_key",
    "private-key",
    "private_key",
];

/// The bytes that stand in a text, a bit for each.
#[derive(Clone, Copy)]
struct Bytes([u64; 4]);

impl Bytes {
    const fn from_text(text: &str) -> Self {
        let (text, mut bits, mut at) = (text.as_bytes(), [0; 4], 0);
        while at < text.len() {
            bits[text[at] as usize / 64] |= 1 << (text[at] % 64);
            at += 1;
        }
        Self(bits)
    }

    fn have_all(&self, of: &Self) -> bool {
        let pairs = self.0.iter().zip(&of.0);
        pairs.fold(true, |all, (have, want)| all & (have & want == *want))
    }
}

/// True when a text has one of these. Few texts have even the bytes of one, which is told for all of them by one look
/// at the text.
fn has_any(
    text: &str,
    words: &[&'static str],
    mut is_meant: impl FnMut(&'static str) -> bool,
) -> bool {
    let bytes = Bytes::from_text(text);
    let possible = |word: &&&'static str| bytes.have_all(&Bytes::from_text(word));
    words.iter().filter(possible).any(|word| is_meant(word))
}

struct Shapes {
    /// The shapes that a text has at all: most have none, and are done with after one pass.
    any: RegexSet,
    each: Vec<(&'static str, Regex)>,
    /// A flag alone, whose value is the next argument.
    flag: Regex,
}

/// True when a text can have a credential at all.
fn may_have_any(text: &str) -> bool {
    let is_url = || text.contains("://") && text.contains('@');
    let is_curl = || text.contains("curl") && text.contains(" -");
    if has_any(text, HINTS, |hint| text.contains(hint)) || is_url() || is_curl() {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    lower.contains("authorization") || has_any(&lower, NAMES, |name| may_have_value(&lower, name))
}

/// True when a value can stand behind a name: `token=…`, `"token": …`, `--token …`. A word that only ends like
/// one is in many a text, this program's own name among them.
fn may_have_value(lower: &str, name: &str) -> bool {
    let has_flag = lower.contains("--");
    lower
        .match_indices(name)
        .any(|(at, _)| match lower.as_bytes().get(at + name.len()) {
            Some(b'=' | b'"' | b'\'') => true,
            Some(b' ') | None => has_flag,
            Some(_) => false,
        })
}

/// True when an argument can be a flag whose value is a secret.
fn may_be_flag(argument: &str) -> bool {
    argument.starts_with("--") && may_have_any(argument)
}

/// The tables, compiled once. They are constants that a test compiles, so none is left out.
static ALL: LazyLock<Shapes> = LazyLock::new(|| {
    let named = [
        (
            "secret",
            format!("((?:^|[^A-Za-z0-9_-]|--?)(?i-u:{SECRETS})=){VALUE}()"),
        ),
        (
            "secret",
            format!("([\"'](?i-u:{SECRETS})[\"'] *: *){VALUE}()"),
        ),
        ("secret", format!("((?:^| )--(?i-u:{SECRETS}) +){VALUE}()")),
    ];
    let shapes = SHAPES
        .iter()
        .map(|(kind, shape)| (*kind, (*shape).to_owned()));
    let shapes: Vec<(&str, String)> = shapes.chain(named).collect();
    let any = RegexSet::new(shapes.iter().map(|(_, shape)| shape)).unwrap_or_default();
    let each = shapes.iter();
    let each = each.filter_map(|(kind, shape)| Some((*kind, Regex::new(shape).ok()?)));
    Shapes {
        any,
        each: each.collect(),
        flag: Regex::new(&format!("(?i-u)^--{SECRETS}$")).unwrap_or_else(|_| never()),
    }
});

fn never() -> Regex {
    #[expect(clippy::unwrap_used, reason = "the empty pattern is one")]
    Regex::new("").unwrap()
}

/// The text without credentials.
pub fn text(text: &str) -> Cow<'_, str> {
    if !may_have_any(text) || !ALL.any.is_match(text) {
        return Cow::Borrowed(text);
    }
    let mut redacted = Cow::Borrowed(text);
    // All of them: what one takes out can be what hid another.
    for (kind, shape) in &ALL.each {
        let replace = |found: &Captures<'_>| {
            let part = |index| found.get(index).map_or("", |part| part.as_str());
            format!("{}{}{}", part(1), mark(kind), part(2))
        };
        if let Cow::Owned(changed) = shape.replace_all(&redacted, replace) {
            redacted = Cow::Owned(changed);
        }
    }
    redacted
}

/// The kinds of credentials in a text, each once.
pub fn kinds(text: &str) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    if !may_have_any(text) || !ALL.any.is_match(text) {
        return kinds;
    }
    for (kind, shape) in &ALL.each {
        if !kinds.contains(kind) && shape.is_match(text) {
            kinds.push(*kind);
        }
    }
    kinds
}

/// The arguments of a program without credentials: a value can stand behind its flag.
pub fn arguments(arguments: &mut [String]) {
    let mut is_curl = false;
    let mut before = String::new();
    for argument in arguments {
        // Perhaps behind a program that starts it, such as timeout(1).
        is_curl |= argument.rsplit('/').next() == Some("curl");
        let kept = std::mem::take(&mut before);
        before.clone_from(argument);
        let is_flag = argument.starts_with('-');
        if !is_flag && !argument.is_empty() && may_be_flag(&kept) && ALL.flag.is_match(&kept) {
            *argument = mark("secret");
        } else if is_curl && names_user(&kept) && argument.contains(':') {
            *argument = mark("password");
        } else if let Some(flag) = ["--user=", "-u"]
            .into_iter()
            .find(|flag| is_curl && argument.starts_with(*flag))
            && argument.contains(':')
        {
            *argument = format!("{flag}{}", mark("password"));
        } else if let Cow::Owned(redacted) = text(argument) {
            *argument = redacted;
        }
    }
}

/// True for the flag of curl(1) whose value is a user and a password, perhaps behind other letters: `-sSu`.
fn names_user(flag: &str) -> bool {
    let letters = flag.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    flag == "--user" || letters.is_some_and(|letters| letters.ends_with('u'))
}

fn mark(kind: &str) -> String {
    format!("[redacted: {kind}]")
}

/// The report without credentials, but for captured output.
///
/// It goes by way of a value, so that no text can be forgotten.
///
/// # Errors
/// When the value is no report any more, which no redaction makes of one.
pub fn report(report: Report) -> serde_json::Result<Report> {
    let mut value = serde_json::to_value(&report)?;
    if !redact(&mut value, "") {
        return Ok(report);
    }
    let exit = report.exit;
    let redacted: Report = serde_json::from_value(value)?;
    Ok(Report { exit, ..redacted })
}

/// Keys of captured output.
const OUTPUT: &[&str] = &["stdout", "stderr"];
/// Keys of lists that are the arguments of one program.
const ARGUMENTS: &[&str] = &["argv", "command"];

/// Redacts a value with all below it; true when there was anything to redact.
fn redact(value: &mut Value, key: &str) -> bool {
    match value {
        Value::String(whole) => match text(whole) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                *whole = redacted;
                true
            }
        },
        Value::Array(list) if ARGUMENTS.contains(&key) => {
            let words = list.iter().filter_map(Value::as_str).map(str::to_owned);
            let words: Vec<String> = words.collect();
            let mut redacted = words.clone();
            arguments(&mut redacted);
            let changed = redacted != words;
            *list = redacted.into_iter().map(Value::from).collect();
            changed
        }
        Value::Array(list) => list
            .iter_mut()
            .fold(false, |changed, value| redact(value, key) | changed),
        Value::Object(map) => map
            .iter_mut()
            .filter(|(key, _)| !OUTPUT.contains(&key.as_str()))
            .fold(false, |changed, (key, value)| redact(value, key) | changed),
        _ => false,
    }
}

#[cfg(test)]
#[path = "redact/tests.rs"]
mod tests;
