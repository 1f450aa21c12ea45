//! Events in, the report's lists out.
//!
//! Every list has a bound, so a program that does endlessly many different things costs bounded
//! memory. What finds no row is counted, and findings and verdict do not depend on the rows:
//! they come from one tally per rule.

use std::collections::BTreeMap;

use turnkey_facts::symlinks::Symlinks;
use turnkey_facts::{Decision, Event, Kind};
use turnkey_policy::{AttemptKind, Policy, Rule, RuleAction, Severity};

use super::act::{Object, ReportedAct, is_asked_in_passing, kind_name};
use super::clock::Clock;
use super::errno::errno_name;
use super::met::FailedAtLimits;
use super::model::{FileOperation, Finding, NetworkAttempt, Process, RefusedCall, Violation};
use super::ordering::Ordering;
use super::own_servers::OwnServers;
use super::peers::AskedNames;
use super::preparation::{self, Weight};
use super::processes::{KnownProcess, Processes};
use super::rows::{CallKey, OperationKey, Row, Who};
use super::speakers::Speakers;
use super::stopper::{Attribution, Outcome};
use super::{advice, table::Table, unknown};

/// Rows of `file_operations`. A compiler run opens a few hundred different files.
const FILES: usize = 4096;
/// Rows of `network_attempts`.
const ADDRESSES: usize = 1024;
/// Rows of `refused_calls`: as many as there are calls that are looked at, each with a few errors.
const CALLS: usize = 4096;
/// Rows of `violations`.
const VIOLATIONS: usize = 256;

/// Takes in events, in their order, and keeps what the report will say.
#[derive(Debug)]
pub struct Aggregator {
    rules: Vec<Rule>,
    profile: String,
    clock: Clock,
    attribution: Attribution,
    processes: Processes,
    /// The row of who acted last.
    acting: Option<usize>,
    files: Table<OperationKey, Row>,
    addresses: Table<OperationKey, Row>,
    calls: Table<CallKey, Row<CallKey>>,
    violations: Table<ViolationKey, Violation>,
    asked: AskedNames,
    servers: OwnServers,
    speakers: Speakers,
    ordering: Ordering,
    symlinks: Symlinks,
    failed: FailedAtLimits,
    tallies: BTreeMap<usize, Tally>,
    seen: BTreeMap<&'static str, u64>,
    /// The number of events. Each can stand for many acts.
    events: u64,
    /// One more than the highest `seq`.
    next_seq: u64,
}

/// The properties in which two violations agree that differ in time and thread only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ViolationKey {
    rule: usize,
    action: RuleAction,
    on: AttemptKind,
    object: Object,
    outcome: Outcome,
    errno: i32,
    actor_unknown: bool,
    file_unknown: bool,
    is_prepared: bool,
    process: (Option<usize>, u32),
}

/// The number of violations of a rule.
#[derive(Clone, Copy, Debug)]
struct Tally {
    count: u64,
    /// The number of those that only prepared something.
    prepared: u64,
    /// The place of the rule in the order of first violations.
    order: usize,
}

/// All that the events of a run amount to.
#[derive(Clone, Debug)]
pub struct Observations {
    /// See [`super::model::Report`].
    pub violations: Vec<Violation>,
    /// See [`super::model::Report`].
    pub processes: Vec<Process>,
    /// See [`super::model::Report`].
    pub file_operations: Vec<FileOperation>,
    /// See [`super::model::Report`].
    pub network_attempts: Vec<NetworkAttempt>,
    /// See [`super::model::Report`].
    pub refused_calls: Vec<RefusedCall>,
    /// One for each rule that was violated, in the order of their first violation; no scores.
    pub findings: Vec<Finding>,
    /// The number of acts by kind; one event can stand for many acts.
    pub seen: BTreeMap<&'static str, u64>,
    /// Processes that spoke on sockets that bear a number.
    pub speakers: Speakers,
    /// Calls that failed at limits of which only their results tell.
    pub failed: FailedAtLimits,
    /// Numbers of `seq` that no event had.
    pub missing: u64,
    /// Symlinks of which it is not known where they lead ([`Symlinks::forgotten`]).
    pub unknown_symlinks: u64,
    /// The counts of what found no row.
    pub omitted: super::model::Omitted,
}

