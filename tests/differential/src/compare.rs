//! Holds what was told against what was seen: each call of a class that is told of is in one event, or one repetition,
//! in the order in which its thread made them, and nothing else is told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::address::{PORT, is_v4, port};
use crate::encode::Placed;
use crate::expect::{Context, Expected, Text, expected};
use crate::jail::Outcome;
use crate::program::{Arg, Op, Program};
use crate::renames;
use crate::shape::{Class, shape};
use crate::stops::Looked;
use crate::told::mismatch;
use crate::trace::Seen;
use crate::width::word;

/// How often each class was reached, with success and without.
pub type Reached = BTreeMap<(&'static str, bool), u64>;

/// What does not agree; nothing when all does.
pub fn disagreement(program: &Program, outcome: &Outcome) -> Option<String> {
    let context = context(program, outcome);
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
        let looked = outcome
            .stopped
            .as_ref()
            .and_then(|it| it.calls.get(&thread));
        if let Some(found) = of_thread_differs(thread, (calls, looked), &told, (outcome, &context))
        {
            let evidence = &outcome.report["events"];
            let (complete, lost) = (&evidence["complete"], &evidence["lost"]);
            return Some(format!(
                "thread {thread}: {found}; turnkey says complete {complete}, lost {lost}"
            ));
        }
    }
    processes(outcome)
        .or_else(|| numbers(outcome))
        .or_else(|| report(outcome))
}

/// True when the kernel asks BPF before acts.
fn has_hooks(outcome: &Outcome) -> bool {
    let mut layers = outcome.report["enforcement"]
        .as_array()
        .into_iter()
        .flatten();
    layers.any(|layer| {
        layer["layer"] == "monitor"
            && layer["effective"]
                .as_str()
                .is_some_and(|it| it.starts_with("lsm"))
    })
}

/// True when every clone3(2) of the program asks for a namespace; nothing when some do. The filter answers before anybody
/// sees the arguments of one.
fn asks_for_namespaces(program: &Program) -> Option<bool> {
    const NEW: u64 = 0x7e02_0080;
    let calls = program.ops().filter_map(|op| match op {
        Op::Call(call) if call.name == "clone3" => Some(match call.args.first() {
            Some(Arg::Bytes(bytes)) => {
                let flags = bytes.get(..8).and_then(|flags| flags.try_into().ok());
                flags.is_some_and(|flags| u64::from_le_bytes(flags) & NEW != 0)
            }
            _ => false,
        }),
        _ => None,
    });
    let all: BTreeSet<bool> = calls.collect();
    match all.len() {
        0 | 1 => Some(all.contains(&true)),
        _ => None,
    }
}

/// True when some socket was connected to a name server.
fn asks(outcome: &Outcome) -> bool {
    connects(outcome, |bytes| port(bytes) == Some(PORT))
}

/// True when some socket of IPv6 was connected to an address of IPv4, as either of them writes it.
fn is_mapped(outcome: &Outcome) -> bool {
    const SOCKET: i64 = 41;
    const AF_INET6: u32 = 10;
    let is_made = |seen: &Seen| {
        let is_socket = seen.number == SOCKET && seen.result.is_some_and(|it| it >= 0);
        is_socket && seen.args.is_some_and(|args| word(args[0]) == AF_INET6)
    };
    outcome.calls.values().flatten().any(is_made) && connects(outcome, is_v4)
}

/// True when some socket was connected to such an address, or to one that is not known.
fn connects(outcome: &Outcome, is_such: fn(&[u8]) -> bool) -> bool {
    const CONNECT: i64 = 42;
    const DONE: [i64; 2] = [0, -115];
    outcome.calls.values().flatten().any(|seen| {
        let is_done = seen.number == CONNECT && seen.result.is_some_and(|it| DONE.contains(&it));
        is_done
            && match seen.args.and_then(|args| outcome.encoded.at(args[1])) {
                Some(Placed::Bytes(bytes)) => is_such(bytes),
                _ => true,
            }
    })
}

/// True when something was mapped where the program said, or may have been.
fn maps(outcome: &Outcome) -> bool {
    const MMAP: i64 = 9;
    let is_there = |seen: &Seen| match (seen.number, seen.args, seen.result) {
        (MMAP, Some(args), Some(result)) => {
            // Where the interpreter has its own.
            let is_own = [0x1000_0000, 0x2000_0000, 0x3000_0000].contains(&args[0]);
            args[0] != 0 && !is_own && result >= 0
        }
        _ => false,
    };
    outcome.calls.values().flatten().any(is_there)
}

