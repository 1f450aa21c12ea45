//! The observer that stops nobody: a tracing instance of the kernel's with the entries and exits of system calls of
//! the tasks that descend from one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A system call, as an observer saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its number, as the kernel took it.
    pub number: i64,
    /// Its arguments; none when the filter answered before anybody could see them.
    pub args: Option<[u64; 6]>,
    /// What it led to; nothing when the task ended in it.
    pub result: Option<i64>,
    /// When it was over, or began if it never was: seconds of the trace's clock, in microseconds.
    pub micros: u64,
}

/// The calls of each thread, in their order, by the thread's id on the host.
pub type Calls = BTreeMap<u32, Vec<Seen>>;

/// A tracing instance, removed when it is dropped.
#[derive(Debug)]
pub struct Tracer {
    instance: PathBuf,
}

/// Kilobytes for each CPU: two hundred thousand calls.
const BUFFER: &str = "16384";

/// Of instances; the id of the process follows.
const NAME: &str = "turnkey-differential-";

/// Removes what processes left that were ended.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if owner.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Tracer {
    /// Makes one, below a mounted trace file system.
    pub fn new() -> Result<Self> {
        let root = Path::new("/sys/kernel/tracing/instances");
        sweep(root);
        let instance = root.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&instance).with_context(|| {
            format!(
                "cannot make {}: tracefs has to be mounted there",
                instance.display()
            )
        })?;
        let tracer = Self { instance };
        tracer.write("trace_clock", "global")?;
        tracer.write("buffer_size_kb", BUFFER)?;
        tracer.write("options/event-fork", "1")?;
        tracer.write("options/markers", "0")?;
        Ok(tracer)
    }

    /// Begins with a task and whatever it makes.
    pub fn follow(&self, task: u32) -> Result<()> {
        self.write("trace", "")?;
        self.write("set_event_pid", &task.to_string())?;
        self.write("events/raw_syscalls/enable", "1")
    }

    /// Ends it; what was seen. What did not fit is an error.
    pub fn end(&self) -> Result<Calls> {
        self.write("events/raw_syscalls/enable", "0")?;
        self.write("set_event_pid", "")?;
        let trace = self.instance.join("trace");
        let text = fs::read(&trace).context("cannot read the trace")?;
        let lost = self.overruns()?;
        if lost != 0 {
            bail!("{lost} entries of the trace were overwritten");
        }
        read(&String::from_utf8_lossy(&text))
    }

    fn overruns(&self) -> Result<u64> {
        let mut lost = 0;
        for cpu in fs::read_dir(self.instance.join("per_cpu"))? {
            let text = fs::read_to_string(cpu?.path().join("stats"))?;
            for line in text.lines() {
                if let Some(count) = line
                    .strip_prefix("overrun: ")
                    .or_else(|| line.strip_prefix("dropped events: "))
                {
                    lost += count.trim().parse::<u64>()?;
                }
            }
        }
        Ok(lost)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.instance.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.write("events/raw_syscalls/enable", "0");
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Numbers of execve(2) and execveat(2): who comes back from them has the id of its process.
const EXECS: [i64; 2] = [59, 322];

fn read(text: &str) -> Result<Calls> {
    let mut calls = Calls::new();
    let mut open: BTreeMap<u32, Seen> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((task, micros, event)) = split(line) else {
            bail!("the trace has a line that is none: {line}");
        };
        if let Some(rest) = event.strip_prefix("sys_enter: NR ") {
            let (number, args) = rest.split_once(" (").context("no arguments")?;
            let args = args.trim_end_matches(')').split(", ");
            let args: Vec<u64> = args
                .map(|one| u64::from_str_radix(one, 16))
                .collect::<Result<_, _>>()?;
            let began = Seen {
                number: number.parse()?,
                args: args.try_into().ok(),
                result: None,
                micros,
            };
            if let Some(never_ended) = open.insert(task, began) {
                calls.entry(task).or_default().push(never_ended);
            }
        } else if let Some(rest) = event.strip_prefix("sys_exit: NR ") {
            let (number, result) = rest.split_once(" = ").context("no result")?;
            let (number, result) = (number.parse()?, result.parse()?);
            let began = open.remove(&task);
            let args = match &began {
                Some(began) if began.number == number => began.args,
                _ => None,
            };
            let is_exec = EXECS.contains(&number) && result == 0;
            if let Some(began) = began.filter(|began| began.number != number && !is_exec) {
                calls.entry(task).or_default().push(began);
            }
            calls.entry(task).or_default().push(Seen {
                number,
                args,
                result: Some(result),
                micros,
            });
        }
    }
    for (task, began) in open {
        calls.entry(task).or_default().push(began);
    }
    Ok(calls)
}

/// The task, the time and the event of a line such as `name-123 [000] ..... 5.000001: sys_exit: NR 0 = 1`.
fn split(line: &str) -> Option<(u32, u64, &str)> {
    let (head, rest) = line.split_once(" [")?;
    let (_, task) = head.rsplit_once('-')?;
    let (_, rest) = rest.split_once("] ")?;
    let (_, rest) = rest.trim_start().split_once(' ')?;
    let (time, event) = rest.trim_start().split_once(": ")?;
    let (seconds, micros) = time.split_once('.')?;
    let time = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    Some((task.trim().parse().ok()?, time, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_their_ends() {
        let text = "# tracer: nop\n\
            a b-c-12   [001] .....     5.000010: sys_enter: NR 257 (ffffffffffffff9c, 402000, 0, 0, 0, 0)\n\
            a b-c-12   [000] .....     5.000020: sys_exit: NR 257 = -2\n\
            a b-c-12   [000] .....     5.000030: sys_exit: NR 101 = -1\n\
            a b-c-12   [000] .....     5.000040: sys_enter: NR 231 (0, 0, 0, 0, 0, 0)\n";
        let calls = read(text).expect("a trace");
        let seen = &calls[&12];
        assert_eq!(seen.len(), 3);
        assert_eq!(
            seen[0].args.expect("an entry")[0],
            (-100_i64).cast_unsigned()
        );
        assert_eq!((seen[0].result, seen[0].micros), (Some(-2), 5_000_020));
        assert_eq!((seen[1].args, seen[1].result), (None, Some(-1)));
        assert_eq!((seen[2].number, seen[2].result), (231, None));
    }
}
