//! From the paths that were used to the patterns that stand for them.
//!
//! | where | tier | example |
//! |---|---|---|
//! | `/etc`, `/proc`, `/sys`, `/dev`, `/usr/bin`, names that begin with a dot, programs that are run | exact | `/etc/ssl/openssl.cnf` |
//! | the rest, such as `/workspace` | the directory | `/workspace/data/*` |
//! | installed libraries and what comes with them | the prefix, without a version | `/usr/lib/python3*/**` |
//! | `/tmp` and its like | exact, random names folded | `/tmp/tmp*.csv` |
//!
//! Each level of folding is broader than the one before, for a profile that would not fit the
//! kernel's table otherwise. At the first nothing is folded yet, but the trees that may be read and those
//! that may be written become the same: see [`super::draft::ProfileDraft::trees`].

use super::seen::FileWant;
use turnkey_report::escape;

/// The broadest level.
pub const LEVELS: u8 = 4;

/// Directories of toolchains and libraries. What is directly in one of these is a library, or an
/// installation of its own.
const INSTALLED: &[&str] = &[
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/share",
    "/usr/share",
    "/usr/src",
];

/// Directories in which names are made up.
const TEMPORARY: &[&str] = &["/dev/shm", "/tmp", "/var/tmp"];

/// Directories in which each file has a meaning of its own.
const EXACT: &[&str] = &["/bin", "/dev", "/etc", "/proc", "/sbin", "/sys", "/usr"];

/// The breadth of folding.
#[derive(Clone, Copy, Debug)]
pub struct FoldBreadth<'f> {
    /// From 0, which is not at all.
    pub level: u8,
    /// Places of the jail's own memory, besides [`TEMPORARY`].
    pub scratch: &'f [Vec<u8>],
    /// The places of toolchains that the command has brought along.
    pub installations: &'f [Vec<u8>],
}

/// The patterns that a use of a path becomes; none for what no pattern can name.
pub fn patterns(
    fold: FoldBreadth<'_>,
    want: FileWant,
    path: &[u8],
    directory: bool,
) -> Vec<String> {
    if path.starts_with(b"memfd:") {
        return vec!["memfd:**".to_owned()];
    }
    if !path.starts_with(b"/") {
        return Vec::new();
    }
    let parts: Vec<&[u8]> = path[1..].split(|byte| *byte == b'/').collect();
    let scratch = fold.scratch.iter().map(Vec::as_slice);
    let temporary = TEMPORARY
        .iter()
        .map(|place| place.as_bytes())
        .chain(scratch);
    if let Some(depth) = temporary.filter_map(|place| below(path, place)).max() {
        return in_temporary(&parts, depth);
    }
    if want == FileWant::Run {
        return vec![exact_or(fold.level >= 3, &parts)];
    }
    let brought = fold.installations.iter().map(Vec::as_slice);
    if let Some(depth) = brought.filter_map(|place| below(path, place)).max() {
        let (above, last) = parts.split_at(depth - 1);
        return vec![format!("{}/**", join(above, &versionless(last[0])))];
    }
    if let Some(depth) = longest(INSTALLED, path) {
        return vec![installed(fold.level, &parts, depth)];
    }
    if longest(EXACT, path).is_some() {
        return vec![exact_or(fold.level >= 4, &parts)];
    }
    vec![data(fold.level, &parts, directory)]
}

/// The number of parts that a place has, when the path is in it.
fn below(path: &[u8], place: &[u8]) -> Option<usize> {
    let rest = path.strip_prefix(place)?;
    (rest.is_empty() || rest.starts_with(b"/"))
        .then(|| place.iter().filter(|byte| **byte == b'/').count())
}

fn longest(places: &[&str], path: &[u8]) -> Option<usize> {
    let depths = places
        .iter()
        .filter_map(|place| below(path, place.as_bytes()));
    depths.max()
}

/// The path itself, but for numbers of processes; or everything beside it.
fn exact_or(beside: bool, parts: &[&[u8]]) -> String {
    if beside && parts.len() > 1 {
        return join(&parts[..parts.len() - 1], "*");
    }
    let in_proc = parts.first() == Some(&&b"proc"[..]);
    let numbered = in_proc || parts.starts_with(&[b"dev", b"pts"]);
    let part = |part: &&[u8]| match numbered && part.iter().all(u8::is_ascii_digit) {
        true => "*".to_owned(),
        false => literal(part),
    };
    format!("/{}", parts.iter().map(part).collect::<Vec<_>>().join("/"))
}

/// The pattern for data: all that is in the directory. A name that begins with a dot is configuration.
fn data(level: u8, parts: &[&[u8]], directory: bool) -> String {
    if level >= 2 && parts.len() > 1 {
        return join(&parts[..1], "**");
    }
    let hidden = parts.last().is_some_and(|name| name.starts_with(b"."));
    match parts.split_last() {
        Some((_, above)) if !directory && !hidden => join(above, "*"),
        _ => join_all(parts),
    }
}

