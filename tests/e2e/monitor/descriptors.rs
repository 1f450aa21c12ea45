//! Files that are used without being opened: descriptors from elsewhere, and memory.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use turnkey_tests::{Run, as_nobody, eventually, open_to_all, outside, scratch};

use super::{guard, violations};

/// Hands a descriptor of a file to whoever connects.
const GIVER: &str = "import os, socket, sys
giver = socket.socket(socket.AF_UNIX)
giver.bind(sys.argv[1])
giver.listen()
os.chmod(sys.argv[1], 0o777)
secret = os.open(sys.argv[2], os.O_RDONLY)
while True:
    peer, _ = giver.accept()
    socket.send_fds(peer, [b'x'], [secret])
    print('given', flush=True)
    peer.close()";

const TAKER: &str = "import os, socket, sys
taker = socket.socket(socket.AF_UNIX)
taker.connect(sys.argv[1])
_, descriptors, _, _ = socket.recv_fds(taker, 1, 1)
print('content:', os.read(descriptors[0], 99))";

#[test]
fn m16_no_descriptor_is_handed_in_through_a_socket() {
    let run = Run::new();
    let hidden = scratch();
    let secret = hidden.path().join("secret");
    std::fs::write(&secret, "hidden\n").unwrap();
    let socket = run.path().join("giver");
    let mut giver = Command::new("python3");
    giver.args(["-c", GIVER]).arg(&socket).arg(&secret);
    let mut giver = giver.stdout(Stdio::null()).spawn().unwrap();
    eventually("the giver listens", || {
        std::fs::metadata(&socket).is_ok_and(|file| file.permissions().mode() & 0o777 == 0o777)
    });
    open_to_all(run.path());
    let (_, told) = as_nobody("python3", &["-c", TAKER, &socket.display().to_string()]);
    let ran = run.run(&["python3", "-c", TAKER, "/workspace/giver"]);
    giver.kill().unwrap();
    giver.wait().unwrap();
    assert_eq!(
        told, "content: b'hidden\\n'\n",
        "the control: outside it is given"
    );
    ran.expect(!ran.stdout.contains("content"), "nothing is given");
    let tried = ran.list("/network_attempts").iter();
    let tried = tried.filter(|one| one["address"] == "unix:/workspace/giver");
    let failed = tried.filter(|one| one["result"] != "allowed");
    ran.expect(failed.count() == 1, "and it is told");
}

#[test]
fn m16_no_descriptor_is_inherited() {
    let hidden = scratch();
    let secret = hidden.path().join("secret");
    std::fs::write(&secret, "hidden\n").unwrap();
    let launcher = format!(
        "import os, sys
os.dup2(os.open({:?}, os.O_RDONLY), 7)
os.execvp(sys.argv[1], sys.argv[1:])",
        secret.display().to_string()
    );
    let read = "import os; print(os.read(7, 99))";
    let (_, told) = outside("python3", &["-c", &launcher, "python3", "-c", read]);
    assert_eq!(
        told, "b'hidden\\n'\n",
        "the control: outside it is inherited"
    );
    let turnkey = turnkey_tests::binary().display().to_string();
    let jailed = [
        "-c",
        &launcher,
        &turnkey,
        "run",
        "--workdir-mode",
        "none",
        "--",
    ];
    let jailed = [&jailed[..], &["python3", "-c", read]].concat();
    let (status, told) = outside("python3", &jailed);
    assert_eq!(
        (status.code(), told.as_str()),
        (Some(1), ""),
        "not in a jail"
    );
}

const CHANGE: &str = "import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, 0, mmap.MAP_SHARED)
memory[9:10] = b'9'
memory.flush()
print('changed', flush=True)";

#[test]
fn m17_a_file_is_not_changed_through_memory() {
    let place = scratch();
    let ledger = place.path().join("ledger");
    let path = ledger.display().to_string();
    let fresh = || std::fs::write(&ledger, "balance: 5\n").unwrap();
    let content = || std::fs::read_to_string(&ledger).unwrap();
    let jail = || {
        let run = Run::new().profile(&guard(&path));
        run.option(&format!("--write {}", place.path().display()))
    };
    fresh();
    let control = jail()
        .option("--mode observe")
        .run(&["python3", "-c", CHANGE, &path]);
    control.expect(control.stdout == "changed\n", "the control: it works");
    assert_eq!(content(), "balance: 9\n", "the control: on the host");
    fresh();
    let ran = jail().run(&["python3", "-c", CHANGE, &path]);
    ran.expect_code(121);
    assert_eq!(content(), "balance: 5\n", "unchanged");
    let told = violations(&ran, "guard").any(|one| one["path"] == path.as_str());
    ran.expect(told, "and it is told");
}

/// A mapping of a file that was opened for reading.
const MAKE_WRITABLE: &str = "import ctypes, mmap, os
file = os.open('/workspace/ledger', os.O_RDONLY)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
    place = libc.mmap(None, 4096, mmap.PROT_READ, flags, file, 0)
    print(libc.mprotect(place, 4096, mmap.PROT_READ | mmap.PROT_WRITE), ctypes.get_errno())";

#[test]
fn m17_memory_of_a_file_opened_for_reading_stays_read_only() {
    let write = super::rule(
        "guard",
        "open",
        "kill",
        "path = \"/workspace/ledger\"\naccess = \"write\"",
    );
    let run = Run::new().file("ledger", "balance: 5\n").profile(&write);
    let ran = run.python(MAKE_WRITABLE);
    ran.expect_code(0);
    let expected = format!("0 0\n-1 {}\n", libc::EACCES);
    ran.expect(
        ran.stdout == expected,
        "a copy may be changed, the file may not",
    );
}
