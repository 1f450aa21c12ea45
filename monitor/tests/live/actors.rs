//! M09, M10, M11: rules that name who acts, and processes that become others, or pretend to.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use turnkey_abi::fault;
use turnkey_expectations::expected;
use turnkey_facts::{Event, Kind};
use turnkey_monitor::compile;
use turnkey_policy::{EnforcementMode, Policy};

use super::faults::faulty;
use super::harness::{
    OBJECT, Seen, nothing_is_loaded, policy, python_path, rule, run_in, run_rules,
    the_system_is_read_only, tier,
};
use super::perf::see_trace_events;

/// A directory with secrets, of which each attempt has its own, and with programs.
struct Scene {
    _directory: tempfile::TempDir,
    top: PathBuf,
}

const GUARD: usize = 0;
const MAY: usize = 1;

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let top = directory.path().canonicalize().expect("a path");
        let scene = Self {
            _directory: directory,
            top,
        };
        for name in ["special", "other", "own"] {
            std::fs::copy(python_path(), scene.path(name)).expect("a program can be copied");
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a script can be written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("ours");
    }

    /// The secrets are nobody's but those of `who`, a line of a rule.
    fn policy(&self, who: &str) -> Policy {
        let path = format!("path = [\"{}/secret-*\"]", self.top.display());
        let guard = rule("guard", "open", "kill", &path);
        let may = rule("may", "open", "allow", &format!("{path}\n{who}"));
        policy(&(guard + &may))
    }

    fn special(&self) -> String {
        format!("exe = [\"{}\"]", self.path("special").display())
    }

    /// A Python program that has `top` and what the scenes do there.
    fn program(&self, text: &str) -> String {
        let path = self.path("prelude.py");
        let prelude = format!("top = {:?}\n{PRELUDE}", self.top);
        std::fs::write(&path, prelude).expect("it can be written");
        format!("prelude = {path:?}\nexec(open(prelude).read())\n{text}")
    }

    fn observe(&self, object: &[u8], policy: &Policy, text: &str, by_perf: bool) -> Seen {
        let policy = policy.clone().with_mode(EnforcementMode::Observe);
        let program = self.program(text);
        let command = [python_path(), "-S", "-E", "-B", "-c", &program];
        let mut rules = compile(&policy, tier()).expect("the policy compiles");
        if by_perf {
            rules = rules.called_by_perf();
        }
        let seen = run_rules(object, rules, &self.top, &command);
        seen.assert_lived();
        seen
    }
}

const PRELUDE: &str = r#"
import os, sys, threading, time
def read(name):
    try: os.close(os.open(f"{top}/secret-{name}", os.O_RDONLY))
    except OSError: pass
def arguments(program, text):
    return [program, "-S", "-E", "-B", "-c", f"prelude = {prelude!r}\nexec(open(prelude).read())\n{text}"]
def become(program, text): os.execv(program, arguments(program, text))
def run(act):
    child = os.fork()
    if child == 0:
        try: act()
        finally: os._exit(0)
    os.waitpid(child, 0)
def special(text): run(lambda: become(f"{top}/special", text))
def in_thread(act):
    thread = threading.Thread(target=act); thread.start(); thread.join(); time.sleep(5)
"#;

/// The rule that decided on each secret.
fn decided(events: &[Event]) -> BTreeMap<String, Option<usize>> {
    let secrets = events.iter().filter_map(|event| {
        let Kind::Open { raw, .. } = &event.kind else {
            return None;
        };
        let raw = String::from_utf8_lossy(&raw.bytes).into_owned();
        let (_, name) = raw.split_once("secret-")?;
        Some((name.to_owned(), event.decision.map(|taken| taken.rule)))
    });
    secrets.collect()
}

#[track_caller]
fn assert_decided(seen: &Seen, expected: &[(&str, usize)]) {
    let decided = decided(&seen.events);
    let expected: BTreeMap<String, Option<usize>> = expected
        .iter()
        .map(|(name, rule)| ((*name).to_owned(), Some(*rule)))
        .collect();
    assert_eq!(decided, expected, "{:?}", seen.output);
}

