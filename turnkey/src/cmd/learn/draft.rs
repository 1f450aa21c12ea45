//! From what a run did to what a profile is to say of it: what is allowed, and what a person has to
//! decide on.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::{
    Attempt, Glob, Policy, Rule, RuleAction, SameFile, WORKSPACE, WorkdirMode, decide,
};

use super::network::{self, ContactFacts, NetworkDraft};
use super::places::{self, DEVICES, FoldBreadth};
use super::seen::{FileUse, FileWant, SeenUses, UsedBy};
use super::varied::varied;
use super::witness::witnesses;
use turnkey_report::escape;
use turnkey_report::unchosen;

/// The rules of a learned profile that stop what nobody has learned.
pub const STOPPING: [&str; 2] = ["not-learned-open", "not-learned-exec"];

/// The rule of a learned profile for what looks like a secret.
pub const LEFT_OUT: &str = "left-out";

/// More directories than this below one are that one.
const CROWD: usize = 8;

/// Calls that make or empty something without opening it: where, no tier tells while it is allowed.
/// BPF LSM asks rules about it all the same, as about writing.
const MAKES: &[&str] = &[
    "bind",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "symlink",
    "symlinkat",
    "truncate",
];

/// A pattern to be allowed, and who needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedPattern {
    /// The pattern.
    pub pattern: String,
    /// The programs that need it, and how often they used it.
    pub why: String,
}

/// An act that was tried and is not allowed without a person's word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The act, who tried it, and the rule against it.
    pub words: String,
    /// The exact pattern, for a file that no rule of the profile below stops.
    pub pattern: Option<String>,
}

/// The contents of a profile to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileDraft {
    /// By what is wanted, in the order of the patterns.
    pub allowed: BTreeMap<FileWant, Vec<AllowedPattern>>,
    /// Whole trees, for reading and writing alike: where a profile does not fit otherwise. In each tree
    /// the patterns of the profile below that begin with `**` go on, so the kernel's table holds them once
    /// for every set of accesses that some tree has. What cannot be written there, the mounts tell.
    pub trees: Vec<AllowedPattern>,
    /// In order.
    pub left_out: Vec<LeftOut>,
    /// The acts beside files that nothing is against.
    pub notes: Vec<String>,
    /// The peers that it may talk to.
    pub talk: NetworkDraft,
    /// The level to which the patterns were folded.
    pub level: u8,
}

/// Whatever a draft is made from.
pub struct DraftSources<'s> {
    /// The acts of the run.
    pub seen: &'s SeenUses,
    /// The policy it was held against: the profile below, or the one that is added to.
    pub policy: &'s Policy,
    /// Names of the system calls that were made.
    pub calls: &'s BTreeSet<&'static str>,
    /// The network that it has talked through.
    pub around: &'s ContactFacts,
    /// There is a profile that is added to.
    pub is_added_to: bool,
    /// The places of toolchains that the command has brought along.
    pub installations: &'s [Vec<u8>],
}

/// The fate of one use of a file in the draft.
enum UseFate {
    Allow,
    SaidAlready,
    Against(String, Option<String>),
}

