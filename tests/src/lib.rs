//! The harness of the end-to-end tests: runs the real command, on the real kernel, and looks at
//! what really happened.

mod browser;
mod mounts;
mod network;
mod service;
mod session;
mod stalling;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::unistd::Pid;
use serde_json::Value;

pub use browser::Browser;
pub use mounts::{Mount, mounts_of_its_own};
pub use network::{Server, name_server, network_of_its_own};
pub use service::{SERVED, Service, served};
pub use session::{Scene, TerminalSession};
pub use stalling::StallingUser;

/// No run of a test may take longer: a hang is a failure, not a wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run of `turnkey run` in a directory of its own.
pub struct Run {
    directory: tempfile::TempDir,
    /// Outside of the working directory, which is looked at for what a run left in it.
    reports: tempfile::TempDir,
    options: Vec<String>,
    /// A caller without any privilege: this user, of the group with the same number.
    caller: Option<u32>,
    /// The directory of the socket of the service that makes it.
    service: Option<PathBuf>,
}

/// What came of it.
#[derive(Debug)]
pub struct Ran {
    /// turnkey's own exit status.
    pub code: i32,
    /// The program's standard output.
    pub stdout: String,
    /// The program's and turnkey's standard error.
    pub stderr: String,
    /// The parsed report.
    pub report: Value,
    /// The parsed lines of `--events`, of a run that was asked to keep them.
    pub events: Vec<Value>,
    /// From start to end of turnkey.
    pub took: Duration,
    /// The directory it ran in, for a look at its effects.
    pub directory: tempfile::TempDir,
}

impl Default for Run {
    fn default() -> Run {
        Run::new()
    }
}

impl Run {
    /// In a new, empty directory.
    pub fn new() -> Run {
        let run = Run {
            directory: scratch(),
            reports: scratch(),
            options: Vec::new(),
            caller: None,
            service: None,
        };
        if let Some(directory) = service::of_this_test() {
            return run.served_at(&directory);
        }
        if UNPRIVILEGED.get() {
            run.by_nobody().option("--unmonitored")
        } else {
            run
        }
    }

    /// By a caller without any privilege, who accepts what cannot be had without.
    pub fn rootless() -> Run {
        Run::new().by_nobody().option("--unmonitored")
    }

    /// By a caller without any privilege.
    #[must_use]
    pub fn by_nobody(mut self) -> Run {
        self.caller = Some(NOBODY);
        self
    }

    /// By an ordinary user, by way of the service at this directory.
    #[must_use]
    pub fn served_at(mut self, directory: &Path) -> Run {
        self.caller = Some(SERVED);
        self.service = Some(directory.to_owned());
        self.option("--service")
    }

    /// With an option of `run`.
    #[must_use]
    pub fn option(mut self, option: &str) -> Run {
        // A service watches every run: one that nobody is to watch is watched by rules that only tell.
        let option = match self.service {
            Some(_) => option.replace("--unmonitored", "--mode observe"),
            None => option.to_owned(),
        };
        let words = option.split(' ').map(str::to_owned);
        // A run by nobody has it already.
        let known = self.options.clone();
        let is_new = |word: &String| word != "--unmonitored" || !known.contains(word);
        self.options.extend(words.filter(is_new));
        self
    }

    /// With a file in the working directory, or below it.
    #[must_use]
    pub fn file(self, name: &str, content: &str) -> Run {
        let path = self.path().join(name);
        let above = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let made = above.and_then(|()| std::fs::write(path, content));
        made.expect("a test can write its own directory");
        self
    }

    /// With a C program in the working directory, compiled.
    #[must_use]
    pub fn compiled(self, name: &str, source: &str) -> Run {
        compile(&self.path().join(name), source);
        self
    }