/// Processes that are the special program, were, or seem to be.
const BECOMING: &str = r#"
read("nobody")
special("read('special')")
special("run(lambda: read('forked'))")
special("t = threading.Thread(target=lambda: read('thread')); t.start(); t.join()")
special("run(lambda: os.execv('/bin/cat', ['cat', f'{top}/secret-replaced']))")
special("os.posix_spawn('/bin/cat', ['cat', f'{top}/secret-spawned'], {}); os.wait()")
special("in_thread(lambda: os.execv('/bin/cat', ['cat', f'{top}/secret-by-thread']))")
run(lambda: in_thread(lambda: become(f"{top}/special", "read('thread-to-special')")))
special("os.rename(f'{top}/special', f'{top}/aside'); read('renamed-itself'); os.rename(f'{top}/aside', f'{top}/special')")
special("try: os.execv('/no/such/program', ['x'])\nexcept OSError: read('exec-that-failed')")
os.link(f"{top}/special", f"{top}/linked")
run(lambda: become(f"{top}/linked", "read('linked')"))
run(lambda: become(f"{top}/other", "read('copied')"))
os.symlink(f"{top}/special", f"{top}/symlink")
run(lambda: become(f"{top}/symlink", "read('by-symlink')"))
def by_memory():
    fd = os.memfd_create(f"{top}/special", 0)
    os.write(fd, open("/bin/cat", "rb").read())
    os.execve(fd, [f"{top}/special", f"{top}/secret-memory"], {})
run(by_memory)
loader = "/lib64/ld-linux-x86-64.so.2"
run(lambda: os.execv(loader, [loader] + arguments(f"{top}/special", "read('by-loader')")))
run(lambda: become(f"{top}/own", "os.rename(f'{top}/special', f'{top}/aside'); os.rename(f'{top}/own', f'{top}/special'); assert os.readlink('/proc/self/exe') == f'{top}/special'; read('in-its-place')"))
"#;

const BECAME: [(&str, usize); 16] = [
    ("nobody", GUARD),
    ("special", MAY),
    ("forked", MAY),
    ("thread", MAY),
    ("replaced", GUARD),
    ("spawned", GUARD),
    ("by-thread", GUARD),
    ("thread-to-special", MAY),
    ("renamed-itself", MAY),
    ("exec-that-failed", MAY),
    ("linked", GUARD),
    ("copied", GUARD),
    ("by-symlink", MAY),
    ("memory", GUARD),
    ("by-loader", GUARD),
    ("in-its-place", GUARD),
];

expected!(
    m09_a_process_is_what_it_executed_last_and_not_what_it_seems,
    m09_a_rule_about_programs_is_enforced_both_ways,
    a_script_is_known_by_the_name_that_it_was_started_by: on BY_TIER
);
expected!(
    m09_code_that_another_process_can_write_is_not_the_program: on
    [BY_DAY, TRACEPOINT_6_12, MONITOR_6_1, TRACEPOINT_6_1]
);
#[test]
fn m09_a_process_is_what_it_executed_last_and_not_what_it_seems() {
    the_system_is_read_only();
    let scene = Scene::new();
    let policy = scene.policy(&scene.special());
    let seen = scene.observe(OBJECT, &policy, BECOMING, false);
    assert_decided(&seen, &BECAME);
}

expected!(
    by_perf_it_is_the_same,
    by_perf_a_script_is_the_same,
    by_perf_an_exec_is_the_same: not_on WHOLE_MONITOR,
    "loads the programs once more, which takes an emulated CPU long; on the newest \
     kernel perf calls them for every test"
);
#[test]
fn by_perf_it_is_the_same() {
    the_system_is_read_only();
    nothing_is_loaded();
    see_trace_events();
    let scene = Scene::new();
    let policy = scene.policy(&scene.special());
    let seen = scene.observe(OBJECT, &policy, BECOMING, true);
    assert_decided(&seen, &BECAME);
}

/// A child whose parent ends before it does anything.
const ORPHAN: &str = r#"
special("""
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent: pass
        read('orphan')
    time.sleep(0.3)
    os._exit(0)
os.wait()
time.sleep(0.5)
""")
"#;

#[test]
fn an_orphan_is_what_its_parent_was() {
    the_system_is_read_only();
    let scene = Scene::new();
    let policy = scene.policy(&scene.special());
    let seen = scene.observe(OBJECT, &policy, ORPHAN, false);
    assert_decided(&seen, &[("orphan", MAY)]);
}

