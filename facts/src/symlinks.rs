//! The symlinks that the programs of a run have made, by the calls that made them: where a name leads that a later call follows.
//!
//! Without hooks the kernel tells the arguments of a call that changes a name or an attribute, and not which file it was. What lay there
//! before the run is not known, nor is a symlink that came by no call; of those that the run has made, each was an event.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::{AttemptKind, syscalls};

use crate::event::{Event, Kind, NamingCall, Raw};

/// Bytes of paths and aims that are remembered: more than the symlinks of a large tree of packages have.
const ROOM: usize = 16 << 20;
/// `O_NOFOLLOW` of x86_64.
const NO_FOLLOW: u32 = 0o400_000;
/// Symlinks that one path is followed through, as by the kernel.
const HOPS: usize = 40;

/// The symlinks that a run has made, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Symlinks {
    /// The text that each holds, by its own path.
    aims: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Names that a symlink has ever had in its directory, or a directory on the way to one.
    names: BTreeSet<Vec<u8>>,
    /// Bytes that all these have.
    used: usize,
    /// There were more, or some at places that are not known.
    is_full: bool,
    /// The number of symlinks of which nobody knows where they lead.
    forgotten: u64,
}

impl Symlinks {
    /// Takes in an event, after it was asked about.
    pub fn note(&mut self, event: &Event) {
        let Kind::Change {
            on,
            object,
            new,
            resolved,
            call,
            errno: 0,
        } = &event.kind
        else {
            // What failed made and moved nothing.
            return;
        };
        let Some(path) = self.place(&object.path()) else {
            return self.lose(*on, *call, *resolved);
        };
        match (on, new) {
            (AttemptKind::Open, Some(aim)) if makes_symlink(*call) => {
                self.made(path, aim.clone(), u64::from(!resolved));
            }
            (AttemptKind::Unlink, _) => drop(self.forget(&path)),
            (AttemptKind::Rename | AttemptKind::Link, Some(new)) => {
                let new = Raw {
                    bytes: new.clone(),
                    ..object.clone()
                };
                match self.place(&new.path()) {
                    Some(new) => self.move_to(*on, &path, &new),
                    None => self.is_full = true,
                }
            }
            _ => {}
        }
    }

    /// The number of symlinks of which it is not known where they lead, where nobody but their text tells. A later call by such a name is
    /// about a file that nobody knows.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// An act at a place that is not known.
    fn lose(&mut self, on: AttemptKind, call: NamingCall, resolved: bool) {
        self.is_full |=
            makes_symlink(call) || matches!(on, AttemptKind::Rename | AttemptKind::Link);
        self.forgotten += u64::from(makes_symlink(call) && !resolved);
    }

    /// True when so many bytes more can be remembered; else so many symlinks are not.
    fn has_room(&mut self, bytes: usize, symlinks: u64) -> bool {
        let is_full = self.used + bytes > ROOM;
        if is_full {
            self.is_full = true;
            self.forgotten += symlinks;
        }
        !is_full
    }

    /// Takes in a symlink, which counts as so many when it is forgotten.
    fn made(&mut self, path: Vec<u8>, aim: Vec<u8>, counts: u64) {
        if self.has_room(2 * path.len() + aim.len(), counts) {
            self.name(&path);
            self.remember(path, aim);
        }
    }

    fn remember(&mut self, path: Vec<u8>, aim: Vec<u8>) {
        self.used += path.len() + aim.len();
        self.aims.insert(path, aim);
    }

    fn forget(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let aim = self.aims.remove(path)?;
        self.used = self.used.saturating_sub(path.len() + aim.len());
        Some(aim)
    }

    fn name(&mut self, path: &[u8]) {
        for name in components(path) {
            if self.names.insert(name.to_vec()) {
                self.used += name.len();
            }
        }
    }

    /// Takes what was by the old name, and below it, to the new one: of an exchange and a link both are true, and what is no more
    /// there leads nowhere.
    fn move_to(&mut self, on: AttemptKind, old: &[u8], new: &[u8]) {
        let moved = |path: &[u8]| {
            let rest = path.strip_prefix(old)?;
            (rest.is_empty() || rest[0] == b'/').then(|| [new, rest].concat())
        };
        let there = self.aims.iter();
        let there: Vec<_> = there
            .filter_map(|(path, aim)| Some((path.clone(), moved(path)?, aim.clone())))
            .collect();
        if on == AttemptKind::Rename {
            self.forget(new);
        }
        for (before, path, aim) in there {
            if on == AttemptKind::Rename {
                self.forget(&before);
            }
            if self.has_room(path.len() + aim.len(), 1) {
                self.remember(path, aim);
            }
        }
        let is_named = components(old)
            .last()
            .is_some_and(|name| self.names.contains(name));
        if is_named && self.has_room(new.len(), 0) {
            self.name(new);
        }
    }