impl Aggregator {
    /// For the events of a run under `policy`. `clock` gives them their dates.
    pub fn new(policy: &Policy, clock: Clock) -> Self {
        Self {
            rules: policy.rules.clone(),
            profile: policy.name.clone(),
            clock,
            attribution: Attribution::new(policy),
            processes: Processes::default(),
            acting: None,
            files: Table::new(FILES),
            addresses: Table::new(ADDRESSES),
            calls: Table::new(CALLS),
            violations: Table::new(VIOLATIONS),
            asked: AskedNames::new(VIOLATIONS),
            servers: OwnServers::new(policy),
            speakers: Speakers::default(),
            ordering: Ordering::default(),
            symlinks: Symlinks::default(),
            failed: FailedAtLimits::default(),
            tallies: BTreeMap::new(),
            seen: BTreeMap::new(),
            events: 0,
            next_seq: 0,
        }
    }

    /// Takes in a process that was there before anybody watched.
    pub fn know(&mut self, known: KnownProcess) {
        self.processes.know(known, self.clock.boottime_ns());
    }

    /// Takes in one event. The violation that it is, unless a row tells of it already or the rows are full.
    pub fn push(&mut self, event: &Event) -> Option<&mut Violation> {
        *self.seen.entry(kind_name(&event.kind)).or_default() += 1 + event.repeated;
        self.events += 1;
        self.next_seq = self.next_seq.max(event.seq + 1);
        let before = self.processes.program(&event.task);
        let process = self.processes.observe(event);
        self.acting = process;
        self.speakers.note(event, process);
        self.servers.note(event);
        if self.failed.note(event, &self.clock) {
            return None;
        }
        // Who asks for an exec is who it was before.
        let program = match event.kind {
            Kind::Exec { .. } => before,
            _ => self.processes.program(&event.task),
        };
        let act = ReportedAct::from_event(event, &self.attribution)?;
        let (rules, whole) = (&self.rules, self.next_seq == self.events);
        let weight = preparation::weight(rules, &self.symlinks, event, whole);
        let followed = preparation::followed(&self.rules, &self.symlinks, event);
        self.symlinks.note(event);
        let is_explained = self.ordering.explains(event)
            || weight == Weight::Nothing
            || super::own_places::explain(&self.rules, event, self.processes.words(process));
        let decision = event.decision.filter(|_| !is_explained);
        self.operation(event, decision, (process, program), &act);
        if let Kind::Question { .. } = event.kind {
            let who = self.processes.actor(process, &event.task);
            self.asked.note(&who, &act.object);
        }
        let is_own = weight == Weight::Whole || followed.is_none();
        let decision = decision.filter(|one| one.action != RuleAction::Allow && is_own);
        if let Some(decision) = decision {
            return self.violation((event, process), &act, decision, weight);
        }
        let followed = followed?;
        let act = ReportedAct::from_event(&followed, &self.attribution)?.called(act.object);
        let decision = followed.decision?;
        self.violation((&followed, process), &act, decision, Weight::Whole)
    }

    /// The row of the process that made the event taken in last, unless the list was full.
    pub fn acting(&self) -> Option<usize> {
        self.acting
    }

    /// The end of the run.
    pub fn finish(mut self) -> Observations {
        let omitted = super::model::Omitted {
            violations: self.violations.omitted(),
            processes: self.processes.omitted(),
            file_operations: self.files.omitted(),
            network_attempts: self.addresses.omitted(),
            // Not of events: the jail's tree is looked at in the end.
            files_changed: 0,
            watchers: 0,
        };
        let mut violations = self.violations.into_rows();
        if !self.attribution.shares_network() {
            self.asked.name(&mut violations);
        }
        violations.retain(|one| {
            let is_explained = self.servers.explain_violation(one);
            !is_explained || !take_back(&self.rules, &mut self.tallies, one)
        });
        let (rules, clock) = (&self.rules, &self.clock);
        let files = self.files.into_rows().into_iter();
        let addresses = self.addresses.into_rows().into_iter();
        let calls = self.calls.into_rows().into_iter();
        Observations {
            violations,
            processes: self.processes.rows(clock),
            file_operations: files.filter_map(|row| row.file(rules, clock)).collect(),
            network_attempts: addresses
                .filter_map(|row| row.network(rules, clock))
                .map(|row| self.servers.as_explained(row))
                .collect(),
            refused_calls: calls.map(|row| row.call(rules, clock)).collect(),
            findings: findings(rules, &self.tallies),
            seen: self.seen,
            speakers: self.speakers,
            failed: self.failed,
            missing: self.next_seq.saturating_sub(self.events),
            unknown_symlinks: self.symlinks.forgotten(),
            omitted,
        }
    }

