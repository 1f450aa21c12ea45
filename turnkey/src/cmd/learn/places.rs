//! From the paths that were used to the patterns that stand for them.
//!
//! | where | tier | example |
//! |---|---|---|
//! | `/etc`, `/proc`, `/sys`, `/dev`, `/usr/bin`, names that begin with a dot, programs that are run | exact | `/etc/ssl/openssl.cnf` |
//! | the rest, such as `/workspace` | the directory | `/workspace/data/*` |
//! | installed libraries and what comes with them | the prefix, without a version | `/usr/lib/python3*/**` |
//! | the jail's own memory, such as `/tmp` | all of it; of programs that are run, the name | `/tmp/**` |
//!
//! In the second tier, names that nobody chose become wildcards, by their [shape](turnkey_report::unchosen) or because
//! [they differ](super::varied) from run to run. The fourth holds nothing but what the run itself has made, so a name
//! tells nothing there. [`DEVICES`] need no pattern of their own.
//!
//! Each level of folding is broader than the one before, for a profile that would not fit the
//! kernel's table otherwise. At the first nothing is folded yet, but the trees that may be read and those
//! that may be written become the same: see [`super::draft::ProfileDraft::trees`].

use super::seen::FileWant;
use super::varied::VariedNames;
use turnkey_report::unchosen::{folded, literal};

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

/// The devices that every jail has, of its own: a program that opens another of these in its next run does nothing new.
pub const DEVICES: &[&str] = &[
    "/dev/{full,null,ptmx,random,tty,urandom,zero}",
    "/dev/{fd/*,stderr,stdin,stdout}",
    "/dev/pts/*",
    "/dev/shm",
    "/dev/shm/**",
];

/// Directories in which each file has a meaning of its own.
const EXACT: &[&str] = &["/bin", "/dev", "/etc", "/proc", "/sbin", "/sys", "/usr"];

/// The breadth of folding.
#[derive(Clone, Copy, Debug)]
pub struct FoldBreadth<'f> {
    /// From 0, which is not at all.
    pub level: u8,
    /// Places of the jail's own memory.
    pub scratch: &'f [Vec<u8>],
    /// Places of the host's files, which may lie in those.
    pub mounts: &'f [Vec<u8>],
    /// Names that differ from run to run.
    pub varied: &'f VariedNames,
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
    let deepest = |places: &[Vec<u8>]| places.iter().filter_map(|place| below(path, place)).max();
    let in_memory = deepest(fold.scratch).filter(|depth| Some(*depth) > deepest(fold.mounts));
    if let Some(depth) = in_memory {
        return vec![in_memory_of_jail(want, &parts, depth)];
    }
    if want == FileWant::Run {
        return vec![match fold.level >= 3 {
            true => exact_or(true, &parts),
            false => with_varied(fold, &parts, literal),
        }];
    }
    if let Some(depth) = deepest(fold.installations) {
        let (above, last) = parts.split_at(depth - 1);
        return vec![format!("{}/**", join(above, &versionless(last[0])))];
    }
    if let Some(depth) = longest(INSTALLED, path) {
        return vec![installed(fold.level, &parts, depth)];
    }
    if longest(EXACT, path).is_some() {
        return vec![exact_or(fold.level >= 4, &parts)];
    }
    vec![data(fold, &parts, directory)]
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
fn data(fold: FoldBreadth<'_>, parts: &[&[u8]], directory: bool) -> String {
    if fold.level >= 2 && parts.len() > 1 {
        return join(&parts[..1], "**");
    }
    let hidden = parts.last().is_some_and(|name| name.starts_with(b"."));
    match parts.split_last() {
        Some((_, above)) if !directory && !hidden => with_varied(fold, above, folded) + "/*",
        _ => with_varied(fold, parts, folded),
    }
}

/// The path with a pattern for each part that differs from run to run; `otherwise` makes those of the others.
fn with_varied(fold: FoldBreadth<'_>, parts: &[&[u8]], otherwise: fn(&[u8]) -> String) -> String {
    let (mut path, mut text) = (Vec::new(), String::new());
    for part in parts {
        path.push(b'/');
        path.extend_from_slice(part);
        text.push('/');
        text += &fold
            .varied
            .get(&path)
            .cloned()
            .unwrap_or_else(|| otherwise(part));
    }
    text
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
    // Libraries for one CPU among several lie one deeper.
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

/// The pattern for a path in the jail's own memory, where all there is was made by the run itself.
fn in_memory_of_jail(want: FileWant, parts: &[&[u8]], depth: usize) -> String {
    let (place, rest) = parts.split_at(depth);
    match (want, rest) {
        (_, []) => join_all(place),
        (FileWant::Run, [name]) => join(place, &folded(name)),
        (FileWant::Run, [.., name]) => format!("{}/{}", join(place, "**"), folded(name)),
        _ => join(place, "**"),
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
