//! The time before the first program of an empty group: whoever fills it, such as a container's runtime, makes it ready there.
//!
//! The first program that is started in the group is the one that is meant, unless it is the runtime once more: runc executes itself anew
//! (against CVE-2019-5736), and by then it may be in the group. The kernel knows that by the process outside that has started it, which is
//! called so: it executes the same file, or the new one is a copy without a name, and both are in one mount namespace. What follows was
//! making ready only where it ended in pivot_root(2), before which nothing of a container's own tree is executed; otherwise it was a
//! program like any other. So a program that a container names for itself is never taken for the runtime, also where it is the
//! runtime's file: it comes behind that call and in a mount namespace of its own, and no second exec is excepted.

use std::borrow::Cow;
use std::time::Duration;

use turnkey_facts::{Event, Kind};
use turnkey_policy::{Glob, Policy, RuleAction};

/// Most events that are kept until a group's first program is started: a runtime makes a few hundred.
const MOST: usize = 4096;
/// The longest time that a runtime takes from its own execution to its change of roots.
const LONGEST: Duration = Duration::from_secs(10);
/// Runtimes that execute themselves anew.
const RUNTIMES: [&[u8]; 2] = [b"runc", b"crun"];
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
    /// The process that a runtime has said is going to be the program, and whether it has changed the root.
    named: Option<(u32, bool)>,
}

impl BeforeProgram {
    /// Of a group without processes but for a runtime's that is going to be the program, under `policy`.
    pub fn from_policy(policy: &Policy, named: Option<u32>) -> BeforeProgram {
        let patterns = policy.rules.iter().map(|rule| rule.path.clone());
        BeforeProgram {
            patterns: patterns.collect(),
            named: named.map(|pid| (pid, false)),
            ..BeforeProgram::default()
        }
    }

