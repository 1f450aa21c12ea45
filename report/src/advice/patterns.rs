//! Patterns for the file of an act.

use turnkey_policy::{Glob, Rule};

use crate::act::{Object, ReportedAct};
use crate::model::FileAccess;
use crate::unchosen;

/// The pattern that matches `path` and nothing else.
pub(super) fn literal(path: &str) -> Option<Glob> {
    Glob::parse(&unchosen::literal(path.as_bytes())).ok()
}

/// The path to which the kernel comes by a name below `/bin`, `/lib` and their like, which are links into `/usr` on most systems: a rule about
/// both is asked of both.
pub(super) fn merged(path: &[u8]) -> Option<Vec<u8>> {
    const LINKS: [&[u8]; 6] = [
        b"/bin/",
        b"/sbin/",
        b"/lib/",
        b"/lib32/",
        b"/lib64/",
        b"/libx32/",
    ];
    let is_link = LINKS.iter().any(|link| path.starts_with(link));
    is_link.then(|| [b"/usr", path].concat())
}

/// The pattern for the path of a file that the act writes or names, where nobody chose its name, and of one of a process, by whatever
/// number: the next run has another. `None` where the rule would decide all the same.
pub(super) fn made_up(rule: &Rule, act: &ReportedAct) -> Option<Glob> {
    let Object::File {
        path: Some(path),
        access,
        ..
    } = &act.object
    else {
        return None;
    };
    let changes = |access: &FileAccess| !matches!(access, FileAccess::Read | FileAccess::Stat);
    let made = || {
        let of_path = access.iter().any(changes).then(|| unchosen::of_path(path));
        of_path.flatten()
    };
    let pattern = Glob::parse(&of_any_process(path).or_else(made)?).ok()?;
    let decides = |own: &Glob| own.specificity() >= pattern.specificity();
    let mut owns = rule.path.iter();
    let is_decided = owns.any(|own| own.matches(path.as_bytes()) && decides(own));
    (!is_decided).then_some(pattern)
}

/// The pattern for what is in the directory of a process, and of its threads, of each process.
fn of_any_process(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/proc/")?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let part = |part: &str| match is_number(part) {
        true => "*".to_owned(),
        false => unchosen::literal(part.as_bytes()),
    };
    let is_of_one = rest.split_once('/').is_some_and(|(pid, _)| is_number(pid));
    let parts: Vec<_> = rest.split('/').map(part).collect();
    is_of_one.then(|| format!("/proc/{}", parts.join("/")))
}
