//! The time until a program that does the forbidden is dead, and everybody with it. bpftrace is the witness: it sees
//! every call and every death from outside, and turnkey says nothing about itself.

use std::fs;

use anyhow::{Context, Result, bail};

use super::findings::{Findings, FindingsBlock, Section, Unit};
use super::rounds::Phase;
use super::stage::BenchStage;
use super::start::turnkey;
use super::statistics::{Ratio, summary};
use super::{bpftrace, peers, work};
use crate::command;

/// The program's name, which tells its tasks from all others of the host.
const OFFENDER: &str = "offender";
const FORBIDDEN: &str = "/etc/shadow";
const TASKS: usize = 50;
/// The exit code of turnkey when a rule has killed.
const KILLED_BY_POLICY: i32 = 121;

/// Of openat(2), by CPU.
const OPENAT: u32 = if cfg!(target_arch = "x86_64") {
    257
} else {
    56
};

/// The forbidden call passes both of the first two probes and is no further one; the offender makes no other
/// such call after it.
const WITNESS: &str = r#"tracepoint:syscalls:sys_enter_openat /comm == "offender"/ {
  if (str(args->filename) == "/etc/shadow") { @offender = tid; printf("forbidden %llu %d\n", nsecs, tid); }
}
tracepoint:raw_syscalls:sys_enter /comm == "offender" && args->id != OPENAT/ {
  if (@offender == tid) { printf("call %llu %d\n", nsecs, tid); }
}
tracepoint:sched:sched_process_exit /comm == "offender"/ { printf("exit %llu %d\n", nsecs, tid); }"#;

const TITLE: &str = "Kill";

const INTRODUCTION: &str = "One of 50 processes of a jail opens `/etc/shadow`; the others sleep. Times run from the entry of that call, \
as bpftrace sees it, to the deaths of tasks, as it sees them. *Further calls* are those that the offender enters \
after the forbidden one; it would make a thousand.";

/// One kill, as it was witnessed. In seconds.
#[derive(Debug, PartialEq)]
struct Kill {
    /// Until the offender was dead.
    offender: f64,
    /// Until everybody was.
    everybody: f64,
    /// Calls of the offender in between.
    further: u32,
    /// The number of deaths.
    deaths: usize,
}

/// Measures it.
pub fn measure(stage: &BenchStage, times: usize, findings: &mut Findings) -> Result<()> {
    if command::find_program(peers::BPFTRACE).is_none() {
        findings.sections.push(Section {
            title: TITLE,
            blocks: vec![FindingsBlock::text(
                "Not measured: bpftrace, the witness, is not installed.",
            )],
        });
        return Ok(());
    }
    work::prepare(stage, 0)?;
    fs::copy(
        stage.workdir().join(work::LOOPS),
        stage.workdir().join(OFFENDER),
    )?;
    stage.enter(Phase::Loaded)?;
    let kills = witnessed(stage, times)?;
    for kill in &kills {
        if kill.deaths != TASKS {
            bail!("{} of {TASKS} deaths were seen: {kill:?}", kill.deaths);
        }
    }
    let further = kills
        .iter()
        .map(|kill| kill.further)
        .max()
        .unwrap_or_default();
    findings.keep("kill.further", Some(Ratio::exact(f64::from(further))));
    let row = |what: &str, value: fn(&Kill) -> f64| {
        let all = summary(&vec![kills.iter().map(value).collect()]);
        let [median, between] =
            all.map_or_else(Default::default, |it| Unit::Microseconds.shown(it));
        vec![what.to_owned(), median, between]
    };
    let rows = vec![
        row("the offender is dead", |kill| kill.offender),
        row("all 50 are dead", |kill| kill.everybody),
        vec![
            "most further calls".into(),
            further.to_string(),
            String::new(),
        ],
    ];
    findings.sections.push(Section {
        title: TITLE,
        blocks: vec![
            FindingsBlock::text(format!("{INTRODUCTION} {} kills.", kills.len())),
            FindingsBlock::table(&["", "median", "middle half"], rows),
        ],
    });
    Ok(())
}

fn witnessed(stage: &BenchStage, times: usize) -> Result<Vec<Kill>> {
    let script = WITNESS.replace("OPENAT", &OPENAT.to_string());
    let witness = bpftrace::start(stage, &script)?;
    let profile = work::profile(stage);
    let program = format!("./{OFFENDER}");
    let words = [&*program, "offend", &TASKS.to_string(), FORBIDDEN];
    for _ in 0..times {
        let mut command = stage.as_root(&turnkey(stage, &["--profile", &profile], &words));
        let status = command.status().context("turnkey cannot be started")?;
        if status.code() != Some(KILLED_BY_POLICY) {
            bail!("the offender was not killed by the rule: {status}");
        }
    }
    let kills = parsed(&witness.finish()?)?;
    if kills.len() != times {
        bail!("{times} offences, and {} were witnessed", kills.len());
    }
    Ok(kills)
}

/// Lines come from several CPUs, so their order is that of their times.
fn parsed(text: &str) -> Result<Vec<Kill>> {
    let mut lines: Vec<(u64, &str, u32)> = text.lines().filter_map(line).collect();
    lines.sort_unstable();
    let mut kills: Vec<(u64, u32, Kill)> = Vec::new();
    for (time, what, task) in lines {
        if what == "forbidden" {
            let kill = Kill {
                offender: f64::NAN,
                everybody: 0.0,
                further: 0,
                deaths: 0,
            };
            kills.push((time, task, kill));
            continue;
        }
        let Some((since, offender, kill)) = kills.last_mut() else {
            continue;
        };
        let after = std::time::Duration::from_nanos(time - *since).as_secs_f64();
        match what {
            "exit" => {
                kill.deaths += 1;
                kill.everybody = after;
                if task == *offender {
                    kill.offender = after;
                }
            }
            _ => kill.further += u32::from(task == *offender),
        }
    }
    let kills: Vec<_> = kills.into_iter().map(|(_, _, kill)| kill).collect();
    if kills.iter().any(|kill| kill.offender.is_nan()) {
        bail!("the death of an offender was not seen");
    }
    Ok(kills)
}

/// The event of a line: what happened when to whom.
fn line(text: &str) -> Option<(u64, &str, u32)> {
    let mut words = text.split(' ');
    let what = words
        .next()
        .filter(|what| ["call", "exit", "forbidden"].contains(what))?;
    Some((
        words.next()?.parse().ok()?,
        what,
        words.next()?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_and_calls_are_told_in_the_order_of_their_times() {
        let text = "Attaching 3 probes...\nready\nexit 5000 8\nforbidden 1000 7\nexit 3000 7\ncall 2000 7\n\
                    call 2500 8\nforbidden 9000 17\nexit 9500 17\n\n@offender: 17\n";
        let kills = parsed(text).expect("two kills");
        let near = |left: f64, right: f64| (left - right).abs() < 1e-12;
        assert_eq!(kills.len(), 2);
        assert!(
            near(kills[0].offender, 2e-6) && near(kills[0].everybody, 4e-6),
            "{kills:?}"
        );
        assert_eq!(
            (kills[0].further, kills[0].deaths),
            (1, 2),
            "another task's calls do not count"
        );
        assert_eq!((kills[1].further, kills[1].deaths), (0, 1));
    }

    #[test]
    fn an_offender_who_never_died_is_an_error() {
        assert!(parsed("forbidden 1000 7\nexit 2000 8\n").is_err());
    }
}