    /// The event as it is told now. A symlink whose name no rule means, and that leads to what one means, is recorded as that rule's; a
    /// runtime makes such links for its container (`/dev/core`), and nothing is opened by one. So it is the rule's no more.
    pub fn told<'e>(&self, event: &'e Event) -> Cow<'e, Event> {
        match (&event.kind, event.decision) {
            (
                Kind::Change {
                    object,
                    call,
                    errno: 0,
                    ..
                },
                Some(decision),
            ) if call.makes_symlink() && decision.action == RuleAction::Log => {
                let path = object.path();
                let patterns = self.patterns.get(decision.rule);
                let patterns = patterns.map(Vec::as_slice).unwrap_or_default();
                let is_named = patterns.iter().any(|pattern| pattern.matches(&path));
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

    /// Takes an event. `Some` when the time is over: what the detectors get first, before the event itself.
    pub fn take(&mut self, event: &Event) -> Option<Vec<Event>> {
        match &event.kind {
            Kind::Exec { anew, .. } => {
                let is_runtime = anew.as_deref().is_some_and(|name| RUNTIMES.contains(&name));
                if self.again.is_some() || !is_runtime {
                    return Some(self.of_a_program());
                }
                self.again = Some((self.events.len(), event.time_ns));
            }
            Kind::Refused { nr, errno: 0, .. } if *nr == PIVOT_ROOT => {
                self.pivoted |= self.again.is_some();
                if let Some((pid, pivoted)) = &mut self.named {
                    *pivoted |= event.task.pid == *pid;
                }
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

    /// All that was kept and made nothing ready, where no program was started, as one that is not there.
    pub fn rest(mut self) -> Vec<Event> {
        match (self.named, self.again) {
            (_, Some(_)) if self.pivoted => Vec::new(),
            (Some((pid, true)), _) => {
                self.events.retain(|event| event.task.pid != pid);
                self.events
            }
            _ => self.events,
        }
    }
}

#[cfg(test)]
mod tests {
    use turnkey_facts::{File, Task};
    use turnkey_policy::AttemptKind;

    use super::*;

    const RUNC: Option<&str> = Some("runc");
    const PROGRAM: Option<&str> = None;
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

    fn exec(anew: Option<&str>) -> Kind {
        let file = File {
            path: b"/".to_vec(),
            truncated: false,
            unlinked: false,
            dev: 1,
            inode: 7,
        };
        Kind::Exec {
            file,
            raw: None,
            script: false,
            argv: Vec::new(),
            argv_truncated: false,
            anew: anew.map(Into::into),
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
    const TRUNCATE: u32 = 76;
    const SYMLINKAT: u32 = 266;

    /// The numbers of the events that the detectors get first, and of the one with which they begin.
    fn begun(kinds: Vec<(u64, Kind)>) -> Option<(Vec<u64>, u64)> {
        let mut before = BeforeProgram::default();
        for (seq, (time, kind)) in (0..).zip(kinds) {
            let event = event(seq, time, kind);
            if let Some(first) = before.take(&event) {
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
        // Whoever else starts its own program in the group.
        let python = vec![exec(Some("python3")), call(MOUNT), call(PIVOT_ROOT)];
        assert_eq!(at(python), Some((vec![], 0)));
    }

    #[test]
    fn a_link_that_a_runtime_makes_is_no_rules_and_a_file_that_a_rule_means_is() {
        let no_files = |path: &str| Err(path.to_owned());
        let overrides = turnkey_policy::Overrides::default();
        let policy = turnkey_policy::load("container", &no_files, &overrides).unwrap();
        let before = BeforeProgram::from_policy(&policy, None);
        let rule = policy.rules.iter().position(|rule| rule.id == "raw-device");
        let made = |path: &str, nr, action| Event {
            decision: Some(turnkey_facts::Decision {
                rule: rule.unwrap(),
                action,
                actor_unknown: false,
                file_unknown: false,
            }),
            ..event(
                0,
                0,
                Kind::Change {
                    on: AttemptKind::Open,
                    object: turnkey_facts::Raw {
                        base: None,
                        bytes: path.into(),
                        truncated: false,
                        unreadable: false,
                    },
                    new: Some(b"/proc/kcore".to_vec()),
                    resolved: false,
                    call: turnkey_facts::NamingCall { nr, args: [0; 6] },
                    errno: 0,
                },
            )
        };
        let is_told = |event: &Event| before.told(event).decision.is_some();
        let link = "/var/lib/web/rootfs/dev/core";
        assert!(!is_told(&made(link, SYMLINKAT, RuleAction::Log)));
        assert!(
            is_told(&made(link, SYMLINKAT, RuleAction::Kill)),
            "it acted"
        );
        assert!(
            is_told(&made(link, TRUNCATE, RuleAction::Log)),
            "it is no link"
        );
        assert!(
            is_told(&made("/dev/sda", SYMLINKAT, RuleAction::Log)),
            "it is named"
        );
    }

    #[test]
    fn what_made_ready_for_a_program_that_is_not_there_is_nobodys_act() {
        let rest = |named: Option<u32>, kinds: Vec<Kind>| {
            let mut before = BeforeProgram {
                named: named.map(|pid| (pid, false)),
                ..BeforeProgram::default()
            };
            for (seq, kind) in (0..).zip(kinds) {
                assert!(before.take(&event(seq, SECOND, kind)).is_none());
            }
            before.rest().len()
        };
        let ready = || vec![call(MOUNT), call(PIVOT_ROOT), call(MOUNT)];
        let again = [vec![exec(RUNC)], ready()].concat();
        assert_eq!(rest(None, again), 0);
        assert_eq!(rest(Some(10), ready()), 0, "the process that was named");
        assert_eq!(rest(Some(11), ready()), 3, "another one");
        assert_eq!(rest(None, ready()), 3, "nobody named any");
        assert_eq!(
            rest(Some(10), vec![call(MOUNT)]),
            1,
            "it made nothing ready"
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
