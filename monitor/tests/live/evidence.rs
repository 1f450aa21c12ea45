//! Evidence: acts are told or counted as lost, and nothing is in between. Nobody reads the rings while these programs
//! run: a reader that is stopped for the whole of their lives.

use std::collections::BTreeMap;

use turnkey_expectations::expected;
use turnkey_facts::{Address, Decision, Event, Kind, NetworkAct};
use turnkey_monitor::Tier;
use turnkey_policy::{AttemptKind, OnLoss, RuleAction};

use super::harness::{Seen, interrupts_tracepoints_here, kill_reading, policy, python, rule, tier};

/// Opens that differ from one to the next, so that each is a record of its own.
fn flood(opens: u32) -> String {
    format!(
        "import os\nfor _ in range({opens} // 2):\n os.close(os.open('/dev/null', 0))\n os.close(os.open('/dev/zero', 0))\n"
    )
}

/// Every act is in exactly one event or known to be lost, kind by kind; numbers are in order, and
/// as many are missing as records are lost.
#[track_caller]
fn assert_accounted(seen: &Seen) {
    let evidence = &seen.evidence;
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &seen.events {
        *told.entry(name(&event.kind)).or_default() += 1 + event.repeated;
    }
    let counts = evidence.seen.named().into_iter().zip(evidence.lost.named());
    for ((kind, happened), (_, lost)) in counts {
        let told = told.get(kind).copied().unwrap_or(0);
        assert_eq!(told + lost, happened, "{kind}: {evidence:?}");
    }
    assert!(seen.events.is_sorted_by(|one, next| one.seq < next.seq));
    let events = u64::try_from(seen.events.len()).expect("few");
    assert_eq!(events + evidence.lost_records, evidence.records);
    assert_eq!(
        (evidence.missed, evidence.malformed, evidence.faults),
        (0, 0, 0)
    );
}

fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Exec { .. } => "exec",
        Kind::ExecAttempt { .. } => "exec_attempt",
        Kind::Open { .. } => "open",
        Kind::Network { .. } => "connect",
        Kind::Question { .. } => "question",
        Kind::Refused { .. } => "refused",
        Kind::Fork { .. } => "fork",
        Kind::Exit { .. } => "exit",
        Kind::Change {
            on: turnkey_policy::AttemptKind::Stat,
            ..
        } => "look",
        Kind::Change { .. } => "change",
        Kind::Map { .. } => "map",
    }
}

fn decided(event: &Event, action: RuleAction) -> bool {
    event
        .decision
        .is_some_and(|decision| decision.action == action)
}