    fn operation(
        &mut self,
        event: &Event,
        decision: Option<Decision>,
        who: Who,
        act: &ReportedAct,
    ) {
        let table = match act.object {
            Object::File { .. } => &mut self.files,
            Object::Address { .. } => &mut self.addresses,
            Object::Syscall(ref name) => return self.call(event, who, act, name),
        };
        let Some(on) = act.on else {
            return;
        };
        let key = OperationKey {
            on,
            object: act.object.clone().without_argument(),
            outcome: act.outcome,
            errno: act.errno,
            rule: decision.map(|decision| decision.rule),
            for_arguments: act.for_arguments,
        };
        let first = |key: &OperationKey| Row::first(key.clone(), event, &who);
        table.record(key, first, |row| row.again(event, &who));
    }

    /// One that went through is told where a rule speaks of it, and nowhere else. What programs ask for in
    /// passing is no row, only an event.
    fn call(&mut self, event: &Event, who: Who, act: &ReportedAct, name: &str) {
        if act.errno == 0 || is_asked_in_passing(act, name) {
            return;
        }
        let key = CallKey {
            name: name.to_owned(),
            outcome: act.outcome,
            errno: act.errno,
            rule: event.decision.map(|decision| decision.rule),
            for_arguments: act.for_arguments,
        };
        let first = |key: &CallKey| Row::first(key.clone(), event, &who);
        self.calls.record(key, first, |row| row.again(event, &who));
    }

    fn violation(
        &mut self,
        (event, process): (&Event, Option<usize>),
        act: &ReportedAct,
        decision: Decision,
        weight: Weight,
    ) -> Option<&mut Violation> {
        let (rule, on) = (self.rules.get(decision.rule)?, act.on?);
        let on = preparation::kind_of(rule, on, event);
        let act = &ReportedAct {
            on: Some(on),
            ..act.clone()
        };
        let order = self.tallies.len();
        let none = Tally {
            count: 0,
            prepared: 0,
            order,
        };
        let tally = self.tallies.entry(decision.rule).or_insert(none);
        tally.count += 1 + event.repeated;
        if weight == Weight::Preparation {
            tally.prepared += 1 + event.repeated;
        }
        let key = ViolationKey {
            rule: decision.rule,
            action: decision.action,
            on,
            object: act.object.clone(),
            outcome: act.outcome,
            errno: act.errno,
            actor_unknown: unknown::decided(&self.rules, decision, act),
            file_unknown: decision.file_unknown,
            is_prepared: weight == Weight::Preparation,
            process: (process, event.task.pid),
        };
        let first = |key: &ViolationKey| Violation {
            time: self.clock.date(event.time_ns),
            count: 1 + event.repeated,
            process: self.processes.who(process, &event.task),
            advice: match self.attribution.shares_network() {
                true => advice::for_rule_alone(&self.profile, rule, act),
                false => advice::for_rule(&self.profile, rule, act),
            },
            own_directory: key.outcome == Outcome::Allowed
                && self.attribution.is_own_directory(act.object.path()),
            not_shown: self.attribution.shows_nothing_to(event, act.object.path()),
            ..unattended(rule, key)
        };
        self.violations.record(key, first, |violation| {
            violation.count += 1 + event.repeated;
        })
    }
}

