//! The time before the first program of an empty group: whoever fills it, such as a container's runtime, makes it ready there.
//!
//! The first program that is started in the group is the one that is meant, unless it is the runtime once more: runc executes itself anew
//! (against CVE-2019-5736), and by then it may be in the group. That is known by the process outside that has started it: it
//! executes the very same file, which is called so. What follows was making ready only where it ended in pivot_root(2), before which nothing of a
//! container's own tree is executed; otherwise it was a program like any other. So a program that a container names for itself is never taken
//! for the runtime, also where it is the runtime's file: it comes behind that call, and no second exec is excepted.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::libc;
use nix::sys::stat::{major, minor};
use turnkey_facts::{Event, File, Kind};
use turnkey_monitor::FileId;
use turnkey_policy::{Glob, Policy, RuleAction};

/// Most events that are kept until a group's first program is started: a runtime makes a few hundred.
const MOST: usize = 4096;
/// The longest time that a runtime takes from its own execution to its change of roots.
const LONGEST: Duration = Duration::from_secs(10);
/// Runtimes that execute themselves anew.
const RUNTIMES: [&str; 2] = ["runc", "crun"];
/// pivot_root(2), of whose success rules on mounts tell.
const PIVOT_ROOT: u32 = 155;

/// Events that no detector has got yet.
#[derive(Debug, Default)]
pub struct BeforeProgram {
    /// The patterns of each rule.
    patterns: Vec<Vec<Glob>>,
    events: Vec<Event>,
    /// The index of the runtime's execution of itself, and its time.
    again: Option<(usize, u64)>,
    /// True when the root was changed since.
    pivoted: bool,
}

impl BeforeProgram {
    /// Of a group without processes, under `policy`.
    pub fn of(policy: &Policy) -> BeforeProgram {
        let patterns = policy.rules.iter().map(|rule| rule.path.clone());
        BeforeProgram {
            patterns: patterns.collect(),
            ..BeforeProgram::default()
        }
    }

    /// The event as it is told now. A symlink whose name no rule means, and that leads to what one means, is recorded as that rule's; a
    /// runtime makes such links for its container (`/dev/core`), and nothing is opened by one. So it is the rule's no more.
    pub fn told<'e>(&self, event: &'e Event) -> Cow<'e, Event> {
        let is_made = |file: &File, flags: u32| {
            file.inode == 0 && flags == (libc::O_WRONLY | libc::O_CREAT).cast_unsigned()
        };
        match (&event.kind, event.decision) {
            (
                Kind::Open {
                    file: Some(file),
                    flags,
                    errno: 0,
                    ..
                },
                Some(decision),
            ) if is_made(file, *flags) && decision.action == RuleAction::Log => {
                let patterns = self.patterns.get(decision.rule);
                let patterns = patterns.map(Vec::as_slice).unwrap_or_default();
                let is_named = patterns.iter().any(|pattern| pattern.matches(&file.path));
                match patterns.is_empty() || is_named {
                    true => Cow::Borrowed(event),
                    false => Cow::Owned(Event {
                        decision: None,
                        ..event.clone()
                    }),
                }
            }
            _ => Cow::Borrowed(event),
        }
    }

    /// Takes an event. `Some` when the time is over: what the detectors get first, before the event itself. `is_runtime` answers whether the
    /// file is that of a runtime, by the process that has started the one with it.
    pub fn take(
        &mut self,
        event: &Event,
        is_runtime: impl Fn(u32, &File) -> bool,
    ) -> Option<Vec<Event>> {
        match &event.kind {
            Kind::Exec { file, .. } => {
                let is_again = self.again.is_none() && is_runtime(event.task.parent_pid, file);
                if !is_again {
                    return Some(self.of_a_program());
                }
                self.again = Some((self.events.len(), event.time_ns));
            }
            Kind::Refused { nr, errno: 0, .. } if *nr == PIVOT_ROOT => {
                self.pivoted |= self.again.is_some();
            }
            _ => {}
        }
        if self.is_late(event) {
            return Some(self.of_a_program());
        }
        if self.events.len() >= MOST {
            // No runtime: whoever does so much is judged by it.
            return Some(std::mem::take(&mut self.events));
        }
        self.events.push(event.clone());
        None
    }

    fn is_late(&self, event: &Event) -> bool {
        let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        let begun = self.again.map(|(_, begun)| begun);
        begun.is_some_and(|begun| event.time_ns.saturating_sub(begun) > longest)
    }

    /// The acts of a program that was taken for the runtime and has made nothing ready.
    fn of_a_program(&mut self) -> Vec<Event> {
        match self.again {
            Some((at, _)) if !self.pivoted => self.events.split_off(at),
            _ => Vec::new(),
        }
    }

    /// All that was kept, where no program was started.
    pub fn rest(self) -> Vec<Event> {
        self.events
    }
}

/// True when the file is a runtime's, which the process with this id executes, too. Where it has ended it is not.
pub fn is_runtime(parent: u32, file: &File) -> bool {
    let exe = PathBuf::from(format!("/proc/{parent}/exe"));
    let (Ok(link), Ok(metadata)) = (std::fs::read_link(&exe), std::fs::metadata(&exe)) else {
        return false;
    };
    let is_called_so = link
        .file_name()
        .is_some_and(|name| RUNTIMES.iter().any(|runtime| name == *runtime));
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let device = metadata.dev();
    let own = FileId::new(
        (number(major(device)), number(minor(device))),
        metadata.ino(),
    );
    is_called_so && (own.dev, own.inode) == (file.dev, file.inode)
}