expected!(
    of_a_fork_that_is_not_told_the_parent_tells: not_on WHOLE_MONITOR,
    "loads an object of its own, which takes an emulated CPU half a minute; what the \
     kernel has to do with it is in the other tests of who acts"
);
/// Linux 7 leaves out what a fork would tell, now and then.
#[test]
fn of_a_fork_that_is_not_told_the_parent_tells() {
    the_system_is_read_only();
    let scene = Scene::new();
    let policy = scene.policy(&scene.special());
    let object = faulty(fault::FORKS);
    // An orphan is asked about at the end of the call that made it, when its parent is still there.
    let text = format!("{ORPHAN}\n{BECOMING}");
    let seen = scene.observe(&object, &policy, &text, false);
    assert_decided(&seen, &[&[("orphan", MAY)], &BECAME[..]].concat());
}

#[test]
fn m34_who_is_not_kept_may_nothing_that_anybody_may_not() {
    the_system_is_read_only();
    let scene = Scene::new();
    let policy = scene.policy(&scene.special());
    let program = "special(\"read('lost'); os.write(1, b'survived')\")";
    let object = faulty(fault::ACTORS);
    let seen = scene.observe(&object, &policy, program, false);
    assert_decided(&seen, &[("lost", GUARD)]);
    assert!(seen.evidence.faults > 0, "{}", seen.tell());
    let program = scene.program(program);
    let command = [python_path(), "-S", "-E", "-B", "-c", &program];
    let rules = compile(&policy, tier()).expect("the policy compiles");
    let seen = run_rules(&object, rules, &scene.top, &command);
    assert!(seen.condemned, "{}", seen.tell());
    assert_eq!(seen.stdout(), "");
}

#[test]
fn m09_a_rule_about_programs_is_enforced_both_ways() {
    the_system_is_read_only();
    let scene = Scene::new();
    std::fs::write(scene.path("secret-key"), "key").expect("it can be written");
    let read = |program: &str| {
        let text = format!(
            "os.write(1, open('{}/secret-key', 'rb').read())",
            scene.top.display()
        );
        let program = scene.path(program).display().to_string();
        let command = [
            &program,
            "-S",
            "-E",
            "-B",
            "-c",
            &format!("import os; {text}"),
        ];
        run_in(&scene.policy(&scene.special()), &scene.top, &command)
    };
    let allowed = read("special");
    allowed.assert_lived();
    assert_eq!(allowed.stdout(), "key");
    let killed = read("other");
    killed.assert_killed();
    assert_eq!(killed.stdout(), "");
}

/// Scripts, by many names.
const SCRIPTS: &str = r#"
def start(name, secret, cwd="/"):
    def act():
        os.chdir(cwd)
        os.execv(name, [name, f"{top}/secret-{secret}"])
    run(act)
start(f"{top}/script", "absolute")
start("./script", "relative", top)
start("script", "bare", top)
start(f"{top}/link/../script", "stepped")
start("../script", "stepped-relative", f"{top}/link")
start(f"{top}/symlink", "symlink")
start(f"{top}/nested", "nested")
start(f"{top}/child", "child")
start(f"{top}/program", "program")
start(f"{top}/./script", "dotted")
run(lambda: os.execv("/bin/sh", ["sh", f"{top}/script", f"{top}/secret-interpreted"]))
def crowded(name, secret):
    def act():
        os.chdir(top)
        threading.Thread(target=lambda: time.sleep(5), daemon=True).start()
        os.execv(name, [name, f"{top}/secret-{secret}"])
    run(act)
crowded("./script", "crowded-relative")
crowded(f"{top}/script", "crowded-absolute")
"#;

const STARTED: [(&str, usize); 13] = [
    ("absolute", MAY),
    ("relative", MAY),
    ("bare", MAY),
    ("dotted", MAY),
    // A symlink may lead elsewhere before the `..`: nobody knows which script it was.
    ("stepped", GUARD),
    ("stepped-relative", GUARD),
    ("symlink", GUARD),
    ("nested", GUARD),
    ("child", MAY),
    ("program", GUARD),
    ("interpreted", GUARD),
    // Another thread could have changed the directory meanwhile.
    ("crowded-relative", GUARD),
    ("crowded-absolute", MAY),
];

