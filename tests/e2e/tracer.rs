//! Makes one system call of one process of a run fail, ptrace(2), and counts the calls of a run
//! that is left alone. Every process of the run is followed to its end, so that none is left
//! when [`trace`] returns.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_long;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A run that hangs is ended, and fails its test by the status of the end.
const PATIENCE: Duration = Duration::from_secs(40);

/// Which process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// turnkey, from its first look at Landlock on: before, there is no plan yet.
    Supervisor,
    /// The first thread that it starts, which opens the monitor and proves it.
    Opener,
    /// The jail's first process.
    Init,
    /// Its child, which becomes the program.
    Program,
    /// Keepers, canaries and what else there may be.
    Other,
}

/// A system call; for those that are many in one, the argument that says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Its number.
    pub number: c_long,
    /// The first argument of prctl(2) and bpf(2), the second of fcntl(2), for mmap(2) whether it
    /// maps a file, for an openat(2) of turnkey's the head of its path if it is one of
    /// [`HEADS`], for its clone3(2) perhaps [`BORN_IN_A_GROUP`], otherwise 0.
    pub which: u64,
}

/// No error: the call does nothing and says that it has.
pub const PRETEND: Errno = Errno::UnknownErrno;

/// What is to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// In which process.
    pub role: Role,
    /// Which call.
    pub call: Call,
    /// Which of those, from 1; 0 for every one.
    pub nth: u32,
    /// And every later one: a library may try again.
    pub lasting: bool,
    /// What it answers instead of doing anything; [`PRETEND`] for success.
    pub errno: Errno,
}

/// Commands of bpf(2) that answer with a descriptor: BPF_RAW_TRACEPOINT_OPEN and BPF_LINK_CREATE.
const OPENS: [u64; 2] = [17, 28];

/// epoll_create(2) makes a descriptor of nothing, whatever positive number its argument is. One that the caller does
/// not have would be closed in vain, for which a debug build aborts.
const EMPTY_DESCRIPTOR: u64 = libc::SYS_epoll_create.cast_unsigned();

impl Fault {
    /// Whether it says that it has made a descriptor.
    fn pretends_a_descriptor(&self) -> bool {
        let is_open = self.call.number == libc::SYS_bpf && OPENS.contains(&self.call.which);
        self.errno == PRETEND && is_open
    }
}

/// How often each call was made before the program started.
pub type Calls = BTreeMap<(Role, Call), u32>;

/// What became of a run.
pub struct Traced {
    /// turnkey's exit status; 128 and the signal when one ended it.
    pub code: i32,
    /// The fault was reached.
    pub hit: bool,
    /// turnkey's process id.
    pub pid: i32,
    /// The calls, when nothing was to fail.
    pub calls: Calls,
    /// Which child of turnkey's was the jail's first process.
    pub init: Option<usize>,
    /// The eBPF programs that the traced processes have loaded, by the kernel's numbers.
    pub programs: BTreeSet<u32>,
}

/// Runs `command` to its end and until every process of it is gone, with its output and error in
/// `streams`. Without a fault, the calls are counted; `init` says which child of turnkey's becomes
/// the jail's first process, as that first run has shown.
pub fn trace(
    command: &Command,
    streams: [File; 2],
    init: Option<usize>,
    fault: Option<Fault>,
) -> Traced {
    let pid = start_stopped(command, streams);
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC;
    ptrace::seize(pid, options).expect("a child can be traced");
    kill(pid, Signal::SIGCONT).expect("a child can be signalled");
    let guard = Guard::over(pid);
    let mut tracer = Tracer::new(pid, init, fault);
    tracer.follow();
    drop(guard);
    tracer.traced
}

/// Starts a shell that waits to be traced and then becomes the command.
#[expect(
    clippy::zombie_processes,
    reason = "the tracer waits for every process until there is none"
)]
pub fn start_stopped(command: &Command, [output, error]: [File; 2]) -> Pid {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(error);
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    let child = shell.spawn().expect("a shell can be started");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("a child can be waited for");
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    pid
}

/// Kills a run that hangs.
struct Guard(std::sync::mpsc::Sender<()>);

impl Guard {
    fn over(pid: Pid) -> Guard {
        let (alive, waiting) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            use std::sync::mpsc::RecvTimeoutError::Timeout;
            if waiting.recv_timeout(PATIENCE) == Err(Timeout) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        Guard(alive)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A thread that has killed is gone.
        let _ = self.0.send(());
    }
}

/// One process or thread that is followed.
#[derive(Clone, Copy)]
struct Tracee {
    role: Role,
    /// Between a call's entry and its exit.
    inside: bool,
    /// The call is the one that fails.
    failing: bool,
    /// The call loads an eBPF program.
    loading: bool,
    children: usize,
}

