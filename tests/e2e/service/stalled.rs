//! File systems that answer nobody: FUSE(4), mounted by a user for all, and autofs, whose daemon of root's hangs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use turnkey_expectations::expected;
use turnkey_tests::{
    Run, SERVED, Service, binary_for_everybody, eventually, mounts_of_its_own, open_to_all, scratch,
};

expected!(
    a_file_system_that_takes_no_request_is_given_up: at_night,
    "a minute, which is the time for a preparation"
);

expected!(
    a_file_system_that_answers_no_request_holds_its_caller_s_slot_alone: at_night,
    "ten seconds: a service has five to end, and two more; `nothing_outlives_the_service_…` ends one by day"
);

expected!(
    an_autofs_that_answers_nobody_is_no_directory_and_holds_its_caller_s_slot_alone: not_on [ORDINARY_6_12],
    "its kernel has no autofs"
);

/// A file system whose server answers the kernel's first question, and nothing else.
struct Stalled(Child);

impl Stalled {
    /// Mounts one at `place`. Its server takes further requests, or leaves them where they are.
    fn mount(place: &Path, takes: bool) -> Stalled {
        let takes = if takes { "takes" } else { "leaves" };
        Stalled::serve(
            SERVER,
            &[&place.to_string_lossy(), &SERVED.to_string(), takes],
        )
    }

    /// Mounts one at `place` whose directories are made when they are asked for, by a daemon that never hears.
    fn on_demand(place: &Path) -> Stalled {
        Stalled::serve(DAEMON, &[&place.to_string_lossy()])
    }

    fn serve(program: &str, arguments: &[&str]) -> Stalled {
        let mut command = Command::new("python3");
        command.args(["-c", program]).args(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut first = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output)
            .read_line(&mut first)
            .expect("it says that it serves");
        assert_eq!(first, "serves\n");
        Stalled(child)
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SERVER: &str = r#"
import ctypes, os, struct, sys, time
place, user, takes = sys.argv[1:]
line = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={line},rootmode=40000,user_id={user},group_id={user},allow_other"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"stalled", place.encode(), b"fuse", 0, options.encode()): raise OSError(ctypes.get_errno(), "mount")
_, _, unique = struct.unpack_from("<IIQ", os.read(line, 1 << 20))
answer = struct.pack("<IIIIHHII", 7, 31, 0, 0, 0, 0, 4096, 1).ljust(64, b"\0")
os.write(line, struct.pack("<IiQ", 80, 0, unique) + answer)
print("serves", flush=True)
while takes == "takes": os.read(line, 1 << 20)
time.sleep(600)
"#;

const DAEMON: &str = r#"
import ctypes, os, sys, time
os.setpgid(0, 0)
hears, asks = os.pipe()
options = f"fd={asks},pgrp={os.getpgrp()},minproto=5,maxproto=5,indirect"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"stalled", sys.argv[1].encode(), b"autofs", 0, options.encode()): raise OSError(ctypes.get_errno(), "mount")
print("serves", flush=True)
time.sleep(600)
"#;

/// A caller that names a file there, and the process that looks for it, in this function of the kernel's.
fn asks(service: &Service, place: &Path, function: &str) -> (Child, u32) {
    let binary = binary_for_everybody(&service.directory());
    // Without a report, for whose place the caller's own side would look at the file.
    let mut command = super::as_served(service, &binary.to_string_lossy(), Path::new("/"));
    command.args(["run", "--service", "--quiet", "--read"]);
    command.arg(place.join("file")).args(["--", "true"]);
    let child = command.spawn().expect("turnkey can be started");
    let held = || {
        let makers = service.makers().into_iter();
        let mut held = makers.filter(|maker| {
            let place = format!("/proc/{maker}/wchan");
            std::fs::read_to_string(place).is_ok_and(|place| place == function)
        });
        held.next()
    };
    eventually("it waits for the file system", || held().is_some());
    (child, held().expect("it waits"))
}

/// The functions in which a process waits for FUSE, and for the daemon of autofs.
const FUSE: &str = "request_wait_answer";
const AUTOFS: &str = "autofs_wait";

fn is_there(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[test]
fn a_file_system_that_takes_no_request_is_given_up() {
    mounts_of_its_own();
    let place = scratch();
    open_to_all(place.path());
    let _stalled = Stalled::mount(place.path(), false);
    let service = Service::start("");
    let (mut caller, maker) = asks(&service, place.path(), FUSE);
    std::thread::sleep(Duration::from_secs(50));
    assert!(is_there(maker), "the control: it waits");
    let started = Instant::now();
    while is_there(maker) {
        assert!(started.elapsed() < Duration::from_secs(20), "it waits on");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(caller.wait().unwrap().code(), Some(125));
}

#[test]
fn a_file_system_that_answers_no_request_holds_its_caller_s_slot_alone() {
    mounts_of_its_own();
    let place = scratch();
    open_to_all(place.path());
    let stalled = Stalled::mount(place.path(), true);
    let mut service = Service::start("max_running = 2\nmax_running_per_user = 1\n");
    let (mut caller, maker) = asks(&service, place.path(), FUSE);
    // Another user's.
    let run = Run::new().option("--quiet --service");
    let mut command = run.command(&["true"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(command.status().unwrap().success());
    let started = Instant::now();
    assert_eq!(service.end_by(Signal::SIGTERM), Some(0));
    let took = started.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}");
    // The kernel lets it go when the request has an end, and not before.
    assert!(is_there(maker), "the control: the file system holds it");
    drop(stalled);
    eventually("it is gone", || !is_there(maker));
    assert_eq!(caller.wait().unwrap().code(), Some(125));
}

#[test]
fn an_autofs_that_answers_nobody_is_no_directory_and_holds_its_caller_s_slot_alone() {
    mounts_of_its_own();
    let place = scratch();
    open_to_all(place.path());
    let below = place.path().join("auto");
    std::fs::create_dir(&below).expect("a test makes its own directories");
    let _stalled = Stalled::on_demand(&below);
    let mut service = Service::start("max_running = 2\nmax_running_per_user = 1\n");
    // The caller's own look at a name in it would never end; a handle of itself needs nobody.
    let handle = "print(with_stream(3, os.open('auto', os.O_PATH)))";
    assert_eq!(super::talks(&service, place.path(), handle), "400");
    let (mut caller, maker) = asks(&service, &below, AUTOFS);
    let run = Run::new().option("--quiet --service");
    let mut command = run.command(&["true"]);
    command.env("TURNKEY_SOCKET_DIR", service.directory());
    assert!(command.status().unwrap().success(), "another user's");
    assert!(is_there(maker), "the control: it waits");
    let started = Instant::now();
    assert_eq!(service.end_by(Signal::SIGTERM), Some(0));
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!is_there(maker), "unlike FUSE(4) it lets go who is killed");
    assert_eq!(caller.wait().unwrap().code(), Some(125));
}