/// The violation that rule and key describe; time, process and advice are empty.
fn unattended(rule: &Rule, key: &ViolationKey) -> Violation {
    let empty = Violation {
        time: String::new(),
        count: 1,
        rule: rule.id.clone(),
        severity: preparation::severity(rule, key.is_prepared),
        technique: rule.technique.clone(),
        action: key.action,
        on: key.on,
        result: key.outcome.result(),
        errno: errno_name(key.errno),
        stopped_by: key.outcome.stopper(),
        actor_unknown: key.actor_unknown,
        file_unknown: key.file_unknown,
        own_directory: false,
        not_shown: false,
        process: super::model::Actor::default(),
        path: None,
        host_path: None,
        path_truncated: false,
        access: Vec::new(),
        address: None,
        names: Vec::new(),
        syscall: None,
        raw: None,
        to: None,
        memory: Vec::new(),
        why: rule.why.clone(),
        advice: String::new(),
    };
    match key.object.clone() {
        Object::File {
            path,
            truncated,
            access,
            raw,
            to,
            memory,
        } => {
            // An exec says so in `on`.
            let access = if key.on == AttemptKind::Open {
                access
            } else {
                Vec::new()
            };
            Violation {
                path,
                path_truncated: truncated,
                access,
                raw,
                to,
                memory,
                ..empty
            }
        }
        Object::Address { address, .. } => Violation {
            address: Some(address),
            ..empty
        },
        Object::Syscall(name) => Violation {
            syscall: Some(name),
            ..empty
        },
    }
}

/// Counts a violation no more; false when nothing is known of its rule.
fn take_back(rules: &[Rule], tallies: &mut BTreeMap<usize, Tally>, violation: &Violation) -> bool {
    let rule = rules.iter().position(|rule| rule.id == violation.rule);
    let Some((rule, tally)) = rule.and_then(|rule| Some((rule, tallies.get_mut(&rule)?))) else {
        return false;
    };
    tally.count = tally.count.saturating_sub(violation.count);
    tally.prepared = tally.prepared.min(tally.count);
    if tally.count == 0 {
        tallies.remove(&rule);
    }
    true
}

