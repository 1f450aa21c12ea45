//! The steps of a start and their time: every system call that is made for it, as bpftrace sees them begin and end.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::bpftrace;
use super::findings::{FindingsBlock, digits};
use super::peers::{BUBBLEWRAP, Present};
use super::rounds::Phase;
use super::stage::{BenchStage, timed};
use super::start::turnkey;

const PROGRAM: [&str; 1] = ["/bin/true"];

/// So many of the most expensive ones are shown of a warm start, and of a cold one.
const SHOWN: usize = 20;
const SHOWN_COLD: usize = 5;

/// Calls that wait for somebody else, whose time is that one's.
const WAITS: [&str; 16] = [
    "accept4",
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_wait",
    "futex",
    "pause",
    "poll",
    "ppoll",
    "read",
    "recvfrom",
    "recvmsg",
    "restart_syscall",
    "rt_sigtimedwait",
    "select",
    "wait4",
    "waitid",
];

/// The script that watches a process from its exec of PROGRAM on, with all that comes of it. `@n` and `@ns` count calls and
/// sum their time, by whether the process itself made them or one that came of it, and by number; those of bpf(2) by their command.
const SCRIPT: &str = r#"tracepoint:syscalls:sys_enter_execve /str(args->filename) == "PROGRAM"/ { @of[tid] = 1; @first[pid] = 1; }
tracepoint:sched:sched_process_fork /@of[tid]/ { @of[args->child_pid] = 1; }
tracepoint:raw_syscalls:sys_enter /@of[tid]/ { @at[tid] = nsecs; @nr[tid] = args->id == BPF ? COMMANDS + args->args[0] : args->id; }
tracepoint:raw_syscalls:sys_exit /@at[tid]/ { $first = @first[pid]; @ns[$first, @nr[tid]] = sum(nsecs - @at[tid]); @n[$first, @nr[tid]] = count(); delete(@at[tid]); }
tracepoint:sched:sched_process_exit /@of[tid]/ { delete(@of[tid]); delete(@at[tid]); }
END { clear(@of); clear(@first); clear(@at); clear(@nr); }"#;

/// bpf(2), and where its commands are counted.
const BPF: &str = "321";
const COMMANDS: u64 = 1_000_000;
/// The commands that have a name on the page, `enum bpf_cmd` of linux/bpf.h.
const NAMED: [(u64, &str); 10] = [
    (0, "BPF_MAP_CREATE"),
    (1, "BPF_MAP_LOOKUP_ELEM"),
    (2, "BPF_MAP_UPDATE_ELEM"),
    (3, "BPF_MAP_DELETE_ELEM"),
    (5, VERIFIER),
    (7, "BPF_OBJ_GET"),
    (15, "BPF_OBJ_GET_INFO_BY_FD"),
    (18, "BPF_BTF_LOAD"),
    (22, "BPF_MAP_FREEZE"),
    (28, "BPF_LINK_CREATE"),
];
/// The call in which the verifier does its work.
const VERIFIER: &str = "BPF_PROG_LOAD";

/// The file that names the numbers of calls: a header that comes with the C library's.
const NAMES: &str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";

/// Sums over some starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    calls: u64,
    nanoseconds: u64,
}

/// By whether the first process made them, and by name. Those that wait are left out.
type Sums = BTreeMap<(bool, String), Sum>;

/// The times of the calls of a cold start.
pub struct Cold {
    /// The table.
    pub blocks: Vec<FindingsBlock>,
    /// The verifier's part of it, as a part of what a start takes: more than all where several threads
    /// load programs at once.
    pub verifier: f64,
}

/// The same with nothing loaded before.
pub fn of_a_cold_start(stage: &BenchStage, starts: usize) -> Result<Cold> {
    stage.enter(Phase::Unloaded)?;
    let mut ours = stage.as_root(&turnkey(stage, &["--leave-nothing"], &PROGRAM));
    let (sums, took) = seen(stage, &mut ours, starts, &names()?)?;
    let starts = u32::try_from(starts)?;
    let verifier = |(_, call): &(bool, String)| call.ends_with(VERIFIER);
    let verifier = sums.iter().filter(|(key, _)| verifier(key));
    let verifier: u64 = verifier.map(|(_, sum)| sum.nanoseconds).sum();
    let text = format!(
        "The same of a cold start, where the kernel verifies and translates every program, `{VERIFIER}`: {}, by several threads at once. \
         Such a start takes {} while bpftrace looks.",
        per_start(verifier, starts),
        in_words(took, starts)
    );
    Ok(Cold {
        blocks: vec![FindingsBlock::text(text), table(&sums, starts, SHOWN_COLD)],
        verifier: seconds(verifier) / took,
    })
}

/// The table of what the calls of a start take.
pub fn of_a_start(
    stage: &BenchStage,
    starts: usize,
    peers: &[Present],
) -> Result<Vec<FindingsBlock>> {
    let names = names()?;
    stage.enter(Phase::Loaded)?;
    let mut ours = stage.as_root(&turnkey(stage, &[], &PROGRAM));
    let (sums, _) = seen(stage, &mut ours, starts, &names)?;
    let starts_made = u32::try_from(starts)?;
    let mut text = format!(
        "Where a warm start of `/bin/true` spends its time: the system calls that take most, for one start, as bpftrace sees them \
         begin and end. *turnkey* is the supervisor, *its children* are the keeper, the canaries, the jail's init and the program until \
         its end. Calls that wait for another process are left out, and so are page faults and the ends of processes; a `clone3` takes as \
         long as its child, where that is a canary, as after vfork(2). In sum they take {}",
        milliseconds(&sums, starts_made)
    );
    if let Some(peer) = peers.iter().find(|peer| peer.name == BUBBLEWRAP) {
        let mut command = peer.command(stage, &PROGRAM)?;
        let (theirs, _) = seen(stage, &mut command, starts, &names)?;
        let theirs = milliseconds(&theirs, starts_made);
        text += &format!("; those of a start by bubblewrap take {theirs}");
    }
    text.push('.');
    Ok(vec![
        FindingsBlock::text(text),
        table(&sums, starts_made, SHOWN),
    ])
}

