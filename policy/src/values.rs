//! Single values of profiles and flags: from text to type, with what is wrong and the fix.

mod address;
mod endpoint;

use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::WORKSPACE;
use crate::glob::{Glob, Token};
use crate::names::NamedVariants;
use crate::quantity::{self, QuantityError};

pub(crate) use address::{ports, subnet};
pub(crate) use endpoint::endpoint;

/// The least memory, in bytes, that runs anything.
pub(crate) const LEAST_MEMORY: u64 = 1 << 20;
/// The jail's init and the command.
pub(crate) const LEAST_PIDS: u32 = 2;
/// The three standard ones, and what the dynamic loader has open at a time.
pub(crate) const LEAST_OPEN_FILES: u32 = 8;

/// An error in a value, with its fix.
#[derive(Debug)]
pub(crate) struct ValueError {
    pub(crate) message: String,
    pub(crate) help: String,
    /// The bytes of the text that are at fault, when not all are.
    pub(crate) span: Option<Range<usize>>,
}

impl ValueError {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
            span: None,
        }
    }
}

impl From<QuantityError> for ValueError {
    fn from(error: QuantityError) -> Self {
        Self::new(error.to_string(), error.help)
    }
}

/// The name in `names` that is most likely meant.
pub(crate) fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likely = names.into_iter().filter_map(|name| {
        let similarity = strsim::jaro_winkler(&text.to_lowercase(), &name.to_lowercase());
        (similarity > 0.8).then_some((similarity, name))
    });
    likely
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

/// Names the nearest word, or all of them.
pub(crate) fn suggest(text: &str, names: &[&str]) -> String {
    match nearest(text, names.iter().copied()) {
        Some(name) => format!("did you mean {name}? It is one of {}", names.join(", ")),
        None => format!("write one of {}", names.join(", ")),
    }
}

/// Any text is right.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands where any other parser of values does"
)]
pub(crate) fn text(text: &str) -> Result<String, ValueError> {
    Ok(text.to_owned())
}

/// A reason that somebody has to give.
pub(crate) fn reason(text: &str) -> Result<String, ValueError> {
    if text.trim().is_empty() {
        return Err(ValueError::new(
            "a reason has to say something",
            "write in one sentence why it is no reason for suspicion",
        ));
    }
    Ok(text.to_owned())
}

/// A day, as in RFC 3339.
pub(crate) fn date(text: &str) -> Result<time::Date, ValueError> {
    time::Date::parse(text, &time::format_description::well_known::Iso8601::DATE)
        .ok()
        .filter(|_| text.len() == "2027-12-31".len())
        .ok_or_else(|| {
            ValueError::new(
                format!("{text:?} is no day"),
                "write year, month and day, such as \"2027-12-31\"",
            )
        })
}

/// One word of a closed set.
pub(crate) fn word<T: NamedVariants>(text: &str) -> Result<T, ValueError> {
    T::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = T::NAMES.iter().map(|(_, name)| *name).collect();
        ValueError::new(format!("{text:?} is not known here"), suggest(text, &names))
    })
}

pub(crate) fn truth(text: &str) -> Result<bool, ValueError> {
    text.parse()
        .map_err(|_| ValueError::new(format!("{text:?} is neither"), "write true or false"))
}

pub(crate) fn size(text: &str) -> Result<u64, ValueError> {
    Ok(quantity::parse_size(text)?)
}

/// Less than this starts no program at all, and the error would name the wrong cause.
pub(crate) fn memory(text: &str) -> Result<u64, ValueError> {
    at_least(size(text)?, LEAST_MEMORY, "1M")
}

/// Bytes in a second. Slower than this, a program would not even be read.
pub(crate) fn rate(text: &str) -> Result<Option<u64>, ValueError> {
    at_least(size(text)?, 64 << 10, "64K").map(Some)
}

pub(crate) fn percent(text: &str) -> Result<u32, ValueError> {
    at_least(quantity::parse_percent(text)?, 1, "1%")
}

pub(crate) fn pids(text: &str) -> Result<u32, ValueError> {
    at_least(
        quantity::parse_count(text)?,
        LEAST_PIDS,
        "2: the jail's init and the command",
    )
}