fn findings(rules: &[Rule], tallies: &BTreeMap<usize, Tally>) -> Vec<Finding> {
    let mut ordered: Vec<_> = tallies.iter().collect();
    ordered.sort_by_key(|(_, tally)| tally.order);
    let is_prepared = |tally: &Tally| tally.count == tally.prepared;
    let mut prepared = ordered.iter().filter(|(_, tally)| is_prepared(tally));
    let first = prepared.next().map(|(index, _)| **index);
    let finding = |(index, tally): (&usize, &Tally)| {
        let rule = rules.get(*index)?;
        let (id, reason) = (rule.id.clone(), rule.why.clone());
        Some(Finding {
            id,
            severity: match is_prepared(tally) {
                false => rule.severity,
                // A tree with symlinks to many files is one preparation.
                true if first == Some(*index) => preparation::severity(rule, true),
                true => Severity::Info,
            },
            score: 0,
            count: tally.count,
            technique: rule.technique.clone(),
            reason,
            evidence: Vec::new(),
            accepted: None,
        })
    };
    ordered.into_iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{
        CREDENTIALS, OUTBOUND, Story, clock, connect, open_failed, opened, policy,
    };
    use super::super::model::Result;
    use super::super::stopper::Stopper;
    use super::*;

    fn observe(story: &Story) -> Observations {
        let mut aggregator = Aggregator::new(&policy(), clock());
        for event in &story.events {
            aggregator.push(event);
        }
        aggregator.finish()
    }

    #[test]
    fn what_differs_in_time_alone_is_one_row() {
        let mut story = Story::command(&["sh"]);
        story.push(2, opened("/usr/lib/a"));
        story.push(3, opened("/usr/lib/a"));
        story.push(2, open_failed("/usr/lib/a", libc::O_WRONLY, libc::EROFS));
        let rows = observe(&story).file_operations;
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.count, row.result, row.stopped_by))
            .collect();
        assert_eq!(
            told,
            [
                (1, Result::Allowed, None),
                (2, Result::Allowed, None),
                (1, Result::Denied, Some(Stopper::Mounts))
            ]
        );
        assert_eq!(rows[1].first_time, "2026-01-02T03:04:05.002000Z");
        assert_eq!(rows[1].last_time, "2026-01-02T03:04:05.003000Z");
    }

    #[test]
    fn an_allowing_rule_is_named_and_is_no_violation() {
        let mut story = Story::command(&["sh"]);
        story.decided(2, opened("/etc/shadow"), CREDENTIALS, RuleAction::Allow);
        let observations = observe(&story);
        assert!(observations.violations.is_empty() && observations.findings.is_empty());
        assert_eq!(
            observations.file_operations[1].rule.as_deref(),
            Some("credential-file")
        );
    }

    #[test]
    fn violations_of_different_processes_stand_apart() {
        let mut story = Story::command(&["sh"]);
        for pid in [2, 3, 2] {
            story.decided(
                pid,
                connect("10.0.0.1:80", libc::EPERM),
                OUTBOUND,
                RuleAction::Deny,
            );
        }
        let observations = observe(&story);
        let told: Vec<_> = observations
            .violations
            .iter()
            .map(|row| (row.process.pid, row.count))
            .collect();
        assert_eq!(told, [(2, 2), (3, 1)]);
        assert_eq!(observations.network_attempts.len(), 1);
        assert_eq!(observations.network_attempts[0].count, 3);
        assert_eq!(observations.findings[0].count, 3);
    }

    #[test]
    fn the_kill_stopped_what_nothing_else_did() {
        let mut story = Story::command(&["sh"]);
        let entry = open_failed("/etc/shadow", libc::O_RDONLY, 0);
        story.decided(2, entry, CREDENTIALS, RuleAction::Kill);
        story.decided(
            2,
            open_failed("/root/.ssh/id_a", 0, libc::ENOENT),
            CREDENTIALS,
            RuleAction::Kill,
        );
        let violations = observe(&story).violations;
        assert_eq!(violations[0].stopped_by, Some(Stopper::Monitor));
        assert_eq!(violations[0].path.as_deref(), Some("/etc/shadow"));
        assert_eq!(violations[0].raw, None);
        assert_eq!(violations[1].stopped_by, Some(Stopper::MountNamespace));
    }

    #[test]
    fn an_argument_that_could_not_be_read_is_said_to_be_so() {
        let mut story = Story::command(&["sh"]);
        let mut kind = open_failed("", 0, libc::EFAULT);
        if let Kind::Open { raw, .. } = &mut kind {
            raw.unreadable = true;
        }
        story.decided(2, kind, CREDENTIALS, RuleAction::Log);
        let observations = observe(&story);
        assert_eq!(observations.violations[0].path, None);
        let raw = observations.violations[0].raw.as_ref();
        assert!(raw.is_some_and(|raw| raw.unreadable));
        assert_eq!(observations.file_operations[1].path, None);
        assert_eq!(
            observations.file_operations[1].errno.as_deref(),
            Some("EFAULT")
        );
    }

    #[test]
    fn a_flood_keeps_its_bounds_and_the_violation_behind_it() {
        let mut story = Story::command(&["sh"]);
        for number in 0..FILES + 10 {
            story.push(2, opened(&format!("/tmp/{number}")));
        }
        story.decided(2, opened("/etc/shadow"), CREDENTIALS, RuleAction::Kill);
        let observations = observe(&story);
        assert_eq!(observations.file_operations.len(), FILES);
        // The exec had a row; ten files and the last one had none.
        assert_eq!(observations.omitted.file_operations, 12);
        assert_eq!(observations.violations.len(), 1);
    }

    #[test]
    fn gaps_are_counted_whatever_the_order() {
        let mut story = Story::command(&["sh"]);
        story.push(2, opened("/usr/lib/a"));
        story.lose(4);
        story.push(2, opened("/usr/lib/b"));
        story.events.swap(0, 1);
        assert_eq!(observe(&story).missing, 4);
    }

    #[test]
    fn a_rule_that_does_not_exist_is_no_panic() {
        let mut story = Story::command(&["sh"]);
        story.decided(2, opened("/etc/shadow"), 99, RuleAction::Kill);
        assert!(observe(&story).violations.is_empty());
    }
}
