//! The observer that stops every call at its entry and at its end, and looks at memory and descriptors meanwhile. What
//! threads do to each other comes in another order then: races are the other observer's.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::io::{IoSliceMut, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
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
    /// The beginning of a regular file: a copy of it has another number.
    pub content: Vec<u8>,
    /// Of an exec that succeeded.
    pub image: Option<Image>,
    /// Of a mapping: the file behind the descriptor.
    pub mapped: Option<Mapped>,
    /// The name of a socket's protocol, of listen(2).
    pub protocol: Option<String>,
    /// True when a directory was renamed.
    pub moves: Option<bool>,
    /// True when a symlink, or a directory that may have one in it, has another name.
    pub carries: Option<bool>,
    /// True when a directory of its names is reached through a symlink.
    pub detours: Option<bool>,
}

/// The image that a process executes.
#[derive(Clone, Debug)]
pub struct Image {
    /// The path of the file, by /proc.
    pub exe: PathBuf,
    /// The command line.
    pub arguments: Vec<String>,
    /// The file's device and inode.
    pub file: Option<(String, u64)>,
}

/// A file that is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// True when some directory has it; `None` when it lost a name, and stat(2) says that it has more: an overlay counts
    /// those of the file behind, from before the run.
    pub has_name: Option<bool>,
    /// True when the descriptor may be written to.
    pub is_writable: bool,
}

/// The record of this observer.
#[derive(Debug, Default)]
pub struct Stopped {
    /// The calls of each thread.
    pub calls: BTreeMap<u32, Vec<Looked>>,
    /// The end of each task: its code, or minus the signal.
    pub ends: BTreeMap<u32, i32>,
}

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
                Ok(WaitStatus::Exited(task, code)) => {
                    self.done.ends.insert(task.as_raw().cast_unsigned(), code);
                }
                Ok(WaitStatus::Signaled(task, signal, _)) => {
                    let task = task.as_raw().cast_unsigned();
                    self.done.ends.insert(task, -(signal as i32));
                }
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
            .calls
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
            look_at_mapped(task, &mut looked);
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
            look_at_effect(task, &mut looked);
            self.end(task.as_raw(), looked);
        }
    }
}

/// The file that an mmap(2) is about.
fn look_at_mapped(task: Pid, looked: &mut Looked) {
    const MMAP: i64 = 9;
    const ANONYMOUS: u64 = 0x20;
    if looked.number != MMAP || looked.args[3] & ANONYMOUS != 0 {
        return;
    }
    let descriptor = int(looked.args[4]);
    let file = fs::metadata(format!("/proc/{task}/fd/{descriptor}"));
    let info = fs::read_to_string(format!("/proc/{task}/fdinfo/{descriptor}"));
    let (Ok(file), Ok(info)) = (file, info) else {
        return;
    };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i64::from_str_radix(flags.trim(), 8).ok());
    let link = fs::read_link(format!("/proc/{task}/fd/{descriptor}"));
    let is_removed = link.is_ok_and(|link| link.as_os_str().as_bytes().ends_with(b" (deleted)"));
    looked.mapped = flags.map(|flags| Mapped {
        has_name: (file.nlink() == 0 || !is_removed).then_some(file.nlink() != 0),
        // Access mode 3 gives no right to do either.
        is_writable: matches!(flags & 3, 1 | 2),
    });
}

/// The facts that can be seen only when a call is over.
fn look_at_effect(task: Pid, looked: &mut Looked) {
    match (looked.number, looked.result) {
        (59 | 322, Some(0)) => looked.image = image(task),
        (50, _) => {
            let descriptor = int(looked.args[0]);
            let link = format!("/proc/{task}/fd/{descriptor}");
            let mut name = [0; 32];
            let length = rustix::fs::getxattr(link, "system.sockprotoname", &mut name[..]);
            looked.protocol = length.ok().map(|length| {
                let name = &name[..length.min(name.len())];
                let name = String::from_utf8_lossy(name);
                name.trim_end_matches('\0').to_owned()
            });
        }
        (82 | 264 | 316 | 86 | 265, Some(0)) => {
            let shape = shape(looked.number);
            let found = |place: Option<_>| file_type(task, looked, place?);
            let exchanges = looked.number == 316 && looked.args[4] & 2 != 0;
            let back = if exchanges { shape.object } else { shape.new };
            let both = [found(back), found(shape.new)];
            let are_all = both.map(|one| one.is_some_and(|one| one.is_dir()));
            looked.moves = Some(are_all == [true, true]);
            looked.carries = Some(both.iter().any(|one| !one.is_some_and(|one| one.is_file())));
            let names = [shape.object, shape.new].into_iter().flatten();
            looked.detours = Some(names.into_iter().any(|place| detours(task, looked, place)));
        }
        _ => {}
    }
}

/// The type of what is by the name in an argument now.
fn file_type(task: Pid, looked: &Looked, place: (usize, Option<usize>)) -> Option<FileType> {
    let (from, text) = name(task, looked, place)?;
    type_of(&format!("{from}/{text}"))
}

fn type_of(path: &str) -> Option<FileType> {
    let found = fs::symlink_metadata(path);
    found.ok().map(|found| found.file_type())
}

/// True when a directory of the name in an argument is a symlink now.
fn detours(task: Pid, looked: &Looked, place: (usize, Option<usize>)) -> bool {
    let Some((from, text)) = name(task, looked, place) else {
        return true;
    };
    let folders = text.match_indices('/').map(|(end, _)| &text[..end]);
    folders
        .filter(|folder| !folder.is_empty())
        .any(|folder| type_of(&format!("{from}/{folder}")).is_none_or(|one| one.is_symlink()))
}

/// The name in an argument, and where it starts from.
fn name(
    task: Pid,
    looked: &Looked,
    (text, base): (usize, Option<usize>),
) -> Option<(String, String)> {
    let text = looked.texts[text].as_ref()?;
    let text = String::from_utf8_lossy(text).into_owned();
    let descriptor = base.map_or(libc::AT_FDCWD, |base| int(looked.args[base]));
    let from = match (text.starts_with('/'), descriptor) {
        (true, _) => format!("/proc/{task}/root"),
        (_, libc::AT_FDCWD) => format!("/proc/{task}/cwd"),
        (_, other) => format!("/proc/{task}/fd/{other}"),
    };
    Some((from, text))
}

fn image(task: Pid) -> Option<Image> {
    let line = fs::read(format!("/proc/{task}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line);
    let line = line.strip_suffix('\0').unwrap_or(&line);
    let exe = format!("/proc/{task}/exe");
    let found = fs::metadata(&exe).ok();
    let file = found.map(|found| {
        let (major, minor) = (
            nix::sys::stat::major(found.dev()),
            nix::sys::stat::minor(found.dev()),
        );
        (format!("{major}:{minor}"), found.ino())
    });
    Some(Image {
        file,
        exe: fs::read_link(exe).ok()?,
        arguments: line.split('\0').map(str::to_owned).collect(),
    })
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

/// The beginning of a regular file. Opening a pipe would wait for somebody.
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
