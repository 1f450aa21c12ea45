//! The monitor's lsm tier: what rules forbid does not happen. On a host without BPF LSM the same
//! acts are seen and killed for, but have happened.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::time::Duration;

use turnkey_expectations::expected;
use turnkey_tests::{Ran, Run, scratch};

expected!(on [BY_DAY, LSM_6_12, NEWEST]);

mod relatives;

/// `untrusted` with these rules.
fn under(rules: &str) -> Run {
    let run = Run::new();
    let profile = scratch();
    let path = profile.keep().join("profile.toml");
    let text = format!(
        "schema = \"turnkey.profile/v1\"\nname = \"test\"\nextends = [\"untrusted\"]\n{rules}"
    );
    std::fs::write(&path, text).unwrap();
    run.option(&format!("--profile {}", path.display()))
}

fn rule(on: &str, path: &str, action: &str) -> String {
    format!(
        "[[rule]]\nid = \"test-{on}\"\non = \"{on}\"\npath = [\"{path}\"]\n\
         action = \"{action}\"\nseverity = \"high\"\nwhy = \"a test\"\n"
    )
}

fn monitor(ran: &Ran) -> &str {
    let layers = ran.list("/enforcement").iter();
    let mut layers = layers.filter(|layer| layer["layer"] == "monitor");
    let effective = layers.next().and_then(|layer| layer["effective"].as_str());
    effective.unwrap_or_default()
}

/// Every way to the file that needs no rights.
const EVERY_WAY: &str = r#"
import ctypes, os, struct
secret = '/workspace/secret'
os.symlink(secret, '/tmp/link')
os.chdir('/workspace')
libc = ctypes.CDLL(None, use_errno=True)
directory = os.open('/workspace', os.O_PATH | os.O_DIRECTORY)
how = struct.pack('QQQ', os.O_RDONLY, 0, 0)
def openat2(path):
    fd = libc.syscall(437, -100, path.encode(), how, len(how))
    if fd < 0: raise OSError(ctypes.get_errno(), 'openat2')
    return fd
ways = {
    'name': lambda: os.open(secret, os.O_RDONLY),
    'relative': lambda: os.open('secret', os.O_RDONLY),
    'symlink': lambda: os.open('/tmp/link', os.O_RDONLY),
    'dots': lambda: os.open('/tmp/../workspace/./secret', os.O_RDONLY),
    'root': lambda: os.open('/proc/self/root/workspace/secret', os.O_RDONLY),
    'cwd': lambda: os.open('/proc/self/cwd/secret', os.O_RDONLY),
    'directory': lambda: os.open('secret', os.O_RDONLY, dir_fd=directory),
    'openat2': lambda: openat2(secret),
    'path': lambda: os.open('/proc/self/fd/%d' % os.open(secret, os.O_PATH), os.O_RDONLY),
    'write': lambda: os.open(secret, os.O_WRONLY),
    'append': lambda: os.open(secret, os.O_RDWR | os.O_APPEND),
}
for name, way in ways.items():
    try:
        print(name, os.read(way(), 100))
    except OSError as error:
        print(name, error.errno)
"#;

#[test]
fn a_denied_file_is_opened_by_no_way_and_the_program_goes_on() {
    let outside = Run::new().file("secret", "hidden").python(EVERY_WAY);
    outside.expect(
        outside.stdout.matches("hidden").count() >= 9,
        "every way leads there without",
    );
    let ran = under(&rule("open", "/workspace/secret", "deny"))
        .file("secret", "hidden")
        .python(EVERY_WAY);
    ran.expect_code(0);
    ran.expect(monitor(&ran).starts_with("lsm"), "the tier");
    ran.expect(!ran.stdout.contains("hidden"), "not a byte");
    let refused = ran
        .stdout
        .lines()
        .filter(|line| line.ends_with(" 1"))
        .count();
    ran.expect(refused == 11, "EPERM for each");
    let seen = ran
        .violations()
        .iter()
        .filter(|it| it["rule"] == "test-open");
    let count: u64 = seen.map(|it| it["count"].as_u64().unwrap_or(1)).sum();
    ran.expect(count >= 11, "each attempt is told");
}

