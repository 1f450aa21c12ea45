//! A kill comes in time, hits all of the jail and nobody else, and cannot be escaped from.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use turnkey_expectations::expected;
use turnkey_tests::{
    Run, as_nobody, callers_scratch, eventually, finish, open_to_all, outside, scratch,
};

use super::{events, guard, rule, times, violations};

const FAMILY: &str = include_str!("../../attacks/family.c");
const STORM: &str = include_str!("../../attacks/storm.c");

/// What a rule kills for has come too late when it has left a trace on the host.
#[test]
fn m23_j65_nothing_comes_of_an_act_that_kills() {
    let place = scratch();
    let ledger = place.path().join("ledger");
    let came = place.path().join("came");
    let directory = place.path().display();
    let sections = guard(&format!("{directory}/ledger"))
        + &rule("touch", "exec", "kill", "path = \"/usr/bin/touch\"");
    let jail = || {
        fs::write(&ledger, "balance: 5\n").expect("a test can write its own directory");
        let run = Run::new().profile(&sections);
        run.option(&format!("--write {directory}"))
    };
    for (act, rule) in [
        (format!("echo 'balance: 9' 1<> {directory}/ledger"), "guard"),
        (format!("echo 'balance: 9' >> {directory}/ledger"), "guard"),
        (format!("touch {directory}/came"), "touch"),
    ] {
        let happened = || came.exists() || fs::read_to_string(&ledger).unwrap().contains('9');
        let script = format!("{act}; echo done");
        let control = jail().option("--mode observe").shell(&script);
        control.expect(happened(), "the control: it happens");
        control.expect(violations(&control, rule).count() >= 1, "and is told");
        let _ = fs::remove_file(&came);
        let ran = jail().shell(&script);
        ran.expect_code(121);
        ran.expect(!happened(), "nothing came of it");
        ran.expect(!ran.stdout.contains("done"), "and nobody was left");
        ran.expect(violations(&ran, rule).count() == 1, "it is told");
    }
}

/// Processes of the host with this word on their command lines.
fn called(word: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let paths = processes.map(|process| process.path());
    let called = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|one| one == word.as_bytes())
    };
    paths.filter(called).collect()
}

/// A process of the host that must not be hit.
struct Bystander(Child);

impl Bystander {
    fn new() -> Bystander {
        let child = Command::new("sleep").arg("60").spawn();
        Bystander(child.expect("sleep can be run"))
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn m24_a_storm_of_processes_dies_whole_and_alone() {
    let mut bystander = Bystander::new();
    let name = format!("storm-{}", std::process::id());
    let jail = || Run::new().compiled("storm", STORM).option("--pids 200");
    let program = ["./storm", &name];
    let control = jail().option("--mode observe --wall 2s").run(&program);
    control.expect_code(124);
    control.expect(control.stdout == "opened\n", "the control: it storms on");
    let many = control.at("/events/seen/fork").as_u64().unwrap_or(0);
    control.expect(many > 200, "the control: by many processes");
    let ran = jail().run(&program);
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("opened"), "without effect");
    ran.expect(
        violations(&ran, "credential-file").count() == 1,
        "and it is told",
    );
    assert_eq!(called(&name), Vec::<PathBuf>::new(), "nobody is left");
    assert!(bystander.lives(), "and nobody else was hit");
}

/// Ways to make a process, and a thread.
const WAYS: [&str; 6] = [
    "thread",
    "fork",
    "vfork",
    "daemon",
    "sibling",
    "shared-memory",
];

expected!(
    m25_j63_every_descendant_is_one_of_the_jail,
    m25_services_of_the_host_that_start_programs_are_not_there: not_on [ORDINARY_6_12],
    "a run for each way to be a descendant; a jail is known by its group on every kernel"
);
#[test]
fn m25_j63_every_descendant_is_one_of_the_jail() {
    let jail = || Run::new().compiled("family", FAMILY).with_events();
    let all = [&["./family"][..], &WAYS].concat();
    let control = jail().option("--mode observe").run(&all);
    let opened = control.stdout.matches("opened").count();
    control.expect(opened == WAYS.len(), "the control: each opens it");
    let told = times(&control, "/etc/shadow", "allowed");
    control.expect(told == WAYS.len() as u64, "and each is told");
    for way in WAYS {
        let ran = jail().run(&["./family", way]);
        ran.expect_code(121);
        ran.expect(!ran.stdout.contains("opened"), way);
        ran.expect(!ran.stdout.contains("lived"), "with the one that made it");
        let told = violations(&ran, "credential-file").next();
        let by = told.map(|one| one["process"]["pid"] == 2);
        ran.expect(by == Some(way == "thread"), "told, with who it was");
    }
}

/// A service of the host that listens where such services do, to everybody.
struct Service {
    _directory: tempfile::TempDir,
    path: String,
    listener: UnixListener,
}

impl Service {
    fn new() -> Service {
        let directory = tempfile::tempdir_in("/run").expect("a test runs as root");
        open_to_all(directory.path());
        let path = directory.path().join("service.sock").display().to_string();
        let listener = UnixListener::bind(&path).expect("the place is new");
        listener.set_nonblocking(true).expect("a new socket");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&path, all).expect("it is ours");
        Service {
            _directory: directory,
            path,
            listener,
        }
    }

