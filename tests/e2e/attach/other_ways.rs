//! Ways around a name or a call that a rule speaks of: what the kernel does counts, by whichever call, flag or number it is asked.

use turnkey_tests::scratch;

use super::{Attached, Others, OthersGroup, broken};

/// Does to `guarded` in its first argument what the second says, for `go`, and prints what came of it.
const ACTS: &str = "
import ctypes, os, signal, socket, stat, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
CWD, EMPTY, FOLLOW = -100, 0x1000, 0x400
NEWUTS, NEWUSER = 0x4000000, 0x10000000
directory, act = sys.argv[1], sys.argv[2]
guarded, other = (directory + '/guarded').encode(), (directory + '/other').encode()
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), 'a call')
    return result
def content(path):
    with open(path) as file:
        return file.read()
def linked(*arguments):
    check(libc.linkat(*arguments))
    return content(other)
def path_alone():
    return os.open(guarded, os.O_PATH)
def by_a_number():
    # A name that is a number is no descriptor.
    os.dup2(path_alone(), 9)
    os.link(directory + '/plain', directory + '/9')
    return linked(CWD, (directory + '/9').encode(), CWD, other, FOLLOW)
def of_a_child():
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        file = path_alone()
        os.dup2(file, 99)
        os.write(tell, b'x')
        signal.pause()
    try:
        os.read(ready, 1)
        os.dup2(os.open('/dev/null', os.O_RDONLY), 99)
        return linked(CWD, b'/proc/%d/fd/99' % child, CWD, other, FOLLOW)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
def from_the_list():
    top = os.open('/proc/self/fd', os.O_RDONLY)
    return linked(top, b'%d' % path_alone(), CWD, other, FOLLOW)
# More names than a path has room for; the way back from there is short.
NAMES = 17
back = b'../' * NAMES
def deep():
    os.chdir(directory)
    for name in ['d' * 250] * NAMES:
        os.mkdir(name)
        os.chdir(name)
def long_symlink():
    # Either is a path, and both together are none.
    os.symlink('./' * 1200 + '.', directory + '/./' * 600 + 'm')
    os.truncate(directory + '/m/guarded', 0)
    return 'changed'
def mode(changed):
    check(changed)
    return 'changed'
def cloned(flags):
    child = check(libc.syscall(56, flags | signal.SIGCHLD, 0, 0, 0, 0))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return 'made'
def cloned_by_memory(flags):
    arguments = (ctypes.c_uint64 * 8)(flags, 0, 0, 0, signal.SIGCHLD)
    child = check(libc.syscall(435, arguments, 64))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return 'made'
