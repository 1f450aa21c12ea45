//! The program is nobody, and stays it.

use turnkey_expectations::expected;
use turnkey_tests::Run;

expected!(
    not_on[ORDINARY_6_12],
    "proved from inside in every run: `monitoring::every_layer_is_proved_in_the_report`"
);

#[test]
pub fn j22_every_capability_set_is_empty() {
    let ran = Run::new().shell("grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        ran.expect(
            ran.stdout.contains(&format!("{set}:\t0000000000000000")),
            set,
        );
    }
    ran.expect(ran.stdout.contains("NoNewPrivs:\t1"), "no_new_privs");
    ran.expect(ran.stdout.contains("Seccomp:\t2"), "a filter");
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(
        !own.contains("CapBnd:\t0000000000000000") && own.contains("NoNewPrivs:\t0"),
        "the control: this test has them"
    );
}

#[test]
fn j22_capabilities_of_a_file_are_given_to_nobody() {
    // struct vfs_cap_data of linux/capability.h: revision 2, effective, CAP_NET_RAW permitted.
    const GIVE: &str = "import os, struct, sys\n\
        os.setxattr(sys.argv[1], 'security.capability', struct.pack('<5I', 0x02000001, 1 << 13, 0, 0, 0))";
    let directory = turnkey_tests::scratch();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open()).unwrap();
    let copy = directory.path().join("grep");
    std::fs::copy("/usr/bin/grep", &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let (given, _) = turnkey_tests::outside("python3", &["-c", GIVE, copy]);
    assert!(given.success(), "root can give them");
    let look = ["^CapPrm", "/proc/self/status"];
    let (_, told) = turnkey_tests::as_nobody(copy, &look);
    assert_eq!(
        told, "CapPrm:\t0000000000002000\n",
        "the control: outside anybody gets it"
    );
    let place = directory.path().display();
    let ran = Run::new()
        .option(&format!("--read {place}"))
        .run(&[copy, look[0], look[1]]);
    ran.expect(
        ran.stdout == "CapPrm:\t0000000000000000\n",
        "nothing is given",
    );
}