pub(crate) fn open_files(text: &str) -> Result<u32, ValueError> {
    at_least(quantity::parse_count(text)?, LEAST_OPEN_FILES, "8")
}

pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    at_least(
        quantity::parse_duration(text)?,
        Duration::from_millis(1),
        "1ms",
    )
}

fn at_least<T: PartialOrd>(value: T, least: T, written: &str) -> Result<T, ValueError> {
    if value < least {
        return Err(ValueError::new(
            "this is too little to run anything",
            format!("the least is {written}"),
        ));
    }
    Ok(value)
}

/// An absolute path as the jailer needs it: what is written is what is mounted.
pub(crate) fn absolute_path(text: &str) -> Result<PathBuf, ValueError> {
    if text.contains('\0') {
        return Err(ValueError::new("no path holds a zero byte", "remove it"));
    }
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(ValueError::new(
            format!("{text:?} is not an absolute path"),
            "begin it with /",
        ));
    }
    let plain: PathBuf = path.components().collect();
    let climbs = path
        .components()
        .any(|component| component == Component::ParentDir);
    // Components swallow `.`, doubled and trailing slashes; comparing finds them again.
    if climbs || plain.as_os_str() != path.as_os_str() {
        let help = "write it without . and .., doubled slashes or a slash at the end";
        return Err(ValueError::new(
            format!("{text:?} is not a plain path"),
            help,
        ));
    }
    Ok(plain)
}

/// A path in the jail.
pub(crate) fn place(text: &str) -> Result<Option<PathBuf>, ValueError> {
    absolute_path(text).map(Some)
}

/// A directory that takes the place of the host's root.
pub(crate) fn root(text: &str) -> Result<Option<PathBuf>, ValueError> {
    let path = absolute_path(text)?;
    if path.parent().is_none() {
        let help = "leave `root` out, and name what of the host is needed under `read`";
        return Err(ValueError::new("/ is the host's own root", help));
    }
    Ok(Some(path))
}

/// A path of the jail's tree, the program's home spelled out.
pub(crate) fn decoy(text: &str) -> Result<PathBuf, ValueError> {
    let expanded = expand_home(text);
    absolute_path(expanded.as_deref().unwrap_or(text))
}

pub(crate) fn user(text: &str) -> Result<String, ValueError> {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let begins = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if !begins || text.len() > 31 || !text.bytes().all(plain) {
        let help = "write up to 31 of a-z, 0-9, - and _, beginning with a letter";
        return Err(ValueError::new(
            format!("{text:?} is not a user name"),
            help,
        ));
    }
    if text == "nobody" {
        return Err(ValueError::new(
            "the jail's own nobody already has this name",
            "choose another",
        ));
    }
    Ok(text.to_owned())
}

/// One label of RFC 1123.
pub(crate) fn hostname(text: &str) -> Result<String, ValueError> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !plain || text.is_empty() || text.len() > 63 || text.starts_with('-') || text.ends_with('-')
    {
        let help = "write up to 63 letters, digits and -, without - at either end";
        return Err(ValueError::new(
            format!("{text:?} is not a host name"),
            help,
        ));
    }
    Ok(text.to_owned())
}

/// A Python module, with those that it is in before it.
pub(crate) fn module(text: &str) -> Result<Vec<String>, ValueError> {
    let is_name = |name: &str| {
        let begins = |char: char| char.is_alphabetic() || char == '_';
        name.starts_with(begins)
            && name
                .chars()
                .all(|char| char.is_alphanumeric() || char == '_')
    };
    if !text.split('.').all(is_name) {
        let help = "write a name as `import` has it, such as json or os.path";
        return Err(ValueError::new(
            format!("{text:?} is no Python module"),
            help,
        ));
    }
    Ok(vec![text.to_owned()])
}

pub(crate) fn variable_name(text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.contains(['=', '\0']) {
        let message = format!("{text:?} is not the name of an environment variable");
        return Err(ValueError::new(
            message,
            "write a name such as LANG; values go into env.set",
        ));
    }
    Ok(text.to_owned())
}

