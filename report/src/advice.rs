//! Advice on how to allow what was blocked, if it was meant.
//!
//! Two things can stand in the way: a rule, and a layer of the jail. The advice names the flag
//! that opens the layer and the rule to write, and says so when no profile can allow it.

mod patterns;
mod written;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use turnkey_policy::decide::{Attempt, brought_about};
use turnkey_policy::syscalls::{self, arguments::RefusalScope};
use turnkey_policy::{
    AttemptKind, Glob, OpenAccess, Ports, Rule, RuleAction, SameFile, SpecialAddress, Subnet,
    WORKSPACE, address, is_reserved, is_too_much_to_show,
};

use super::act::{Object, ReportedAct};
use super::model::{FileAccess, SocketType};
use super::peers;
use super::stopper::Stopper;
use super::text::quote;
use patterns::{literal, made_up, merged};
use written::snippet;

/// A way to open a layer that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A flag of `run`.
    Flag(String),
    /// A flag of `run` that changes what the rules say, too.
    Whole(String),
    /// A line of a profile.
    Line(String),
    /// No way, and the reason.
    Never(&'static str),
    /// Other arguments: the filter refuses these in such jails.
    Arguments(RefusalScope),
}

impl Opening {
    /// The advice where no rule is in the way besides.
    fn alone(self) -> String {
        match self {
            Self::Flag(flag) | Self::Whole(flag) => flag,
            Self::Line(line) => format!("in a profile: {line}"),
            Self::Never(why) => format!("no profile can allow it: {why}"),
            Self::Arguments(RefusalScope::Every) => NO_SUCH_ARGUMENTS.to_owned(),
            Self::Arguments(RefusalScope::WithoutSetId) => NO_SET_ID.to_owned(),
            Self::Arguments(RefusalScope::HostNetwork) => OWN_NETWORK.to_owned(),
        }
    }
}

const NO_SUCH_ARGUMENTS: &str =
    "no profile can allow it with these arguments; with others the profile allows the call";

const NO_SET_ID: &str =
    "a profile that names nothing in `filesystem.write` allows it with these arguments";

const OWN_NETWORK: &str = "every network mode but `host` allows it with these arguments";

const NO_OTHER_SOCKETS: Opening =
    Opening::Never("a jail makes no sockets but Unix, TCP and UDP, and netlink for its interfaces");

/// The advice on how to allow an act that `rule`, of the profile named `profile`, decided on.
pub fn for_rule(profile: &str, rule: &Rule, act: &ReportedAct) -> String {
    let rest = || for_rule_alone(profile, rule, act);
    match opening_for(act) {
        // Nothing stopped it, and in another network the rule does not apply.
        None if rule.hidden => waiting(act).unwrap_or_else(rest),
        None => rest(),
        // What is shown is hidden no more.
        Some(Opening::Flag(flag)) if rule.hidden => flag,
        Some(Opening::Flag(flag)) => format!("{flag}, and {}", rest()),
        Some(Opening::Line(line)) => format!("{line} and, {}", rest()),
        Some(enough) => enough.alone(),
    }
}

/// The advice on a server at every address, which a rule logs where there is no network.
fn waiting(act: &ReportedAct) -> Option<String> {
    let is_bind = act.on == Some(AttemptKind::Bind);
    match &act.object {
        Object::Address {
            address, socket, ..
        } if is_bind => Some(network(address, *socket).alone()),
        _ => None,
    }
}

/// The same where no layer is in the way besides.
pub fn for_rule_alone(profile: &str, rule: &Rule, act: &ReportedAct) -> String {
    let change = match act.object.path() {
        Some(path) if is_any_file(path, rule) => return ANY_FILE.to_owned(),
        // Turned into a pattern, an escape would be some other path.
        Some(path) if !is_plain(path) || literal(path).is_none() => {
            " a rule with action = \"allow\" for that path".to_owned()
        }
        _ => {
            let (change, replaces) = change(rule, act);
            format!("\n{}", snippet(&change, replaces))
        }
    };
    format!("in a profile that extends {profile:?}:{change}")
}

/// The advice about a name that stands for whatever file it leads to.
const ANY_FILE: &str = "no profile can allow it by this name: a path through a link of /proc can lead to any file; the file's \
     own path can be allowed";

