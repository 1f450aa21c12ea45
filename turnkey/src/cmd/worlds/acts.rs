//! The acts of a run, folded: random names, dates and versions are not told apart, nor is a home at another place.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use turnkey_policy::{AttemptKind, WORKSPACE};
use turnkey_report::unchosen;
use turnkey_report::{FileAccess, FileOperation, Finding, Report, escape, unescape};

use super::world::World;
use crate::cmd::learn::places::{self, FoldBreadth};
use crate::cmd::learn::seen::{FileUse, FileWant, UsedBy};
use crate::cmd::learn::varied::{VariedNames, varied};

/// Ports from here on are the kernel's choice.
const EPHEMERAL: u16 = 32_768;
/// Directories of installed programs.
const CODE: &[&str] = &["/bin/", "/lib", "/opt/", "/sbin/", "/usr/"];
/// Directories of the system in which numbers of processes and the like are folded, and nothing else.
const SYSTEM: &[&str] = &["/dev/", "/etc/", "/proc/", "/sys/"];
/// Words of dates, of which a name has three letters or all.
const DATES: [&str; 19] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The kind of an act, in the order in which acts are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ActKind {
    Ran,
    Wrote,
    Removed,
    Renamed,
    Linked,
    Changed,
    Mapped,
    Connected,
    Bound,
    Sent,
    AskedName,
    Found,
    Refused,
    Opened,
    Ended,
}

impl ActKind {
    /// In words, in the past.
    fn words(self) -> &'static str {
        match self {
            ActKind::Ran => "ran",
            ActKind::Wrote => "wrote",
            ActKind::Removed => "removed",
            ActKind::Renamed => "renamed",
            ActKind::Linked => "gave another name to",
            ActKind::Changed => "changed the attributes of",
            ActKind::Mapped => "executed in memory",
            ActKind::Connected => "connected to",
            ActKind::Bound => "waited for connections at",
            ActKind::Sent => "sent to",
            ActKind::AskedName => "asked for the name",
            ActKind::Found => "was found to be",
            ActKind::Refused => "was refused",
            ActKind::Opened => "opened",
            ActKind::Ended => "ended:",
        }
    }

    fn want(self) -> FileWant {
        match self {
            ActKind::Opened => FileWant::Read,
            ActKind::Ran => FileWant::Run,
            _ => FileWant::Write,
        }
    }
}

/// An act, as runs are compared by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Act {
    kind: ActKind,
    /// The object, with a mark for each part that nobody chose.
    object: String,
}

/// Acts, each with the words in which it is shown.
pub type Acts = BTreeMap<Act, String>;

/// The acts of one run before they are folded: other runs say which names vary.
#[derive(Debug)]
pub struct RunActs {
    files: BTreeSet<(ActKind, Vec<u8>)>,
    others: Acts,
    /// True when the program came to its own end.
    pub is_whole: bool,
}

impl RunActs {
    /// The acts that a report tells of.
    pub fn from_report(report: &Report, world: &World) -> RunActs {
        let mut files = BTreeSet::new();
        for row in &report.file_operations {
            let Some(path) = row.path.as_deref().map(unescape) else {
                continue;
            };
            let kinds = kinds(row).into_iter();
            let kinds = kinds.filter(|kind| *kind != ActKind::Opened || !is_code(&path));
            files.extend(kinds.map(|kind| (kind, at_home(&path, world))));
        }
        let mut others = Acts::new();
        let mut add = |kind: ActKind, object: String, shown: &str| {
            let shown = format!("{} {shown}", kind.words());
            others.insert(Act { kind, object }, shown);
        };
        for row in &report.network_attempts {
            match &row.name {
                Some(name) => add(ActKind::AskedName, name.clone(), name),
                None => add(kind_of(row.act), address(&row.address), &row.address),
            }
        }
        for row in &report.refused_calls {
            add(
                ActKind::Refused,
                row.syscall.clone(),
                &format!("{}(2)", row.syscall),
            );
        }
        // Turnkey's own speak of the end, which is compared by itself.
        let of_program = |found: &&Finding| !found.id.starts_with("turnkey:");
        for found in report.findings.iter().filter(of_program) {
            add(
                ActKind::Found,
                found.id.clone(),
                &format!("{}: {}", found.id, found.reason),
            );
        }
        let end = end(report);
        add(ActKind::Ended, end.clone(), &end);
        RunActs {
            files,
            others,
            is_whole: report.exit_code.is_some(),
        }
    }