impl Scene {
    fn with_scripts() -> (Self, Policy) {
        let scene = Self::new();
        let top = scene.top.display().to_string();
        let guarded = format!("{top}/script");
        scene.script(
            "script",
            "#!/bin/sh\nfor last; do :; done\nread line < $last\nexit 0\n",
        );
        scene.script("child", "#!/bin/sh\n(read line < $1)\nexit 0\n");
        scene.script("program", "#!/bin/sh\ncat $1\nexit 0\n");
        scene.script("nested", &format!("#!{guarded}\n"));
        symlink(&guarded, scene.path("symlink")).expect("a symlink can be made");
        std::fs::create_dir(scene.path("directory")).expect("a directory can be made");
        symlink(scene.path("directory"), scene.path("link")).expect("a symlink can be made");
        let who = format!("script = [\"{guarded}\", \"{top}/child\", \"{top}/program\"]");
        let policy = scene.policy(&who);
        (scene, policy)
    }
}

#[test]
fn a_script_is_known_by_the_name_that_it_was_started_by() {
    the_system_is_read_only();
    let (scene, policy) = Scene::with_scripts();
    let seen = scene.observe(OBJECT, &policy, SCRIPTS, false);
    assert_decided(&seen, &STARTED);
}

#[test]
fn by_perf_a_script_is_the_same() {
    the_system_is_read_only();
    nothing_is_loaded();
    see_trace_events();
    let (scene, policy) = Scene::with_scripts();
    let seen = scene.observe(OBJECT, &policy, SCRIPTS, true);
    assert_decided(&seen, &STARTED);
}

/// The rules that decided, with the name of the actor.
fn by_whom(seen: &Seen, kind: impl Fn(&Kind) -> bool) -> Vec<usize> {
    let events = seen.events.iter().filter(|event| kind(&event.kind));
    events
        .filter_map(|event| Some(event.decision?.rule))
        .collect()
}

fn assert_an_exec_is_of_who_asks(by_perf: bool) {
    let execs = |kind: &Kind| matches!(kind, Kind::Exec { .. } | Kind::ExecAttempt { .. });
    let scene = Scene::new();
    let path = "path = [\"/usr/bin/true\", \"/bin/true\"]";
    let guard = rule("guard", "exec", "kill", path);
    let may = rule(
        "may",
        "exec",
        "allow",
        &format!("{path}\n{}", scene.special()),
    );
    let text = "special(\"run(lambda: os.execv('/bin/true', ['true']))\")\nrun(lambda: os.execv('/bin/true', ['true']))";
    let seen = scene.observe(OBJECT, &policy(&(guard + &may)), text, by_perf);
    assert_eq!(by_whom(&seen, execs), [MAY, GUARD], "{}", seen.tell());
}

#[test]
fn an_exec_is_of_the_program_that_asks_for_it() {
    the_system_is_read_only();
    assert_an_exec_is_of_who_asks(false);
}

#[test]
fn by_perf_an_exec_is_the_same() {
    the_system_is_read_only();
    nothing_is_loaded();
    see_trace_events();
    assert_an_exec_is_of_who_asks(true);
}

#[test]
fn addresses_and_calls_are_asked_about_by_who_acts() {
    the_system_is_read_only();
    let scene = Scene::new();
    let address = "address = [\"10.0.0.1\"]";
    let guard = rule("guard", "connect", "kill", address);
    let may = rule(
        "may",
        "connect",
        "allow",
        &format!("{address}\n{}", scene.special()),
    );
    let mount = rule("mount", "mount", "kill", &scene.special());
    let acts = "import _socket as s, ctypes\ntry: s.socket(s.AF_INET, s.SOCK_DGRAM).connect(('10.0.0.1', 9))\nexcept OSError: pass\nctypes.CDLL(None).umount2(b'/no/such/place', 0)";
    let text = format!("special({acts:?})\nexec({acts:?})");
    let seen = scene.observe(OBJECT, &policy(&(guard + &may + &mount)), &text, false);
    let connects = |kind: &Kind| matches!(kind, Kind::Network { .. });
    assert_eq!(by_whom(&seen, connects), [MAY, GUARD], "{}", seen.tell());
    let calls = |kind: &Kind| matches!(kind, Kind::Refused { .. });
    assert_eq!(by_whom(&seen, calls), [2], "{}", seen.tell());
}