#[test]
fn m38_a_second_thread_finds_nothing_in_the_descriptor_of_a_deadly_open() {
    // Where only tracepoints are, the descriptor is there until the kill at the end of the call.
    const RACE: &str = r#"
import os, threading, sys
def reader():
    while True:
        try:
            data = os.pread(9, 6, 0)
            if data: os.write(1, data); return
        except OSError: pass
for fd in range(3, 9): os.dup2(0, fd)
threading.Thread(target=reader, daemon=True).start()
fd = os.open('/workspace/secret', os.O_RDONLY)
import time; time.sleep(1)
"#;
    let outside = Run::new().file("secret", "hidden").python(RACE);
    outside.expect(
        outside.stdout.contains("hidden"),
        "the race is won without the rule",
    );
    for _ in 0..3 {
        let ran = under(&rule("open", "/workspace/secret", "kill"))
            .file("secret", "hidden")
            .python(RACE);
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), "nothing was read");
    }
}

#[test]
fn m38_a_sibling_takes_nothing_out_of_a_denied_open_by_any_way() {
    siblings_of(250);
}

expected!(
    m38_a_sibling_takes_nothing_out_of_four_thousand_denied_opens: not_on [BY_DAY],
    "takes a quarter of a minute; the test before it makes some hundreds by day"
);
#[test]
fn m38_a_sibling_takes_nothing_out_of_four_thousand_denied_opens() {
    siblings_of(4000);
}

/// Opens that a sibling with the same descriptors watches: it tries to take something some twenty-five times for each.
fn siblings_of(opens: usize) {
    let place = scratch();
    let path = |name: &str| place.path().join(name);
    let everybodys = |mode| Permissions::from_mode(mode);
    std::fs::set_permissions(place.path(), everybodys(0o777)).unwrap();
    std::fs::write(path(".netrc"), "HIDDEN\n").unwrap();
    let tries = |run: Run, way: &str, opens: usize| {
        std::fs::write(path("copy"), [0; 4096]).unwrap();
        std::fs::set_permissions(path("copy"), everybodys(0o666)).unwrap();
        let siblings = include_str!("../attacks/siblings.c");
        let run = run.compiled("siblings", siblings);
        let place = place.path().display().to_string();
        let run = run.option(&format!("--write {place}"));
        let ran = run.run(&["./siblings", &place, way, &opens.to_string()]);
        let told = ran.stderr.lines();
        let told = told.filter_map(|line| line.strip_prefix("opened ")).next();
        let told = told.unwrap_or_default().to_owned();
        turnkey_tests::measured(&format!("{way}: opened {told}"));
        let copied = std::fs::read(path("copy")).unwrap();
        let is_out = ran.stdout.contains("HIDDEN") || copied.starts_with(b"HIDDEN");
        (ran, told, is_out)
    };
    let denied = rule("open", &path(".netrc").display().to_string(), "deny");
    for way in ["send", "map", "splice", "copy"] {
        let (ran, _, is_out) = tries(Run::new().option("--mode observe"), way, 50);
        ran.expect(is_out, "the control: it takes what is open");
        let (ran, told, is_out) = tries(under(&denied), way, opens);
        ran.expect(told.starts_with(&format!("0 of {opens}, taken 0 of ")), way);
        ran.expect(!is_out, way);
    }
}