    #[cfg(test)]
    pub fn that_wrote(paths: &[&str]) -> RunActs {
        let files = paths
            .iter()
            .map(|path| (ActKind::Wrote, path.as_bytes().to_vec()));
        RunActs {
            files: files.collect(),
            others: Acts::new(),
            is_whole: true,
        }
    }

    /// The acts, with the names folded that vary.
    pub fn folded(&self, world: &World, varied: &VariedNames) -> Acts {
        let files = self.files.iter().map(|(kind, path)| {
            let object = fold(*kind, path, world, varied);
            let shown = format!("{} {}", kind.words(), escape(path));
            (
                Act {
                    kind: *kind,
                    object,
                },
                shown,
            )
        });
        let mut acts: Acts = files.collect();
        acts.extend(self.others.clone());
        acts
    }
}

/// The names that are other ones in each of these runs.
pub fn varied_between<'r>(runs: impl Iterator<Item = &'r RunActs>) -> VariedNames {
    let mut uses: BTreeMap<FileUse, UsedBy> = BTreeMap::new();
    for (number, run) in (0..).zip(runs) {
        for (kind, path) in &run.files {
            let want = kind.want();
            let by = UsedBy {
                succeeded: true,
                runs: (number, number),
                ..UsedBy::default()
            };
            let path = path.clone();
            let known = uses
                .entry(FileUse { want, path })
                .or_insert_with(|| by.clone());
            known.join(&by);
        }
    }
    varied(&uses)
}

fn kind_of(act: AttemptKind) -> ActKind {
    match act {
        AttemptKind::Connect => ActKind::Connected,
        AttemptKind::Bind => ActKind::Bound,
        _ => ActKind::Sent,
    }
}

/// The acts of a row. A look at a file's name is none, and neither is a search for a program where it is not.
fn kinds(row: &FileOperation) -> BTreeSet<ActKind> {
    let is_missing = row.errno.as_deref() == Some("ENOENT");
    let kind = |access: &FileAccess| match access {
        FileAccess::Read => Some(ActKind::Opened),
        FileAccess::Write => Some(ActKind::Wrote),
        FileAccess::Execute => (!is_missing).then_some(ActKind::Ran),
        FileAccess::Link => Some(ActKind::Linked),
        FileAccess::Rename => Some(ActKind::Renamed),
        FileAccess::Unlink => Some(ActKind::Removed),
        FileAccess::Chmod | FileAccess::Attribute => Some(ActKind::Changed),
        FileAccess::Map => Some(ActKind::Mapped),
        FileAccess::Stat => None,
    };
    row.access.iter().filter_map(kind).collect()
}

/// True of what is installed: that a part of it was loaded says less than what it does.
fn is_code(path: &[u8]) -> bool {
    CODE.iter().any(|place| path.starts_with(place.as_bytes()))
}

fn end(report: &Report) -> String {
    let status = serde_json::to_value(report.status).ok();
    let status = status.and_then(|status| Some(status.as_str()?.replace('_', " ")));
    let status = status.unwrap_or_default();
    match (report.exit_code, report.signal) {
        (Some(code), _) => format!("{status} {code}"),
        (None, Some(signal)) => format!("{status} {signal}"),
        (None, None) => status,
    }
}

/// A home elsewhere is the same home.
fn at_home(path: &[u8], world: &World) -> Vec<u8> {
    let home = world.home().as_bytes();
    match path.strip_prefix(home) {
        Some(rest)
            if home != WORKSPACE.as_bytes() && (rest.is_empty() || rest.starts_with(b"/")) =>
        {
            [WORKSPACE.as_bytes(), rest].concat()
        }
        _ => path.to_vec(),
    }
}

fn address(text: &str) -> String {
    match text.parse::<SocketAddr>() {
        Ok(mut parsed) if parsed.port() >= EPHEMERAL => {
            parsed.set_port(0);
            parsed.to_string()
        }
        Ok(_) => text.to_owned(),
        Err(_) => without_dates(text),
    }
}