/// The installation that a file belongs to.
fn installed(level: u8, parts: &[&[u8]], depth: usize) -> String {
    let (root, rest) = parts.split_at(depth);
    // A tree does not hold its own root.
    if rest.is_empty() && (level < 4 || parts.len() == 1) {
        return join_all(root);
    }
    if level >= 4 {
        return join(&parts[..1], "**");
    }
    // Libraries for one processor among several lie one deeper.
    let is_triplet = |name: &[u8]| name.windows(7).any(|window| window == b"-linux-");
    if rest.len() > 1 && is_triplet(rest[0]) {
        return installed(level, parts, depth + 1);
    }
    if level >= 3 || root.last() == Some(&&b"include"[..]) {
        return join(root, "**");
    }
    match rest {
        [] => join_all(root),
        [name] if name.windows(3).any(|window| window == b".so") => join(root, "*.so*"),
        [name] => join(root, &versionless(name)),
        [name, ..] => format!("{}/**", join(root, &versionless(name))),
    }
}

/// The patterns for a path where random names are made: those are folded, others stay.
fn in_temporary(parts: &[&[u8]], depth: usize) -> Vec<String> {
    let (place, rest) = parts.split_at(depth);
    match rest {
        [] => vec![join_all(place)],
        [name] => vec![join(place, &folded(name))],
        [name, ..] => {
            // Whoever makes something in a directory has made the directory as well.
            let directory = join(place, &folded(name));
            vec![format!("{directory}/**"), directory]
        }
    }
}

/// A name without its version: `python3.13` is `python3*`, `gcc-14.2` is `gcc-*`.
fn versionless(name: &[u8]) -> String {
    let is_version = |part: &[u8]| {
        part.iter().any(u8::is_ascii_digit)
            && part
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    };
    let after_dash = name.iter().rposition(|byte| *byte == b'-');
    if let Some(dash) = after_dash.filter(|dash| is_version(&name[dash + 1..])) {
        return literal(&name[..=dash]) + "*";
    }
    let dot = name.iter().position(|byte| *byte == b'.');
    if let Some(dot) = dot.filter(|dot| {
        let before = &name[..*dot];
        before.first().is_some_and(u8::is_ascii_alphabetic)
            && before.last().is_some_and(u8::is_ascii_digit)
            && is_version(&name[dot + 1..])
    }) {
        return literal(&name[..dot]) + "*";
    }
    if is_version(name) {
        return "*".to_owned();
    }
    literal(name)
}

/// Texts that programs put in front of a random part.
const STEMS: &[&str] = &[
    "tmp.", "tmp", "cc", "pymp-", "pym-", "sem.mp-", "sem.", "sh-thd.", "sh-thd", "etilqs_",
    "npm-", "pip-", "go-build", "rustc", "#",
];

/// The shortest part that can be called random.
const RANDOM: usize = 5;

/// A random name by what it begins and ends with: `tmpab12cd.csv` is `tmp*.csv`.
fn folded(name: &[u8]) -> String {
    let stem = STEMS.iter().find(|stem| name.starts_with(stem.as_bytes()));
    let (stem, rest) = name.split_at(stem.map_or(0, |stem| stem.len()));
    let dot = rest.iter().position(|byte| *byte == b'.');
    let is_ending = |ending: &[u8]| {
        let mut parts = ending.split(|byte| *byte == b'.');
        parts.all(|part| part.len() <= 5 && part.iter().all(u8::is_ascii_alphabetic))
    };
    let dot = dot.filter(|dot| *dot > 0 && is_ending(&rest[dot + 1..]));
    let (random, ending) = rest.split_at(dot.unwrap_or(rest.len()));
    if !stem.is_empty() {
        let number = random.len() > 1 && random.iter().all(u8::is_ascii_digit);
        return match number || random.len() >= RANDOM && random.iter().all(is_word) {
            true => format!("{}*{}", literal(stem), literal(ending)),
            false => literal(name),
        };
    }
    // The random part may stand behind a separator, or be all there is.
    let cut = random.iter().rposition(|byte| b"-_.".contains(byte));
    let (kept, random) = random.split_at(cut.map_or(0, |cut| cut + 1));
    let is_random = match cut {
        Some(_) => is_mixed(random),
        None => is_wild(random),
    };
    match is_random {
        true => format!("{}*{}", literal(kept), literal(ending)),
        false => literal(name),
    }
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-'
}

/// True when a part of a name is nothing that a person has thought of.
fn is_mixed(part: &[u8]) -> bool {
    let any = |test: fn(&u8) -> bool| part.iter().any(test);
    let digits = any(u8::is_ascii_digit);
    let lower = any(u8::is_ascii_lowercase);
    let upper = part.iter().skip(1).any(u8::is_ascii_uppercase);
    let kinds = usize::from(digits) + usize::from(lower) + usize::from(upper);
    part.len() >= RANDOM && part.iter().all(u8::is_ascii_alphanumeric) && (kinds > 1 || digits)
}

/// The same of a whole name, of which nothing would remain.
fn is_wild(name: &[u8]) -> bool {
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let any = |test: fn(&u8) -> bool| name.iter().any(test);
    let every_kind =
        any(u8::is_ascii_digit) && any(u8::is_ascii_lowercase) && any(u8::is_ascii_uppercase);
    name.len() > RANDOM && is_mixed(name) && (every_kind || name.iter().all(is_hex))
}

fn join(parts: &[&[u8]], last: &str) -> String {
    let above: String = parts
        .iter()
        .map(|part| format!("/{}", literal(part)))
        .collect();
    format!("{above}/{last}")
}

fn join_all(parts: &[&[u8]]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| literal(part)).collect();
    format!("/{}", parts.join("/"))
}

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