/// Ways to executable memory, each in a process of its own. libc without Python's own helpers.
const EXECUTABLE: &str = r#"
import ctypes
R, W, X = 1, 2, 4
SHARED, PRIVATE, ANONYMOUS = 1, 2, 32
SEGMENT_EXEC, SUBREAPER = 0o100000, 36
libc = ctypes.CDLL(None, use_errno=True)
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.restype = pointer
libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
libc.shmat.restype = pointer
libc.shmat.argtypes = [number, pointer, number]
def there(at, what):
    if at == 2**64 - 1: raise OSError(ctypes.get_errno(), what)
    return at
def map(protection, flags, file=-1, at=None, length=8192):
    return there(libc.mmap(at, length, protection, flags, file, 0), "mmap")
def protect(at, length=4096):
    if libc.mprotect(pointer(at), size(length), R | X): raise OSError(ctypes.get_errno(), "mprotect")
def protect_by_key(at):
    if libc.syscall(329, pointer(at), size(4096), R | X, -1): raise OSError(ctypes.get_errno(), "pkey_mprotect")
def areas(flags):
    at = map(R | W, PRIVATE | ANONYMOUS)
    map(R, flags | ANONYMOUS | 16, at=at + 4096, length=4096)
    return at
def attach(flags):
    identity = libc.shmget(0, size(4096), 0o1700)
    try: return there(libc.shmat(identity, None, flags), "shmat")
    finally: libc.shmctl(identity, 0, None)
def memory():
    file = os.memfd_create("code"); os.ftruncate(file, 8192)
    return file
def implied():
    libc.personality(0x400000)
    map(R | W, SHARED | ANONYMOUS)
def way(name, act):
    def done():
        try: act()
        except OSError as error: os.open(f"{top}/secret-{name}-failed-{error}", os.O_RDONLY)
        read(name)
    run(done)
def orphan():
    libc.prctl(SUBREAPER, 1)
    def parent():
        map(R | X, SHARED | ANONYMOUS)
        if os.fork() == 0:
            while os.getppid() != adopter: time.sleep(0.001)
            read("orphan"); os._exit(0)
    adopter = os.getpid()
    run(parent)
    os.wait()
way("private", lambda: map(R | W | X, PRIVATE | ANONYMOUS))
way("private-protected", lambda: protect(map(R | W, PRIVATE | ANONYMOUS)))
way("private-areas", lambda: protect(areas(PRIVATE), 8192))
way("shared-not-executable", lambda: map(R | W, SHARED | ANONYMOUS))
way("shared", lambda: map(R | W | X, SHARED | ANONYMOUS))
way("shared-protected", lambda: protect(map(R | W, SHARED | ANONYMOUS)))
way("shared-by-key", lambda: protect_by_key(map(R | W, SHARED | ANONYMOUS)))
way("shared-areas", lambda: protect(areas(SHARED), 8192))
way("shared-implied", implied)
way("zero", lambda: map(R | X, SHARED, os.open("/dev/zero", os.O_RDWR)))
way("memory", lambda: map(R | X, SHARED, memory()))
way("segment", lambda: attach(SEGMENT_EXEC))
way("segment-protected", lambda: protect(attach(0)))
run(orphan)
read("itself")
"#;

/// Code that a program compiles is its own. Another process of the jail can put other code into memory that it shares.
#[test]
fn m09_code_that_another_process_can_write_is_not_the_program() {
    the_system_is_read_only();
    let scene = Scene::new();
    let text = format!("special({EXECUTABLE:?})");
    let seen = scene.observe(OBJECT, &scene.policy(&scene.special()), &text, false);
    assert_decided(
        &seen,
        &[
            ("private", MAY),
            ("private-protected", MAY),
            ("private-areas", MAY),
            ("shared-not-executable", MAY),
            ("shared", GUARD),
            ("shared-protected", GUARD),
            ("shared-by-key", GUARD),
            ("shared-areas", GUARD),
            ("shared-implied", GUARD),
            ("zero", GUARD),
            ("memory", GUARD),
            ("segment", GUARD),
            ("segment-protected", GUARD),
            ("orphan", GUARD),
            ("itself", MAY),
        ],
    );
}
