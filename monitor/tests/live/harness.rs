//! A cgroup, a monitor on it, and commands run inside.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use turnkey_facts::{Event, Evidence, Kind};
use turnkey_monitor::{Available, FileId, Monitor, Rules, Tier, compile};
use turnkey_policy::{Overrides, Policy, RuleAction};

/// The object that the command embeds.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/turnkey.bpf.o");

pub const SIGKILL: i32 = 9;

/// The tier that this kernel offers; the tests hold on both.
pub fn tier() -> Tier {
    Available::here().tier
}

/// A policy from the text of rules and sections, on top of an empty profile.
pub fn policy(text: &str) -> Policy {
    let header = "schema = \"turnkey.profile/v1\"\nname = \"test\"\ndescription = \"test\"\n[syscalls]\nallow = [\"@basic\"]\n";
    let read = |_: &str| Ok(format!("{header}{text}"));
    turnkey_policy::load("test.toml", &read, &Overrides::default()).expect("the policy is right")
}

/// One rule; `more` is further lines of it.
pub fn rule(id: &str, on: &str, action: &str, more: &str) -> String {
    format!(
        "[[rule]]\nid = \"{id}\"\non = \"{on}\"\naction = \"{action}\"\nseverity = \"high\"\nwhy = \"test\"\n{more}\n"
    )
}

/// A rule that kills for reading any of these paths.
pub fn kill_reading(path: &str) -> String {
    rule(
        "secret",
        "open",
        "kill",
        &format!("path = [\"{path}\"]\naccess = [\"read\"]"),
    )
}

/// A cgroup of our own, removed in the end.
pub struct Group {
    pub path: PathBuf,
    pub directory: File,
}

impl Group {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("turnkey-test-{}-{count}", std::process::id());
        let path = unified_hierarchy().join(name);
        std::fs::create_dir(&path).expect("a cgroup can be made: run this as root");
        let directory = File::open(&path).expect("the cgroup can be opened");
        // As a run does: others sweep groups of this name that nobody holds, when they are not new.
        directory.lock().expect("nobody else has it");
        Self { path, directory }
    }

    pub fn id(&self) -> u64 {
        self.directory
            .metadata()
            .expect("the cgroup has metadata")
            .ino()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whatever a failed test left running.
        let _ = std::fs::write(self.path.join("cgroup.kill"), "1");
        for _ in 0..100 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Mount point of cgroup v2, alone or beside v1.
pub fn unified_hierarchy() -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.find(|fields| fields.get(2) == Some(&"cgroup2"));
    PathBuf::from(found.expect("cgroup v2 is mounted")[1])
}

/// Gives this thread mounts of its own, and a BPF file system in which nothing is loaded for all.
pub fn nothing_is_loaded() {
    unshare(CloneFlags::CLONE_NEWNS).expect("a test runs as root");
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).expect("mounts can be private");
    let (bpf, mode) = ("/sys/fs/bpf", Some("mode=0700"));
    mount(Some("bpf"), bpf, Some("bpf"), MsFlags::empty(), mode).expect("it can be mounted");
}

/// Gives this thread mounts of its own, in which the system's programs and libraries cannot be written, as in a
/// jail: who maps code that its jail may have written is nobody in particular.
pub fn the_system_is_read_only() {
    unshare(CloneFlags::CLONE_NEWNS).expect("a test runs as root");
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none).expect("mounts can be private");
    let usr = Some("/usr");
    mount(usr, "/usr", none, MsFlags::MS_BIND, none).expect("it can be bound");
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, "/usr", none, read_only, none).expect("it can be read-only");
}

/// Results of a run.
pub struct Seen {
    pub output: Output,
    pub events: Vec<Event>,
    pub evidence: Evidence,
    pub condemned: bool,
    pub condemned_for_loss: bool,
    /// Acts on names and attributes were decided on by the kernel's own objects.
    pub by_objects: bool,
    /// The system calls that were made, where they were noted.
    pub calls: Vec<&'static str>,
}

impl Seen {
    pub fn status(&self) -> ExitStatus {
        self.output.status
    }

    /// The command was killed, and the jail condemned.
    #[track_caller]
    pub fn assert_killed(&self) {
        assert_eq!(self.status().signal(), Some(SIGKILL), "{}", self.tell());
        assert!(self.condemned, "{}", self.tell());
    }

    /// The command ended by itself with success, and the jail lives.
    #[track_caller]
    pub fn assert_lived(&self) {
        assert!(self.status().success(), "{}", self.tell());
        assert!(!self.condemned, "{}", self.tell());
    }