/// Acts that a rule denies or kills for are told by themselves, each time.
pub fn counted(outcome: &Outcome) -> Option<String> {
    let is_hard = |event: &&Value| {
        let action = event["decision"]["action"].as_str().unwrap_or_default();
        ["deny", "kill"].contains(&action) && event["repeated"].is_number()
    };
    let found = outcome.events.iter().find(is_hard);
    found.map(|event| format!("it is counted and not told: {event}"))
}

/// Events are numbered without gaps, and each process has one number in the jail.
fn numbers(outcome: &Outcome) -> Option<String> {
    let mut known: BTreeMap<u64, &Value> = BTreeMap::new();
    for (index, event) in outcome.events.iter().enumerate() {
        if event["seq"].as_u64() != u64::try_from(index).ok() {
            return Some(format!("the number should be {index}: {event}"));
        }
        let process = &event["process"];
        let made = [&event["child"], process];
        for one in made.into_iter().filter(|one| one.is_object()) {
            let host = one["host_pid"].as_u64().unwrap_or_default();
            let pid = *known.entry(host).or_insert(&one["pid"]);
            if *pid != one["pid"] {
                return Some(format!("process {host} is {pid} and here another: {event}"));
            }
        }
    }
    None
}

/// The facts that are known of a run besides its calls.
pub fn context<'a>(program: &Program, outcome: &'a Outcome) -> Context<'a> {
    Context {
        encoded: &outcome.encoded,
        stays: stays(program),
        stops: outcome.stopped.is_some(),
        clone3: asks_for_namespaces(program),
        has_loopback: outcome.way.has_loopback,
        asks: asks(outcome),
        is_mapped: is_mapped(outcome),
        shares: shares(program),
        maps: maps(outcome),
        has_hooks: has_hooks(outcome),
    }
}

/// True when somebody may have the descriptors of another.
fn shares(program: &Program) -> bool {
    const CLONE_FILES: u64 = 0x400;
    program.ops().any(|op| match op {
        Op::Spawn { flags, .. } => flags & CLONE_FILES != 0,
        Op::Call(call) => matches!(call.name.as_str(), "clone" | "clone3"),
        Op::Exec { .. } | Op::Flip { .. } | Op::Forget { .. } => false,
    })
}

/// Nobody changes its working directory.
fn stays(program: &Program) -> bool {
    program.ops().all(|op| match op {
        Op::Call(call) => !matches!(call.name.as_str(), "chdir" | "fchdir"),
        Op::Exec { .. } | Op::Spawn { .. } | Op::Flip { .. } | Op::Forget { .. } => true,
    })
}

/// With these words begins what is said of a text that was there and is told as unreadable: a page can be away for a
/// moment when the call returns.
pub const BLIND: &str = "told as unreadable, and it can be read";

/// Part of what is said of memory that could not be looked at, as another thread held its lock.
pub const BUSY: &str = r#""memory":["unknown"]"#;

/// Goes along what has to be told and what is; where something may be left out, both ways.
fn of_thread_differs(
    thread: u32,
    (calls, looked): (&[Seen], Option<&Vec<Looked>>),
    told: &[&Value],
    (outcome, context): (&Outcome, &Context<'_>),
) -> Option<String> {
    let looks = pair(calls, looked);
    let mut reached = BTreeSet::from([0]);
    let mut hidden = 0;
    for (index, (seen, looked)) in calls.iter().zip(looks).enumerate() {
        for mut one in expected(seen, looked, context) {
            if one.kinds == ["open"] && renames::meanwhile(&outcome.calls, thread, index) {
                one.path = Text::Any;
            }
            let texts = ["open", "change", "look", "exec_attempt"];
            let has_text = one.kinds.iter().any(|kind| texts.contains(kind));
            hidden += usize::from(match one.argument {
                Text::OneOf(_) => false,
                Text::Any => has_text,
                Text::Late(_) | Text::Unreadable => true,
            });
            let mut next = BTreeSet::new();
            for at in &reached {
                if told
                    .get(*at)
                    .is_some_and(|told| mismatch(&one, told, context.has_hooks).is_none())
                {
                    next.insert(at + 1);
                }
                if one.is_optional {
                    next.insert(*at);
                }
            }
            if next.is_empty() {
                let hooks = context.has_hooks;
                return Some(complain(seen, &one, (&reached, told), hooks));
            }
            reached = next;
        }
    }
    let unreadable = told
        .iter()
        .filter(|event| event["raw"]["unreadable"] == true);
    let blind = unreadable.count().saturating_sub(hidden);
    let last = reached.last().copied().unwrap_or_default();
    if last != told.len() {
        return Some(format!("told, and nobody did it: {}", brief(told[last])));
    }
    let last = told
        .iter()
        .rfind(|event| event["raw"]["unreadable"] == true);
    (blind > 0).then(|| {
        format!(
            "{BLIND}: {blind} texts, {}",
            last.map_or(Value::Null, |it| brief(it))
        )
    })
}

fn complain(
    seen: &Seen,
    one: &Expected,
    (reached, told): (&BTreeSet<usize>, &[&Value]),
    has_hooks: bool,
) -> String {
    let at = reached.last().copied().unwrap_or_default();
    match told.get(at) {
        None => format!("{} is told nowhere; expected {one:?}", line(seen)),
        Some(event) => format!(
            "{}: {}; told {}",
            line(seen),
            mismatch(one, event, has_hooks).unwrap_or_default(),
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
pub fn pair<'a>(calls: &[Seen], looked: Option<&'a Vec<Looked>>) -> Vec<Option<&'a Looked>> {
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
            Some("exit") => {
                let code = event["exit"]["code"].as_i64();
                let signal = event["exit"]["signal"].as_i64().map(|signal| -signal);
                let end = end_of(outcome, process);
                if end.is_some() && code.or(signal) != end {
                    return Some(format!("the end is {end:?}: {event}"));
                }
            }
            _ => {}
        }
    }
    (!alive.is_empty()).then(|| format!("no end is told of {alive:?}"))
}