#[test]
fn a_deadly_open_neither_makes_nor_empties_a_file() {
    let ran = under(&rule("open", "/workspace/out/**", "kill"))
        .file("keep", "")
        .shell("mkdir out; echo text > out/new; echo survived");
    ran.expect_code(121);
    ran.expect(!ran.stdout.contains("survived"), "it died");
    let made = ran.list("/files_changed").iter();
    let made = made.filter(|change| {
        change["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("new"))
    });
    ran.expect(made.count() == 0, "and the file was not made");
}

#[test]
fn a_denied_program_is_not_started_and_the_caller_goes_on() {
    let script = "id -u; /usr/bin/id -u; ln -s /usr/bin/id /tmp/me; /tmp/me -u; echo went on";
    let without = Run::new().shell(script);
    without.expect(
        without.stdout.lines().count() == 4,
        "they run without the rule",
    );
    let ran = under(&rule("exec", "/usr/bin/id", "deny")).shell(script);
    ran.expect_code(0);
    ran.expect(ran.stdout == "went on\n", "none of them ran");
    ran.expect(ran.violations().len() >= 1, "and each is told");
}

#[test]
fn j37_a_socket_file_of_the_host_is_not_connected_to() {
    let directory = scratch();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("socket");
    let datagrams = directory.path().join("datagrams");
    let listener = UnixListener::bind(&path).unwrap();
    let receiver = UnixDatagram::bind(&datagrams).unwrap();
    listener.set_nonblocking(true).unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let program = format!(
        "import socket\nfor kind, path in ((1, '{}'), (2, '{}')):\n s = socket.socket(1, kind)\n \
         try: s.connect(path); s.send(b'out'); print('sent')\n except OSError as e: print(e.errno)\n",
        path.display(),
        datagrams.display()
    );
    for socket in [&path, &datagrams] {
        std::fs::set_permissions(socket, Permissions::from_mode(0o777)).unwrap();
    }
    let (_, told) = turnkey_tests::outside("python3", &["-c", &program]);
    assert_eq!(told, "sent\nsent\n", "both are reached outside");
    let mut text = [0; 8];
    listener.accept().unwrap();
    receiver.recv(&mut text).unwrap();
    let ran = Run::new()
        .option(&format!("--read {}", directory.path().display()))
        .python(&program);
    // Landlock is asked before BPF LSM, and knows such sockets since ABI 9; it says EACCES.
    let landlock = ran.list("/enforcement").iter();
    let knows = landlock
        .filter(|layer| layer["layer"] == "landlock")
        .any(|layer| {
            let effective = layer["effective"].to_string();
            effective.contains("unix sockets of the host")
                && !effective.contains("too old for unix sockets")
        });
    let refused = match knows {
        true => "13\n13\n",
        false => "1\n1\n",
    };
    ran.expect(ran.stdout == refused, "neither is reached");
    ran.expect(listener.accept().is_err(), "nobody came");
    ran.expect(receiver.recv(&mut text).is_err(), "nothing was sent");
    let seen = ran.list("/network_attempts").len();
    ran.expect(seen >= 1, "the attempts are seen");
}

#[test]
fn sockets_of_the_jails_own_work() {
    let program = "import socket, os\na, b = socket.socketpair()\na.send(b'x'); print(b.recv(1))\n\
        s = socket.socket(1, 1); s.bind('/tmp/s'); s.listen()\n\
        c = socket.socket(1, 1); c.connect('/tmp/s'); c.send(b'y'); print(s.accept()[0].recv(1))\n\
        d = socket.socket(1, 2); d.bind('/tmp/d'); e = socket.socket(1, 2); e.sendto(b'z', '/tmp/d'); print(d.recv(1))\n\
        r, w = os.pipe(); socket.send_fds(a, [b'f'], [w]); fds = socket.recv_fds(b, 9, 1)[1]; os.write(fds[0], b'p'); print(os.read(r, 1))";
    let ran = Run::new().python(program);
    ran.expect_code(0);
    ran.expect(ran.stdout == "b'x'\nb'y'\nb'z'\nb'p'\n", "all of them");
}

#[test]
fn a_rule_on_bind_refuses_to_listen_without_one() {
    let program = "import socket
s = socket.socket()
try: s.listen(); print('listens', s.getsockname()[1] != 0)
except OSError as error: print(error.errno, s.getsockname()[1] != 0)";
    let control = Run::new().option("--network loopback").python(program);
    control.expect(control.stdout == "listens True\n", "it works without");
    let rules = "[[rule]]\nid = \"server\"\non = \"bind\"\naction = \"deny\"\n";
    let ran = under(rules).option("--network loopback").python(program);
    ran.expect_code(0);
    ran.expect(monitor(&ran).starts_with("lsm"), "the tier");
    ran.expect(ran.stdout == "1 False\n", "EPERM, and no port");
    let mut told = ran.violations().iter().filter(|it| it["rule"] == "server");
    let stopped = told.next().is_some_and(|it| it["stopped_by"] == "monitor");
    ran.expect(stopped, "it is told, with the layer that refused it");
}

/// Each of them on `/workspace/kept`, and how the file looks afterwards.
const CHANGES: &str = "
ln kept other 2>/dev/null && echo linked
mv kept moved 2>/dev/null && { echo moved; mv moved kept; }
chmod 700 kept 2>/dev/null && echo changed
rm -f kept 2>/dev/null; [ -e kept ] || echo removed
[ -e kept ] && cat kept; true";

#[test]
fn m06_names_and_modes_of_a_protected_file_stay() {
    let outside = Run::new().file("kept", "text\n").shell(CHANGES);
    outside.expect(
        outside.stdout == "linked\nmoved\nchanged\nremoved\n",
        "all of it works without rules",
    );
    let rules: String = ["link", "rename", "chmod", "unlink"]
        .map(|on| rule(on, "/workspace/kept", "deny"))
        .concat();
    let ran = under(&rules).file("kept", "text\n").shell(CHANGES);
    ran.expect_code(0);
    ran.expect(ran.stdout == "text\n", "nothing of it happened");
    for on in ["link", "rename", "chmod", "unlink"] {
        let told = ran.violations().iter().any(|it| it["on"] == on);
        ran.expect(told, on);
    }
}

#[test]
fn m06_nothing_is_put_in_the_place_of_a_protected_file() {
    let rules = rule("rename", "/workspace/kept", "kill");
    let script = "echo other > new; mv new kept; cat kept";
    let outside = Run::new().file("kept", "text\n").shell(script);
    outside.expect(outside.stdout == "other\n", "it works without rules");
    let ran = under(&rules).file("kept", "text\n").shell(script);
    ran.expect_code(121);
    ran.expect(ran.stdout.is_empty(), "it died");
    let changed = ran.list("/files_changed").iter();
    let changed: Vec<_> = changed
        .filter_map(|change| change["path"].as_str())
        .collect();
    ran.expect(
        !changed.iter().any(|path| path.ends_with("kept")),
        "and the file is as it was",
    );
}

/// Code in memory: each way either runs it or is refused.
const CODE: &str = "
import ctypes, errno, os
R, W, X = 1, 2, 4
CODE = b'j*X\\xc3'
libc = ctypes.CDLL(None, use_errno=True)
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.restype = pointer
libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
libc.mprotect.argtypes = [pointer, size, number]
def failed(): raise OSError(ctypes.get_errno(), 'refused')
def map(protection, file=-1):
    place = libc.mmap(None, 4096, protection, 2 if file >= 0 else 34, file, 0)
    return place if place != 2**64 - 1 else failed()
def protect(place):
    return place if libc.mprotect(place, 4096, R | X) == 0 else failed()
def put(place):
    ctypes.memmove(place, CODE, len(CODE))
    return place
def holding(file):
    os.write(file, CODE.ljust(4096))
    return file
def deleted():
    file = holding(os.open('gone', os.O_RDWR | os.O_CREAT, 0o700))
    os.unlink('gone')
    return file
def named():
    return os.open('/workspace/code', os.O_RDONLY)
ways = [
    lambda: put(map(R | W | X)),
    lambda: protect(put(map(R | W))),
    lambda: map(R | X, holding(os.memfd_create('code'))),
    lambda: protect(map(R, holding(os.memfd_create('code')))),
    lambda: map(R | X, deleted()),
    lambda: map(R | X, named()),
    lambda: protect(map(R, named())),
]
for way in ways:
    try: print(ctypes.CFUNCTYPE(number)(way())(), flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
";

#[test]
fn m17_code_in_memory_is_refused_before_it_is_there() {
    let run = || Run::new().file("code", "j*X\u{c0}");
    let outside = run().python(CODE);
    outside.expect(
        outside.stdout == "42\n".repeat(7),
        "every way runs it without rules",
    );
    let fileless = "[[rule]]\nid = \"code\"\non = \"map\"\naction = \"deny\"\n";
    let rules = format!("{fileless}{}", rule("map", "/workspace/code", "deny"));
    let ran = under(&rules).file("code", "j*X\u{c0}").python(CODE);
    ran.expect_code(0);
    ran.expect(monitor(&ran).starts_with("lsm"), "the tier");
    ran.expect(ran.stdout == "EPERM\n".repeat(7), "and none with them");
    for (rule, times) in [("code", 5), ("test-map", 2)] {
        let told = ran.violations().iter().filter(|it| it["rule"] == rule);
        let told: Vec<_> = told.collect();
        let count: u64 = told.iter().filter_map(|it| it["count"].as_u64()).sum();
        ran.expect(count == times, "each is told once");
        let stopped = told.iter().all(|it| it["stopped_by"] == "monitor");
        ran.expect(stopped, "by the layer that refused it");
    }
}

/// A secret and a program, each under two names; the rules speak of the first of each.
fn by_file(action: &str) -> Run {
    let more = "same_file = \"optional\"\n";
    let names = ["link", "rename", "chmod", "unlink"];
    let rules = ["open"].iter().chain(&names);
    let rules: String = rules
        .map(|on| rule(on, "/workspace/secret", action) + more)
        .collect();
    let run = under(&(rules + &rule("exec", "/workspace/tool", action) + more));
    let run = run.file("secret", "hidden\n");
    std::fs::copy("/usr/bin/echo", run.path().join("tool")).unwrap();
    for (name, alias) in [("secret", "alias"), ("tool", "other")] {
        std::fs::hard_link(run.path().join(name), run.path().join(alias)).unwrap();
    }
    run
}

#[test]
fn m05_m06_a_denied_file_is_denied_by_any_name() {
    const SCRIPT: &str = "cat alias; ./other ran; ln alias new && echo linked; mv alias moved && echo moved; \
         chmod 700 alias && echo changed; rm -f alias; [ -e alias ] || echo removed; true";
    let control = by_file("log").shell(SCRIPT);
    control.expect(
        control.stdout.starts_with("hidden\nran\nlinked\nmoved\n"),
        "it works where it is only logged",
    );
    let ran = by_file("deny").shell(SCRIPT);
    ran.expect_code(0);
    ran.expect(ran.stdout.is_empty(), "nothing of it happened");
    for on in ["open", "exec", "link", "rename", "chmod", "unlink"] {
        let told = ran.violations().iter().any(|it| it["on"] == on);
        ran.expect(told, on);
    }
}

#[test]
fn m11_a_denied_file_without_a_name_is_not_run_and_the_caller_goes_on() {
    let rules = "[[rule]]\nid = \"memory-exec\"\nreplaces = true\non = \"exec\"\npath = \"/nowhere\"\naction = \"log\"\n\
         [[rule]]\nid = \"nameless\"\non = \"exec\"\nflags = [\"memfd\", \"deleted\"]\naction = \"ACTION\"\n";
    let program = "import os
echo = open('/usr/bin/echo', 'rb').read()
memory = os.memfd_create('x'); os.write(memory, echo)
gone = os.open('gone', os.O_RDWR | os.O_CREAT, 0o700); os.write(gone, echo); os.close(gone)
gone = os.open('gone', os.O_RDONLY); os.unlink('gone')
for fd in (memory, gone):
    child = os.fork()
    if child == 0:
        try: os.execve(fd, ['echo', 'ran'], {})
        except OSError as error: os.write(1, b'%d\\n' % error.errno); os._exit(0)
    os.waitpid(child, 0)";
    let control = under(&rules.replace("ACTION", "log")).python(program);
    control.expect(control.stdout == "ran\nran\n", "both run without the rule");
    let ran = under(&rules.replace("ACTION", "deny")).python(program);
    ran.expect_code(0);
    ran.expect(ran.stdout == "1\n1\n", "EPERM for both");
    let told = ran
        .violations()
        .iter()
        .filter(|it| it["rule"] == "nameless");
    ran.expect(told.count() >= 2, "and each is told");
}

/// Ways to change who may what with a file that has a rule against it.
const ACCESS: &str = r#"
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
entry = lambda tag, bits: struct.pack('HHI', tag, bits, 0xffffffff)
everything = struct.pack('I', 2) + entry(1, 7) + entry(4, 7) + entry(32, 7)
name = b'system.posix_acl_access'
print('path', libc.setxattr(b'kept', name, everything, len(everything), 0))
print('descriptor', libc.fsetxattr(os.open('kept', os.O_RDONLY), name, everything, len(everything), 0))
print('chmod', libc.chmod(b'kept', 0o777))
print(oct(os.stat('kept').st_mode & 0o777))
"#;

#[test]
fn a_list_of_who_may_what_is_not_set_where_the_mode_may_not_be_changed() {
    let control = Run::new().file("kept", "").python(ACCESS);
    control.expect(
        control.stdout.ends_with("0o777\n"),
        "the control: it is set",
    );
    control.expect(control.stdout.starts_with("path 0\n"), "by a list alone");
    let ran = under(&rule("chmod", "/workspace/kept", "deny"))
        .file("kept", "")
        .python(ACCESS);
    ran.expect_code(0);
    ran.expect(!ran.stdout.contains("0o777"), "the mode is as it was");
    ran.expect(ran.stdout.matches(" -1\n").count() == 3, "each is refused");
    ran.expect(!ran.violations().is_empty(), "and told");
}

/// A kind of call, a way of doing it to `x`, and what is there after that where it was denied: the size of a file.
const OWN_KINDS: [(&str, &str, &str); 6] = [
    ("mkdir", "os.mkdir('x')", "None"),
    (
        "rmdir",
        "os.mkdir('d'); os.rename('d', 'x'); os.rmdir('x')",
        "there",
    ),
    ("symlink", "os.symlink('a', 'x')", "None"),
    ("mknod", "os.mkfifo('x')", "None"),
    (
        "truncate",
        "open('x', 'w').write('text'); os.truncate('x', 0)",
        "4",
    ),
    (
        "chown",
        "open('x', 'w').close(); os.chown('x', os.getuid(), -1)",
        "0",
    ),
];

#[test]
fn a_call_of_its_own_kind_is_denied_and_had_no_effect() {
    let mut program = String::from(
        "import os
def tried(kind, way):
    os.mkdir(kind); os.chdir(kind)
    try: exec(way); told = 'done'
    except PermissionError: told = 'denied'
    found = os.lstat('x') if os.path.lexists('x') else None
    print(kind, told, found and (found.st_size if found.st_mode & 0o100000 else 'there'))
    os.chdir('..')
",
    );
    for (kind, way, _) in OWN_KINDS {
        program.push_str(&format!("tried(\"{kind}\", \"{way}\")\n"));
    }
    let free = Run::new().python(&program);
    let rules = OWN_KINDS.map(|(kind, ..)| rule(kind, &format!("/workspace/{kind}/x"), "deny"));
    let ran = under(&rules.concat()).python(&program);
    for (kind, _, left) in OWN_KINDS {
        let has = |ran: &Ran, line: &str| ran.stdout.lines().any(|one| one.starts_with(line));
        free.expect(
            has(&free, &format!("{kind} done ")),
            &format!("the control: {kind}"),
        );
        ran.expect(has(&ran, &format!("{kind} denied {left}")), kind);
        let mut told = ran.violations().iter();
        ran.expect(told.any(|told| told["on"] == kind), "and told by its kind");
    }
}

/// Calls that no hook decides on, by numbers with or without bits above those that the kernel reads: mount, ptrace, unshare,
/// bpf, keyctl, setuid, init_module, a socket of packets. The last one looks for a file.
const WIDE: &str = "import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
high = int(sys.argv[1]) << 32
def call(number, *words):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(high | number), *words)
    print(ctypes.get_errno(), flush=True)
if sys.argv[2] == 'all':
    for number in (165, 101, 250, 321, 175): call(number, 0, 0, 0, 0, 0)
    call(272, 0x10000000)
    call(105, 0)
    call(41, 17, 3, 768)
call(4, b'/workspace/secret', ctypes.create_string_buffer(144))";

#[test]
fn m36_what_no_hook_decides_is_seen_in_wide_registers_too() {
    let jail = |action: &str| under(&rule("stat", "/workspace/secret", action)).file("secret", "");
    let told = |high: &str| {
        let run = jail("log").option("--mode observe").with_events();
        let ran = run.run(&["python3", "-B", "-c", WIDE, high, "all"]);
        ran.expect_code(0);
        let acts = ran
            .events
            .iter()
            .filter(|event| event["result"].is_string());
        let told = acts.map(|act| format!("{} {} {}", act["kind"], act["syscall"], act["path"]));
        let told: Vec<String> = told.collect();
        (ran, told)
    };
    let ((plain, told_plain), (wide, told_wide)) = (told("0"), told("1"));
    plain.expect(monitor(&plain).starts_with("lsm"), "the tier");
    wide.expect(wide.stdout == plain.stdout, "the kernel does the same");
    let both = format!("and it is told alike: {told_plain:#?} and {told_wide:#?}");
    wide.expect(told_wide == told_plain, &both);
    let refused = told_plain.iter().filter(|act| act.contains("refused"));
    plain.expect(refused.count() >= 5, "what the filter refused among it");
    for high in ["0", "1"] {
        let ran = jail("kill").run(&["python3", "-c", WIDE, high, "look"]);
        ran.expect_code(121);
        ran.expect(ran.stdout.is_empty(), "a look that kills has no answer");
    }
}
