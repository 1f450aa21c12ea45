//! Process ids that come again while a run goes on. The next one of the machine is chosen here, as nobody who shares it
//! with others should.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, eventually, outside, scratch};

expected!(on [LSM_6_12, TRACEPOINT_6_12]);

/// Stored credentials are cat's own here; `untrusted` kills everybody else for reading them.
const OWNER: &str = r#"
[[rule]]
id = "owner"
on = "open"
path = "**/.git-credentials"
exe = "/usr/bin/cat"
action = "allow"
severity = "high"
why = "a test"
"#;
const GUARD: &str = "stored-credential";

/// The name of a cat that has read them, for whoever looks from outside.
const ITS_NAME: &str = "the-owner-of-them";

/// Begins with a process that may read the file and ends. Then forks as often as it is told to; the child does what its
/// parent may, which is not to read the file, when it is told to act.
const PROGRAM: &str = r#"
import mmap, os, subprocess, sys
def say(word): print(word, flush=True)
def hear(): return os.read(0, 1)
owner = subprocess.Popen(['the-owner-of-them', '.git-credentials', '-'], executable='/usr/bin/cat', stdin=subprocess.PIPE)
hear()
owner.stdin.close()
owner.wait()
if 'loads' in sys.argv:
    with open('code', 'wb+') as code:
        code.write(bytes(4096))
        code.flush()
        mmap.mmap(code.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
say('gone')
while hear() == b'f':
    if os.fork() == 0:
        say('here')
        if hear() == b'a': say(open('.git-credentials').read())
        os._exit(0)
    os.wait()
say('done')
"#;

/// The same of the host: a process and a thread that get the number they want, and do what kills in the jail.
const OF_THE_HOST: &str = r#"
import os, sys, threading
wanted, file = int(sys.argv[1]), sys.argv[2]
def next_is_wanted():
    with open('/proc/sys/kernel/ns_last_pid', 'w') as last: last.write(str(wanted - 1))
def act(kind):
    print(kind, open(file).read(), end='', flush=True)
def process():
    next_is_wanted()
    child = os.fork()
    if child == 0:
        if os.getpid() == wanted: act('process')
        os._exit(0)
    os.waitpid(child, 0)
    return child == wanted
def thread():
    got = []
    def run():
        got.append(threading.get_native_id() == wanted)
        if got[0]: act('thread')
    next_is_wanted()
    one = threading.Thread(target=run)
    one.start()
    one.join()
    return got[0]
for kind in process, thread:
    if not any(kind() for _ in range(100)): sys.exit(1)
"#;

/// A jail whose first process that may read the file is dead; its pid, as the host saw it, is free.
struct Bereaved {
    run: Run,
    child: std::process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    began: Instant,
    free: u32,
}

impl Bereaved {
    fn new(arguments: &[&str]) -> Bereaved {
        let run = Run::new().file(".git-credentials", "token\n");
        let run = run.profile(OWNER).with_events();
        let began = Instant::now();
        let program = [&["python3", "-c", PROGRAM], arguments].concat();
        let mut command = run.command(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut jail = Bereaved {
            run,
            child,
            input,
            output,
            began,
            free: 0,
        };
        jail.says("token", "the owner reads it");
        jail.free = owner().expect("it is alive");
        jail.hears("e");
        jail.says("gone", "and ends");
        assert!(!is_alive(jail.free), "the control: its number is free");
        jail
    }

    #[track_caller]
    fn says(&mut self, word: &str, what: &str) {
        let line = self.output.next().and_then(Result::ok);
        assert_eq!(line.as_deref(), Some(word), "{what}");
    }

    fn hears(&mut self, word: &str) {
        self.input.write_all(word.as_bytes()).unwrap();
    }

    /// Has it make a process that has the owner's number.
    fn bear_again(&mut self) {
        for _ in 0..100 {
            fs::write("/proc/sys/kernel/ns_last_pid", (self.free - 1).to_string()).unwrap();
            self.hears("f");
            self.says("here", "it has a child");
            if command_line(self.free).contains(ITS_NAME) {
                return;
            }
            self.hears("n");
        }
        panic!("the number {} was not to be had again", self.free);
    }

    fn end(self) -> Ran {
        drop(self.input);
        let mut ran = self.run.end(self.child, self.began);
        ran.stdout = self.output.map_while(Result::ok).collect();
        ran
    }
}

fn is_alive(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap()
}

/// The program of the jail holds the name, too, but further behind.
fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).into_owned()
}

fn owner() -> Option<u32> {
    let names = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = names.filter_map(|it| it.file_name().to_str()?.parse().ok());
    pids.find(|&pid| command_line(pid).starts_with(ITS_NAME))
}

#[test]
fn who_gets_a_dead_jailed_processs_number_is_neither_watched_nor_killed() {
    let place = scratch();
    let file = place.path().join(".git-credentials");
    fs::write(&file, "the host's\n").unwrap();
    let jail = Bereaved::new(&[]);
    let free = jail.free;
    let wanted = free.to_string();
    let arguments = ["-c", OF_THE_HOST, &wanted, file.to_str().unwrap()];
    let (status, told) = outside("/usr/bin/python3", &arguments);
    assert_eq!(told, "process the host's\nthread the host's\n", "{status}");
    let ran = jail.end();
    ran.expect_code(0);
    ran.expect(ran.at("/verdict") == "clean", "the jail did nothing");
    ran.expect(!ran.events.is_empty(), "the control: it is watched");
    let name = place.path().to_str().unwrap();
    let named = ran.events.iter().filter(|it| it.to_string().contains(name));
    ran.expect(named.count() == 0, "and no act of the host's is told");
    let rows = ran.list("/processes").iter();
    let of_it = rows.filter(|it| it["host_pid"] == free);
    ran.expect(of_it.count() == 1, "the number is the owner's alone");
}

#[test]
fn who_gets_a_dead_processs_number_in_the_jail_gets_no_allowance_of_it() {
    // Who loads what the jail may have written is nobody known, and so is its child, of whom nothing is kept.
    for arguments in [&[][..], &["loads"]] {
        let mut jail = Bereaved::new(arguments);
        jail.bear_again();
        let pid = jail.free;
        jail.hears("a");
        let ran = jail.end();
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), "nothing was read");
        let mut told = ran.violations().iter().filter(|it| it["rule"] == GUARD);
        ran.expect(told.next().is_some(), "it is told");
        let rows = ran.list("/processes").iter();
        let of_it = rows.filter(|it| it["host_pid"] == pid);
        ran.expect(of_it.count() == 2, "the two are two");
        eventually("it is dead", || !is_alive(pid));
    }
}