/// The end of a process, if somebody saw it; who executes something else in a thread takes the place of the first one.
fn end_of(outcome: &Outcome, process: u64) -> Option<i64> {
    let stopped = outcome.stopped.as_ref()?;
    let process = u32::try_from(process).ok()?;
    stopped.ends.get(&process).map(|end| i64::from(*end))
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
    let mut aliases = SymlinkNames::default();
    let decided: BTreeSet<String> = (outcome.events.iter())
        .filter(|event| aliases.note(event))
        .filter(|event| event["decision"]["action"] != "allow")
        .filter(|event| !is_own_server(event, &outcome.events))
        .filter(|event| !is_order_of_any_address(event))
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

/// True for a server at every address to which the program itself came, which a report does not hold against it.
fn is_own_server(event: &Value, all: &[Value]) -> bool {
    let port = |event: &Value| {
        let address = event["address"].as_str()?;
        address.rsplit(':').next().map(str::to_owned)
    };
    let came = |other: &Value| {
        matches!(other["kind"].as_str(), Some("connect" | "send"))
            && other["errno"].is_null()
            && port(other) == port(event)
    };
    event["decision"]["rule"] == "network-listen" && all.iter().any(came)
}

/// True for a datagram socket's refused connect to any address, by which the C library puts that one in order: a report holds it against
/// nobody. An IPv4 socket that is given an address of version 6 asks the kernel about that one as well.
fn is_order_of_any_address(event: &Value) -> bool {
    let address = event["address"].as_str().unwrap_or_default();
    let is_any = ["0.0.0.0:", "[::]:"]
        .iter()
        .any(|any| address.starts_with(any));
    is_any
        && event["kind"] == "connect"
        && event["socket"] == "datagram"
        && event["errno"] == "EPERM"
}

/// Names that a symlink of the run may have in its directory, and directories on the way to one.
#[derive(Default)]
struct SymlinkNames(BTreeSet<String>);

impl SymlinkNames {
    /// Takes in the next event. False when the decision on it, as on a name that may lead to a file of the rule's, is known to be about
    /// none: what was renamed or linked was no symlink of the run.
    fn note(&mut self, event: &Value) -> bool {
        let name = |key: &str| event[key].as_str().unwrap_or_default();
        let (old, new) = (name("path"), name("to"));
        if event["kind"] != "change" || new.is_empty() {
            return true;
        }
        let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let is_one = |path: &str| parts(path).last().is_none_or(|last| self.0.contains(last));
        let moves_one = is_one(old) || is_one(new);
        let is_new = event["access"][0] == "write";
        match (is_new, moves_one) {
            // One that was not made is at no name.
            (true, _) if !event["errno"].is_null() => {}
            (true, _) => self.0.extend(parts(old)),
            (false, true) => self.0.extend([parts(old), parts(new)].concat()),
            (false, false) => {}
        }
        let is_plain = [old, new].iter().all(|path| {
            let goes_back = parts(path).iter().any(|part| part == "..");
            !goes_back && !path.starts_with("/proc") && !path.starts_with("/dev")
        });
        let is_unknown = event["decision"]["file_unknown"] == true;
        is_new || moves_one || !is_plain || !is_unknown
    }
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
            Class::Attribute | Class::Times => "attribute",
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
    // What follows from calls, and has events of its own.
    for event in &outcome.events {
        let (class, is_success) = match event["kind"].as_str() {
            Some("question") => ("question", event["errno"].is_null()),
            Some("exit") => ("exit", event["exit"]["code"] == 0),
            _ => continue,
        };
        *reached.entry((class, is_success)).or_default() += 1;
    }
}