    /// The path of what a call on `path` is about that does not follow a symlink at its end; `None` of a relative one.
    fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        (path.first() == Some(&b'/')).then(|| self.lead(path, false))
    }

    /// The place that a path leads to through these symlinks; with `to_the_end` also by one that it ends in.
    #[must_use]
    pub fn lead(&self, path: &[u8], to_the_end: bool) -> Vec<u8> {
        let mut left: Vec<Vec<u8>> = components(path).map(<[u8]>::to_vec).rev().collect();
        let mut reached: Vec<u8> = Vec::new();
        let mut hops = 0;
        while let Some(name) = left.pop() {
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    let above = reached.iter().rposition(|byte| *byte == b'/');
                    reached.truncate(above.unwrap_or_default());
                    continue;
                }
                _ => {}
            }
            let here = [reached.as_slice(), b"/", &name].concat();
            let follows = to_the_end || !left.is_empty();
            match self.aims.get(&here).filter(|_| follows && hops < HOPS) {
                Some(aim) => {
                    hops += 1;
                    if aim.first() == Some(&b'/') {
                        reached.clear();
                    }
                    left.extend(components(aim).map(<[u8]>::to_vec).rev());
                }
                None => reached = here,
            }
        }
        if reached.is_empty() {
            reached.push(b'/');
        }
        reached
    }

    /// The event of a change, or of an open that failed, by a name that leads through such a symlink, with the name of what it was about.
    #[must_use]
    pub fn followed(&self, event: &Event) -> Option<Event> {
        let (raw, to_the_end) = match &event.kind {
            _ if self.aims.is_empty() => return None,
            Kind::Change {
                on, object, call, ..
            } if *on != AttemptKind::Stat && !makes_symlink(*call) => (object, follows(*call)),
            Kind::Open {
                file: None,
                raw,
                flags,
                errno,
                ..
            } if *errno != 0 => (raw, flags & NO_FOLLOW == 0),
            _ => return None,
        };
        let path = raw.path();
        if path.first() != Some(&b'/') {
            return None;
        }
        let reached = self.lead(&path, to_the_end);
        if reached == path {
            return None;
        }
        let mut event = event.clone();
        if let Kind::Change { object: raw, .. } | Kind::Open { raw, .. } = &mut event.kind {
            *raw = Raw {
                base: None,
                bytes: reached,
                ..raw.clone()
            };
        }
        Some(event)
    }

    /// True when the names of a rename or a link lead past no link of the kernel's own, and each symlink of the run is known.
    #[must_use]
    pub fn knows_names(&self, event: &Event) -> bool {
        let Kind::Change {
            object,
            new: Some(new),
            ..
        } = &event.kind
        else {
            return false;
        };
        let names = [object.bytes.as_slice(), new];
        let is_plain = names.iter().all(|name| {
            let is_kernels = name.starts_with(b"/proc") || name.starts_with(b"/dev");
            let goes_back = components(name).any(|part| part == b"..");
            !name.is_empty() && !is_kernels && !goes_back
        });
        let beside = Raw {
            bytes: new.clone(),
            ..object.clone()
        };
        let leads_to_kernels = |path: &[u8]| {
            let path = self.lead(path, true);
            path.starts_with(b"/proc") || path.starts_with(b"/dev")
        };
        is_plain
            && !self.is_full
            && !object.unreadable
            && ![object.path(), beside.path()]
                .iter()
                .any(|path| leads_to_kernels(path))
    }

    /// True when such a rename, or a link that follows no symlink, is certainly of no symlink of the run, and of no directory that has one.
    #[must_use]
    pub fn moves_none(&self, event: &Event) -> bool {
        let Kind::Change {
            object,
            new: Some(new),
            call,
            ..
        } = &event.kind
        else {
            return false;
        };
        let may_be = |name: &[u8]| {
            let last = components(name).last();
            last.is_none_or(|last| self.names.contains(last))
        };
        // Of an exchange, what was by the new name has moved as well.
        let of_both = syscalls::name(call.nr) == Some("renameat2");
        !(follows(*call) || may_be(&object.bytes) || of_both && may_be(new))
    }
}

/// True for symlink(2) and its like.
#[must_use]
pub fn makes_symlink(call: NamingCall) -> bool {
    matches!(syscalls::name(call.nr), Some("symlink" | "symlinkat"))
}

/// True for a call that certainly follows a symlink at the end of its path.
#[must_use]
pub fn follows(call: NamingCall) -> bool {
    const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
    const AT_SYMLINK_FOLLOW: u64 = 0x400;
    match syscalls::name(call.nr) {
        Some(
            "truncate" | "chmod" | "fchmodat" | "chown" | "utime" | "utimes" | "futimesat"
            | "setxattr" | "removexattr",
        ) => true,
        Some("linkat") => call.args[4] & AT_SYMLINK_FOLLOW != 0,
        Some("fchownat") => call.args[4] & AT_SYMLINK_NOFOLLOW == 0,
        _ => false,
    }
}

/// A path without `//`, `.` and `..`, as far as no symlink is on the way.
#[must_use]
pub fn plain(path: &[u8]) -> Vec<u8> {
    Symlinks::default().lead(path, false)
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