pub(crate) fn variable_value(text: &str) -> Result<String, ValueError> {
    if text.contains('\0') {
        return Err(ValueError::new(
            "no environment variable holds a zero byte",
            "remove it",
        ));
    }
    if crate::filled(text, crate::NamedLimits::default()).is_none() {
        return Err(ValueError::new(
            format!("{text:?} names a limit that no variable is told"),
            "write {limits.memory}, a part of it such as {limits.memory/2M}, or {limits.cpus}",
        ));
    }
    Ok(text.to_owned())
}

pub(crate) fn rule_id(text: &str) -> Result<String, ValueError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || text.len() > 64 || !text.bytes().all(plain) {
        let help = "write up to 64 of a-z, 0-9 and -, such as credential-file";
        return Err(ValueError::new(
            format!("{text:?} is not the id of a rule"),
            help,
        ));
    }
    Ok(text.to_owned())
}

/// `T1003` or `T1003.008`.
pub(crate) fn technique(text: &str) -> Result<Option<String>, ValueError> {
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let right = text
        .strip_prefix('T')
        .is_some_and(|rest| match rest.split_once('.') {
            None => digits(rest, 4),
            Some((technique, sub)) => digits(technique, 4) && digits(sub, 3),
        });
    if !right {
        let message = format!("{text:?} is not a technique of MITRE ATT&CK");
        return Err(ValueError::new(
            message,
            "write one such as T1003 or T1003.008",
        ));
    }
    Ok(Some(text.to_owned()))
}

/// A pattern of a rule, with the program's home spelled out.
pub(crate) fn pattern(text: &str) -> Result<Glob, ValueError> {
    let expanded = expand_home(text);
    let grown = expanded
        .as_ref()
        .map_or(0, |expanded| expanded.len() - text.len());
    let glob = Glob::parse(expanded.as_deref().unwrap_or(text)).map_err(|error| ValueError {
        message: error.to_string(),
        help: error.kind.help().to_owned(),
        // The home holds nothing that could be wrong, so the fault lies behind it.
        span: Some(error.span.start - grown..error.span.end - grown),
    })?;
    if !is_rooted(glob.tokens()) {
        let help = "begin it with / or **/, with ~/ for the program's home, or with memfd:";
        return Err(ValueError::new(
            format!("{text:?} matches no path, as paths are absolute"),
            help,
        ));
    }
    if is_unreachable(glob.tokens()) {
        let help = "write it without . and .., doubled slashes or a slash at the end";
        return Err(ValueError::new(
            format!("{text:?} matches no path of the kernel"),
            help,
        ));
    }
    Ok(glob)
}

/// `~`, `$HOME` and `$WORKDIR` at the beginning are the program's home.
fn expand_home(text: &str) -> Option<String> {
    let rest = ["~", "$HOME", "$WORKDIR"]
        .iter()
        .find_map(|name| text.strip_prefix(name))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{WORKSPACE}{rest}"))
}

/// True when the pattern can match an absolute path or a memory file.
fn is_rooted(tokens: &[Token]) -> bool {
    match tokens.first() {
        None => false,
        Some(Token::Literal(bytes)) => bytes.starts_with(b"/") || bytes.starts_with(b"memfd:"),
        Some(Token::OneOf(alternatives)) => alternatives.iter().all(|tokens| is_rooted(tokens)),
        Some(Token::AnyPath | Token::AnyDirectories) => true,
        // Neither can begin with a slash.
        Some(Token::AnyByte | Token::AnyName) => false,
    }
}

/// True when a literal piece cannot be part of a path as the kernel writes it.
fn is_unreachable(tokens: &[Token]) -> bool {
    let ends = match tokens {
        [Token::Literal(bytes)] if bytes == b"/" => false,
        [.., Token::Literal(bytes)] => [&b"/"[..], b"/.", b"/.."]
            .iter()
            .any(|end| bytes.ends_with(end)),
        _ => false,
    };
    ends || holds_unreachable(tokens)
}

fn holds_unreachable(tokens: &[Token]) -> bool {
    let inside = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    tokens.iter().any(|token| match token {
        Token::Literal(bytes) => [&b"//"[..], b"/./", b"/../"]
            .iter()
            .any(|part| inside(bytes, part)),
        Token::OneOf(alternatives) => alternatives.iter().any(|tokens| holds_unreachable(tokens)),
        Token::AnyByte | Token::AnyName | Token::AnyPath | Token::AnyDirectories => false,
    })
}