expected!(
    m20_a_flood_of_opens_hides_no_forbidden_exec: at_night,
    "floods; `live::evidence::m20_a_flood_of_violations` has one by day"
);
#[test]
fn m20_a_flood_of_opens_hides_no_forbidden_exec() {
    let policy = policy(&rule(
        "no",
        "exec",
        "kill",
        "path = [\"/bin/echo\", \"/usr/bin/echo\"]",
    ));
    let program = format!(
        "{}os.execv('/bin/echo', ['echo', 'survived'])",
        flood(1_000_000)
    );
    let seen = python(&policy, &program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_accounted(&seen);
    eprintln!(
        "of {} opens {} are lost; the exec is told",
        seen.evidence.seen.open, seen.evidence.lost.open
    );
    assert!(seen.evidence.seen.open >= 1_000_000);
    assert!(seen.evidence.lost.open > 0 && !seen.evidence.complete);
    // Nor does it hide the processes.
    assert_eq!(seen.evidence.lost.total(), seen.evidence.lost.open);
    let kills = seen
        .events
        .iter()
        .filter(|event| decided(event, RuleAction::Kill));
    let kinds: Vec<&Kind> = kills.map(|event| &event.kind).collect();
    assert!(
        matches!(kinds[..], [Kind::ExecAttempt { raw, .. }] if raw.bytes == b"/bin/echo"),
        "{kinds:?}"
    );
}

#[test]
fn m20_a_flood_of_violations_is_counted_and_hides_no_kill() {
    let rules = [
        rule(
            "often",
            "open",
            "log",
            "path = [\"/dev/null\", \"/dev/zero\"]",
        ),
        kill_reading("/no-such/secret"),
    ];
    let program = format!("{}open('/no-such/secret')", flood(200_000));
    let seen = python(&policy(&rules.concat()), &program);
    seen.assert_killed();
    assert_accounted(&seen);
    assert!(
        seen.evidence.lost.open > 0,
        "both rings were full: {:?}",
        seen.evidence
    );
    let kills = seen
        .events
        .iter()
        .filter(|event| decided(event, RuleAction::Kill));
    assert_eq!(kills.count(), 1);
}

#[test]
fn m20_a_loss_kills_where_the_policy_says_so_though_nobody_reads() {
    let mut policy = policy("");
    let program = format!("{}os.write(1, b'survived')", flood(400_000));
    let control = python(&policy, &program);
    control.assert_lived();
    assert!(control.evidence.lost_records > 0, "the control loses");
    policy.enforcement.on_loss = OnLoss::Kill;
    let seen = python(&policy, &program);
    assert_accounted(&seen);
    assert_eq!(seen.stdout(), "");
    assert!(
        seen.condemned_for_loss && !seen.condemned,
        "{:?}",
        seen.evidence
    );
    // What was under way when the first was lost, and the end of the process.
    assert!(seen.evidence.lost_records <= 3, "{:?}", seen.evidence);
    let kept = python(&policy, "import os\nos.write(1, b'survived')");
    kept.assert_lived();
    assert!(!kept.condemned_for_loss && kept.evidence.complete);
}

expected!(
    m21_many_processes_change_no_decision: not_on WHOLE_MONITOR,
    "1500 processes of an interpreter take an emulated CPU longer than a test may; \
     `monitor::evidence::m21` has smaller ones"
);
#[test]
fn m21_many_processes_change_no_decision() {
    // They sleep, call nothing and so are not killed by a hook, but end with their parent.
    let program = "import ctypes, os, signal\nlibc = ctypes.CDLL(None)\nfor _ in range(1500):\n if os.fork() == 0:\n  libc.prctl(1, 9, 0, 0, 0)\n  signal.pause()\npid = os.fork()\nif pid == 0:\n try: open('/no-such/secret')\n finally: os._exit(0)\n_, status = os.waitpid(pid, 0)\nos.write(1, b'survived')";
    let seen = python(&policy(&kill_reading("/no-such/secret")), program);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_accounted(&seen);
    assert_eq!(seen.evidence.seen.fork, 1501);
    let is_kill = |decision: Decision| decision.rule == 0 && decision.action == RuleAction::Kill;
    let kills = seen.events.iter().filter_map(|event| event.decision);
    assert_eq!(kills.filter(|decision| is_kill(*decision)).count(), 1);
}

#[test]
fn m22_no_run_of_a_program_is_missed_under_load() {
    // Threads and processes that open, connect, fork and end on every CPU at once.
    let program = "import os, socket, threading\ndef work():\n for number in range(200):\n  os.close(os.open('/dev/null', 0))\n  s = socket.socket()\n  try: s.connect(('127.0.0.1', 9))\n  except OSError: pass\n  s.close()\n  if number % 20 == 0:\n   pid = os.fork()\n   if pid == 0: os._exit(0)\n   os.waitpid(pid, 0)\nfor _ in range(3):\n if os.fork() == 0:\n  threads = [threading.Thread(target=work) for _ in range(4)]\n  [thread.start() for thread in threads]\n  [thread.join() for thread in threads]\n  os._exit(0)\nfor _ in range(3): os.wait()";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    // Each is refused once. A call that is interrupted is made again, and is a call more.
    let refused = |event: &&Event| {
        let errno = match event.kind {
            Kind::Network { errno, .. } => errno,
            _ => 0,
        };
        errno == nix::libc::EPERM || errno == nix::libc::ECONNREFUSED
    };
    let connects = seen.events.iter().filter(refused);
    let connects: u64 = connects.map(|event| 1 + event.repeated).sum();
    assert_eq!(connects, 3 * 4 * 200, "{}", seen.tell());
    let (forks, missed) = (seen.evidence.seen.fork, seen.evidence.missed);
    if interrupts_tracepoints_here() && missed > 0 {
        // Those that tell of new processes can be left out there, and decide nothing; the run says so.
        assert!(!seen.evidence.complete, "{:?}", seen.evidence);
        assert!(forks + missed >= 3 + 3 * 4 * 10, "{:?}", seen.evidence);
        return;
    }
    assert_accounted(&seen);
    assert!(seen.evidence.complete, "{:?}", seen.evidence);
    assert_eq!(forks, 3 + 3 * 4 * 10);
}

/// Counts how often a path was opened, by the events, and how many events that took.
fn opens(seen: &Seen, path: &str) -> (u64, usize) {
    let of_path = |event: &&Event| matches!(&event.kind, Kind::Open { raw, .. } if raw.bytes == path.as_bytes());
    let events: Vec<&Event> = seen.events.iter().filter(of_path).collect();
    let acts = events.iter().map(|event| 1 + event.repeated).sum();
    (acts, events.len())
}

#[test]
fn what_repeats_is_counted_and_not_sent_again() {
    let program = "import os\nfor _ in range(200000):\n os.close(os.open('/dev/null', 0))";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    assert_accounted(&seen);
    assert!(
        seen.evidence.complete,
        "nothing is lost: {:?}",
        seen.evidence
    );
    let (acts, events) = opens(&seen, "/dev/null");
    assert_eq!(acts, 200_000);
    eprintln!("200000 opens are {events} events");
    // The first, and then one for every second.
    assert!(events < 60, "{events}");
    let mut last = 0;
    for event in seen.events.iter().filter(|event| event.repeated > 0) {
        assert!(event.last_ns > event.time_ns && event.time_ns > last);
        last = event.last_ns;
    }
    let end = seen.events.last().expect("the end of the process");
    assert!(
        matches!(end.kind, Kind::Exit { .. }) && end.time_ns >= last,
        "the count is told first"
    );
}

#[test]
fn a_count_is_told_before_what_comes_next() {
    let program = "import os\nfor path in ['/dev/null'] * 3 + ['/dev/zero'] + ['/dev/null'] * 2:\n os.close(os.open(path, 0))";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    assert_accounted(&seen);
    let told: Vec<(String, u64)> = seen
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            Kind::Open { raw, .. } => {
                let path = String::from_utf8_lossy(&raw.bytes).into_owned();
                path.starts_with("/dev/")
                    .then_some((path, 1 + event.repeated))
            }
            _ => None,
        })
        .collect();
    let expected = [
        ("/dev/null", 1),
        ("/dev/null", 2),
        ("/dev/zero", 1),
        ("/dev/null", 1),
        ("/dev/null", 1),
    ];
    assert_eq!(told, expected.map(|(path, acts)| (path.to_owned(), acts)));
}