    /// Whether somebody connected since this was asked last.
    fn came(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

#[test]
fn m25_services_of_the_host_that_start_programs_are_not_there() {
    let sockets = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/systemd/private",
        "/run/dbus/system_bus_socket",
    ];
    let service = Service::new();
    let sockets = [&sockets[..], &[service.path.as_str()]].concat();
    let program = format!(
        "import socket
for path in {sockets:?}:
    try: socket.socket(socket.AF_UNIX).connect(path); print('connected')
    except OSError as error: print(error.errno)"
    );
    let (_, control) = as_nobody("python3", &["-c", &program]);
    assert!(
        control.ends_with("connected\n") && service.came(),
        "the control: a service of the host starts what it is told to: {control}"
    );
    let ran = Run::new().python(&program);
    ran.expect(ran.stdout == "2\n".repeat(sockets.len()), "none is there");
    assert!(!service.came(), "nobody came");
    for socket in sockets {
        let address = format!("unix:{socket}");
        let tried = ran.list("/network_attempts").iter();
        let tried = tried.filter(|one| one["address"] == address.as_str());
        ran.expect(tried.count() == 1, socket);
    }
}

/// Where cgroup v2 is mounted, alone or beside v1.
fn groups() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
    let found = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let place = found.and_then(|line| line.split(' ').nth(1));
    PathBuf::from(place.expect("cgroup v2 is mounted"))
}

const MIGRATE: &str = "import os
for group in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified', '/proc/1/root/sys/fs/cgroup'):
    try: open(group + '/cgroup.procs', 'w').write('0'); print('moved')
    except OSError as error: print(error.errno)
print(open('/proc/self/cgroup').read().strip().splitlines()[-1])";

#[test]
fn m26_j63_nobody_leaves_the_group() {
    let group = groups().join(format!("turnkey-test-migrate-{}", std::process::id()));
    fs::create_dir(&group).unwrap();
    let bystander = Bystander::new();
    let pid = bystander.0.id().to_string();
    let moved = fs::write(group.join("cgroup.procs"), &pid);
    let after = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    drop(bystander);
    eventually("the group is empty", || fs::remove_dir(&group).is_ok());
    assert!(
        moved.is_ok() && after.contains("turnkey-test-migrate"),
        "the control: root can"
    );

    let ran = Run::new().python(MIGRATE);
    ran.expect(
        ran.stdout == "2\n2\n13\n0::/\n",
        "there are no groups to be seen",
    );
    let told = times(&ran, "/sys/fs/cgroup/cgroup.procs", "denied");
    ran.expect(told >= 1, "and it is told");
    let mount = "import ctypes
ctypes.CDLL(None).mount(b'none', b'/tmp', b'cgroup2', 0, None)
print('mounted', flush=True)";
    let ran = Run::new().python(mount);
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("mounted"), "nor can they be mounted");
    let run = Run::new().compiled("family", FAMILY).with_events();
    let ran = run.run(&["./family", "group"]);
    let answer = format!("no group: {}\nlived\n", libc::ENOSYS);
    ran.expect(ran.stdout == answer, "nor is anybody born elsewhere");
}

