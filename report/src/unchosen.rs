//! Names that nobody chose: random ones, dates, numbers, hashes. A pattern keeps what is around them.
//!
//! Told by their shape alone, so that one sight is enough. A name whose shape says nothing, such as `tmpabcdefgh`,
//! is told by its place or by another run, where there is one.

mod temporary;

use super::text::escape;

pub use self::temporary::of_path;

/// Digits in a row that are no version, no code page and no year: a number of a process, a time, a date, a counter.
const NUMBER: usize = 5;

/// The shortest part in hexadecimal that is a hash.
const HASH: usize = 8;

/// The shortest part of letters and digits that is called random: what mkstemp(3) puts there.
const RANDOM: usize = 6;

/// Changes between kinds of characters that no word has.
const CHANGES: usize = 3;

/// The groups of a UUID, by their digits.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// A pattern for the name itself. What cannot be shown is any byte there.
pub fn literal(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes);
            match c {
                '*' | '?' | '{' | '}' | '[' | ']' | ',' | '\\' | '~' | '$' => {
                    text.push('\\');
                    text.push(c);
                }
                _ if escape(bytes.as_bytes()) == *bytes => text.push(c),
                _ => text.extend(bytes.bytes().map(|_| '?')),
            }
        }
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

/// The name as a pattern, with `*` for each part that nobody chose.
pub fn folded(name: &[u8]) -> String {
    let mut text = String::new();
    let (mut at, mut kept) = (0, 0);
    while at < name.len() {
        let length = unchosen(name, at);
        if length == 0 {
            at += 1;
            continue;
        }
        text += &literal(&name[kept..at]);
        text.push('*');
        at += length;
        kept = at;
    }
    text + &literal(&name[kept..])
}

/// The length of the part that begins here and was chosen by nobody; 0 for none.
fn unchosen(name: &[u8], at: usize) -> usize {
    let before = at.checked_sub(1).map(|before| name[before]);
    let rest = &name[at..];
    if !before.is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        if let Some(length) = uuid(rest) {
            return length;
        }
        let part = count(rest, u8::is_ascii_alphanumeric);
        if is_random(&rest[..part]) {
            return part;
        }
    }
    if before.is_some_and(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    match date(rest).unwrap_or_else(|| count(rest, u8::is_ascii_digit)) {
        length if length >= NUMBER => length + more(&rest[length..]),
        _ => 0,
    }
}

fn count(bytes: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(byte)).count()
}

fn uuid(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for (index, digits) in UUID.into_iter().enumerate() {
        if index > 0 {
            (bytes.get(at) == Some(&b'-')).then_some(())?;
            at += 1;
        }
        (count(&bytes[at..], u8::is_ascii_hexdigit) == digits).then_some(())?;
        at += digits;
    }
    let ends = !bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    ends.then_some(at)
}

/// A day, the year first, with one separator.
fn date(bytes: &[u8]) -> Option<usize> {
    let day = bytes.get(..10)?;
    let (year, separator) = (&day[..4], day[4]);
    let in_range = |two: &[u8], most: u8| {
        let is_number = two.iter().all(u8::is_ascii_digit);
        is_number && (1..=most).contains(&((two[0] - b'0') * 10 + (two[1] - b'0')))
    };
    let is_day = (year.starts_with(b"19") || year.starts_with(b"20"))
        && year.iter().all(u8::is_ascii_digit)
        && b"-_.".contains(&separator)
        && day[7] == separator
        && in_range(&day[5..7], 12)
        && in_range(&day[8..], 31)
        && !bytes.get(10).is_some_and(u8::is_ascii_digit);
    is_day.then_some(day.len())
}

/// The length of what goes on with a number: the time of a day, its fraction, its zone, the next number.
fn more(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let separator = count(&bytes[at..], |byte| b"-_.:+T".contains(byte)).min(1);
        let digits = count(&bytes[at + separator..], u8::is_ascii_digit);
        if digits == 0 {
            break;
        }
        at += separator + digits;
    }
    let is_zone = at > 0
        && bytes.get(at) == Some(&b'Z')
        && !bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
    at + usize::from(is_zone)
}

/// True when a part of letters and digits is a hash, or changes between them as no word does.
fn is_random(part: &[u8]) -> bool {
    let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
    let one_case = |is: fn(&u8) -> bool| part.iter().all(|byte| byte.is_ascii_digit() || is(byte));
    let is_hex = part.iter().all(u8::is_ascii_hexdigit)
        && (one_case(u8::is_ascii_lowercase) || one_case(u8::is_ascii_uppercase));
    if is_hex && part.len() >= HASH && digits >= 2 && digits < part.len() {
        return true;
    }
    part.len() >= RANDOM && changes(part) >= CHANGES
}