/// True for a path through the kernel's links to what a process has, where the rule is about another path.
fn is_any_file(path: &str, rule: &Rule) -> bool {
    const LINKS: [&str; 5] = ["cwd", "root", "exe", "fd", "map_files"];
    let leads = match normal(path).as_slice() {
        ["proc", rest @ ..] => rest.iter().any(|part| LINKS.contains(part)),
        ["dev", "fd" | "stdin" | "stdout" | "stderr", ..] => true,
        _ => false,
    };
    let is_named = |glob: &Glob| glob.matches(path.as_bytes());
    leads && !rule.path.is_empty() && !rule.path.iter().any(is_named)
}

/// The components of a path, without `.` and `..`.
fn normal(path: &str) -> Vec<&str> {
    path.split('/').fold(Vec::new(), |mut parts, part| {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
        parts
    })
}

/// The advice on how to allow an act on a file or an address that no rule decided on; `for_arguments` is that of the [`ReportedAct`].
pub fn for_layer(
    stopped_by: Stopper,
    object: &Object,
    for_arguments: Option<RefusalScope>,
) -> Option<String> {
    opening_of_object(stopped_by, object, for_arguments).map(Opening::alone)
}

/// The advice on how to allow a system call that no rule decided on; `for_arguments` is that of the [`ReportedAct`].
pub fn for_call(
    stopped_by: Option<Stopper>,
    name: &str,
    for_arguments: Option<RefusalScope>,
) -> Option<String> {
    opening_of_call(stopped_by?, name, for_arguments).map(Opening::alone)
}

/// The way to open the layer that stopped an act.
fn opening_for(act: &ReportedAct) -> Option<Opening> {
    let stopped_by = act.outcome.stopper()?;
    let opening = match (&act.object, act.for_arguments) {
        (Object::Syscall(name), only) => return opening_of_call(stopped_by, name, only),
        (object, only) => opening_of_object(stopped_by, object, only)?,
    };
    Some(match opening {
        // What a jail says to itself is no attempt to get out, and no rule is asked.
        Opening::Flag(flag)
            if matches!(act.object, Object::Address { .. })
                && act.on != Some(AttemptKind::Bind) =>
        {
            Opening::Whole(flag)
        }
        other => other,
    })
}

/// The way to open the layer that refused a system call; `None` when it is not a layer's business.
fn opening_of_call(
    stopped_by: Stopper,
    name: &str,
    for_arguments: Option<RefusalScope>,
) -> Option<Opening> {
    let makes_sockets = matches!(name, "socket" | "socketpair");
    Some(match (stopped_by, for_arguments) {
        (Stopper::Seccomp, Some(RefusalScope::Every)) | (Stopper::CgroupProgram, _)
            if makes_sockets =>
        {
            NO_OTHER_SOCKETS
        }
        (Stopper::Seccomp, Some(only)) => Opening::Arguments(only),
        (Stopper::Seccomp, None) if makes_sockets => Opening::Line(NETWORK.to_owned()),
        (Stopper::Seccomp, None) => opening_of_filter(name),
        (Stopper::Capabilities, _) if matches!(name, "prlimit64" | "setrlimit") => {
            Opening::Whole(MORE_FILES.to_owned())
        }
        (Stopper::Capabilities, _) => Opening::Never("a jail has no capabilities"),
        (Stopper::UserNamespace, _) => Opening::Never("a jail has one user"),
        _ => return None,
    })
}

/// LeakSanitizer stops its own process so.
const TRACES: &str = "it looks into other processes, or changes them; a program that was built with -fsanitize=address goes on without it by \
     --env LSAN_OPTIONS=detect_leaks=0";

/// Servers want more open files than they have, of all the limits that a process has.
const MORE_FILES: &str = "--open-files with the number that it wants, where it is files; no program raises its own limits";

/// A socket alone is of no use.
const NETWORK: &str = "[syscalls] allow = [\"@network-local\"]";

/// The way to open the filter for a call that it answers by the number.
fn opening_of_filter(name: &str) -> Opening {
    match (syscalls::group_of(name), syscalls::why_never(name)) {
        _ if name == "ptrace" => Opening::Never(TRACES),
        (Some(group), _) => {
            let group = group.name;
            Opening::Line(format!(
                "[syscalls] allow = [\"{name}\"], or \"{group}\" for its like"
            ))
        }
        (None, Some(why)) => Opening::Never(why),
        (None, None) => Opening::Never("it is none of the syscalls that turnkey knows"),
    }
}

/// The way to open the layer that stopped an act on a file or an address; `None` when it is not a layer's business.
fn opening_of_object(
    stopped_by: Stopper,
    object: &Object,
    for_arguments: Option<RefusalScope>,
) -> Option<Opening> {
    match for_arguments {
        Some(only) => Some(Opening::Arguments(only)),
        None => opening(stopped_by, object),
    }
}

