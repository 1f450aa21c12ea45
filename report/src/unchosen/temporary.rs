//! Names that a program makes up for a file which it is about to write, as mkstemp(3) does: of the next run they are others.

use super::{folded, literal};

/// The fewest letters that mkstemp(3) and its like make up.
const RANDOM: usize = 6;

/// Words before what was made up, with nothing between: Python, Rust and mktemp(1); sed -i; compilers.
const STEMS: [(&[u8], bool); 4] = [
    (b"tmp", false),
    (b"temp", false),
    (b"sed", true),
    (b"cc", true),
];

/// Words of a name that say it is for a while alone, or whose number is that of a process.
const WORDS: [&[u8]; 6] = [b"tmp", b"temp", b"temporary", b"lock", b"pid", b"swap"];

/// Lowercase letters in a row that only a word has.
const WORD: usize = 4;

/// Digits of the number of a process behind the last dot, at least; those of a year are none.
const NUMBER: usize = 4;

/// The pattern for a path, with `*` for each part of it that nobody chose; `None` when somebody chose the whole.
///
/// The directories by the first two digits of a digest, as those of git's objects, are as made up as what is in them.
pub fn of_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let mut text = String::new();
    let mut is_made_up = false;
    for part in parts.iter().rev() {
        let is_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let pattern = match is_made_up && text.matches('/').count() == 1 && is_digits {
            true => "*".to_owned(),
            false => pattern(part.as_bytes()),
        };
        is_made_up |= pattern != literal(part.as_bytes());
        text = format!("/{pattern}{text}");
    }
    is_made_up.then_some(text)
}

fn pattern(name: &[u8]) -> String {
    let at = behind_stem(name)
        .or_else(|| behind_word(name))
        .or_else(|| behind_dots(name));
    match at {
        Some(at) => {
            let end = at + alphanumeric(&name[at..]);
            format!("{}*{}", literal(&name[..at]), literal(&name[end..]))
        }
        None => folded(name),
    }
}

/// The place behind a stem where something made up begins: `tmpl8xk2a1b`, `.tmpAbC123`, `sedAbC123`.
fn behind_stem(name: &[u8]) -> Option<usize> {
    let start = usize::from(name.starts_with(b"."));
    STEMS.iter().find_map(|(stem, is_exact)| {
        let rest = name[start..].strip_prefix(*stem)?;
        let length = alphanumeric(rest);
        let fits = !is_exact || length == RANDOM;
        (fits && is_made_up(&rest[..length])).then_some(start + stem.len())
    })
}

/// The place of the last part that is made up, behind a word that says what for: `tmp_obj_AbC123`, `x.tmp.4711`, `.lock-4711`.
fn behind_word(name: &[u8]) -> Option<usize> {
    let mut parts = parts(name);
    let word = parts.iter().position(|(_, part)| WORDS.contains(part))?;
    let behind = parts.split_off(word + 1);
    let is_number = |part: &[u8]| part.len() > 1 && part.iter().all(u8::is_ascii_digit);
    let mut made_up = behind.into_iter().rev();
    let (at, _) = made_up.find(|(_, part)| is_made_up(part) || is_number(part))?;
    Some(at)
}

/// The place of a part behind the last dot: `.report.csv.AbC123` of rsync(1), `core.4711`.
fn behind_dots(name: &[u8]) -> Option<usize> {
    let at = name.iter().rposition(|byte| *byte == b'.')? + 1;
    let last = &name[at..];
    let is_hidden = name.starts_with(b".") && at > 1;
    let is_year = last.starts_with(b"19") || last.starts_with(b"20");
    let is_number = last.iter().all(u8::is_ascii_digit) && last.len() >= NUMBER && !is_year;
    let is_random = is_hidden && last.len() == RANDOM && is_made_up(last);
    (is_number || is_random).then_some(at)
}

/// The parts of letters and digits, each with its place.
fn parts(name: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < name.len() {
        let length = alphanumeric(&name[at..]);
        if length > 0 {
            found.push((at, &name[at..at + length]));
        }
        at += length + 1;
    }
    found
}

fn alphanumeric(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count()
}

/// True for letters and digits of which several kinds are mixed as in no word, nor in one with a number behind it.
fn is_made_up(part: &[u8]) -> bool {
    let end = part.iter().rposition(|byte| !byte.is_ascii_digit());
    let word = &part[..end.map_or(0, |end| end + 1)];
    let rest = word.get(1..).unwrap_or_default();
    let is_word =
        word.iter().all(u8::is_ascii_uppercase) || rest.iter().all(u8::is_ascii_lowercase);
    let is_long = |run: &[u8]| run.len() >= WORD;
    let has_word = part.split(|byte| !byte.is_ascii_lowercase()).any(is_long);
    part.len() >= RANDOM && part.iter().all(u8::is_ascii_alphanumeric) && !is_word && !has_word
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use turnkey_policy::Glob;

    use super::*;

    #[test]
    fn what_a_program_made_up_is_a_pattern() {
        for (path, expected) in [
            // git(1): objects, packs.
            (
                "/workspace/.git/objects/3f/tmp_obj_AbC123",
                "/workspace/.git/objects/*/tmp_obj_*",
            ),
            (
                "/w/.git/objects/pack/tmp_pack_x7Yq2Z",
                "/w/.git/objects/pack/tmp_pack_*",
            ),
            (
                "/w/.git/objects/3f/a94a8fe5ccb19ba61c4c0873d391e987982fbb",
                "/w/.git/objects/*/*",
            ),
            // mktemp(1), Python, Rust, sed -i, compilers, rsync(1).
            ("/w/tmp.Xr4TzQ09bc", "/w/tmp.*"),
            ("/w/tmpl8xk2a1b/out", "/w/tmp*/out"),
            ("/w/.tmpAbC123", "/w/.tmp*"),
            ("/w/sedAbC123", "/w/sed*"),
            ("/w/ccNqR7zX.o", "/w/cc*.o"),
            ("/w/.report.csv.AbC123", "/w/.report.csv.*"),
            // Digests and UUIDs.
            ("/w/cache/d41d8cd98f00b204.bin", "/w/cache/*.bin"),
            ("/w/8b1f4c0e-12ab-4cde-8f00-0123456789ab.lock", "/w/*.lock"),
            // Numbers of processes.
            ("/w/core.4711", "/w/core.*"),
            ("/w/data.json.tmp.812", "/w/data.json.tmp.*"),
            ("/w/.lock-31", "/w/.lock-*"),
            ("/w/run-31337.sock", "/w/run-*.sock"),
        ] {
            assert_eq!(of_path(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn what_somebody_chose_is_none() {
        for path in [
            "/workspace/.git/objects/3f/README",
            "/workspace/.git/hooks/pre-commit",
            "/usr/share/locale/de/messages.mo",
            "/w/tmp/report.csv",
            "/w/tmpfiles.d",
            "/w/template.html",
            "/w/temperature2024.csv",
            "/w/tmp_Release",
            "/w/Cargo.lock",
            "/w/ccache",
            "/w/sediment",
            "/w/report.2024",
            "/w/libz.so.123",
            "/w/.config.backup",
            "relative/tmp_obj_AbC123",
        ] {
            assert_eq!(of_path(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn every_path_matches_its_own_pattern(path in "(/[a-zA-Z0-9_.{}*~ -]{1,16}){1,4}") {
            if let Some(pattern) = of_path(&path) {
                let glob = Glob::parse(&pattern).expect("a pattern");
                prop_assert!(glob.matches(path.as_bytes()), "{path}: {pattern}");
            }
        }
    }
}