/// What would end or blind whoever watches, one line each.
const BLIND: &str = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tell(*call):
    print(call[0], libc.syscall(*call), ctypes.get_errno(), flush=True)
tell(62, 1, 9)
tell(200, 1, 9)
tell(101, 16, 1, 0, 0)
tell(321, 0, 0, 0)
tell(321, 7, ctypes.create_string_buffer(128), 128)
tell(321, 3, ctypes.create_string_buffer(128), 128)
tell(157, 22, 2, 0)
tell(272, 0x10000000)
print(os.getppid(), os.path.exists('/sys/fs/bpf'), os.path.exists('/proc/1/exe'))";

#[test]
fn m29_the_watcher_is_out_of_reach() {
    let victim = "import os, signal, subprocess, sys
victim = subprocess.Popen(['sleep', '60'])
os.kill(victim.pid, 9)
print(-victim.wait())";
    let (_, control) = outside("python3", &["-c", victim]);
    assert_eq!(
        control, "9\n",
        "the control: outside a process can be killed"
    );
    let ran = Run::new()
        .with_events()
        .option("--mode observe")
        .python(BLIND);
    let answers = [62, 200, 101, 321, 321, 321, 157, 272];
    let answers = answers.map(|call| format!("{call} -1 1\n")).concat();
    ran.expect(ran.stdout == answers + "1 False False\n", "each is refused");
    for call in ["kill", "tkill", "ptrace", "bpf", "prctl", "unshare"] {
        let told = events(&ran, "refused").any(|event| event["syscall"] == call);
        ran.expect(told, call);
    }
    ran.expect(ran.at("/events/complete") == true, "and the watch went on");
    for call in ["ptrace(16, 1, 0, 0)", "syscall(321, 0, 0, 0)"] {
        let program =
            format!("import ctypes\nctypes.CDLL(None).{call}\nprint('lived', flush=True)");
        let ran = Run::new().python(&program);
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), call);
    }
}

/// unshare(2) also takes descriptors, the working directory and semaphores apart; `CLONE_FILES`, `CLONE_FS`, `CLONE_SYSVSEM`.
#[test]
fn what_is_taken_apart_and_no_namespace_breaks_no_rule_on_these() {
    let calls = |flags: u64| format!("import ctypes; ctypes.CDLL(None).unshare({flags})");
    let control = Run::new().python(&calls(0x1000_0000));
    control.expect(
        super::violations(&control, "nested-namespace").count() == 1,
        "the control: a namespace",
    );
    for flags in [0, 0x400, 0x200, 0x40000] {
        let ran = Run::new().with_events().python(&calls(flags));
        ran.expect(ran.report["verdict"] == "clean", "harmless");
        let is_told = events(&ran, "refused").any(|event| event["syscall"] == "unshare");
        ran.expect(is_told, "and told as refused");
    }
}

/// The time of the last heartbeat.
fn beat(file: &Path) -> Option<String> {
    fs::read_to_string(file)
        .ok()
        .filter(|text| !text.is_empty())
}

#[test]
fn m29_a_jail_whose_watcher_dies_is_dead() {
    let place = callers_scratch();
    let file = place.path().join("beat");
    let name = format!("heart-{}", std::process::id());
    let program = "import os, sys, time
if os.fork() == 0:
    os.setsid()
while True:
    with open(sys.argv[1], 'w') as beat: beat.write(str(time.monotonic()))
    time.sleep(0.01)";
    let run = Run::new().option(&format!("--write {}", place.path().display()));
    let path = file.display().to_string();
    let mut command = run.command(&["python3", "-c", program, &path, &name]);
    let turnkey = command.stderr(Stdio::null()).spawn().unwrap();
    eventually("the heart beats", || beat(&file).is_some());
    let (before, since) = (beat(&file), Instant::now());
    eventually("the control: it goes on", || {
        beat(&file).is_some_and(|now| Some(now) != before)
    });
    assert!(called(&name).len() >= 2, "the control: both live");
    kill(run.maker(&turnkey), Signal::SIGKILL).unwrap();
    finish(turnkey);
    eventually("both are dead", || {
        // turnkey's own command line has the name, too, and the keeper's.
        called(&name).is_empty()
    });
    let last = beat(&file);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        beat(&file),
        last,
        "after {:?} nothing beats",
        since.elapsed()
    );
}
