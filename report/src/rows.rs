//! Rows of the report's lists: what was done, how often, and by whom.

use std::collections::BTreeSet;

use turnkey_facts::Event;
use turnkey_policy::syscalls::arguments::RefusalScope;
use turnkey_policy::{AttemptKind, Rule};

use super::act::Object;
use super::advice;
use super::clock::Clock;
use super::errno::errno_name;
use super::model::{FileOperation, NetworkAttempt, Program, RefusedCall};
use super::processes::{Executes, exec_id};
use super::stopper::{Outcome, Stopper};

/// Different programs that a row names.
const PROGRAMS: usize = 8;

/// The actor of an event: the row of the process, and what it executed then.
pub(super) type Who = (Option<usize>, Executes);

/// The properties in which two operations agree that differ in time and process only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OperationKey {
    pub on: AttemptKind,
    pub object: Object,
    pub outcome: Outcome,
    pub errno: i32,
    pub rule: Option<usize>,
    /// As in [`super::act::ReportedAct`].
    pub for_arguments: Option<RefusalScope>,
}

/// The properties in which two refused calls agree that differ in time and process only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallKey {
    pub name: String,
    pub outcome: Outcome,
    pub errno: i32,
    pub rule: Option<usize>,
    /// As in [`super::act::ReportedAct`].
    pub for_arguments: Option<RefusalScope>,
}

/// The first and last time at which the same was done, and how often.
#[derive(Clone, Debug)]
pub(super) struct Row<K = OperationKey> {
    key: K,
    count: u64,
    first_ns: u64,
    last_ns: u64,
    /// The process that did it first.
    process: Option<usize>,
    /// The programs that did it.
    programs: BTreeSet<Program>,
    /// Not all of them: they are too many, or of one it is not known which it is.
    more_programs: bool,
}

impl<K> Row<K> {
    pub fn first(key: K, event: &Event, who: &Who) -> Self {
        let mut row = Self {
            key,
            count: 1 + event.repeated,
            first_ns: event.time_ns,
            last_ns: event.last_ns,
            process: who.0,
            programs: BTreeSet::new(),
            more_programs: false,
        };
        row.by(who);
        row
    }

    pub fn again(&mut self, event: &Event, who: &Who) {
        self.by(who);
        self.count += 1 + event.repeated;
        self.last_ns = self.last_ns.max(event.last_ns);
    }

    fn by(&mut self, (_, executes): &Who) {
        let has_room = self.programs.len() < PROGRAMS;
        match executes {
            Executes::Program(program) if has_room || self.programs.contains(program) => {
                self.programs.insert(program.clone());
            }
            Executes::Nothing => {}
            _ => self.more_programs = true,
        }
    }
}

impl Row<CallKey> {
    pub fn call(self, rules: &[Rule], clock: &Clock) -> RefusedCall {
        let stopped_by = self.key.outcome.stopper();
        let rule = rule_id(rules, self.key.rule);
        let advice = match rule {
            None => advice::for_call(stopped_by, &self.key.name, self.key.for_arguments),
            Some(_) => None,
        };
        RefusedCall {
            syscall: self.key.name,
            count: self.count,
            first_time: clock.date(self.first_ns),
            last_time: clock.date(self.last_ns),
            first_exec_id: self.process.map(exec_id),
            result: self.key.outcome.result(),
            stopped_by,
            for_arguments: self.key.for_arguments.is_some(),
            errno: errno_name(self.key.errno),
            rule,
            advice,
        }
    }
}

impl Row {
    pub fn file(self, rules: &[Rule], clock: &Clock) -> Option<FileOperation> {
        let stopped_by = self.key.outcome.stopper();
        let rule = rule_id(rules, self.key.rule);
        let is_there = |stopper: &Stopper| *stopper != Stopper::MountNamespace;
        let advice = stopped_by
            .filter(is_there)
            .filter(|_| rule.is_none())
            .and_then(|stopper| {
                advice::for_layer(stopper, &self.key.object, self.key.for_arguments)
            });
        let Object::File {
            path,
            truncated,
            access,
            memory,
            ..
        } = self.key.object
        else {
            return None;
        };
        Some(FileOperation {
            path,
            path_truncated: truncated,
            access,
            memory,
            count: self.count,
            first_time: clock.date(self.first_ns),
            last_time: clock.date(self.last_ns),
            first_exec_id: self.process.map(exec_id),
            programs: self.programs.into_iter().collect(),
            more_programs: self.more_programs,
            result: self.key.outcome.result(),
            stopped_by,
            for_arguments: self.key.for_arguments.is_some(),
            errno: errno_name(self.key.errno),
            rule,
            advice,
        })
    }

    pub fn network(self, rules: &[Rule], clock: &Clock) -> Option<NetworkAttempt> {
        let Object::Address {
            address,
            socket,
            name,
        } = self.key.object
        else {
            return None;
        };
        Some(NetworkAttempt {
            act: self.key.on,
            address,
            socket,
            name,
            count: self.count,
            first_time: clock.date(self.first_ns),
            last_time: clock.date(self.last_ns),
            first_exec_id: self.process.map(exec_id),
            programs: self.programs.into_iter().collect(),
            more_programs: self.more_programs,
            result: self.key.outcome.result(),
            stopped_by: self.key.outcome.stopper(),
            errno: errno_name(self.key.errno),
            rule: rule_id(rules, self.key.rule),
            passed: None,
        })
    }
}

fn rule_id(rules: &[Rule], rule: Option<usize>) -> Option<String> {
    rules.get(rule?).map(|rule| rule.id.clone())
}