#[cfg(test)]
mod tests {
    use turnkey_facts::Task;
    use turnkey_policy::AttemptKind;

    use super::*;

    const RUNC: u64 = 7;
    const PROGRAM: u64 = 8;
    const SECOND: u64 = 1_000_000_000;

    fn event(seq: u64, time_ns: u64, kind: Kind) -> Event {
        let task = Task {
            pid: 10,
            tid: 10,
            jail_pid: 10,
            uid: 0,
            parent_pid: 9,
            start_ns: 1,
            comm: b"runc".to_vec(),
        };
        Event {
            seq,
            time_ns,
            last_ns: time_ns,
            repeated: 0,
            task,
            kind,
            decision: None,
        }
    }

    fn exec(inode: u64) -> Kind {
        let file = File {
            path: b"/".to_vec(),
            truncated: false,
            unlinked: false,
            dev: 1,
            inode,
        };
        Kind::Exec {
            file,
            raw: None,
            script: false,
            argv: Vec::new(),
            argv_truncated: false,
        }
    }

    fn call(nr: u32) -> Kind {
        Kind::Refused {
            nr,
            on: Some(AttemptKind::Mount),
            args: [0; 3],
            errno: 0,
        }
    }

    const MOUNT: u32 = 165;

    /// The numbers of the events that the detectors get first, and of the one with which they begin.
    fn begun(kinds: Vec<(u64, Kind)>) -> Option<(Vec<u64>, u64)> {
        let mut before = BeforeProgram::default();
        for (seq, (time, kind)) in (0..).zip(kinds) {
            let event = event(seq, time, kind);
            let is_runtime = |parent: u32, file: &File| parent == 9 && file.inode == RUNC;
            if let Some(first) = before.take(&event, is_runtime) {
                return Some((first.iter().map(|event| event.seq).collect(), seq));
            }
        }
        None
    }

    #[test]
    fn a_runtime_is_no_program_until_it_has_changed_the_root() {
        let at = |kinds: Vec<Kind>| begun(kinds.into_iter().map(|kind| (SECOND, kind)).collect());
        // Moved there before its first exec, and after.
        assert_eq!(at(vec![call(MOUNT), exec(PROGRAM)]), Some((vec![], 1)));
        let made_ready = vec![
            call(MOUNT),
            exec(RUNC),
            call(MOUNT),
            call(PIVOT_ROOT),
            exec(PROGRAM),
        ];
        assert_eq!(at(made_ready), Some((vec![], 4)));
        // What a container names as its program is that, be it the runtime's own file.
        let itself = vec![exec(RUNC), call(PIVOT_ROOT), exec(RUNC), call(MOUNT)];
        assert_eq!(at(itself), Some((vec![], 2)));
        // One that has made nothing ready was a program from its start.
        let other = vec![call(PIVOT_ROOT), exec(RUNC), call(MOUNT), exec(PROGRAM)];
        assert_eq!(at(other), Some((vec![1, 2], 3)));
        assert_eq!(at(vec![exec(RUNC), call(MOUNT)]), None);
    }

    #[test]
    fn a_link_that_a_runtime_makes_is_no_rules_and_a_file_that_a_rule_means_is() {
        let no_files = |path: &str| Err(path.to_owned());
        let overrides = turnkey_policy::Overrides::default();
        let policy = turnkey_policy::load("container", &no_files, &overrides).unwrap();
        let before = BeforeProgram::of(&policy);
        let rule = policy.rules.iter().position(|rule| rule.id == "raw-device");
        let made = |path: &str, inode, action| Event {
            decision: Some(turnkey_facts::Decision {
                rule: rule.unwrap(),
                action,
                actor_unknown: false,
            }),
            ..event(
                0,
                0,
                Kind::Open {
                    file: Some(File {
                        path: path.into(),
                        truncated: false,
                        unlinked: false,
                        dev: 0,
                        inode,
                    }),
                    raw: turnkey_facts::Raw {
                        base: None,
                        bytes: Vec::new(),
                        truncated: false,
                        unreadable: false,
                    },
                    flags: (libc::O_WRONLY | libc::O_CREAT).cast_unsigned(),
                    errno: 0,
                },
            )
        };
        let is_told = |event: &Event| before.told(event).decision.is_some();
        let link = "/var/lib/web/rootfs/dev/core";
        assert!(!is_told(&made(link, 0, RuleAction::Log)));
        assert!(is_told(&made(link, 0, RuleAction::Kill)), "it acted");
        assert!(is_told(&made(link, 9, RuleAction::Log)), "it was opened");
        assert!(
            is_told(&made("/dev/sda", 0, RuleAction::Log)),
            "it is named"
        );
    }

    #[test]
    fn a_runtime_does_not_take_for_ever() {
        let late = 12 * SECOND;
        let kinds = vec![
            (SECOND, exec(RUNC)),
            (SECOND, call(MOUNT)),
            (late, call(MOUNT)),
        ];
        assert_eq!(begun(kinds), Some((vec![0, 1], 2)));
        let many = (0..)
            .map(|_| (SECOND, call(MOUNT)))
            .take(MOST + 1)
            .collect();
        assert_eq!(begun(many).map(|(first, _)| first.len()), Some(MOST));
    }
}