/// The same where the arguments of the call are no matter.
fn opening(stopped_by: Stopper, object: &Object) -> Option<Opening> {
    match (stopped_by, object) {
        (
            Stopper::MountNamespace | Stopper::Landlock | Stopper::Mounts,
            Object::File { path, access, .. },
        ) => opening_of_path(stopped_by, path.as_deref()?, access),
        (Stopper::Seccomp, Object::File { .. }) => Some(Opening::Line(
            "[syscalls] allow = [\"@file-manage\"]".to_owned(),
        )),
        (Stopper::MountNamespace, Object::Address { .. }) => Some(Opening::Never(
            "sockets of the host are not shared with a jail",
        )),
        (
            Stopper::CgroupProgram | Stopper::NetworkNamespace,
            Object::Address {
                address, socket, ..
            },
        ) => Some(network(address, *socket)),
        (Stopper::Seccomp, Object::Address { .. }) => Some(Opening::Line(NETWORK.to_owned())),
        (Stopper::Capabilities, _) => Some(Opening::Never("a jail has no capabilities")),
        _ => None,
    }
}

/// The way to bring in a path of the host's, if there is one.
fn opening_of_path(stopped_by: Stopper, path: &str, access: &[FileAccess]) -> Option<Opening> {
    let place = Path::new(path);
    let is_missing = stopped_by == Stopper::MountNamespace;
    Some(match path {
        "/" if stopped_by == Stopper::Landlock => Opening::Line(LISTS.to_owned()),
        _ if is_missing && place.starts_with("/proc") => Opening::Line(PROC.to_owned()),
        _ if stopped_by == Stopper::Mounts && place == Path::new(WORKSPACE) && renames(access) => {
            Opening::Never(MOUNT_POINT)
        }
        _ if stopped_by == Stopper::Mounts && place.starts_with(WORKSPACE) => {
            Opening::Flag("--workdir-mode overlay".to_owned())
        }
        _ if is_turnkeys(place) => Opening::Never("turnkey has put it there"),
        // Its own settings are files of the tree like others.
        _ if is_reserved(place)
            && !(stopped_by == Stopper::Mounts && place.starts_with("/etc")) =>
        {
            Opening::Never("every jail has its own, and not the host's")
        }
        _ if is_missing && is_too_much_to_show(place) => Opening::Whole(BELOW.to_owned()),
        _ if stopped_by == Stopper::Mounts && is_of_the_system(place) => {
            Opening::Flag(WRITABLE_ROOT.to_owned())
        }
        // To take a name away its directory would have to be written to, with the homes of everybody in it.
        _ if stopped_by == Stopper::Mounts
            && renames(access)
            && place.parent().is_some_and(is_of_the_root) =>
        {
            Opening::Flag(WRITABLE_ROOT.to_owned())
        }
        _ => Opening::Flag(path_flag(path, access)?),
    })
}

/// True for what turnkey itself needs in the root of a jail.
fn is_turnkeys(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent() == Some(Path::new("/")) && name.is_some_and(|name| name.starts_with(".turnkey-"))
}

/// The flag that makes each place of the jail's own tree writable, and changes nothing of the host.
pub const WRITABLE_ROOT: &str = "--root-mode overlay";

/// True for what lies at the root or in a directory of the system's: no advice has a program write the host's.
fn is_of_the_system(path: &Path) -> bool {
    const SYSTEM: [&str; 12] = [
        "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/var",
        "/opt", "/root",
    ];
    is_of_the_root(path) || SYSTEM.iter().any(|tree| path.starts_with(tree))
}

/// True for what lies at the root.
fn is_of_the_root(path: &Path) -> bool {
    path.parent() == Some(Path::new("/"))
}

/// The working directory itself, in every mode: rmdir(2), rename(2), `EBUSY`.
const MOUNT_POINT: &str = "it is a mount point, which keeps its name; what is in it can be removed";

/// True for what takes a name away or changes it.
fn renames(access: &[FileAccess]) -> bool {
    let is = |one: &FileAccess| matches!(one, FileAccess::Rename | FileAccess::Unlink);
    access.iter().any(is)
}

/// The line of a profile that shows more of `/proc` than the jail's processes.
const PROC: &str = "[filesystem] proc = \"common\"";

/// A directory that is not shown for one program.
const BELOW: &str = "--read with the path below it that is meant";

/// Landlock's right to list the root is one to list all that lies in it.
const LISTS: &str = "[filesystem] read = […] without `list = false` in any entry";

