//! Memory made executable: without a file always, with one when a rule names its path.

use turnkey_expectations::expected;
use turnkey_facts::Kind;
use turnkey_policy::RuleAction;

use super::harness::{Seen, policy, python, rule};

expected!(on BY_TIER);

/// `f(*run)` calls code that returns 42, wherever `run` puts it; libc without Python's own helpers.
const PRELUDE: &str = "
import ctypes, mmap, os, sys
CODE = b'\\xb8\\x2a\\0\\0\\0\\xc3'
R, W, X = 1, 2, 4
SHARED, PRIVATE, ANONYMOUS = 1, 2, 32
libc = ctypes.CDLL(None, use_errno=True)
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.restype = pointer
libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
libc.mprotect.argtypes = [pointer, size, number]
libc.shmat.restype = pointer
libc.shmat.argtypes = [number, pointer, number]
def map(protection, flags, file=-1):
    at = libc.mmap(None, 4096, protection, flags, file, 0)
    if at == 2**64 - 1: raise OSError(ctypes.get_errno(), 'mmap')
    return at
def protect(at, protection):
    if libc.mprotect(at, 4096, protection): raise OSError(ctypes.get_errno(), 'mprotect')
    return at
def put(at):
    ctypes.memmove(at, CODE, len(CODE))
    return at
def call(at):
    return ctypes.CFUNCTYPE(number)(at)()
def holding(file):
    os.write(file, CODE.ljust(4096, b'\\0'))
    return file
def unnamed():
    return holding(os.open('/tmp', os.O_RDWR | os.O_TMPFILE, 0o700))
def segment():
    identity = libc.shmget(0, size(4096), 0o1700)
    put(libc.shmat(identity, None, 0))
    at = libc.shmat(identity, None, 0o110000)
    libc.shmctl(identity, 0, None)
    return at
def changed():
    file = os.open(sys.executable, os.O_RDONLY)
    return protect(put(protect(map(R | X, PRIVATE, file), R | W)), R | X)
";

/// A way to run what no file of the tree holds: how, and how it shows (path, writable).
const WAYS: [(&str, Option<&str>, bool); 10] = [
    ("put(map(R | W | X, PRIVATE | ANONYMOUS))", None, false),
    (
        "protect(put(map(R | W, PRIVATE | ANONYMOUS)), R | X)",
        None,
        false,
    ),
    (
        "protect(put(map(R | W, SHARED | ANONYMOUS)), R | X)",
        Some("dev/zero"),
        true,
    ),
    (
        "map(R | X, PRIVATE, holding(os.memfd_create('code')))",
        Some("memfd:code"),
        false,
    ),
    (
        "protect(map(R, PRIVATE, holding(os.memfd_create('code'))), R | X)",
        Some("memfd:code"),
        false,
    ),
    ("map(R | X, PRIVATE, unnamed())", Some("/tmp/#"), false),
    ("segment()", Some("SYSV"), false),
    ("changed()", Some("/usr/"), true),
    (
        "libc.personality(0x400000) or put(map(R | W, PRIVATE | ANONYMOUS))",
        None,
        false,
    ),
    (
        "libc.syscall(329, pointer(put(map(R | W, PRIVATE | ANONYMOUS))), size(4096), R | X, -1) or at[-1]",
        None,
        false,
    ),
];

type Shown = (Option<String>, bool, i32);

fn maps(seen: &Seen) -> Vec<Shown> {
    seen.kinds(|kind| match kind {
        Kind::Map {
            file,
            writable,
            unknown,
            errno,
            ..
        } => {
            assert!(!unknown, "{}", seen.tell());
            let path = file
                .as_ref()
                .map(|file| String::from_utf8_lossy(&file.path));
            Some((path.map(Into::into), *writable, *errno))
        }
        _ => None,
    })
}

fn program(way: &str) -> String {
    // The last way needs the address that another call got.
    let kept =
        "at = []\nthe_map = map\ndef map(*what):\n at.append(the_map(*what))\n return at[-1]\n";
    format!("{PRELUDE}{kept}print(call({way}), flush=True)")
}