/// Makes the draft; a level above 0 folds further.
pub fn draft(sources: &DraftSources<'_>, level: u8) -> ProfileDraft {
    let DraftSources { seen, policy, .. } = sources;
    let (scratch, mounts) = (scratch(policy), mounts(policy));
    let varied = varied(&seen.uses);
    let fold = FoldBreadth {
        level,
        scratch: &scratch,
        mounts: &mounts,
        varied: &varied,
        installations: sources.installations,
    };
    let mut lines: BTreeMap<FileWant, BTreeMap<String, UsedBy>> = BTreeMap::new();
    let mut left_out = BTreeSet::new();
    let mut notes = BTreeSet::new();
    for (wanted, by) in &seen.uses {
        match fate(sources, wanted, by) {
            UseFate::SaidAlready => {}
            UseFate::Against(reason, pattern) => {
                let words = format!("{} ({}): {reason}", in_words(wanted), by.words());
                left_out.insert(LeftOut { words, pattern });
            }
            UseFate::Allow => {
                let patterns = places::patterns(fold, wanted.want, &wanted.path, by.directory);
                if patterns.is_empty() {
                    let words = in_words(wanted);
                    notes.insert(format!("{words} ({}): no pattern can name it", by.words()));
                }
                let lines = lines.entry(wanted.want).or_default();
                for pattern in patterns {
                    lines.entry(pattern).or_default().join(by);
                }
            }
        }
    }
    add_places_to_make_in(sources, &mut lines);
    for ((rule, what), by) in &seen.acts {
        let rule = rule.and_then(|rule| policy.rules.get(rule));
        let words = format!("{what} ({})", by.words());
        match rule.filter(|rule| rule.action >= RuleAction::Deny) {
            Some(rule) => {
                let words = format!("{words}: {}", against(rule));
                left_out.insert(LeftOut {
                    words,
                    pattern: None,
                });
            }
            None => drop(notes.insert(words)),
        }
    }
    let talk = network::talk(&seen.contacts, policy, sources.around, sources.is_added_to);
    left_out.extend(talk.left_out.iter().cloned());
    notes.extend(talk.notes.iter().cloned());
    let trees = match level {
        0 => BTreeMap::new(),
        _ => take_trees(&mut lines),
    };
    let allowed = lines.into_iter();
    ProfileDraft {
        allowed: allowed.map(|(want, lines)| (want, settle(lines))).collect(),
        trees: settle(trees),
        left_out: left_out.into_iter().collect(),
        notes: notes.into_iter().collect(),
        talk,
        level,
    }
}

/// Places of the jail's own memory.
fn scratch(policy: &Policy) -> Vec<Vec<u8>> {
    let scratch = policy.filesystem.scratch.iter();
    let paths = scratch.map(|scratch| scratch.path.as_os_str().as_encoded_bytes().to_vec());
    paths.collect()
}

/// Places where the host's files are.
fn mounts(policy: &Policy) -> Vec<Vec<u8>> {
    let filesystem = &policy.filesystem;
    let read = filesystem.read.iter().map(|read| read.place());
    let written = filesystem.write.iter().map(|write| write.place());
    let paths = read.chain(written);
    paths
        .map(|path| path.as_os_str().as_encoded_bytes().to_vec())
        .collect()
}

/// Adds all places that can be written to, where something was made by a call whose place is not told.
fn add_places_to_make_in(
    sources: &DraftSources<'_>,
    lines: &mut BTreeMap<FileWant, BTreeMap<String, UsedBy>>,
) {
    let made: Vec<_> = MAKES
        .iter()
        .filter(|name| sources.calls.contains(*name))
        .collect();
    if made.is_empty() {
        return;
    }
    let filesystem = &sources.policy.filesystem;
    let mut places = scratch(sources.policy);
    if filesystem.workdir.mode != WorkdirMode::ReadOnly {
        places.push(WORKSPACE.as_bytes().to_vec());
    }
    let written = filesystem.write.iter();
    places.extend(written.map(|write| write.place().as_os_str().as_encoded_bytes().to_vec()));
    let rules = &sources.policy.rules;
    for place in places {
        let inside = [&place, b"/q/q".as_slice()].concat();
        if verdict(rules, FileWant::Write, &inside)
            .is_some_and(|rule| rule.action == RuleAction::Allow)
        {
            continue;
        }
        let parts: Vec<_> = place
            .split(|byte| *byte == b'/')
            .map(unchosen::literal)
            .collect();
        let pattern = format!("{}/**", parts.join("/"));
        let by = made.iter().map(|call| (format!("{call}(2)"), 1)).collect();
        let by = UsedBy {
            programs: by,
            ..UsedBy::default()
        };
        lines
            .entry(FileWant::Write)
            .or_default()
            .entry(pattern)
            .or_default()
            .join(&by);
    }
}

/// The rule that decides on a use of a path.
pub fn verdict<'r>(rules: &'r [Rule], want: FileWant, path: &[u8]) -> Option<&'r Rule> {
    let (on, access) = want.attempt();
    let attempt = Attempt {
        path: Some(path),
        access: &[access],
        ..Attempt::new(on)
    };
    decide(rules, &attempt).map(|rule| &rules[rule])
}