def device():
    os.mknod(directory + '/device', stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return 'made'
def detached(name):
    top = check(libc.syscall(428, CWD, b'/proc', 1))
    return 'opened' if os.open(name, os.O_WRONLY, dir_fd=top) else ''
def signalled():
    child = subprocess.Popen(['/bin/sleep', '60'])
    signal.pidfd_send_signal(os.pidfd_open(child.pid), signal.SIGKILL)
    child.wait()
    return 'sent'
def loader():
    with open('/bin/true', 'rb') as file:
        program = file.read()
    usual = b'/lib64/ld-linux-x86-64.so.2'
    assert usual in program
    path = directory + '/program'
    with open(path, 'wb') as file:
        file.write(program.replace(usual, b'/proc/self/fd/7'.ljust(len(usual), bytes(1))))
    os.chmod(path, 0o700)
    memory = os.memfd_create('loader', 0)
    with open(usual, 'rb') as file:
        os.write(memory, file.read())
    os.dup2(memory, 7, inheritable=True)
    done = subprocess.run([path], close_fds=False)
    return 'ran' if done.returncode == 0 else 'died'
def in_32_bits(number, *arguments):
    # Within the first 4 GiB, where the call finds its path: MAP_PRIVATE, MAP_ANONYMOUS and MAP_32BIT.
    import mmap
    memory = mmap.mmap(-1, 4096, flags=0x62, prot=7)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    path = address + 256
    memory[256:256 + len(guarded) + 1] = guarded + bytes(1)
    words = [(path if word is guarded else word) & 0xffffffff for word in (number, *arguments)]
    # push %rbx; mov to %eax, %ebx, %ecx and %edx; int $0x80; pop %rbx; ret
    moves = b''.join(bytes([code]) + word.to_bytes(4, 'little') for code, word in zip(b'\\xb8\\xbb\\xb9\\xba', words))
    code = b'\\x53' + moves + b'\\xcd\\x80\\x5b\\xc3'
    memory[:len(code)] = code
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()
def born_elsewhere():
    group = os.open(sys.argv[3], os.O_RDONLY | os.O_DIRECTORY)
    arguments = (ctypes.c_uint64 * 11)(1 << 33, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group)
    child = check(libc.syscall(435, arguments, 88))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return 'made'
def given_to_the_loader(path, flags):
    file = os.memfd_create('program', 0) if path is None else os.open(path, flags, 0o700)
    with open('/bin/true', 'rb') as program:
        os.write(file, program.read())
    given = '/proc/self/fd/%d' % file if path is None else path
    done = subprocess.run(['/lib64/ld-linux-x86-64.so.2', given], pass_fds=[file])
    return 'ran' if done.returncode == 0 else 'died'
def restarted():
    # In a PID namespace of its own it ends the first process there, and does not return.
    restart = 'import ctypes; ctypes.CDLL(None).syscall(169, 0xfee1dead, 672274793, 0x1234567, 0)'
    apart = ['/usr/bin/setpriv', '--reuid', '65534', '--clear-groups', '/usr/bin/unshare', '-Urpf', '--kill-child']
    done = subprocess.run(apart + ['/usr/bin/python3', '-S', '-c', restart])
    return 'restarted' if done.returncode == -signal.SIGHUP else 'returned'
ACTS = {
    'restart': restarted,
    'memory by the loader': lambda: given_to_the_loader(None, 0),
    'a file by the loader': lambda: given_to_the_loader(directory + '/program', os.O_RDWR | os.O_CREAT),
    # rt_sigprocmask(2), which in 64 bits is init_module(2), and socketcall(2), whose arguments are in memory.
    'harmless in 32 bits': lambda: 'asked' if in_32_bits(175, 0, 0, 0) < 0 else '',
    # No table has this one, and -1 stands for none on the way back from a signal handler.
    'harmless number': lambda: 'asked' if in_32_bits(600, 0, 0, 0) < 0 else '',
    'harmless none': lambda: 'asked' if in_32_bits(-1, 0, 0, 0) < 0 else '',
    'socketcall': lambda: 'asked' if in_32_bits(102, 99, 0, 0) < 0 else '',
    'open in 32 bits': lambda: os.read(check(in_32_bits(5, guarded, 0, 0)), 100).decode(),
    'chown in 32 bits': lambda: mode(in_32_bits(212, guarded, 0, 0)),
    'unshare in 32 bits': lambda: 'made' if in_32_bits(310, NEWUTS, 0, 0) == 0 else '',
    'elsewhere': born_elsewhere,
    'deep link': lambda: (deep(), linked(CWD, back + b'guarded', CWD, other, 0))[1],
    'deep truncate': lambda: (deep(), mode(libc.truncate(back + b'guarded', 0)))[1],
    'deep rename': lambda: (deep(), mode(libc.rename(back + b'guarded', back + b'other')))[1],
    'deep descriptor': lambda: (deep(), linked(os.open('.', os.O_PATH), back + b'guarded', CWD, other, 0))[1],
    'too long': long_symlink,
    'flag': lambda: linked(CWD, guarded, CWD, other, EMPTY),
    'child': of_a_child,
    'list': from_the_list,
    'long': lambda: linked(CWD, b'/proc/self/' + b'./' * 20 + b'fd/%d' % path_alone(), CWD, other, FOLLOW),
    'symlink': lambda: (os.chdir(directory), linked(CWD, b'leads', CWD, other, FOLLOW))[1],
    'fchmodat2': lambda: mode(libc.syscall(452, path_alone(), b'', 0o666, EMPTY)),
    'fchownat': lambda: mode(libc.fchownat(path_alone(), b'', 1, 1, EMPTY)),
    'utimensat': lambda: mode(libc.utimensat(path_alone(), b'', None, EMPTY)),
    'cwd': lambda: (os.chdir(directory), mode(libc.fchownat(CWD, b'', 0, 0, EMPTY)))[1],
    'clone': lambda: cloned(NEWUTS),
    'clone of a user': lambda: cloned(NEWUSER),
    'clone3': lambda: cloned_by_memory(NEWUTS),
    'device': device,
    'detached': lambda: detached('sys/kernel/core_pattern'),
    'harmless detached': lambda: detached('self/comm'),
    'signal': signalled,
    'loader': loader,
    'number': by_a_number,
    'plain followed': lambda: linked(CWD, directory.encode() + b'/plain', CWD, other, FOLLOW),
}
for line in sys.stdin:
    if not line.startswith('go'):
        break
    print(ACTS[act](), flush=True)
";

/// An act, what it says that came of it, and the rule that it breaks.
const BREAKING: &[(&str, &str, &str)] = &[
    ("flag", "guarded", "guarded"),
    ("child", "guarded", ""),
    ("list", "guarded", ""),
    ("long", "guarded", ""),
    ("symlink", "guarded", ""),
    ("fchmodat2", "changed", "guarded"),
    ("fchownat", "changed", "guarded"),
    ("utimensat", "changed", "guarded"),
    ("clone", "made", "no-namespace"),
    ("clone of a user", "made", "no-namespace"),
    ("clone3", "made", "no-namespace"),
    ("device", "made", "no-device"),
    ("detached", "opened", "kernel-setting"),
    ("signal", "sent", "no-signal"),
    ("loader", "ran", "memory-exec"),
    ("deep descriptor", "guarded", ""),
    ("deep link", "guarded", ""),
    ("deep truncate", "changed", ""),
    ("deep rename", "changed", ""),
    ("open in 32 bits", "guarded", "guarded"),
    ("chown in 32 bits", "changed", "guarded"),
    ("unshare in 32 bits", "made", "no-namespace"),
];

/// Acts that no rule is about.
const HARMLESS: &[(&str, &str)] = &[
    ("number", "plain"),
    ("harmless detached", "opened"),
    ("plain followed", "plain"),
    ("cwd", "changed"),
];

/// A place with a guarded file, a symlink to it, and a plain one; and a profile that kills for the acts.
fn guarding(place: &tempfile::TempDir) -> (String, String) {
    let root = place.path().display().to_string();
    for name in ["guarded", "plain"] {
        std::fs::write(place.path().join(name), name).expect("a test can write");
    }
    std::os::unix::fs::symlink("guarded", place.path().join("leads")).expect("a test can write");
    let rule = |id: &str, on: &str, path: &str| {
        format!(
            "[[rule]]\nid = \"{id}\"\non = {on}\n{path}action = \"kill\"\nseverity = \"high\"\nwhy = \"it is tested\"\n"
        )
    };
    let at = |name: &str| format!("path = [\"{root}/{name}\"]\n");
    let rules = [
        rule(
            "guarded",
            r#"["open", "unlink", "chmod", "attribute", "link", "rename"]"#,
            &at("guarded"),
        ),
        rule("no-namespace", "\"namespace\"", ""),
        rule("no-device", "\"mknod\"", &at("device")),
        rule("no-signal", "\"kill\"", ""),
    ];
    let profile = place.path().join("mine.toml");
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"mine\"\nextends = [\"container\"]\n{}",
        rules.concat()
    );
    std::fs::write(&profile, text).expect("a test can write");
    (root, profile.display().to_string())
}