/// Places where the kind of character changes, but for those that words have too: `Word`, `camelCase`, `word2`.
fn changes(part: &[u8]) -> usize {
    let last_word = part.iter().rposition(|byte| !byte.is_ascii_digit());
    let is_change = |at: usize| {
        let (before, here) = (&part[at - 1], &part[at]);
        if before.is_ascii_digit() || here.is_ascii_digit() {
            let is_number_behind = last_word.is_some_and(|last| at > last);
            return before.is_ascii_digit() != here.is_ascii_digit() && !is_number_behind;
        }
        let begins_word = part.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        before.is_ascii_lowercase() && here.is_ascii_uppercase() && !begins_word
    };
    (1..part.len()).filter(|at| is_change(*at)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use turnkey_policy::Glob;

    use super::*;

    /// Stems and endings that programs put around what they make up.
    fn around() -> impl Strategy<Value = (&'static str, &'static str)> {
        let stem = prop::sample::select(vec!["", "tmp.", "out-", ".cache_", "run.", ".", "a-b_"]);
        (
            stem,
            prop::sample::select(vec!["", ".txt", ".tar.gz", "-lock", ".o"]),
        )
    }

    /// Two different names of one class.
    fn two(class: &'static str) -> impl Strategy<Value = (String, String)> {
        let one = move || prop::string::string_regex(class).expect("a class");
        (around(), one(), one()).prop_map(|((stem, ending), one, other)| {
            let name = |part: &str| format!("{stem}{part}{ending}");
            (name(&one), name(&other))
        })
    }

    fn unchosen_names() -> impl Strategy<Value = (String, String)> {
        prop_oneof![
            two("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
            two("([0-9][a-f]){6}[0-9a-f]{20}"),
            two("[0-9A-F]{28}([0-9][A-F]){6}"),
            two("(19|20)[0-9]{2}-(0[1-9]|1[0-2])-([012][1-9]|30)"),
            two("20[0-9]{2}(0[1-9]|1[0-2])[0-2][1-9][-_T][0-9]{6}Z?"),
            two("20[0-9]{2}-1[0-2]-[0-2][1-9]T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}"),
            two("[0-9]{5,19}"),
            two("[a-z]{2}[0-9][a-z]{2}[0-9][a-z]{2}"),
            two("[a-z][A-Z]{2}[0-9][a-z][A-Z]{2}[0-9]"),
        ]
    }

    proptest! {
        #[test]
        fn what_nobody_chose_is_a_pattern_for_the_next_such_name((one, other) in unchosen_names()) {
            let pattern = folded(one.as_bytes());
            let glob = Glob::parse(&format!("/{pattern}")).expect("a pattern");
            prop_assert!(glob.matches(format!("/{other}").as_bytes()), "{one} is {pattern}, not {other}");
            prop_assert!(!glob.matches(format!("/{other}x/y").as_bytes()), "{pattern}");
        }

        #[test]
        fn words_stay(name in "[a-z]{1,12}([-_.][a-z]{1,12}){0,3}[0-9]?(\\.[a-z]{1,4})?") {
            prop_assert_eq!(folded(name.as_bytes()), name);
        }

        #[test]
        fn every_name_matches_its_own_pattern(name in "[a-zA-Z0-9_.:+-]{1,40}") {
            let glob = Glob::parse(&format!("/{}", folded(name.as_bytes()))).expect("a pattern");
            let path = format!("/{name}");
            prop_assert!(glob.matches(path.as_bytes()));
        }
    }

    #[test]
    fn names_that_people_chose_stay() {
        let chosen = "main.py libssl.so.3 v1.2.3 utf_8.py README.md package-lock.json node_modules sha256.py cp1252.py \
            iso8859_15.py ISO-8859-1 x86_64-linux-gnu win32api.py base64url log4j-1.2.17.jar python3.13 report-2024 \
            getElementsByTagName.js XMLHttpRequest.h utf8mb4 i18n .git .env.local 10.15.7 mp3gain e2fsck md5sum \
            MyClass2.java RFC-2822.txt data_v2.csv 12 2024 facade deadbeef 1.0.0-rc.1 HTTPServer py3compile";
        for name in chosen.split_whitespace() {
            assert_eq!(folded(name.as_bytes()), name);
        }
    }

    #[test]
    fn what_is_around_stays() {
        let cases = [
            ("go-build3942839204", "go-build*"),
            ("build-7f3a9c01.d", "build-*.d"),
            ("core.20261125-120000.gz", "core.*.gz"),
            ("2026-11-25_12-30.log", "*.log"),
            (".tmp-8b1f4c0e-12ab-4cde-8f00-0123456789ab~", ".tmp-*\\~"),
            ("a,20261125", "a\\,*"),
        ];
        for (name, pattern) in cases {
            assert_eq!(folded(name.as_bytes()), pattern);
        }
    }
}