/// Only an absolute path can be given, and only one that was not escaped can be typed.
fn path_flag(path: &str, access: &[FileAccess]) -> Option<String> {
    use FileAccess::{Attribute, Chmod, Link, Write};
    let is = |kinds: &[FileAccess]| access.iter().any(|one| kinds.contains(one));
    let (flag, path) = if renames(access) {
        // A name is its directory's.
        ("--write", Path::new(path).parent()?.to_str()?)
    } else if is(&[Link]) {
        // The directory of the new name, which is not known here.
        return None;
    } else if is(&[Attribute, Chmod, Write]) {
        ("--write", path)
    } else {
        ("--read", path)
    };
    is_plain(path).then(|| format!("{flag} {}", quote(path)))
}

/// The advice for a host that lacks the paths `absent`, which are to be made: only their directory can be given.
pub fn of_what_is_there(advice: &str, absent: &[String]) -> String {
    let flag = |path: &str| format!("--write {}", quote(path));
    let is_for = |path: &&String| {
        let rest = advice.strip_prefix(&flag(path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '\n']))
    };
    let path = absent.iter().find(is_for);
    let above = path.and_then(|path| Some((path, Path::new(path).parent()?.to_str()?)));
    match above {
        Some((path, above)) if is_of_the_root(Path::new(above)) => {
            advice.replacen(&flag(path), WRITABLE_ROOT, 1)
        }
        Some((path, above)) => advice.replacen(&flag(path), &flag(above), 1),
        None => advice.to_owned(),
    }
}

/// The advice for a host that has nothing at this path, which it would show.
pub fn of_what_is_nowhere(advice: &str, path: &str) -> String {
    let rest = advice.strip_prefix(&format!("--read {}", quote(path)));
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with([',', '\n']));
    match rest {
        Some(rest) => format!("no flag shows it: this host has no {path}{rest}"),
        None => advice.to_owned(),
    }
}

fn is_plain(path: &str) -> bool {
    (path.starts_with('/') || path.starts_with("memfd:")) && !path.contains('\\')
}

/// The address can be allowed like others, by somebody who has read what it is.
const METADATA: &str = "; in a cloud a service answers there with the credentials of this machine";

fn network(address: &str, socket: Option<SocketType>) -> Opening {
    if peers::is_name_server(address) {
        return Opening::Whole(peers::ANYBODY.to_owned());
    }
    let peer: Option<SocketAddr> = address.parse().ok();
    let peer = peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
    match peer {
        Some(peer) if address::is_own(peer.ip()) => {
            let other = match socket {
                Some(SocketType::Datagram) => String::new(),
                _ if !peer.ip().is_loopback() || peer.port() == 0 => String::new(),
                _ => format!(", or --allow {peer} (the host's)"),
            };
            Opening::Flag(format!("--network loopback (the jail's own){other}"))
        }
        Some(peer) if SpecialAddress::from_address(peer.ip()) == Some(SpecialAddress::Metadata) => {
            Opening::Whole(format!("--allow {peer}{METADATA}"))
        }
        Some(peer) if socket != Some(SocketType::Datagram) && peer.port() != 0 => {
            Opening::Whole(format!("--allow {peer}"))
        }
        _ => Opening::Never("a jail reaches other hosts over TCP alone"),
    }
}

/// The rule to write, and whether it replaces the one that decided.
///
/// The more specific pattern decides, so allowing the exact path beside the rule is enough,
/// unless the rule is as specific: it names this path itself, or the act has none. The stronger
/// action wins such a tie, so the part of the rule that speaks of this act has to go.
fn change(rule: &Rule, act: &ReportedAct) -> (Rule, bool) {
    if let Some(allow) = allowed_peer(rule, act) {
        return (allow, false);
    }
    let named = act
        .object
        .path()
        .and_then(|path| Some((path.as_bytes(), literal(path)?)));
    // About memory, a rule without paths speaks of what has none.
    let is_on_path = |on: AttemptKind| on.has_path() && on != AttemptKind::Map;
    let by_path = !rule.path.is_empty() || act.on.is_some_and(is_on_path);
    let Some((path, exact)) = named.filter(|_| by_path) else {
        return (without_kind(rule, act), true);
    };
    let by_name = rule.path.iter().any(|glob| glob.matches(path));
    let alias = merged(path).filter(|one| rule.path.iter().any(|glob| glob.matches(one)));
    let alias = alias.and_then(|one| literal(std::str::from_utf8(&one).ok()?));
    if rule.same_file != SameFile::No && !by_name {
        // No rule about this name takes anything from one about the file.
        return (without_kind(rule, act), true);
    }
    let ties = |glob: &&Glob| glob.matches(path) && glob.specificity() >= exact.specificity();
    if rule.path.iter().any(|glob| ties(&glob)) {
        let others = rule.path.iter().filter(|glob| !ties(glob)).cloned();
        let spelled = rule
            .path
            .iter()
            .filter(ties)
            .filter_map(|glob| glob.spellings(MOST_SPELLINGS))
            .flatten();
        let spelled = spelled
            .filter(|other| other != path && !alias.as_ref().is_some_and(|one| one.matches(other)))
            .filter_map(|other| literal(std::str::from_utf8(&other).ok()?));
        let path: Vec<Glob> = others.chain(spelled).collect();
        return match path.is_empty() {
            true => (without_kind(rule, act), true),
            false => (
                Rule {
                    path,
                    ..rule.clone()
                },
                true,
            ),
        };
    }
    let allow = Rule {
        id: format!("allow-{}", rule.id),
        on: deciding_kinds(rule, act),
        access: accesses(rule, act),
        path: std::iter::once(made_up(rule, act).unwrap_or(exact))
            .chain(alias)
            .collect(),
        action: RuleAction::Allow,
        yields: false,
        hidden: false,
        present: false,
        ..rule.clone()
    };
    (allow, false)
}