    /// The events that a rule decided on, with what was done.
    pub fn decisions(&self) -> Vec<(usize, RuleAction)> {
        let decided = self.events.iter().filter_map(|event| event.decision);
        decided
            .map(|decision| (decision.rule, decision.action))
            .collect()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn kinds<T>(&self, pick: impl Fn(&Kind) -> Option<T>) -> Vec<T> {
        self.events
            .iter()
            .filter_map(|event| pick(&event.kind))
            .collect()
    }

    pub fn tell(&self) -> String {
        let events: Vec<String> = self
            .events
            .iter()
            .map(|event| format!("{event:?}"))
            .collect();
        format!(
            "{:?}\n{:?}\n{}",
            self.output,
            self.evidence,
            events.join("\n")
        )
    }
}

/// True when this kernel can interrupt a task in a tracepoint.
pub fn interrupts_tracepoints_here() -> bool {
    let name = nix::sys::utsname::uname().expect("a name");
    turnkey_monitor::interrupts_tracepoints(name.release().to_str().expect("text"))
}

/// Runs a command in a watched cgroup.
pub fn run(policy: &Policy, command: &[&str]) -> Seen {
    run_in(policy, Path::new("/"), command)
}

/// Runs a command in a watched cgroup, in a directory.
pub fn run_in(policy: &Policy, directory: &Path, command: &[&str]) -> Seen {
    run_object(OBJECT, policy, directory, command)
}

/// As [`run`], with system calls noted.
pub fn run_noting(policy: &Policy, command: &[&str]) -> Seen {
    let root = Path::new("/");
    run_object_in(root, (OBJECT, true), policy, root, command)
}

/// As [`run_in`], watched by an object that differs from the committed one.
pub fn run_object(object: &[u8], policy: &Policy, directory: &Path, command: &[&str]) -> Seen {
    run_object_in(Path::new("/"), (object, false), policy, directory, command)
}

/// Device and inode of a file; none when it is not there. stat(2) tells the kernel's own device and inode on the file
/// systems that tests have their directories on.
pub fn file_id(path: &Path) -> Option<FileId> {
    let metadata = std::fs::metadata(path).ok()?;
    let device = metadata.dev();
    let device = (nix::libc::major(device), nix::libc::minor(device));
    Some(FileId::new(device, metadata.ino()))
}

/// As [`run_object`], for a command that will make `root` its root.
fn run_object_in(
    root: &Path,
    (object, notes_calls): (&[u8], bool),
    policy: &Policy,
    directory: &Path,
    command: &[&str],
) -> Seen {
    let rules = compile(policy, tier()).expect("the policy compiles");
    run_rules_in(root, (object, notes_calls), rules, directory, command)
}

/// As [`run_object`], under rules that are compiled already.
pub fn run_rules(object: &[u8], rules: Rules, directory: &Path, command: &[&str]) -> Seen {
    run_rules_in(Path::new("/"), (object, false), rules, directory, command)
}

fn run_rules_in(
    root: &Path,
    (object, notes_calls): (&[u8], bool),
    rules: Rules,
    directory: &Path,
    command: &[&str],
) -> Seen {
    let group = Group::new();
    let mut monitor =
        Monitor::open(object, rules).unwrap_or_else(|error| panic!("{}", chain(&error)));
    let found = monitor.watched_paths().iter();
    let found = found.map(|watched| {
        let path = std::str::from_utf8(&watched.path).expect("text");
        file_id(&root.join(path.trim_start_matches('/')))
    });
    let found: Vec<_> = found.collect();
    monitor.know(&found);
    if notes_calls {
        monitor.note_calls();
    }
    monitor
        .adopt(group.directory.as_fd(), group.id())
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    // The shell joins, and its next exec is the start of the command.
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(group.path.join("cgroup.procs"));
    shell
        .args(command)
        .current_dir(directory)
        .stdin(Stdio::null());
    shell
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let output = shell.output().expect("a shell can be run");
    wait_until_empty(&group);
    let condemned = monitor.condemned();
    let condemned_for_loss = monitor.condemned_for_loss();
    let by_objects = !monitor.hooks().attached.is_empty();
    let calls = monitor.calls().expect("the kernel answers");
    let mut events = Vec::new();
    let evidence = monitor
        .finish(|event| events.push(event))
        .expect("the evidence can be read");
    Seen {
        output,
        events,
        evidence,
        condemned,
        condemned_for_loss,
        by_objects,
        calls: calls
            .into_iter()
            .filter_map(turnkey_policy::syscalls::name)
            .collect(),
    }
}

/// Grandchildren may outlive the command for a moment.
fn wait_until_empty(group: &Group) {
    for _ in 0..500 {
        let procs = std::fs::read_to_string(group.path.join("cgroup.procs"));
        if procs.is_ok_and(|procs| procs.is_empty()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the cgroup does not become empty");
}

/// An interpreter itself, not a script that looks for one.
pub fn python_path() -> &'static str {
    let mut known = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter();
    known
        .find(|path| Path::new(path).exists())
        .expect("python3 is installed")
}

/// Patterns of programs, of which some mean the interpreter that makes the attempts.
pub const ACTORS: &[&str] = &["/usr/bin/**", "**/python3*", "/usr/bin/cat", "/a/**"];

/// The path of the program that the kernel executes for Python.
pub fn python_executed() -> PathBuf {
    let path = Path::new(python_path()).canonicalize();
    path.expect("it is installed")
}

/// Runs a Python program in a watched cgroup.
pub fn python(policy: &Policy, program: &str) -> Seen {
    // -B: the compiled modules that Python would keep are files that it makes and renames.
    run(policy, &[python_path(), "-S", "-E", "-B", "-c", program])
}

/// As [`python`], for a program that makes `root` its root.
pub fn python_in(root: &Path, policy: &Policy, program: &str) -> Seen {
    let command = [python_path(), "-S", "-E", "-B", "-c", program];
    run_object_in(root, (OBJECT, false), policy, Path::new("/"), &command)
}

/// An error with all its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