fn fate(sources: &DraftSources<'_>, wanted: &FileUse, by: &UsedBy) -> UseFate {
    let policy = sources.policy;
    let by_file = by
        .rule
        .and_then(|rule| policy.rules.get(rule))
        .filter(|rule| {
            rule.action >= RuleAction::Deny
                && (rule.same_file != SameFile::No || !rule.flags.is_empty())
        });
    let decided = verdict(&policy.rules, wanted.want, &wanted.path);
    match by_file.or(decided) {
        Some(rule) if STOPPING.contains(&rule.id.as_str()) => {}
        // It is on the list already.
        Some(rule) if rule.id == LEFT_OUT => return UseFate::SaidAlready,
        Some(rule) if rule.action >= RuleAction::Deny => {
            return UseFate::Against(against(rule), None);
        }
        // Such a rule decides before the one that stops everything else.
        Some(rule) if !rule.path.is_empty() => return UseFate::SaidAlready,
        _ => {}
    }
    let mut brought = sources.installations.iter();
    let is_brought = brought.any(|place| wanted.path.starts_with(place));
    if wanted.want != FileWant::Run && is_device(&wanted.path) {
        return UseFate::SaidAlready;
    }
    if by.succeeded && !is_brought && is_sensitive(&wanted.path) {
        let why = "its name says that it holds a secret".to_owned();
        return UseFate::Against(why, exact(&wanted.path));
    }
    UseFate::Allow
}

/// The words on which rule is against something, and why.
pub fn against(rule: &Rule) -> String {
    format!(
        "rule `{}` is against it, {}",
        rule.id,
        escape(rule.why.as_bytes())
    )
}

/// True for what every learned profile allows.
fn is_device(path: &[u8]) -> bool {
    let mut devices = DEVICES.iter().filter_map(|device| Glob::parse(device).ok());
    devices.any(|device| device.matches(path))
}

fn exact(path: &[u8]) -> Option<String> {
    let parts: Vec<_> = path
        .split(|byte| *byte == b'/')
        .map(unchosen::literal)
        .collect();
    let pattern = parts.join("/");
    (!pattern.contains('?')).then_some(pattern)
}

fn in_words(wanted: &FileUse) -> String {
    let act = match wanted.want {
        FileWant::Read => "read",
        FileWant::Write => "write",
        FileWant::Run => "run",
    };
    format!("{act} {}", escape(&wanted.path))
}

/// Names of files that hold what must not be told, wherever somebody keeps his own files. What
/// systems install is named like that without holding any.
fn is_sensitive(path: &[u8]) -> bool {
    const PUBLIC: &[&[u8]] = &[
        b"/usr/",
        b"/lib",
        b"/bin/",
        b"/sbin/",
        b"/opt/",
        b"/proc/",
        b"/sys/",
        b"/dev/",
        b"/etc/ssl/certs",
    ];
    if PUBLIC.iter().any(|top| path.starts_with(top)) {
        return false;
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).to_lowercase();
    let words = [
        "secret",
        "credential",
        "password",
        "passwd",
        "private_key",
        "apikey",
        "api_key",
    ];
    let ends = [
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".kdbx",
        ".keystore",
        ".jks",
        ".ovpn",
    ];
    let is_account_file = path == b"/etc/passwd";
    !is_account_file
        && (name == ".env"
            || name.starts_with(".env.")
            || name.starts_with("id_rsa")
            || name.starts_with("id_ed25519")
            || words.iter().any(|word| name.contains(word))
            || ends.iter().any(|end| name.ends_with(end)))
}

