//! The user that the program takes itself for, and the users that it cannot become.

use turnkey_tests::Run;

/// Tries what root can do and prints each answer: to oneself it is nothing, to others it is refused.
const TRIES: &str = r#"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, call, *arguments):
    try: call(*arguments)
    except OSError as error: print(name, errno.errorcode[error.errno])
    else: print(name, 'done')
def syscall(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), '')
own = os.getuid()
open('mine', 'w').close()
tried('own', os.chown, 'mine', own, os.getgid())
for other in (0 if own else 1, 33, 999, 65534):
    tried(f'chown {other}', os.chown, 'mine', other, -1)
    tried(f'chgrp {other}', os.chown, 'mine', -1, other)
    tried(f'setuid {other}', os.setuid, other)
    tried(f'setgid {other}', os.setgid, other)
tried('device', os.mknod, 'device', 0o20666, os.makedev(1, 3))
tried('mount', syscall, 165, b'none', b'/tmp', b'tmpfs', 0, 0)
tried('hostname', syscall, 170, b'other', 5)
tried('unshare', syscall, 272, 0x10000000)
tried('chroot', syscall, 161, b'/tmp')
tried('write', open, '/proc/sys/net/ipv4/ip_forward', 'w')
tried('pid 1', open, '/proc/1/environ', 'rb')
"#;

/// The answers of the tries, and whether each refused change of owner was told.
#[track_caller]
fn others_are_refused(user: &str) {
    // Its rules on mounts and namespaces kill; here each try is to be made.
    let run = Run::new().option(&format!("--mode observe --user {user}"));
    let ran = run.python(TRIES);
    ran.expect_code(0);
    let answers: Vec<&str> = ran.stdout.lines().collect();
    ran.expect(answers.len() == 24, "each was tried");
    ran.expect(answers[0] == "own done", "one's own is changed");
    for answer in &answers[1..] {
        let refused = ["EPERM", "EACCES", "EROFS"];
        let refused = refused.iter().any(|errno| answer.ends_with(errno));
        ran.expect(refused, answer);
    }
    let for_others = answers.iter().filter(|answer| {
        let others = ["chown", "chgrp", "setuid", "setgid"];
        others.iter().any(|call| answer.starts_with(call)) && answer.ends_with("EPERM")
    });
    ran.expect(for_others.count() == 16, "as to anybody without rights");
    let mut told = ran.list("/file_operations").iter();
    let told = told.any(|one| one["path"] == "/workspace/mine" && one["errno"] == "EPERM");
    ran.expect(told, "a refused change of owner is told");
    let rule = |id: &str| ran.violations().iter().any(|one| one["rule"] == id);
    ran.expect(rule("change-of-user"), "and so is a change of user");
}

#[test]
fn nobody_else_can_be_become_or_made_an_owner() {
    others_are_refused("jail");
}

#[test]
fn root_in_name_is_root_in_nothing_else() {
    others_are_refused("root");
}

#[test]
fn a_program_can_take_itself_for_root() {
    let script = "id -u; id -g; id -un; echo ~; touch new; stat -c '%u %U' new /proc/self/; \
        grep ^CapEff /proc/self/status; whoami";
    let ran = Run::new()
        .option("--user root")
        .file("of the host", "")
        .shell(script);
    ran.expect(
        ran.stdout == "0\n0\nroot\n/workspace\n0 root\n0 root\nCapEff:\t0000000000000000\nroot\n",
        "by its number and its name, without a capability",
    );
    let control = Run::new().shell("id -u; whoami");
    control.expect(control.stdout == "1000\njail\n", "the control");
}

/// The C library of 2022 calls through freed memory when a database of nsswitch.conf(5) has no service: Perl does on each look at
/// a user, and so do all tools that ask questions while packages are installed.
#[test]
fn asking_for_a_password_finds_none_whatever_memory_held_before() {
    let ran = Run::new().python(
        "import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.getspnam.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
for size in range(16, 200, 8):
    for block in [libc.malloc(size) for _ in range(20)]:
        ctypes.memset(block, 5, size)
        libc.free(block)
print(libc.getspnam(b'jail'), libc.getspnam(b'root'))",
    );
    ran.expect_code(0);
    ran.expect(ran.stdout == "None None\n", "nobody has one");
    let opened = ran.list("/file_operations").iter();
    let decoy = opened.filter(|operation| operation["path"] == "/etc/shadow");
    ran.expect(decoy.count() == 0, "and the decoy is not touched");
}