/// Starts it so often, while bpftrace looks. And how long they took, in seconds.
fn seen(
    stage: &BenchStage,
    command: &mut Command,
    starts: usize,
    names: &BTreeMap<u64, String>,
) -> Result<(Sums, f64)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let script = SCRIPT.replace("PROGRAM", &program);
    let script = script.replace("BPF", BPF);
    let script = script.replace("COMMANDS", &COMMANDS.to_string());
    let witness = bpftrace::start(stage, &script)?;
    let mut took = 0.0;
    for _ in 0..starts {
        took += timed(command)?;
    }
    Ok((sums(&witness.finish()?, names), took))
}

fn milliseconds(sums: &Sums, starts: u32) -> String {
    let all: u64 = sums.values().map(|sum| sum.nanoseconds).sum();
    per_start(all, starts)
}

fn per_start(nanoseconds: u64, starts: u32) -> String {
    in_words(seconds(nanoseconds), starts)
}

fn in_words(seconds: f64, starts: u32) -> String {
    format!("{} ms", digits(seconds * 1e3 / f64::from(starts)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "of seconds, nanoseconds are exact"
)]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "there are few")]
fn table(sums: &Sums, starts: u32, shown: usize) -> FindingsBlock {
    let mut all: Vec<_> = sums.iter().collect();
    all.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.nanoseconds));
    let rows = all.into_iter().take(shown).map(|((is_first, call), sum)| {
        let who = if *is_first { "turnkey" } else { "its children" };
        vec![
            format!("`{call}`"),
            who.to_owned(),
            digits(sum.calls as f64 / f64::from(starts)),
            per_start(sum.nanoseconds, starts),
        ]
    });
    FindingsBlock::table(&["call", "by", "calls", "in sum"], rows.collect())
}

/// The names of calls, and of bpf(2)'s commands.
fn names() -> Result<BTreeMap<u64, String>> {
    let header = fs::read_to_string(NAMES).context("the C library's headers are missing")?;
    let mut names = names_of(&header);
    names.extend(NAMED.map(|(command, name)| (COMMANDS + command, format!("bpf, {name}"))));
    Ok(names)
}

/// From lines such as `#define __NR_read 0`.
fn names_of(header: &str) -> BTreeMap<u64, String> {
    let named = header.lines().filter_map(|line| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((number.trim().parse().ok()?, name.to_owned()))
    });
    named.collect()
}

/// From lines such as `@ns[1, 0]: 12345`.
fn sums(text: &str, names: &BTreeMap<u64, String>) -> Sums {
    let mut sums = Sums::new();
    for line in text.lines() {
        let Some((of, (first, number), value)) = parsed(line) else {
            continue;
        };
        let name = names.get(&number).cloned();
        let name = name.unwrap_or_else(|| number.to_string());
        if WAITS.contains(&name.as_str()) {
            continue;
        }
        let sum = sums.entry((first != 0, name)).or_default();
        match of {
            "ns" => sum.nanoseconds += value,
            _ => sum.calls += value,
        }
    }
    sums
}

fn parsed(line: &str) -> Option<(&str, (u64, u64), u64)> {
    let (key, value) = line.strip_prefix('@')?.split_once("]: ")?;
    let (of, key) = key.split_once('[')?;
    let (first, number) = key.split_once(", ")?;
    let key = (first.parse().ok()?, number.parse().ok()?);
    Some((of, key, value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "#ifndef X\n#define __NR_read 0\n#define __NR_write 1\n#define __NR_mount 165\n";
    const PRINTED: &str = "Attaching 6 probes...\nready1\n@n[1, 1]: 3\n@n[0, 165]: 2\n@n[1, 0]: 4\n@n[0, 999]: 1\n\
        @ns[1, 1]: 1500000\n@ns[0, 165]: 4000000\n@ns[1, 0]: 9000000\n@ns[0, 999]: 10\n\n@ready1: 1\n";

    fn all() -> Sums {
        sums(PRINTED, &names_of(HEADER))
    }

    #[test]
    fn calls_are_summed_by_process_and_name_without_those_that_wait() {
        let sum = |calls, nanoseconds| Sum { calls, nanoseconds };
        let expected = Sums::from([
            ((true, "write".to_owned()), sum(3, 1_500_000)),
            ((false, "mount".to_owned()), sum(2, 4_000_000)),
            ((false, "999".to_owned()), sum(1, 10)),
        ]);
        assert_eq!(all(), expected);
    }

    #[test]
    fn the_table_begins_with_what_takes_most() {
        let text = table(&all(), 2, SHOWN).markdown();
        let first = text.lines().nth(2);
        assert_eq!(
            first,
            Some("| `mount` | its children | 1.00 | 2.00 ms |"),
            "{text}"
        );
        assert_eq!(milliseconds(&all(), 2), "2.75 ms");
    }
}