    /// Under the profile `untrusted` with these sections of one that extends it.
    #[must_use]
    pub fn profile(self, sections: &str) -> Run {
        let head = "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"untrusted\"]\n";
        let place = self.reports.path().join("mine.toml");
        std::fs::write(&place, format!("{head}{sections}"))
            .expect("a test can write its own directory");
        self.option(&format!("--profile {}", place.display()))
    }

    /// With every event kept for [`Ran::events`].
    #[must_use]
    pub fn with_events(self) -> Run {
        let place = self.events_path();
        self.option(&format!("--events {}", place.display()))
    }

    /// The working directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The command line, ready to start; the report goes to a directory of its own.
    pub fn command(&self, program: &[&str]) -> Command {
        let mut command = Command::new(self.turnkey());
        if let Some(caller) = self.caller {
            hand_over(self.path(), caller);
            hand_over(self.reports.path(), caller);
            // Without supplementary groups, too: the standard library leaves them first.
            command.uid(caller).gid(caller);
        }
        if let Some(directory) = &self.service {
            command.env("TURNKEY_SOCKET_DIR", directory);
        }
        command
            .current_dir(self.path())
            .arg("run")
            .args(&self.options)
            .arg("--report")
            .arg(self.report_path());
        command.arg("--").args(program).stdin(Stdio::null());
        command
    }

    /// The process that makes the run of this command, whose program runs: the command's own, or one of the service's. Of those no other
    /// makes a run.
    pub fn maker(&self, turnkey: &Child) -> Pid {
        let maker = match self.service {
            Some(_) => service::maker_of_the_run(),
            None => turnkey.id(),
        };
        Pid::from_raw(maker.cast_signed())
    }

    /// The user who starts the command, where it is not the test's own.
    pub fn caller(&self) -> Option<u32> {
        self.caller
    }

    /// The command, where the caller can reach it.
    fn turnkey(&self) -> PathBuf {
        match self.caller {
            Some(_) => binary_for_everybody(self.reports.path()),
            None => binary(),
        }
    }

    /// The report that a run of [`Self::command`] has written.
    pub fn report(&self) -> Value {
        let text = std::fs::read(self.report_path()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or(Value::Null)
    }

    fn report_path(&self) -> PathBuf {
        self.reports.path().join("report.json")
    }

    fn events_path(&self) -> PathBuf {
        self.reports.path().join("events.jsonl")
    }

    /// Runs a shell script inside.
    pub fn shell(self, script: &str) -> Ran {
        self.run(&["/bin/sh", "-c", script])
    }

    /// Runs a Python program inside.
    pub fn python(self, program: &str) -> Ran {
        self.run(&["python3", "-c", program])
    }

    /// Runs `program` to its end.
    pub fn run(self, program: &[&str]) -> Ran {
        let mut command = self.command(program);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let child = command.spawn().expect("turnkey can be started");
        self.end(child, started)
    }

    /// What came of a run that was started with [`Self::command`], both outputs into pipes.
    pub fn end(self, child: Child, started: Instant) -> Ran {
        let output = finish(child);
        let took = started.elapsed();
        let text = std::fs::read(self.report_path()).unwrap_or_default();
        let events = std::fs::read_to_string(self.events_path()).unwrap_or_default();
        let event = |line| serde_json::from_str(line).expect("every line is JSON");
        Ran {
            code: output.status.code().expect("turnkey exits by itself"),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            report: serde_json::from_slice(&text).unwrap_or(Value::Null),
            events: events.lines().map(event).collect(),
            took,
            directory: self.directory,
        }
    }
}

/// Gives this thread, and what it starts, a BPF file system in which no programs are loaded for all.
///
/// In a guest they are: its tests run with programs that were loaded once, those of the host with
/// programs of their own.
pub fn nothing_is_loaded() {
    mounts_of_its_own();
    let (bpf, mode) = ("/sys/fs/bpf", Some("mode=0700"));
    mount(Some("bpf"), bpf, Some("bpf"), MsFlags::empty(), mode)
        .expect("a BPF file system can be mounted");
}

/// The user and group of a caller without privileges: nobody, who owns nothing.
pub const NOBODY: u32 = 65534;

std::thread_local! {
    static UNPRIVILEGED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs a test again, with every [`Run`] of it by a caller without privileges.
pub fn unprivileged(test: fn()) {
    UNPRIVILEGED.set(true);
    test();
    UNPRIVILEGED.set(false);
}

/// A directory as [`scratch`] makes one, which belongs to the caller of this test's runs.
pub fn callers_scratch() -> tempfile::TempDir {
    let place = scratch();
    let served = service::of_this_test().map(|_| SERVED);
    let caller = served.or(UNPRIVILEGED.get().then_some(NOBODY));
    if let Some(caller) = caller {
        hand_over(place.path(), caller);
    }
    place
}

/// Gives a directory and what is in it to a user.
pub fn hand_over(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).expect("a test runs as root");
    if path.is_dir() && !path.is_symlink() {
        let entries = std::fs::read_dir(path).expect("it can be read").flatten();
        entries.for_each(|entry| hand_over(&entry.path(), user));
    }
}

/// Whether everybody can reach and run it.
fn is_for_everybody(binary: &Path) -> bool {
    let open = |path: &Path, bits: u32| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & bits == bits)
    };
    open(binary, 0o005)
        && binary
            .ancestors()
            .skip(1)
            .all(|path| path.as_os_str().is_empty() || open(path, 0o001))
}