/// Does the act in a watched group: what it printed and how it ended, the code and the report.
fn watched(act: &str) -> (String, Option<i32>, i32, serde_json::Value, String) {
    let place = scratch();
    let (root, profile) = guarding(&place);
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", &group.name], &["--profile", &profile]);
    let mut others = Others::start_with(&group.path, ACTS, &[&root, act]);
    let said = others.ask("go");
    let ended = others.end();
    let (code, report, told) = attached.end();
    (said, ended, code, report, told)
}

/// The word of the act without a watcher.
fn alone(act: &str) -> String {
    let place = scratch();
    let (root, _) = guarding(&place);
    let group = OthersGroup::new();
    let mut others = Others::start_with(&group.path, ACTS, &[&root, act]);
    let said = others.ask("go");
    assert_eq!(others.end(), None, "{act}");
    said
}

/// Three seconds, as each way is another attachment.
#[test]
fn no_other_way_takes_an_act_from_its_rule() {
    for (act, effect, rule) in BREAKING {
        assert_eq!(alone(act), *effect, "{act}: the control");
        let (said, ended, code, report, told) = watched(act);
        let seen = format!("{act}: {}: {told}", report["violations"]);
        assert_eq!(said, "", "it died of it: {seen}");
        assert_eq!((ended, code), (Some(libc::SIGKILL), 121), "{seen}");
        // A file whose path is not known is the strictest rule's.
        assert!(rule.is_empty() || broken(&report).contains(rule), "{seen}");
    }
}