#[test]
pub fn j21_a_set_user_id_program_raises_nothing() {
    let directory = turnkey_tests::scratch();
    let copy = directory.path().join("id");
    std::fs::copy("/usr/bin/id", &copy).unwrap();
    std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    std::fs::set_permissions(
        directory.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let (_, told) = turnkey_tests::as_nobody(&copy, &["-u"]);
    assert_eq!(told, "0\n", "the control: outside it makes anybody root");
    let place = directory.path().display().to_string();
    let ran = Run::new()
        .option(&format!("--read {place}"))
        .run(&[copy.to_str().unwrap(), "-u"]);
    ran.expect(ran.stdout == "1000\n", "still the jail's user");
}

#[test]
fn j21_a_set_user_id_file_is_not_left_on_the_host() {
    use std::os::unix::fs::PermissionsExt;
    let shared = turnkey_tests::callers_scratch();
    let place = shared.path().display().to_string();
    let trap = |name: &str| shared.path().join(name).metadata().unwrap().permissions();
    let script =
        format!("cp /usr/bin/id {place}/$0 && chmod 4755 {place}/$0; stat -c %a {place}/$0");
    let (_, told) = turnkey_tests::outside("sh", &["-c", &script, "control"]);
    assert_eq!(told, "4755\n", "the control: outside it can be made");
    assert_eq!(trap("control").mode() & 0o7777, 0o4755);
    let ran = Run::new()
        .option(&format!("--write {place}"))
        .run(&["/bin/sh", "-c", &script, "trap"]);
    ran.expect(ran.stdout == "755\n", "the mode was refused");
    ran.expect(
        ran.stderr.contains("seccomp: it refuses these arguments")
            && ran.stderr.contains("names nothing in `filesystem.write`"),
        "the profile allows chmod(2), and no other profile would help beside --write",
    );
    ran.expect(
        trap("trap").mode() & 0o7777 == 0o755,
        "nothing of it on the host",
    );
    // A file that is born with the bit, by each call that can make one.
    let program = format!(
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
name = b'{place}/born'
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
calls = [(2, name, 0o101, 0o4755), (85, name, 0o4755), (133, name, 0o104755, 0),
    (257, -100, name, 0o101, 0o4755), (259, -100, name, 0o104755, 0),
    (437, -100, name, ctypes.byref(how), 24)]
for call in calls:
    libc.syscall(*call)
    print(call[0], ctypes.get_errno())"
    );
    let ran = Run::new()
        .option(&format!("--write {place}"))
        .python(&program);
    ran.expect(
        ran.stdout == "2 1\n85 1\n133 1\n257 1\n259 1\n437 38\n",
        "EPERM, and ENOSYS for what hides its mode",
    );
    ran.expect(!shared.path().join("born").exists(), "no such file");
}

#[test]
pub fn j44_no_namespace_can_be_made() {
    const SWITCH: &str = "/proc/sys/user/max_user_namespaces";
    let script = format!(
        "unshare -Ur true 2>/dev/null && echo made; unshare -Urn true 2>/dev/null && echo made
(echo 77 > {SWITCH}) 2>/dev/null && echo raised; cat {SWITCH}"
    );
    // The switch belongs to each user namespace: root of one may turn its own.
    let (_, told) = turnkey_tests::as_nobody("unshare", &["-Ur", "/bin/sh", "-c", &script]);
    assert_eq!(
        told, "made\nmade\nraised\n77\n",
        "the control: any user makes them, and sets how many"
    );
    let before = std::fs::read_to_string(SWITCH).unwrap();
    let ran = Run::new().option("--unmonitored").shell(&script);
    let (first, rest) = ran.stdout.split_once('\n').unwrap_or_default();
    ran.expect(
        first.parse::<u64>().is_ok_and(|most| most != 77) && rest.is_empty(),
        "none, nor are more of them allowed",
    );
    let after = std::fs::read_to_string(SWITCH).unwrap();
    assert_eq!(after, before, "the host's own is as before");
}

#[test]
pub fn j24_a_32_bit_call_kills_its_process() {
    let source = "#include <stdio.h>
int main(void) {
    long answer;
    /* getpid of ia32 is 20 */
    __asm__ volatile (\"int $0x80\" : \"=a\"(answer) : \"a\"(20) : \"memory\");
    printf(\"answered %ld\\n\", answer);
    return 0;
}";
    let run = Run::new().file("ia32.c", source);
    let program = run.path().join("ia32");
    let compiled = turnkey_tests::outside(
        "cc",
        &[
            "-o",
            program.to_str().unwrap(),
            run.path().join("ia32.c").to_str().unwrap(),
        ],
    );
    assert!(compiled.0.success());
    let (status, text) = turnkey_tests::outside(&program, &[]);
    assert!(
        status.success() && text.starts_with("answered "),
        "the control: {text}"
    );
    let ran = run.run(&["./ia32"]);
    ran.expect_code(128 + libc::SIGSYS);
    ran.expect(!ran.stdout.contains("answered"), "no answer");
}

#[test]
pub fn j46_the_jails_init_cannot_be_looked_into() {
    let script = |pid: &str| {
        format!(
            "for file in environ maps exe; do cat /proc/{pid}/$file >/dev/null 2>&1 && echo read $file; done
for file in mem root/etc cwd/. fd/3; do ls /proc/{pid}/$file >/dev/null 2>&1 && : < /proc/{pid}/$file && echo opened $file; done
ls /proc/{pid}/fd 2>/dev/null; true"
        )
    };
    let ran = Run::new().shell(&script("1"));
    ran.expect(ran.stdout.is_empty(), "nothing");
    // The control: a process of the same user that does not hide itself.
    let sibling = format!("sleep 10 & {}; kill $!", script("$!"));
    let ran = Run::new().option("--unmonitored").shell(&sibling);
    ran.expect(
        ran.stdout.contains("read environ") && ran.stdout.contains("opened mem"),
        "the control",
    );
}

#[test]
fn j47_nobody_outside_can_be_signalled() {
    let mut sleeper = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = sleeper.id();
    let group = std::process::id();
    let script = format!(
        "for target in {pid} {group} -{group} 1; do
for signal in 0 STOP KILL; do kill -$signal $target 2>/dev/null && echo $signal went to $target; done; done
renice -n 5 -p {pid} >/dev/null 2>&1 && echo reniced
kill -KILL -1; true"
    );
    let ran = Run::new().shell(&script);
    let alive = sleeper.try_wait().unwrap().is_none();
    let (_, told) = turnkey_tests::outside(
        "/bin/sh",
        &[
            "-c",
            &format!("renice -n 5 -p {pid} >/dev/null && kill -KILL {pid} && echo gone"),
        ],
    );
    assert_eq!(told, "gone\n", "the control: outside it can be");
    sleeper.wait().unwrap();
    ran.expect(alive, "a process of the host lives");
    // The init may be asked for, and nothing else.
    ran.expect(ran.stdout == "0 went to 1\n", "no signal found a target");
}

#[test]
fn j50_a_caller_that_ignores_its_children_gets_the_status() {
    // The control: who starts a program without a thought of that loses its status.
    let naive = "import os
child = os.fork()
if child == 0: os._exit(9)
try: print(os.waitpid(child, 0))
except ChildProcessError: print('lost')";
    let arguments = ["--ignore-signal=CHLD", "python3", "-c", naive];
    let (_, told) = turnkey_tests::outside("env", &arguments);
    assert_eq!(told, "lost\n");
    let run = Run::new();
    let line = format!(
        "trap '' CHLD; exec {} run -- /bin/sh -c 'exit 9'",
        turnkey_tests::binary().display()
    );
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", &line])
        .current_dir(run.path())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(9));
}

/// Every call that names processes by number, by group, by user, or all of them.
const BARRAGE: &str = r"
import ctypes, os, resource, signal
call = ctypes.CDLL(None, use_errno=True).syscall
def look():
    fields = open('/proc/1/stat').read().rsplit(')', 1)[1].split()
    state, fixed = fields[0] in 'SRD', fields[1:6] + fields[15:18] + fields[37:40]
    status = open('/proc/1/status').read().splitlines()
    keys = ('Uid', 'Gid', 'Cpus_allowed', 'NoNewPrivs', 'Sig', 'Shd', 'Cap', 'Threads', 'Seccomp')
    status = [line for line in status if line.startswith(keys) and not line.startswith('SigQ')]
    return state, fixed, status, call(252, 1, 1), os.sched_getaffinity(1), os.getpriority(0, 1)
before = look()
one = ctypes.create_string_buffer(bytes([19, 0, 0, 0]) * 16)
for who in [0, 1, -1, os.getuid(), os.getpgrp(), os.getsid(0)]:
    for which in range(5):
        call(141, which, who, 19)                 # setpriority
        call(251, which, who, 3 << 13)            # ioprio_set: idle
    if who == 1 or who == -1:
        for number in [144, 142, 203, 314]:       # sched_setscheduler, setparam, setaffinity, setattr
            call(number, who, 3, one)
        for limit in range(16):
            call(302, who, limit, one, 0)         # prlimit64
    for number in [signal.SIGSTOP, signal.SIGTSTP, signal.SIGTERM, signal.SIGUSR1]:
        if who == 1:
            call(62, who, number)                 # kill
            call(234, who, who, number)           # tgkill
init = call(434, 1, 0)                            # pidfd_open
call(424, init, signal.SIGSTOP, 0, 0)             # pidfd_send_signal
call(440, init, one, 0, 21, 0)                    # process_madvise
call(448, init, 0)                                # process_mrelease
call(109, 1, 0)                                   # setpgid
after = look()
print('unchanged' if before == after else [before, after])";

#[test]
fn j70_nothing_changes_an_attribute_of_the_init() {
    for run in [Run::new().option("--unmonitored"), Run::rootless()] {
        let ran = run.python(BARRAGE);
        ran.expect(ran.stdout.ends_with("unchanged\n"), "it is as it was");
    }
}