fn is(shown: &Shown, path: Option<&str>, writable: bool) -> bool {
    let same = match (&shown.0, path) {
        (Some(shown), Some(path)) => shown.starts_with(path),
        (None, None) => true,
        _ => false,
    };
    same && shown.1 == writable
}

#[test]
fn m17_code_that_no_file_holds_is_told_however_it_came_to_be() {
    for (way, path, writable) in WAYS {
        let seen = python(&policy(""), &program(way));
        seen.assert_lived();
        assert_eq!(seen.stdout(), "42\n", "{way}");
        let shown = maps(&seen);
        assert_eq!(shown.len(), 1, "{way}: {}", seen.tell());
        assert!(is(&shown[0], path, writable), "{way}: {shown:?}");
        assert_eq!(shown[0].2, 0, "it went through");
        assert!(seen.evidence.complete, "{way}: {}", seen.tell());
    }
}

#[test]
fn m17_a_rule_without_a_path_kills_for_code_that_no_file_holds() {
    let policy = policy(&rule("code", "map", "kill", ""));
    for (way, path, writable) in WAYS {
        let seen = python(&policy, &program(way));
        seen.assert_killed();
        assert_eq!(seen.stdout(), "", "{way}");
        assert_eq!(
            seen.decisions(),
            [(0, RuleAction::Kill)],
            "{way}: {}",
            seen.tell()
        );
        let shown = maps(&seen);
        assert_eq!(shown.len(), 1, "{way}: {}", seen.tell());
        // Before the call nobody has looked which file a segment is.
        let segment = way == "segment()" && is(&shown[0], None, writable);
        assert!(segment || is(&shown[0], path, writable), "{way}: {shown:?}");
    }
}

#[test]
fn libraries_are_loaded_under_a_rule_without_a_path_and_are_not_told() {
    let policy = policy(&rule("code", "map", "kill", ""));
    let seen = python(&policy, "import ctypes, json, ssl; print('done')");
    seen.assert_lived();
    assert_eq!(seen.stdout(), "done\n");
    assert_eq!(maps(&seen), []);
}

#[test]
fn m10_a_rule_kills_for_a_file_that_the_loader_maps() {
    let echo = std::fs::canonicalize("/usr/bin/echo").expect("it is there");
    let command = ["/lib64/ld-linux-x86-64.so.2", "/usr/bin/echo", "survived"];
    let paths = format!("path = [{echo:?}]");
    let exec = super::harness::run(&policy(&rule("echo", "exec", "kill", &paths)), &command);
    assert_eq!(
        exec.stdout(),
        "survived\n",
        "the control: a rule on exec alone"
    );
    let seen = super::harness::run(&policy(&rule("echo", "map", "kill", &paths)), &command);
    seen.assert_killed();
    assert_eq!(seen.stdout(), "");
    assert_eq!(seen.decisions(), [(0, RuleAction::Kill)]);
    // The descriptor says at the entry of the call what will be mapped: on both tiers the kill is
    // decided there, before a hook is asked.
    let path = echo.to_str().map(str::to_owned);
    assert_eq!(maps(&seen), [(path, false, 0)]);
}

#[test]
fn of_the_libraries_only_those_that_a_rule_names_are_told() {
    let library = rule("libc", "map", "log", "path = [\"**/libc.so.6\"]");
    let seen = super::harness::run(&policy(&library), &["/bin/true"]);
    seen.assert_lived();
    assert_eq!(seen.decisions(), [(0, RuleAction::Log)]);
    assert_eq!(maps(&seen).len(), 1, "{}", seen.tell());
}

#[test]
fn a_program_that_starts_is_no_mapping() {
    let paths = "path = [\"/bin/true\", \"/usr/bin/true\"]";
    let seen = super::harness::run(&policy(&rule("true", "map", "kill", paths)), &["/bin/true"]);
    seen.assert_lived();
    assert_eq!(maps(&seen), []);
}

#[test]
fn memory_that_is_not_there_is_told_as_refused_and_kills_nobody() {
    let policy = policy(&rule("code", "map", "log", ""));
    let seen = python(
        &policy,
        &format!("{PRELUDE}print(libc.mprotect(4096, 4096, R | X))"),
    );
    seen.assert_lived();
    assert_eq!(seen.stdout(), "-1\n");
}