/// Takes the trees out of what is read and written, with everything in them.
fn take_trees(
    lines: &mut BTreeMap<FileWant, BTreeMap<String, UsedBy>>,
) -> BTreeMap<String, UsedBy> {
    let mut trees: BTreeMap<String, UsedBy> = BTreeMap::new();
    let opened = [FileWant::Read, FileWant::Write];
    for want in opened {
        let lines = lines.entry(want).or_default();
        join_crowds(lines);
        let found: Vec<_> = lines
            .keys()
            .filter(|text| text.ends_with("/**"))
            .cloned()
            .collect();
        for pattern in found {
            let by = lines.remove(&pattern).unwrap_or_default();
            trees.entry(pattern).or_default().join(&by);
        }
    }
    let globs: Vec<_> = trees
        .keys()
        .filter_map(|text| Some((text.clone(), Glob::parse(text).ok()?)))
        .collect();
    for want in opened {
        let lines = lines.entry(want).or_default();
        for pattern in lines.keys().cloned().collect::<Vec<_>>() {
            let Ok(glob) = Glob::parse(&pattern) else {
                continue;
            };
            let paths = witnesses(&glob);
            let covers = |(_, glob): &&(String, Glob)| paths.iter().all(|path| glob.matches(path));
            if let Some((tree, _)) = globs.iter().find(covers) {
                let by = lines.remove(&pattern).unwrap_or_default();
                trees.entry(tree.clone()).or_default().join(&by);
            }
        }
    }
    trees
}

/// Patterns that others stand for are theirs, and a crowd of directories is the one above.
fn settle(mut lines: BTreeMap<String, UsedBy>) -> Vec<AllowedPattern> {
    join_crowds(&mut lines);
    let covered = covered(&lines);
    for (pattern, by) in covered {
        if let Some(gone) = lines.remove(&pattern) {
            lines.entry(by).or_default().join(&gone);
        }
    }
    let line = |(pattern, by): (String, UsedBy)| AllowedPattern {
        pattern,
        why: by.words(),
    };
    lines.into_iter().map(line).collect()
}

fn join_crowds(lines: &mut BTreeMap<String, UsedBy>) {
    let mut below: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pattern in lines.keys() {
        let Some(directory) = pattern.strip_suffix("/*") else {
            continue;
        };
        let top = directory.split('/').nth(1).unwrap_or_default();
        if !top.is_empty() && !top.contains('*') {
            below
                .entry(format!("/{top}/**"))
                .or_default()
                .push(pattern.clone());
        }
    }
    for (all, patterns) in below
        .into_iter()
        .filter(|(_, patterns)| patterns.len() > CROWD)
    {
        for pattern in patterns {
            let by = lines.remove(&pattern).unwrap_or_default();
            lines.entry(all.clone()).or_default().join(&by);
        }
    }
}

/// Each pattern that another one stands for, with that.
fn covered(lines: &BTreeMap<String, UsedBy>) -> Vec<(String, String)> {
    let globs: Vec<_> = lines
        .keys()
        .filter_map(|text| Some((text, Glob::parse(text).ok()?)))
        .collect();
    let mut covered: Vec<(String, String)> = Vec::new();
    for (text, own) in &globs {
        let paths = witnesses(own);
        let covers = |(other, glob): &&(&String, Glob)| {
            other != text
                && !covered.iter().any(|(gone, _)| gone == *other)
                && paths.iter().all(|path| glob.matches(path))
        };
        if let Some((other, _)) = globs.iter().find(covers) {
            covered.push(((*text).clone(), (*other).clone()));
        }
    }
    covered
}

/// The uses of a run that a policy would stop although they are to be allowed, in words.
pub fn stopped_by(policy: &Policy, sources: &DraftSources<'_>) -> Vec<String> {
    let uses = sources.seen.uses.iter();
    let allowed = uses.filter(|(wanted, by)| {
        let named = wanted.path.starts_with(b"/") || wanted.path.starts_with(b"memfd:");
        let known = verdict(&sources.policy.rules, wanted.want, &wanted.path);
        let left_out = known.is_some_and(|rule| rule.id == LEFT_OUT);
        named && !left_out && !matches!(fate(sources, wanted, by), UseFate::Against(..))
    });
    let stopped = allowed.filter(|(wanted, _)| {
        let rule = verdict(&policy.rules, wanted.want, &wanted.path);
        rule.is_some_and(|rule| rule.action >= RuleAction::Deny)
    });
    let files = stopped.map(|(wanted, _)| in_words(wanted));
    let contacts = &sources.seen.contacts;
    let contacts = network::stopped_by(policy, contacts, sources.policy, sources.around);
    files.chain(contacts).collect()
}
