//! Where the time of a warm start goes: every system call of turnkey's processes, as strace sees it.
//!
//! strace stops a process before and after each call. What a call takes in between is nearly what it takes without,
//! while the whole start takes several times as long; so calls are compared with each other, and not with a clock.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::findings::{Block, digits};
use super::rounds::Phase;
use super::stage::{Stage, timed};
use super::start::turnkey;

/// The most expensive ones are shown.
const SHOWN: usize = 16;

/// Calls that wait for somebody else, whose time is that one's.
const WAITS: [&str; 15] = [
    "accept4",
    "clock_nanosleep",
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

/// Sums over some starts.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    calls: u32,
    seconds: f64,
}

/// By process and call.
type Sums = BTreeMap<(bool, String), Sum>;

/// The table of what the calls of a start take.
pub fn of_a_start(stage: &Stage, starts: usize) -> Result<Vec<Block>> {
    stage.enter(Phase::Loaded)?;
    let output = stage.path("strace.out");
    let mut words: Vec<String> = [
        "strace",
        "-f",
        "-qq",
        "-ttt",
        "-T",
        "-e",
        "signal=none",
        "-o",
    ]
    .map(String::from)
    .into();
    words.push(output.to_string_lossy().into_owned());
    words.extend(turnkey(stage, &[], &["/bin/true"]));
    let mut sums = Sums::new();
    for _ in 0..starts {
        timed(&mut stage.as_root(&words))?;
        let text = fs::read_to_string(&output).context("strace left nothing")?;
        add(&mut sums, &text);
    }
    Ok(vec![
        Block::text(
            "Where a warm start of `/bin/true` spends its time: the system calls that take most, for one start, as `strace -T` \
             sees them. *turnkey* is the supervisor, *its children* are the keeper, the jail's init and the program until its end. \
             Calls that wait for another process are left out.",
        ),
        table(&sums, starts)?,
    ])
}

fn table(sums: &Sums, starts: usize) -> Result<Block> {
    let starts = f64::from(u32::try_from(starts)?);
    let mut all: Vec<_> = sums
        .iter()
        .filter(|((_, call), _)| !WAITS.contains(&&**call))
        .collect();
    all.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    let rows = all
        .into_iter()
        .take(SHOWN)
        .map(|((is_supervisor, call), sum)| {
            let who = if *is_supervisor {
                "turnkey"
            } else {
                "its children"
            };
            vec![
                format!("`{call}`"),
                who.to_owned(),
                digits(f64::from(sum.calls) / starts),
                format!("{} ms", digits(sum.seconds * 1e3 / starts)),
            ]
        });
    Ok(Block::table(
        &["call", "by", "calls", "in sum"],
        rows.collect(),
    ))
}

/// Lines as `PID TIME call(arguments) = result <seconds>`, or in two pieces with the name in both.
fn add(sums: &mut Sums, text: &str) {
    let first = text.split(' ').next().unwrap_or_default();
    for line in text.lines() {
        let Some((call, seconds)) = parsed(line) else {
            continue;
        };
        let is_supervisor = line.split(' ').next() == Some(first);
        let sum = sums.entry((is_supervisor, call.to_owned())).or_default();
        sum.calls += 1;
        sum.seconds += seconds;
    }
}

/// The call that ends on that line, and how long it took.
fn parsed(line: &str) -> Option<(&str, f64)> {
    let seconds = line.strip_suffix('>')?.rsplit_once(" <")?.1.parse().ok()?;
    let rest = line.split_ascii_whitespace().nth(2)?;
    let call = if rest == "<..." {
        line.split_ascii_whitespace().nth(3)?
    } else {
        rest.split_once('(')?.0
    };
    Some((call, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "10 1.000001 openat(AT_FDCWD, \"a <b>\", O_RDONLY) = 3 <0.000100>\n\
        10   1.000002 mount(\"x\", \"y\", NULL <unfinished ...>\n\
        11 1.000003 openat(AT_FDCWD, \"c\", O_RDONLY) = -1 ENOENT (No such file) <0.000010>\n\
        10 1.000004 <... mount resumed>) = 0 <0.002000>\n\
        11 1.000005 +++ exited with 0 +++\n";

    #[test]
    fn calls_in_one_piece_and_in_two_are_summed_by_process() {
        let mut sums = Sums::new();
        add(&mut sums, TEXT);
        let sum = |is_supervisor, call: &str| &sums[&(is_supervisor, call.to_owned())];
        assert_eq!(sums.len(), 3);
        assert_eq!(
            *sum(true, "mount"),
            Sum {
                calls: 1,
                seconds: 0.002
            }
        );
        assert_eq!(
            *sum(true, "openat"),
            Sum {
                calls: 1,
                seconds: 0.0001
            }
        );
        assert_eq!(
            *sum(false, "openat"),
            Sum {
                calls: 1,
                seconds: 0.00001
            }
        );
    }

    #[test]
    fn the_table_begins_with_what_takes_most_and_leaves_out_waits() {
        let mut sums = Sums::new();
        add(&mut sums, &format!("{TEXT}10 1.1 poll([], 1) = 0 <5.0>\n"));
        let text = table(&sums, 1).expect("a table").markdown();
        assert!(
            text.lines()
                .nth(2)
                .is_some_and(|line| line.starts_with("| `mount` | turnkey |")),
            "{text}"
        );
        assert!(!text.contains("poll"), "{text}");
    }
}
