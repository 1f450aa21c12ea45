//! The caller's terminal is not the program's: J26, J49.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use nix::pty::{OpenptyResult, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use turnkey_tests::Run;

const ATTACK: &str = include_str!("../attacks/terminal.py");

/// What came of a program that had a terminal as its controlling one and on all three streams.
pub struct Scene {
    /// What the program printed, by way of the terminal.
    pub shown: String,
    /// What is in the terminal's input, as if somebody had typed it.
    typed: String,
    /// Whether the terminal still edits lines and echoes.
    cooked: bool,
}

/// Starts `command` the way a shell in a terminal would.
pub fn in_a_terminal(command: &Command) -> Scene {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal can be made");
    let stream = || Stdio::from(slave.try_clone().expect("a descriptor can be doubled"));
    let mut shell = Command::new("setsid");
    shell
        .args(["--ctty", "--wait"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().expect("a directory was given"))
        .stdin(stream())
        .stdout(stream())
        .stderr(stream());
    let mut child = shell.spawn().expect("setsid(1) is there");
    drop(shell);
    let shown = read_until_quiet(&master, || {
        child.try_wait().expect("it can be waited for").is_some()
    });
    let flags = tcgetattr(&slave)
        .expect("a terminal has settings")
        .local_flags;
    Scene {
        shown,
        typed: waiting_in(slave.as_fd()),
        cooked: flags.contains(LocalFlags::ICANON | LocalFlags::ECHO),
    }
}

fn read_until_quiet(master: &std::os::fd::OwnedFd, mut over: impl FnMut() -> bool) -> String {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a descriptor has flags");
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    turnkey_tests::eventually("the program ends", || {
        let ended = over();
        while let Ok(length) = nix::unistd::read(master, &mut piece) {
            shown.extend_from_slice(&piece[..length]);
        }
        ended
    });
    String::from_utf8_lossy(&shown).into_owned()
}

/// The input that nobody has read yet.
fn waiting_in(slave: std::os::fd::BorrowedFd<'_>) -> String {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(slave, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a descriptor has flags");
    let mut piece = [0; 4096];
    let length = nix::unistd::read(slave, &mut piece).unwrap_or(0);
    String::from_utf8_lossy(&piece[..length]).into_owned()
}

#[test]
pub fn j49_the_terminal_of_the_caller_is_not_typed_into_or_changed() {
    let run = Run::new()
        .option("--mode observe")
        .file("terminal.py", ATTACK);
    let mut control = Command::new("python3");
    control.arg("terminal.py").current_dir(run.path());
    let outside = in_a_terminal(&control);
    assert!(
        !outside.cooked,
        "the control: it leaves the terminal raw: {}",
        outside.shown
    );
    // Since Linux 6.2 a host may have this switched off, but not for root, who runs the control.
    assert!(
        outside.typed.contains("echo owned"),
        "the control: {}",
        outside.shown
    );
    let inside = in_a_terminal(&run.command(&["python3", "terminal.py"]));
    assert!(
        inside.shown.contains("went through: nothing"),
        "{}",
        inside.shown
    );
    assert_eq!(
        inside.typed, "",
        "nothing waits to be read by the caller's shell"
    );
    assert!(inside.cooked, "the settings are as they were");
}

#[test]
pub fn j49_the_program_has_a_session_of_its_own_and_no_terminal() {
    let run = Run::new().option("--unmonitored").option("--env TERM=dumb");
    let script = "ps -o pid=,sid=,tty= -p $$ 2>/dev/null; cut -d' ' -f1,6,7 /proc/$$/stat; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none; : < /dev/tty";
    let inside = in_a_terminal(&run.command(&["/bin/sh", "-c", script]));
    // Its process is the leader of its own session, which has no terminal (0).
    assert!(inside.shown.contains("2 2 0"), "{}", inside.shown);
    assert!(inside.shown.contains("none"), "{}", inside.shown);
    let mut control = Command::new("/bin/sh");
    control.args(["-c", script]).current_dir("/");
    let outside = in_a_terminal(&control);
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
