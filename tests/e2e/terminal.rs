//! The caller's terminal is not the program's: J26, J49.

use std::process::Command;

use turnkey_expectations::expected;
use turnkey_tests::{Run, TerminalSession};

expected!(
    not_on[ORDINARY_6_12],
    "refused by the filter, which is the same on every kernel"
);

/// The attack on every terminal that a host may have, to be run inside only: outside they are somebody's, who reads what is typed.
pub const ATTACK: &[&str] = &[
    "python3",
    "terminal.py",
    "/dev/console",
    "/dev/tty0",
    "/dev/pts/0",
    "/dev/pts/1",
];

#[test]
pub fn j49_the_terminal_of_the_caller_is_not_typed_into_or_changed() {
    let run = Run::new()
        .option("--mode observe --no-tty")
        .file("terminal.py", include_str!("../attacks/terminal.py"));
    let mut control = Command::new("python3");
    control.arg("terminal.py").current_dir(run.path());
    let outside = TerminalSession::start(&control).end();
    assert!(
        !outside.is_restored,
        "the control: it leaves the terminal raw: {}",
        outside.shown
    );
    // Since Linux 6.2 a host may have this switched off, but not for root, who runs the control.
    assert!(
        outside.typed.contains("echo owned"),
        "the control: {}",
        outside.shown
    );
    let inside = TerminalSession::open(run, ATTACK).end();
    assert!(
        inside.shown.contains("went through: nothing"),
        "{}",
        inside.shown
    );
    assert_eq!(
        inside.typed, "",
        "nothing waits to be read by the caller's shell"
    );
    assert!(inside.is_restored, "the settings are as they were");
}

#[test]
pub fn j49_the_program_has_a_session_of_its_own_and_no_terminal() {
    let run = Run::new().option("--unmonitored --no-tty");
    let script = "ps -o pid=,sid=,tty= -p $$ 2>/dev/null; cut -d' ' -f1,6,7 /proc/$$/stat; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none; : < /dev/tty";
    let inside = TerminalSession::open(run, &["/bin/sh", "-c", script]).end();
    // Its process is the leader of its own session, which has no terminal (0).
    assert!(inside.shown.contains("2 2 0"), "{}", inside.shown);
    assert!(inside.shown.contains("none"), "{}", inside.shown);
    let mut control = Command::new("/bin/sh");
    control.args(["-c", script]).current_dir("/");
    let outside = TerminalSession::start(&control).end();
    assert!(
        !outside.shown.contains("none"),
        "the control: {}",
        outside.shown
    );
    assert!(
        !outside.shown.contains(" 0\r\n"),
        "the control: {}",
        outside.shown
    );
}

/// Types one byte into a terminal pair of its own, with garbage above the bits that the kernel reads.
const OWN_TERMINAL: &str = "import ctypes, os, tty
libc = ctypes.CDLL(None, use_errno=True)
master, slave = os.openpty()
tty.setraw(slave)
os.set_blocking(slave, False)
os.setsid() if os.getsid(0) != os.getpid() else None
libc.ioctl(slave, 0x540e, 0)
for request in (0x5412, 0x5412 | 1 << 32, 0x5412 | 0xdeadbeef << 32):
    answer = libc.syscall(16, slave, ctypes.c_ulong(request), b'x')
    try: typed = os.read(slave, 9).decode()
    except BlockingIOError: typed = 'nothing'
    print(answer, ctypes.get_errno() if answer else 0, typed)
print(libc.syscall(16, slave, ctypes.c_ulong(0x5401), (ctypes.c_uint8 * 64)()))";

#[test]
pub fn j26_an_upper_half_disguises_no_request() {
    let ran = Run::new().option("--unmonitored").python(OWN_TERMINAL);
    ran.expect(
        ran.stdout == "-1 1 nothing\n-1 1 nothing\n-1 1 nothing\n0\n",
        "EPERM whatever stands above, and an honest request works",
    );
    let (_, told) = turnkey_tests::outside("setsid", &["--wait", "python3", "-c", OWN_TERMINAL]);
    assert_eq!(
        told, "0 0 x\n0 0 x\n0 0 x\n0\n",
        "the control: the kernel reads 32 bits"
    );
}

#[test]
pub fn j49_no_driver_is_put_behind_a_terminal() {
    let program = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
master, slave = os.openpty()
discipline = ctypes.c_int(0)
print(libc.ioctl(slave, 0x5423, ctypes.byref(discipline)), ctypes.get_errno())";
    let (_, told) = turnkey_tests::outside("python3", &["-c", program]);
    assert_eq!(told, "0 0\n", "the control: outside it goes through");
    let ran = Run::new().option("--unmonitored").python(program);
    ran.expect(ran.stdout == "-1 1\n", "EPERM");
}