#[test]
fn what_is_refused_is_told_each_time() {
    let rules = rule("out", "connect", "deny", "");
    let program = "import socket\nfor _ in range(40):\n s = socket.socket()\n try: s.connect(('192.0.2.1', 9))\n except OSError: pass\n s.close()";
    let seen = python(&policy(&rules), program);
    seen.assert_lived();
    assert_accounted(&seen);
    assert_eq!(seen.decisions(), [(0, RuleAction::Deny); 40]);
    // Without a rule it is refused as well, and counted.
    let counted = python(&policy(""), program);
    counted.assert_lived();
    assert_accounted(&counted);
    assert_eq!(counted.evidence.seen.connect, 40);
    let connects = counted.kinds(|kind| matches!(kind, Kind::Network { .. }).then_some(()));
    assert!(connects.len() < 10, "{}", counted.tell());
}

expected!(
    m20_a_million_violations_under_observe_are_counted_exactly: at_night,
    "a million; `live::evidence::m20_a_flood_of_violations` has fewer"
);
#[test]
fn m20_a_million_violations_under_observe_are_counted_exactly() {
    let mut policy = policy(&rule("often", "open", "kill", "path = [\"/dev/null\"]"));
    policy.enforcement.mode = turnkey_policy::EnforcementMode::Observe;
    let program = "import os\nfor _ in range(1000000):\n os.close(os.open('/dev/null', 0))";
    let seen = python(&policy, program);
    seen.assert_lived();
    assert_accounted(&seen);
    assert!(seen.evidence.complete, "{:?}", seen.evidence);
    let violations = seen
        .events
        .iter()
        .filter(|event| decided(event, RuleAction::Log));
    let acts: u64 = violations.map(|event| 1 + event.repeated).sum();
    assert_eq!(acts, 1_000_000);
}

#[test]
fn a_count_is_not_lost_with_its_thread() {
    // A thread that is not the first execs: its number ends without an end of a thread.
    let program = "import os, threading\ndef work():\n for _ in range(500): os.close(os.open('/dev/null', 0))\n os.execv('/bin/true', ['true'])\nthread = threading.Thread(target=work)\nthread.start()\nthread.join()";
    let seen = python(&policy(""), program);
    seen.assert_lived();
    assert_accounted(&seen);
    assert!(seen.evidence.complete, "{:?}", seen.evidence);
    assert_eq!(opens(&seen, "/dev/null").0, 500);
    // Killed in the middle of it.
    let program = "import os, signal\nfor _ in range(500): os.close(os.open('/dev/null', 0))\nos.kill(os.getpid(), signal.SIGKILL)";
    let seen = python(&policy(""), program);
    assert_accounted(&seen);
    assert!(seen.evidence.complete, "{:?}", seen.evidence);
    assert_eq!(opens(&seen, "/dev/null").0, 500);
}