struct Tracer {
    main: Pid,
    init: Option<usize>,
    fault: Option<Fault>,
    tracees: BTreeMap<Pid, Tracee>,
    /// New ones that stopped before their parents told of them.
    early: BTreeSet<Pid>,
    /// The next child of turnkey's is the jail's first process.
    expecting_init: bool,
    /// turnkey has looked at Landlock.
    planning: bool,
    /// The thread that opens the monitor was there.
    opened: bool,
    /// The program runs: from here on nothing is counted and nothing fails.
    released: bool,
    traced: Traced,
}

impl Tracer {
    fn new(main: Pid, init: Option<usize>, fault: Option<Fault>) -> Tracer {
        let first = Tracee::new(Role::Supervisor);
        Tracer {
            main,
            init,
            fault,
            tracees: [(main, first)].into(),
            early: BTreeSet::new(),
            expecting_init: false,
            planning: false,
            opened: false,
            released: false,
            traced: Traced {
                code: -1,
                hit: false,
                pid: main.as_raw(),
                calls: Calls::new(),
                init: None,
                programs: BTreeSet::new(),
            },
        }
    }

    fn follow(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Err(Errno::ECHILD) => return,
                Ok(status) => self.answer(status),
                // EINTR, and signals without a name in the library, which nobody sends here.
                Err(_) => {}
            }
        }
    }

    fn answer(&mut self, status: WaitStatus) {
        match status {
            WaitStatus::Exited(pid, code) if pid == self.main => self.traced.code = code,
            WaitStatus::Signaled(pid, signal, _) if pid == self.main => {
                self.traced.code = 128 + signal as i32;
            }
            WaitStatus::PtraceSyscall(pid) => self.at_call(pid),
            WaitStatus::PtraceEvent(pid, _, event) => self.at_event(pid, event),
            WaitStatus::Stopped(pid, signal) => self.resume(pid, Some(signal)),
            _ => {}
        }
    }

    fn at_event(&mut self, pid: Pid, event: i32) {
        match event {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => self.adopt(pid, true),
            libc::PTRACE_EVENT_CLONE => self.adopt(pid, false),
            libc::PTRACE_EVENT_EXEC if self.role(pid) == Role::Program => self.released = true,
            _ if !self.tracees.contains_key(&pid) => {
                self.early.insert(pid);
                return;
            }
            _ => {}
        }
        self.resume(pid, None);
    }

    /// Gives a new process or thread its role.
    fn adopt(&mut self, parent: Pid, process: bool) {
        let child = ptrace::getevent(parent).ok();
        let Some(child) = child.and_then(|child| i32::try_from(child).ok()) else {
            return;
        };
        let child = Pid::from_raw(child);
        let role = if process {
            self.role_of_child(parent)
        } else {
            self.role_of_thread(parent)
        };
        self.tracees.insert(child, Tracee::new(role));
        if self.early.remove(&child) {
            self.resume(child, None);
        }
    }

    fn role_of_thread(&mut self, parent: Pid) -> Role {
        if self.opened || self.role(parent) != Role::Supervisor {
            return Role::Other;
        }
        self.opened = true;
        Role::Opener
    }

    /// By its parent's role and its place among the siblings.
    fn role_of_child(&mut self, parent: Pid) -> Role {
        let Some(tracee) = self.tracees.get_mut(&parent) else {
            return Role::Other;
        };
        let place = tracee.children;
        tracee.children += 1;
        if tracee.role == Role::Supervisor && self.expecting_init {
            self.init = Some(place);
            self.traced.init = self.init;
        }
        match tracee.role {
            Role::Supervisor if self.init == Some(place) => Role::Init,
            Role::Init => Role::Program,
            _ => Role::Other,
        }
    }

    fn role(&self, pid: Pid) -> Role {
        self.tracees
            .get(&pid)
            .map_or(Role::Other, |tracee| tracee.role)
    }

    fn at_call(&mut self, pid: Pid) {
        let Some(mut tracee) = self.tracees.get(&pid).copied() else {
            return self.resume(pid, None);
        };
        tracee.inside = !tracee.inside;
        if tracee.inside {
            tracee.failing = self.enter(pid, tracee.role);
            tracee.loading = is_program_load(pid);
        } else if tracee.failing {
            tracee.failing = false;
            self.fail(pid);
        } else if tracee.loading {
            self.traced.programs.extend(loaded_program(pid));
        }
        self.tracees.insert(pid, tracee);
        self.resume(pid, None);
    }

    /// Counts the call and, when it is the one, keeps the kernel from doing it.
    fn enter(&mut self, pid: Pid, role: Role) -> bool {
        let Ok(mut registers) = ptrace::getregs(pid) else {
            return false;
        };
        let mut call = Call::of(&registers);
        if role == Role::Opener {
            call.which |= head_of_path(pid, &registers);
        }
        if role == Role::Supervisor {
            self.expecting_init = clones_with(pid, &registers, libc::CLONE_NEWPID.into());
        }
        if role == Role::Opener && clones_with(pid, &registers, CLONE_INTO_CGROUP) {
            call.which |= BORN_IN_A_GROUP;
        }
        self.planning |= call.number == libc::SYS_landlock_create_ruleset;
        // The opener has none, and begins while there is none.
        if self.released || !(self.planning || role == Role::Opener) {
            return false;
        }
        let count = self.traced.calls.entry((role, call)).or_default();
        *count += 1;
        let count = *count;
        let meant = |fault: &Fault| {
            let later = fault.lasting && fault.nth <= count;
            fault.nth == 0 || later || (fault.nth == count && !self.traced.hit)
        };
        let fault = self.fault.filter(meant);
        if fault.is_none_or(|fault| (fault.role, fault.call) != (role, call)) {
            return false;
        }
        registers.orig_rax = match fault {
            Some(fault) if fault.pretends_a_descriptor() => EMPTY_DESCRIPTOR,
            // A number that no call has: the kernel answers without doing anything.
            _ => u64::MAX,
        };
        ptrace::setregs(pid, registers).is_ok()
    }

    fn fail(&mut self, pid: Pid) {
        let (Some(fault), Ok(mut registers)) = (self.fault, ptrace::getregs(pid)) else {
            return;
        };
        if !fault.pretends_a_descriptor() {
            registers.rax = i64::from(-(fault.errno as i32)).cast_unsigned();
        }
        self.traced.hit = ptrace::setregs(pid, registers).is_ok();
    }

    /// Lets it go on: to its next call where those matter, otherwise without a stop.
    fn resume(&self, pid: Pid, signal: Option<Signal>) {
        // Gone in the meantime: its end has been or will be told.
        let _ = if self.watches(pid) {
            ptrace::syscall(pid, signal)
        } else {
            ptrace::cont(pid, signal)
        };
    }

    fn watches(&self, pid: Pid) -> bool {
        let role = self.role(pid);
        if self.released || role == Role::Other {
            return false;
        }
        match self.fault {
            None => true,
            Some(fault) => {
                let over = self.traced.hit && fault.nth != 0 && !fault.lasting;
                // What programs the opener loads is always to be known.
                let wanted = role == fault.role || role == Role::Opener;
                !over && (wanted || !self.planning)
            }
        }
    }
}