impl Ran {
    /// A value of the report, by JSON pointer.
    pub fn at(&self, pointer: &str) -> &Value {
        self.report.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The violations.
    pub fn violations(&self) -> &[Value] {
        self.list("/violations")
    }

    /// A list of the report.
    pub fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// Panics with everything known unless `holds`.
    #[track_caller]
    pub fn expect(&self, holds: bool, what: &str) {
        assert!(holds, "{what}\n{}", self.story());
    }

    /// Panics unless the exit status is `code`.
    #[track_caller]
    pub fn expect_code(&self, code: i32) {
        self.expect(self.code == code, &format!("exit status {code}"));
    }

    fn story(&self) -> String {
        let report = serde_json::to_string_pretty(&self.report).unwrap_or_default();
        format!(
            "code {}\nstdout:\n{}\nstderr:\n{}\nreport:\n{report}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// The command under test: `TURNKEY_BIN`, or the one built beside the test.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("TURNKEY_BIN") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    let beside = test
        .parent()
        .and_then(Path::parent)
        .map(|directory| directory.join("turnkey"));
    let binary = beside.expect("a test lies in target/PROFILE/deps");
    assert!(
        binary.is_file(),
        "{} is not built; run `cargo xtask test`",
        binary.display()
    );
    binary
}

/// The command under test where everybody reaches it: a checkout may lie in a directory that only root enters. `directory` is
/// for everybody, and takes a copy if need be.
pub fn binary_for_everybody(directory: &Path) -> PathBuf {
    let binary = binary();
    if is_for_everybody(&binary) {
        return binary;
    }
    let copy = directory.join("turnkey");
    std::fs::copy(&binary, &copy).expect("a test can write its own directory");
    copy
}

/// Waits, but not forever.
pub fn finish(child: Child) -> Output {
    let pid = child.id();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
        }
    });
    let output = child.wait_with_output().expect("a child can be waited for");
    drop(done);
    let _ = guard.join();
    output
}

/// A directory outside of every place that a jail has of its own.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("turnkey-test-")
        .tempdir()
        .expect("a test can make a directory")
}

