//! A service of a test's own, and tests whose runs it makes.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{binary, open_to_all, scratch};

/// The user and group who may use it: nobody's on any host, and no number that the kernel has a meaning for.
pub const SERVED: u32 = 4242;

std::thread_local! {
    static SERVICE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// The variable by which every run of every test is by an ordinary user, by way of a service: `cargo xtask test --served`.
const EVERY_RUN: &str = "TURNKEY_TESTS_SERVED";

std::thread_local! {
    static OF_EVERY_RUN: RefCell<Option<Service>> = const { RefCell::new(None) };
}

/// The directory of the service of the test that runs in this thread, where it has one.
pub(crate) fn of_this_test() -> Option<PathBuf> {
    SERVICE.with_borrow(Clone::clone).or_else(of_every_run)
}

/// The service for whatever a test runs, which is started with the first run of its thread, and ends with that.
fn of_every_run() -> Option<PathBuf> {
    std::env::var_os(EVERY_RUN)?;
    OF_EVERY_RUN.with_borrow_mut(|service| {
        let service = service.get_or_insert_with(|| Service::start(GENEROUS));
        Some(service.directory())
    })
}

/// The process of the service for whatever a test runs that makes a run: who stands ready has no child.
pub(crate) fn maker_of_the_run() -> u32 {
    let makers = OF_EVERY_RUN.with_borrow(|service| service.as_ref().map(Service::makers));
    let mut makers = makers.expect("this thread has a service");
    makers.retain(|maker| {
        let (_, children) = crate::outside("pgrep", &["-P", &maker.to_string()]);
        !children.is_empty()
    });
    assert_eq!(makers.len(), 1, "one run is made");
    makers[0]
}

/// The configuration of a service that gives whatever tests ask for.
const GENEROUS: &str =
    "write = true\nnetworks = [\"none\", \"loopback\", \"allow\", \"sinkhole\", \"host\"]
[limits]
memory = \"16G\"
cpu = \"400%\"
wall = \"1h\"
cpu_time = \"1h\"
[per_user]
memory = \"20G\"
";

/// Runs a test again, with every [`crate::Run`] of it by an ordinary user, by way of a service.
pub fn served(test: fn()) {
    let service = Service::start(
        "write = true\n[limits]\nmemory = \"16G\"\ncpu = \"400%\"\nwall = \"1h\"\ncpu_time = \"1h\"\n",
    );
    SERVICE.set(Some(service.directory().to_owned()));
    test();
    SERVICE.set(None);
}

/// The flags of a socket that takes connections, in /proc/net/unix.
const ACCEPTS: &str = "00010000";

/// A service with its socket in a directory of its own.
pub struct Service {
    place: tempfile::TempDir,
    process: Child,
}

impl Service {
    /// Starts one with these lines in its configuration, and waits until it listens.
    pub fn start(lines: &str) -> Service {
        Service::start_by(&[], lines)
    }

    /// The same by a command that becomes what is behind it.
    pub fn start_by(by: &[&str], lines: &str) -> Service {
        let place = scratch();
        open_to_all(place.path());
        configure(place.path(), lines);
        let process = Service::process(by, place.path());
        let service = Service { place, process };
        service.wait_for_it();
        service
    }

    fn process(by: &[&str], place: &Path) -> Child {
        let own = binary();
        let mut words = by.iter().map(OsStr::new).chain([own.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .arg("serve")
            .arg("--socket-dir")
            .arg(place.join("run"));
        command.arg("--config").arg(place.join("serve.toml"));
        let log = std::fs::File::create(place.join("log")).expect("a test can write");
        command.stdin(Stdio::null()).stderr(log);
        command.spawn().expect("turnkey can be started")
    }

    /// Not by a connection: one that hangs up has a place among those who wait until the service has seen it.
    fn wait_for_it(&self) {
        let socket = self.directory().join("turnkey.fd.sock");
        let socket = socket.to_string_lossy();
        crate::eventually("it listens", || {
            let sockets = std::fs::read_to_string("/proc/thread-self/net/unix");
            let sockets = sockets.expect("/proc is mounted");
            let mut own = sockets.lines().filter(|line| line.ends_with(&*socket));
            own.any(|line| line.split(' ').nth(3) == Some(ACCEPTS))
        });
    }

    /// The directory of the socket.
    pub fn directory(&self) -> PathBuf {
        self.place.path().join("run")
    }

    /// The lines of its log, since it was started last.
    pub fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
        // A line that crosses a page of the file is seen in two steps.
        let text = text.rfind('\n').map_or("", |end| &text[..end]);
        // Before it serves it may have a word for who has started it.
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let lines = lines.map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("each line is JSON")
    }

    /// Writes another configuration, while it serves.
    pub fn configure(&self, lines: &str) {
        configure(self.place.path(), lines);
    }

    /// The listener.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// The processes that make its runs, or stand ready.
    pub fn makers(&self) -> Vec<u32> {
        let own = format!("serve-run --service {}", self.pid());
        let (_, found) = crate::outside("pgrep", &["-f", &own]);
        found.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Waits until nothing is left of what these processes have made.
    pub fn nothing_is_left(makers: &[u32]) {
        let groups: Vec<String> = makers.iter().map(|pid| format!("turnkey-{pid}-")).collect();
        crate::eventually("nothing of its runs is left", || {
            let is_there = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
            let is_own = |trace: &String| groups.iter().any(|group| trace.contains(group));
            !makers.iter().any(is_there) && !crate::traces().iter().any(is_own)
        });
    }

    /// Starts it again in its place, after its end.
    pub fn start_again(&mut self) {
        self.process = Service::process(&[], self.place.path());
        self.wait_for_it();
    }

    /// Ends it by this signal, and waits for its end.
    pub fn end_by(&mut self, signal: Signal) -> Option<i32> {
        let _ = kill(self.pid(), signal);
        let status = self.process.wait().expect("a child can be waited for");
        status.code()
    }
}

fn configure(place: &Path, lines: &str) {
    let config = format!("group = \"{SERVED}\"\n{lines}");
    std::fs::write(place.join("serve.toml"), config).expect("a test can write its own directory");
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end_by(Signal::SIGTERM);
    }
}
