//! The observer that stops every call at its entry and at its end, and looks at memory and descriptors meanwhile. What
//! threads do to each other comes in another order then: races are the other observer's.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IoSliceMut, Read};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::shape::{Shape, shape};
use crate::width::int;

/// A call, as it was looked at.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub args: [u64; 6],
    /// What it led to.
    pub result: Option<i64>,
    /// The texts that its arguments lead to, at its end.
    pub texts: [Option<Vec<u8>>; 6],
    /// Where its directories are.
    pub bases: [Option<PathBuf>; 6],
    /// The file behind the descriptor that it gave.
    pub object: Option<PathBuf>,
    /// How it begins, of a regular file: a copy of it has another number.
    pub content: Vec<u8>,
}

/// The calls of each thread.
pub type Stopped = BTreeMap<u32, Vec<Looked>>;

/// Follows a task that waits, and all that it makes, until none is left; `go` lets it go on.
pub fn follow(first: u32, go: impl FnOnce() -> Result<()> + Send) -> Result<Stopped> {
    // Who traces is a thread, and only that one is told.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            let mut tracer = Tracer::default();
            tracer.seize(first)?;
            go()?;
            tracer.follow()?;
            Ok(tracer.done)
        });
        tracer
            .join()
            .map_err(|_| anyhow!("who traces has panicked"))?
    })
}

#[derive(Default)]
struct Tracer {
    open: BTreeMap<i32, Looked>,
    done: Stopped,
}

/// `PTRACE_EVENT_STOP` and `PTRACE_EVENT_EXEC` of linux/ptrace.h.
const STOP: i32 = 128;
const EXEC: i32 = 4;

impl Tracer {
    fn seize(&self, first: u32) -> Result<()> {
        let first = Pid::from_raw(first.cast_signed());
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC;
        ptrace::seize(first, options).context("the task cannot be traced")?;
        ptrace::interrupt(first)?;
        Ok(())
    }

    fn follow(&mut self) -> Result<()> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::PtraceSyscall(task)) => {
                    self.look(task);
                    resume(task, None);
                }
                Ok(WaitStatus::PtraceEvent(task, _, EXEC)) => {
                    self.becomes(task);
                    resume(task, None);
                }
                Ok(WaitStatus::PtraceEvent(task, _, STOP)) => resume(task, None),
                Ok(WaitStatus::PtraceEvent(task, ..)) => resume(task, None),
                Ok(WaitStatus::Stopped(task, signal)) => resume(task, Some(signal)),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => break,
                Err(error) => return Err(error.into()),
            }
        }
        for (task, looked) in std::mem::take(&mut self.open) {
            self.end(task, looked);
        }
        Ok(())
    }

    fn end(&mut self, task: i32, looked: Looked) {
        self.done
            .entry(task.cast_unsigned())
            .or_default()
            .push(looked);
    }

    /// A thread that execs has its process's id afterwards.
    fn becomes(&mut self, task: Pid) {
        let former = ptrace::getevent(task).unwrap_or_default();
        if let Ok(former) = i32::try_from(former)
            && former != task.as_raw()
            && let Some(looked) = self.open.remove(&former)
            && let Some(of_leader) = self.open.insert(task.as_raw(), looked)
        {
            self.end(task.as_raw(), of_leader);
        }
    }

    fn look(&mut self, task: Pid) {
        let (Ok(info), Ok(registers)) = (ptrace::syscall_info(task), ptrace::getregs(task)) else {
            return;
        };
        let number = i64::from(int(registers.orig_rax));
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
            let args = [
                registers.rdi,
                registers.rsi,
                registers.rdx,
                registers.r10,
                registers.r8,
                registers.r9,
            ];
            let mut looked = Looked {
                number,
                args,
                ..Looked::default()
            };
            look_at_bases(task, shape(number), &mut looked);
            if let Some(open) = self.open.insert(task.as_raw(), looked) {
                self.end(task.as_raw(), open);
            }
        } else if let Some(mut looked) = self.open.remove(&task.as_raw()) {
            let result = registers.rax.cast_signed();
            looked.result = Some(result);
            let shape = shape(looked.number);
            for index in shape.texts() {
                looked.texts[index] = text(task, looked.args[index]);
            }
            if shape.gives_descriptor && result >= 0 {
                let link = format!("/proc/{task}/fd/{result}");
                looked.object = fs::read_link(&link).ok();
                looked.content = beginning(&link).unwrap_or_default();
            }
            self.end(task.as_raw(), looked);
        }
    }
}

fn look_at_bases(task: Pid, shape: Shape, looked: &mut Looked) {
    for index in shape.bases() {
        let directory = int(looked.args[index]);
        let link = match directory {
            libc::AT_FDCWD => format!("/proc/{task}/cwd"),
            other => format!("/proc/{task}/fd/{other}"),
        };
        looked.bases[index] = fs::read_link(link).ok();
    }
    if shape.starts_here {
        looked.bases[5] = fs::read_link(format!("/proc/{task}/cwd")).ok();
    }
}

fn resume(task: Pid, signal: Option<Signal>) {
    // Who was killed meanwhile needs no more.
    let _ = ptrace::syscall(task, signal);
}

/// How a regular file begins. Opening a pipe would wait for somebody.
fn beginning(path: &str) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    if fs::metadata(path).ok()?.is_file() {
        fs::File::open(path)
            .ok()?
            .take(64)
            .read_to_end(&mut content)
            .ok()?;
    }
    Some(content)
}

/// The text at an address of a task; nothing when it cannot be read or does not end.
fn text(task: Pid, address: u64) -> Option<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut text = Vec::new();
    let mut base = usize::try_from(address).ok()?;
    while text.len() <= PAGE {
        let mut bytes = vec![0; PAGE - base % PAGE];
        let remote = RemoteIoVec {
            base,
            len: bytes.len(),
        };
        let read = process_vm_readv(task, &mut [IoSliceMut::new(&mut bytes)], &[remote]).ok()?;
        bytes.truncate(read);
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            text.extend(&bytes[..end]);
            return Some(text);
        }
        text.extend(&bytes);
        base += read;
    }
    None
}