/// Runs a program outside of any jail, for the control run of an attack.
pub fn outside(program: impl AsRef<OsStr>, arguments: &[&str]) -> (ExitStatus, String) {
    let output = Command::new(itself(program.as_ref()))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("a program of the host");
    (
        output.status,
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// The system's interpreter in place of a script on the caller's PATH that looks for one: it takes ten times as long as a start.
fn itself(program: &OsStr) -> &OsStr {
    let system = OsStr::new("/usr/bin/python3");
    match program == "python3" && Path::new(system).exists() {
        true => system,
        false => program,
    }
}

/// Compiles a C program to `program`, which anybody may then run: each source once in a test, as a compiler takes seconds in a guest.
pub fn compile(program: &Path, source: &str) {
    static COMPILED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let text = program.with_extension("c");
    std::fs::write(&text, source).expect("a test can write its own directory");
    let mut compiled = COMPILED.lock().expect("no compilation panics");
    if let Some(known) = compiled.get(source) {
        std::fs::write(program, known).expect("a test can write its own directory");
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))
            .expect("it is the test's own");
        return;
    }
    let (from, to) = (text.display().to_string(), program.display().to_string());
    let (status, _) = outside("cc", &["-O1", "-o", &to, &from]);
    assert!(status.success(), "{from} compiles");
    let made = std::fs::read(program).expect("it was compiled");
    compiled.insert(source.to_owned(), made);
}

/// Runs a program outside of any jail as a user without any privilege, for the control run of an
/// attack that root must not make.
pub fn as_nobody(program: impl AsRef<OsStr>, arguments: &[&str]) -> (ExitStatus, String) {
    let mut command = Command::new(itself(program.as_ref()));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY);
    let output = command.output().expect("a program of the host");
    (
        output.status,
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// Opens a directory of a test to every user of the host.
pub fn open_to_all(directory: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory, mode).expect("a test owns its directory");
}

/// Everything of turnkey's that the host could still have: groups, processes, mounts.
pub fn traces() -> Vec<String> {
    let mut traces = group_traces();
    traces.extend(process_traces());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    traces.extend(
        mounts
            .lines()
            .filter(|line| line.contains("turnkey"))
            .map(str::to_owned),
    );
    traces
}

/// The control groups of turnkey's that this kernel has.
pub fn group_traces() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((directory, depth)) = open.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with("turnkey-") {
                found.push(entry.path().display().to_string());
            } else if depth < 4 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

/// Processes with a host id from the range that only jails have.
fn process_traces() -> Vec<String> {
    let is_jailed = |status: &str| {
        let uid = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:\t")?.split('\t').next());
        uid.and_then(|uid| uid.parse::<u32>().ok())
            .is_some_and(|uid| (0x7000_0000..0x8000_0000).contains(&uid))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses =
        processes.filter_map(|process| std::fs::read_to_string(process.path().join("status")).ok());
    statuses.filter(|status| is_jailed(status)).collect()
}

/// Shows a figure that a test measured, also when the test passes.
pub fn measured(figure: &str) {
    eprintln!("measured: {figure}");
}

/// A program of others that reads what turnkey writes for them: that of `cargo xtask setup`, or else the caller's. Where there is
/// none, the test says so.
pub fn reader(name: &str) -> Option<Command> {
    let installed = std::env::var_os("TURNKEY_READERS").map(|folder| Path::new(&folder).join(name));
    let program = installed.unwrap_or_else(|| name.into());
    let found = Command::new(&program).arg("--version").output().is_ok();
    if !found {
        measured(&format!(
            "{name} is not here, and read nothing: cargo xtask setup"
        ));
    }
    found.then(|| Command::new(program))
}

/// Whether this is the guest of `cargo xtask vm`, where there is more to be tried: the whole machine
/// is ours, and it has a disk to swap to.
pub fn in_the_guest() -> bool {
    std::env::var_os("TURNKEY_GUEST").is_some()
}

/// Whether this machine's kernel has the calls of x32: the general one of the guests, which was
/// started with them.
pub fn has_x32() -> bool {
    let line = std::fs::read_to_string("/proc/cmdline").expect("/proc is mounted");
    line.split_whitespace().any(|word| word == "syscall.x32=y")
}

/// Waits until `condition` holds; panics with `what` when it does not in time.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