impl Tracee {
    fn new(role: Role) -> Tracee {
        Tracee {
            role,
            inside: false,
            failing: false,
            loading: false,
            children: 0,
        }
    }
}

/// Of `linux/sched.h`; the C library's headers give it another type.
const CLONE_INTO_CGROUP: c_long = 0x2_0000_0000;

/// Which clone3(2) of the opener's makes a process in another group: a canary.
pub const BORN_IN_A_GROUP: u64 = 1;

/// Whether the call is a clone3(2) with a flag: its first argument points to flags.
fn clones_with(pid: Pid, registers: &libc::user_regs_struct, flag: c_long) -> bool {
    let place = usize::try_from(registers.rdi).unwrap_or_default();
    let flags = || ptrace::read(pid, std::ptr::without_provenance_mut(place));
    registers.orig_rax == libc::SYS_clone3.cast_unsigned()
        && flags().is_ok_and(|flags| flags & flag != 0)
}

/// What the monitor opens: the kernel's own description of itself.
pub const HEADS: [u64; 1] = [u64::from_ne_bytes(*b"/sys/ker")];

/// The first eight bytes of the path of an openat(2), when they are known ones.
fn head_of_path(pid: Pid, registers: &libc::user_regs_struct) -> u64 {
    if registers.orig_rax != libc::SYS_openat.cast_unsigned() {
        return 0;
    }
    let place = usize::try_from(registers.rsi).unwrap_or_default();
    let head = ptrace::read(pid, std::ptr::without_provenance_mut(place));
    let head = head.map_or(0, c_long::cast_unsigned);
    if HEADS.contains(&head) { head } else { 0 }
}

const BPF_PROG_LOAD: u64 = 5;

fn is_program_load(pid: Pid) -> bool {
    let call = ptrace::getregs(pid).map(|registers| Call::of(&registers));
    call.is_ok_and(|call| call.number == libc::SYS_bpf && call.which == BPF_PROG_LOAD)
}

/// The program whose descriptor the call has just answered, proc_pid_fdinfo(5).
fn loaded_program(pid: Pid) -> Option<u32> {
    let descriptor = ptrace::getregs(pid).ok()?.rax;
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    let id = info
        .lines()
        .find_map(|line| line.strip_prefix("prog_id:"))?;
    id.trim().parse().ok()
}

impl Call {
    fn of(registers: &libc::user_regs_struct) -> Call {
        let number = c_long::try_from(registers.orig_rax).unwrap_or(-1);
        let which = match number {
            libc::SYS_prctl | libc::SYS_bpf => registers.rdi,
            // Its fifth argument is a descriptor, an int, or -1.
            libc::SYS_mmap => u64::from(registers.r8 & 0x8000_0000 == 0),
            libc::SYS_fcntl => registers.rsi,
            _ => 0,
        };
        Call { number, which }
    }
}