#[test]
fn random_programs_are_told_exactly() {
    // More threads than slots, in three processes; each says in the end what it did.
    let program = "import collections, os, random, sys, threading\nPATHS = ['/dev/null', '/dev/zero', '/no-such-file', '/dev/full']\ndef work(seed, done):\n choice = random.Random(seed)\n for _ in range(12):\n  path = choice.choice(PATHS)\n  for _ in range(choice.choice([1, 1, 2, 3, 50])):\n   try: os.close(os.open(path, 0))\n   except OSError: pass\n   done[path] += 1\nfor process in range(3):\n if os.fork() == 0:\n  counts = [collections.Counter() for _ in range(90)]\n  threads = [threading.Thread(target=work, args=(SEED + process * 90 + n, counts[n])) for n in range(90)]\n  [thread.start() for thread in threads]\n  [thread.join() for thread in threads]\n  whole = sum(counts, collections.Counter())\n  os.write(1, ''.join(f'{path} {count}\\n' for path, count in whole.items()).encode())\n  os._exit(0)\nfor _ in range(3): os.wait()";
    for seed in [1, 1000, 2000] {
        let seen = python(&policy(""), &program.replace("SEED", &seed.to_string()));
        seen.assert_lived();
        assert_accounted(&seen);
        assert!(seen.evidence.complete, "{:?}", seen.evidence);
        let mut did: BTreeMap<String, u64> = BTreeMap::new();
        for line in seen.stdout().lines() {
            let (path, count) = line.split_once(' ').expect("a path and a count");
            *did.entry(path.to_owned()).or_default() += count.parse::<u64>().expect("a count");
        }
        assert_eq!(did.len(), 4);
        for (path, count) in did {
            assert_eq!(opens(&seen, &path).0, count, "{path}");
        }
    }
}

/// A connect waits for a listener without room. As many threads as follow each other connect meanwhile: one of
/// them has a number that shares its place in any small table.
const WAITS: &str = "import socket, struct, threading, time
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(0)
there = listener.getsockname()
first = socket.create_connection(there)
waiting = socket.socket()
def wait():
 try: waiting.connect(there)
 except OSError: pass
thread = threading.Thread(target=wait)
thread.start()
path = '/proc/self/task/%d/syscall' % thread.native_id
while not open(path).read().startswith('42 '): time.sleep(0.001)
def refused():
 with socket.socket() as s: s.connect_ex(('127.0.0.1', 9))
for _ in range(256):
 other = threading.Thread(target=refused)
 other.start()
 other.join()
waiting.shutdown(socket.SHUT_RDWR)
thread.join()
print(there[1])";

#[test]
fn a_call_that_waits_is_told_once_whatever_other_threads_do_meanwhile() {
    let seen = python(&policy("[network]\nmode = \"loopback\"\n"), WAITS);
    seen.assert_lived();
    let port: u16 = seen.stdout().trim().parse().expect("a port");
    let connects = |port: u16| -> u64 {
        let to = |event: &&Event| match &event.kind {
            Kind::Network {
                act: NetworkAct::Connect,
                address: Address::Inet(address),
                ..
            } => address.port() == port,
            _ => false,
        };
        let events = seen.events.iter().filter(to);
        events.map(|event| 1 + event.repeated).sum()
    };
    assert_eq!(connects(9), 256, "{}", seen.tell());
    assert_eq!(connects(port), 2, "{}", seen.tell());
}

/// A call in which the kernel asks a hook of BPF LSM, and whose end nobody looks at: read(2) of another process's state.
const LOOKED_AT: &str = "import os, signal
pid = os.fork()
if pid == 0: signal.pause()
descriptor = os.open('/proc/%d/syscall' % pid, 0)
try: os.read(descriptor, 99)
except OSError as error: print(error.errno)
os.open('/dev/zero', 0)
os.kill(pid, 9)
os.wait()";

#[test]
fn what_only_a_hook_is_asked_about_is_told_by_it_and_so_is_what_follows() {
    let seen = python(&policy(&rule("other", "ptrace", "log", "")), LOOKED_AT);
    seen.assert_lived();
    assert_eq!(opens(&seen, "/dev/zero").0, 1, "{}", seen.tell());
    let told = seen.events.iter().filter(|event| {
        let by_rule = event.decision.as_ref().is_some_and(|one| one.rule == 0);
        let of_read = matches!(
            event.kind,
            Kind::Refused {
                nr: 0,
                on: Some(AttemptKind::Ptrace),
                errno: 0,
                ..
            }
        );
        by_rule && of_read
    });
    // Without BPF LSM nobody knows of it.
    let expected = usize::from(tier() == Tier::Lsm);
    assert_eq!(told.count(), expected, "{}", seen.tell());
}

#[test]
fn what_only_a_hook_is_asked_about_is_denied_by_it() {
    if tier() != Tier::Lsm {
        return;
    }
    let seen = python(&policy(&rule("other", "ptrace", "deny", "")), LOOKED_AT);
    seen.assert_lived();
    assert_eq!(seen.stdout(), "1\n", "{}", seen.tell());
    assert_eq!(opens(&seen, "/dev/zero").0, 1, "{}", seen.tell());
}
