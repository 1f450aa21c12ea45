//! Holds what was told against what was seen: each call of a class that is told of is in one event, or one repetition,
//! in the order in which its thread made them, and nothing else is told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::expect::{Context, Expected, Text, expected, mismatch};
use crate::jail::Outcome;
use crate::program::{Op, Program};
use crate::shape::{Class, shape};
use crate::stops::Looked;
use crate::trace::Seen;

/// How often each class was reached, with success and without.
pub type Reached = BTreeMap<(&'static str, bool), u64>;

/// What does not agree; nothing when all does.
pub fn disagreement(program: &Program, outcome: &Outcome) -> Option<String> {
    let context = Context {
        encoded: &outcome.encoded,
        stays: stays(program),
        stops: outcome.stopped.is_some(),
    };
    let told = outcome.told();
    let is_end = |event: &&Value| event["kind"] == "exit";
    let nobody = Vec::new();
    let mut threads: BTreeSet<u32> = outcome.calls.keys().copied().collect();
    threads.extend(told.keys());
    for thread in threads {
        let of_thread = told.get(&thread).unwrap_or(&nobody);
        let is_init = of_thread.iter().any(|event| event["process"]["pid"] == 1);
        let mut told: Vec<&Value> = of_thread.iter().filter(|it| !is_end(it)).copied().collect();
        if is_init && !told.is_empty() {
            return Some(format!("the init does something: {}", told[0]));
        }
        // Before anybody looked.
        if thread == outcome.first && told.first().is_some_and(|it| it["kind"] == "exec") {
            told.remove(0);
        }
        let calls = outcome.calls.get(&thread).map_or(&[][..], Vec::as_slice);
        let looked = outcome.stopped.as_ref().and_then(|it| it.get(&thread));
        if let Some(found) = of_thread_differs(calls, looked, &told, &context) {
            let evidence = &outcome.report["events"];
            let (complete, lost) = (&evidence["complete"], &evidence["lost"]);
            return Some(format!(
                "thread {thread}: {found}; turnkey says complete {complete}, lost {lost}"
            ));
        }
    }
    processes(outcome).or_else(|| report(outcome))
}

/// Nobody changes its working directory.
fn stays(program: &Program) -> bool {
    program.ops().all(|op| match op {
        Op::Call(call) => !matches!(call.name.as_str(), "chdir" | "fchdir"),
        Op::Exec { .. } | Op::Spawn { .. } | Op::Flip { .. } | Op::Forget { .. } => true,
    })
}

/// So many texts of a thread may be told as unreadable that were there: a page can be away for a moment when the call
/// returns. A campaign of 209 579 calls had three.
const BLIND: usize = 2;

/// Goes along what has to be told and what is; where something may be left out, both ways.
fn of_thread_differs(
    calls: &[Seen],
    looked: Option<&Vec<Looked>>,
    told: &[&Value],
    context: &Context<'_>,
) -> Option<String> {
    let looks = pair(calls, looked);
    let mut reached = BTreeSet::from([0]);
    let mut hidden = 0;
    for (seen, looked) in calls.iter().zip(looks) {
        for one in expected(seen, looked, context) {
            hidden += usize::from(!matches!(one.argument, Text::OneOf(_)));
            let mut next = BTreeSet::new();
            for at in &reached {
                if told
                    .get(*at)
                    .is_some_and(|told| mismatch(&one, told).is_none())
                {
                    next.insert(at + 1);
                }
                if one.is_optional {
                    next.insert(*at);
                }
            }
            if next.is_empty() {
                return Some(complain(seen, &one, &reached, told));
            }
            reached = next;
        }
    }
    let unreadable = told
        .iter()
        .filter(|event| event["raw"]["unreadable"] == true);
    let blind = unreadable.count().saturating_sub(hidden);
    if blind > BLIND {
        return Some(format!(
            "{blind} texts that could be read are told as unreadable"
        ));
    }
    let last = reached.last().copied().unwrap_or_default();
    (last != told.len()).then(|| format!("told, and nobody did it: {}", brief(told[last])))
}

fn complain(seen: &Seen, one: &Expected, reached: &BTreeSet<usize>, told: &[&Value]) -> String {
    let at = reached.last().copied().unwrap_or_default();
    match told.get(at) {
        None => format!("{} is told nowhere; expected {one:?}", line(seen)),
        Some(event) => format!(
            "{}: {}; told {}",
            line(seen),
            mismatch(one, event).unwrap_or_default(),
            brief(event)
        ),
    }
}

/// An event without what is the same in all.
fn brief(event: &Value) -> Value {
    let mut event = event.clone();
    if let Some(object) = event.as_object_mut() {
        object.retain(|key, _| {
            !["process", "time", "last_time", "stopped_by"].contains(&key.as_str())
        });
    }
    event
}

/// A call, as a line of text.
pub fn line(seen: &Seen) -> String {
    let number = u32::try_from(seen.number).ok();
    let name = number
        .and_then(turnkey_policy::syscalls::name)
        .unwrap_or("?");
    let args = seen
        .args
        .map(|args| args.map(|arg| format!("{arg:#x}")).join(", "));
    let args = args.unwrap_or_else(|| "by the filter".to_owned());
    format!("{name}({args}) = {:?}", seen.result)
}

/// What the one observer saw of each call of the other, as long as both saw the same.
fn pair<'a>(calls: &[Seen], looked: Option<&'a Vec<Looked>>) -> Vec<Option<&'a Looked>> {
    let mut looked = looked.map_or(&[][..], Vec::as_slice).iter().peekable();
    let one = |seen: &Seen| {
        // What was begun before anybody looked, and ends now.
        let same = |looked: &&&Looked| looked.number == seen.number && looked.result == seen.result;
        looked.next_if(|looked| same(&looked))
    };
    calls.iter().map(one).collect()
}