#[test]
fn the_same_ways_break_no_rule_where_none_is_about_what_they_reach() {
    for (act, effect) in HARMLESS {
        assert_eq!(alone(act), *effect, "{act}: the control");
        let (said, ended, code, report, told) = watched(act);
        let seen = format!("{act}: {}: {told}", report["violations"]);
        assert_eq!((said.as_str(), ended, code), (*effect, None, 0), "{seen}");
    }
}

/// Without it nothing would be told: the call comes to no end.
#[test]
fn a_restart_that_does_not_return_is_killed_for() {
    assert_eq!(alone("restart"), "restarted", "the control");
    let group = OthersGroup::new();
    let attached = Attached::to(&["--cgroup", &group.name], &[]);
    let mut others = Others::start_with(&group.path, ACTS, &["/nowhere", "restart"]);
    assert_eq!(others.ask("go"), "", "it died of it");
    assert_eq!(others.end(), Some(libc::SIGKILL));
    let (code, report, told) = attached.end();
    assert_eq!(code, 121, "{told}");
    assert!(broken(&report).contains(&"kernel-module"), "{told}");
}

/// Which file a name leads to is not told by it then; that there is such a name is. Where objects are known the act through it kills.
#[test]
fn a_symlink_whose_aim_is_too_long_to_be_looked_at_is_told() {
    assert_eq!(alone("too long"), "changed", "the control");
    let (said, _, _, report, told) = watched("too long");
    assert!(report["verdict"] == "violated", "{said}: {told}");
    let is_unknown = |one: &serde_json::Value| one["file_unknown"] == true;
    let mut violations = report["violations"].as_array().into_iter().flatten();
    assert!(said.is_empty() || violations.any(is_unknown), "{told}");
}

/// No rule is asked of what the dynamic loader is given: it only reads it. That it was is told.
#[test]
fn a_program_in_memory_that_the_loader_is_given_is_found() {
    for (act, found) in [
        ("memory by the loader", true),
        ("a file by the loader", false),
    ] {
        let (said, ended, _, report, told) = watched(act);
        let seen = format!("{act}: {}: {told}", report["findings"]);
        assert_eq!((said.as_str(), ended), ("ran", None), "{seen}");
        let is_found = report["findings"]
            .to_string()
            .contains("fileless-execution");
        assert_eq!(is_found, found, "{seen}");
        assert_eq!(report["verdict"] == "violated", found, "{seen}");
    }
}

/// An act that the monitor does not see is no rule's; that there was one is told.
#[test]
fn what_is_not_looked_at_leaves_no_report_complete() {
    for (act, effect) in [
        ("socketcall", "asked"),
        ("elsewhere", "made"),
        ("harmless detached", "opened"),
        ("harmless in 32 bits", "asked"),
        ("harmless number", "asked"),
        ("harmless none", "asked"),
    ] {
        let place = scratch();
        let (root, _) = guarding(&place);
        let (group, elsewhere) = (OthersGroup::new(), OthersGroup::new());
        let attached = Attached::to(&["--cgroup", &group.name], &["--profile", "container"]);
        let beside = elsewhere.path.display().to_string();
        let mut others = Others::start_with(&group.path, ACTS, &[&root, act, &beside]);
        let came = (others.ask("go"), others.end());
        let (_, report, said) = attached.end();
        assert_eq!(came, (effect.to_owned(), None), "{act}: {said}");
        let is_seen = act.starts_with("harmless");
        assert_eq!(
            report["events"]["complete"], is_seen,
            "{act}: {}: {said}",
            report["events"]
        );
        assert_ne!(
            report["verdict"] == "inconclusive",
            is_seen,
            "{act}: {said}"
        );
    }
}