fn fold(kind: ActKind, path: &[u8], world: &World, varied: &VariedNames) -> String {
    let is_of_system = SYSTEM
        .iter()
        .any(|place| path.starts_with(place.as_bytes()));
    if is_of_system && kind == ActKind::Opened {
        let fold = FoldBreadth {
            level: 0,
            scratch: &[],
            mounts: &[],
            varied,
            installations: &[],
        };
        return places::patterns(fold, FileWant::Read, path, false).concat();
    }
    let (mut above, mut folded) = (Vec::new(), String::new());
    for part in path
        .split(|byte| *byte == b'/')
        .skip(usize::from(path.starts_with(b"/")))
    {
        above.push(b'/');
        above.extend_from_slice(part);
        folded.push('/');
        match varied.get(&above) {
            Some(pattern) => folded.push_str(pattern),
            None => folded.push_str(&without_names(
                &without_dates(&unchosen::folded(part)),
                world,
            )),
        }
    }
    folded
}

/// A mark for each number and each name of a day or month; marks in a row are one.
fn without_dates(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let kind = |c: &char| (c.is_ascii_digit(), c.is_ascii_alphabetic());
        let alike = rest.chars().take_while(|c| kind(c) == kind(&first));
        let length: usize = alike.map(char::len_utf8).sum();
        let (token, after) = rest.split_at(length);
        rest = after;
        if first.is_ascii_digit() || is_of_dates(token) {
            text.push('*');
        } else {
            text.push_str(token);
        }
    }
    while text.contains("**") {
        text = text.replace("**", "*");
    }
    text
}

fn is_of_dates(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let is_of = |date: &str| word == date || (word.len() == 3 && date.starts_with(&word));
    DATES.iter().any(|date| is_of(date))
}

/// A mark for the names of the world's host and user.
fn without_names(name: &str, world: &World) -> String {
    let given = [world.hostname.as_deref(), world.user.as_deref()];
    let own = [Some("jail"), None];
    let names = given
        .iter()
        .zip(own)
        .filter_map(|(given, own)| given.or(own));
    names.fold(name.to_owned(), |text, name| match text == name {
        true => "*".to_owned(),
        false => text
            .replace(&format!("-{name}"), "-*")
            .replace(&format!("{name}-"), "*-"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(path: &str) -> String {
        fold(
            ActKind::Wrote,
            path.as_bytes(),
            &World::default(),
            &VariedNames::new(),
        )
    }

    #[test]
    fn a_name_with_a_date_is_the_same_on_another_day() {
        for (one, other) in [
            (
                "/workspace/log-2026-11-26.txt",
                "/workspace/log-2027-01-05.txt",
            ),
            ("/workspace/20261126", "/workspace/20270105"),
            ("/workspace/26Nov2026/out", "/workspace/5Jan2027/out"),
            ("/workspace/thursday.log", "/workspace/Tuesday.log"),
            ("/workspace/1764190800.db", "/workspace/1767646800.db"),
            ("/tmp/run.9", "/tmp/run.10"),
        ] {
            assert_eq!(folded(one), folded(other));
        }
        for (one, other) in [
            ("/workspace/log.txt", "/workspace/pwned.txt"),
            ("/workspace/monitor", "/workspace/friend"),
            ("/workspace/a/b", "/workspace/a-b"),
        ] {
            assert_ne!(folded(one), folded(other));
        }
    }

    #[test]
    fn a_home_and_a_user_elsewhere_are_the_same() {
        let world = World {
            user: Some("alex".to_owned()),
            environment: [("HOME".to_owned(), "/home/alex".to_owned())].into(),
            ..World::default()
        };
        assert_eq!(
            at_home(b"/home/alex/.cache/x", &world),
            b"/workspace/.cache/x"
        );
        assert_eq!(at_home(b"/home/alexander/x", &world), b"/home/alexander/x");
        let there = fold(
            ActKind::Wrote,
            b"/tmp/pip-alex",
            &world,
            &VariedNames::new(),
        );
        assert_eq!(there, folded("/tmp/pip-jail"));
    }

    #[test]
    fn ports_that_nobody_chose_are_not_told_apart() {
        assert_eq!(address("127.0.0.1:40001"), address("127.0.0.1:51234"));
        assert_ne!(address("127.0.0.1:80"), address("127.0.0.1:81"));
        assert_ne!(address("10.0.0.1:80"), address("10.0.0.2:80"));
    }
}