/// A rule that allows the act's address and port beside the one that decided; `None` for another kind
/// of act, where that rule names the same or nothing at all, and for an address that means several.
fn allowed_peer(rule: &Rule, act: &ReportedAct) -> Option<Rule> {
    let Object::Address { address, .. } = &act.object else {
        return None;
    };
    if rule.address.is_empty() && rule.port.is_empty() {
        return None;
    }
    let peer: SocketAddr = address.parse().ok()?;
    let (subnet, ports) = (
        Subnet::one(peer.ip()),
        Ports::new(peer.port(), peer.port())?,
    );
    let is_same = rule.address.contains(&subnet) && rule.port.contains(&ports);
    if is_same || peer.ip().to_canonical().is_unspecified() {
        return None;
    }
    Some(Rule {
        id: format!("allow-{}", rule.id),
        on: act.on.into_iter().collect(),
        address: vec![subnet],
        port: vec![ports],
        action: RuleAction::Allow,
        ..rule.clone()
    })
}

/// A pattern that stands for more paths than this is taken out whole.
const MOST_SPELLINGS: usize = 64;

/// The rule for its other kinds of attempt, or allowing when there is no other.
fn without_kind(rule: &Rule, act: &ReportedAct) -> Rule {
    let mut rule = rule.clone();
    let deciding = deciding_kinds(&rule, act);
    if deciding.len() < rule.on.len() {
        rule.on.retain(|on| !deciding.contains(on));
    } else {
        rule.action = RuleAction::Allow;
        // Names can be allowed, files cannot.
        rule.same_file = SameFile::No;
    }
    rule
}

/// The kinds by which a rule decides on an act: its own, those that it counts as, and, of what gives or takes a name, every
/// use of the file.
fn deciding_kinds(rule: &Rule, act: &ReportedAct) -> BTreeSet<AttemptKind> {
    let Some(on) = act.on else {
        return BTreeSet::new();
    };
    let attempt = Attempt {
        path: Some(b"/"),
        ..Attempt::new(on)
    };
    let besides: BTreeSet<_> = brought_about(&attempt).iter().map(|one| one.on).collect();
    let decides = |kind: &AttemptKind| *kind == on || besides.contains(kind);
    let deciding: BTreeSet<_> = rule.on.iter().copied().filter(decides).collect();
    if deciding.is_empty() {
        return BTreeSet::from([on]);
    }
    deciding
}

/// As a rule says it: for an open those that were asked for; where a rule on opens decides on something else, all of the rule's.
fn accesses(rule: &Rule, act: &ReportedAct) -> BTreeSet<OpenAccess> {
    let Object::File { access, .. } = &act.object else {
        return BTreeSet::new();
    };
    if act.on != Some(AttemptKind::Open) {
        return rule.access.clone();
    }
    let rules = access.iter().filter_map(|access| match access {
        FileAccess::Read => Some(OpenAccess::Read),
        FileAccess::Write => Some(OpenAccess::Write),
        FileAccess::Execute
        | FileAccess::Link
        | FileAccess::Rename
        | FileAccess::Unlink
        | FileAccess::Chmod
        | FileAccess::Map
        | FileAccess::Stat
        | FileAccess::Attribute => None,
    });
    rules.collect()
}

#[cfg(test)]
mod path_tests;
#[cfg(test)]
mod tests;