/// Each process that was made ends once.
fn processes(outcome: &Outcome) -> Option<String> {
    let mut alive = BTreeSet::from([u64::from(outcome.first)]);
    for event in &outcome.events {
        if event["process"]["pid"] == 1 {
            continue;
        }
        let process = event["process"]["host_pid"].as_u64().unwrap_or_default();
        match event["kind"].as_str() {
            Some("fork") => {
                alive.insert(event["child"]["host_pid"].as_u64().unwrap_or_default());
            }
            Some("exit") if !alive.remove(&process) => {
                return Some(format!("an end of nobody: {event}"));
            }
            _ => {}
        }
    }
    (!alive.is_empty()).then(|| format!("no end is told of {alive:?}"))
}

/// The report counts what the events are, and its verdict follows from them.
fn report(outcome: &Outcome) -> Option<String> {
    let report = &outcome.report;
    if report["events"]["complete"] != true {
        return Some(format!(
            "the evidence is not complete: {}",
            report["events"]
        ));
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &outcome.events {
        let times = 1 + event["repeated"].as_u64().unwrap_or_default();
        *counts
            .entry(event["kind"].as_str().unwrap_or_default())
            .or_default() += times;
    }
    let seen = report["events"]["seen"].as_object();
    for (kind, count) in seen.into_iter().flatten() {
        let told = counts.get(kind.as_str()).copied().unwrap_or_default();
        if count.as_u64() != Some(told) {
            return Some(format!("{kind}: seen {count}, told {told}"));
        }
    }
    let heavy = |list: &str, key: &str| {
        let rows = report[list].as_array().into_iter().flatten();
        let rows = rows.filter_map(|row| row[key].as_str());
        rows.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let severities = heavy("findings", "severity");
    let verdict = match () {
        () if severities.contains("high") || severities.contains("critical") => "violated",
        () if severities.contains("medium") || severities.contains("low") => "suspicious",
        () => "clean",
    };
    let decided: BTreeSet<String> = (outcome.events.iter())
        .filter(|event| event["decision"]["action"] != "allow")
        .filter_map(|event| event["decision"]["rule"].as_str().map(str::to_owned))
        .collect();
    let found = heavy("findings", "id");
    if let Some(rule) = decided.iter().find(|rule| !found.contains(*rule)) {
        return Some(format!("the rule {rule} decided and is no finding"));
    }
    (report["verdict"] != verdict).then(|| {
        format!(
            "the verdict is {} and should be {verdict}",
            report["verdict"]
        )
    })
}

/// Counts what a run reached.
pub fn count(outcome: &Outcome, reached: &mut Reached) {
    for seen in outcome.calls.values().flatten() {
        let Some(result) = seen.result else {
            continue;
        };
        let class = match shape(seen.number).class {
            Class::None if seen.args.is_none() && seen.number >= 0 => "refused",
            Class::None => "none",
            Class::Open => "open",
            Class::Exec => "exec",
            Class::Change(access) => access,
            Class::Make => "make",
            Class::Symlink => "symlink",
            Class::Attribute => "attribute",
            Class::Look => "look",
            Class::Map => "map",
            Class::Address(kind) => kind,
            Class::Send => "send",
            Class::Listen => "listen",
            Class::Fork => "fork",
            Class::Guarded => "guarded",
        };
        *reached.entry((class, result >= 0)).or_default() += 1;
    }
}
