//! System calls that reach the kernel past whoever watches, and those that would blind the watcher:
//! refused, and seen.

use std::collections::BTreeSet;

use turnkey_expectations::expected;
use turnkey_policy::syscalls::{self, FilterAnswer};
use turnkey_policy::{Overrides, Policy, load};
use turnkey_tests::{Ran, Run, as_nobody, compile, has_x32, open_to_all, scratch};

use super::{Attack, events, guard, rule, violations};

const WALK: &str = include_str!("../../attacks/walk.c");
const RING: &str = include_str!("../../attacks/ring.c");
const COMPAT: &str = include_str!("../../attacks/compat.c");
const FILTER: &str = include_str!("../../attacks/filter.c");

/// Runs an attack as nobody, outside, on a file that everybody may read: the control.
fn outside(source: &str, arguments: &[&str]) -> String {
    let directory = scratch();
    open_to_all(directory.path());
    let program = directory.path().join("attack");
    compile(&program, source);
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "hidden\n").expect("a test can write its own directory");
    let secret = secret.display().to_string();
    let arguments: Vec<&str> = (arguments.iter().copied())
        .map(|argument| {
            if argument == "SECRET" {
                &secret
            } else {
                argument
            }
        })
        .collect();
    as_nobody(&program, &arguments).1
}

fn inside(source: &str) -> Run {
    let run = Run::new()
        .compiled("attack", source)
        .file("secret", "hidden\n");
    run.profile(&guard("/workspace/secret")).with_events()
}

/// The names of the calls that were refused, by the events.
fn refused(ran: &Ran) -> BTreeSet<&str> {
    let told = events(ran, "refused").filter(|event| event["result"] == "denied");
    told.filter_map(|event| event["syscall"].as_str()).collect()
}

#[test]
fn m13_j61_files_are_not_read_through_a_ring() {
    let control = outside(RING, &["file", "SECRET"]);
    assert_eq!(control, "hidden\n", "the control: outside it works");
    let ran = inside(RING).run(&["./attack", "file", "/workspace/secret"]);
    ran.expect(!ran.stdout.contains("hidden"), "nothing is read");
    ran.expect(
        ran.stdout == format!("no ring: {}\n", libc::ENOSYS),
        "there are no rings",
    );
    ran.expect(refused(&ran).contains("io_uring_setup"), "and it is told");
}

#[test]
fn m13_j61_nobody_is_reached_through_a_ring() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let control = outside(RING, &["connect", &port]);
    assert_eq!(control, "connected\n", "the control: outside it works");
    assert!(listener.accept().is_ok(), "the control: somebody came");
    let ran = inside(RING).run(&["./attack", "connect", &port]);
    ran.expect(listener.accept().is_err(), "nobody came");
    ran.expect(refused(&ran).contains("io_uring_setup"), "and it is told");
}

expected!(m14_the_other_tables_of_calls_open_nothing: on [GENERAL_6_12]);
#[test]
fn m14_the_other_tables_of_calls_open_nothing() {
    for table in ["ia32", "x32"] {
        let control = outside(COMPAT, &[table, "SECRET"]);
        // Most kernels are built without x32: nothing is read there outside either.
        let is_there = table == "ia32" || has_x32();
        let expected = if is_there { "hidden\n" } else { "" };
        assert_eq!(control, expected, "the control: {table}");
        let ran = inside(COMPAT).run(&["./attack", table, "/workspace/secret"]);
        ran.expect_code(128 + libc::SIGSYS);
        ran.expect(ran.stdout.is_empty(), "nothing is read");
        ran.expect(ran.at("/verdict") == "suspicious", "and it is told");
        let found = ran
            .list("/findings")
            .iter()
            .any(|one| one["id"] == "turnkey:sigsys");
        ran.expect(found, "by what it is");
        let died = events(&ran, "exit").any(|event| event["exit"]["signal"] == libc::SIGSYS);
        ran.expect(died, "and by whom");
    }
}

pub(super) fn untrusted() -> Policy {
    let no_files = |path: &str| Err(format!("{path} was asked for"));
    load("untrusted", &no_files, &Overrides::default()).expect("it is shipped")
}

/// Calls that never return to where they were made, and so are not answered.
const UNANSWERED: [&str; 1] = ["restart_syscall"];

#[test]
fn m15_m28_m30_every_call_that_the_filter_refuses_is_seen() {
    let policy = untrusted();
    let refused_by_table = |name: &&str| {
        let number = syscalls::number(name).unwrap_or_default();
        syscalls::answer(&policy.syscalls, number) == FilterAnswer::Refused
    };
    let names: Vec<&str> = syscalls::known().filter(refused_by_table).collect();
    let numbers: Vec<String> = (names.iter().filter_map(|name| syscalls::number(name)))
        .map(|number| number.to_string())
        .collect();
    let program: Vec<&str> = (["./attack"].into_iter())
        .chain(numbers.iter().map(String::as_str))
        .collect();
    let ran = inside(WALK).option("--mode observe").run(&program);
    let eperm = ran
        .stdout
        .lines()
        .filter(|line| line.ends_with("answered -1"));
    ran.expect(eperm.count() == names.len(), "each is refused");
    ran.expect(names.len() > 80, "and they are many");
    let told = refused(&ran);
    let unseen: Vec<_> = (names.iter())
        .filter(|name| !told.contains(**name) && !UNANSWERED.contains(name))
        .collect();
    ran.expect(unseen.is_empty(), &format!("and told: {unseen:?}"));
    ran.expect(ran.at("/events/complete") == true, "all of it");
    for (rule, call) in [
        ("kernel-instrument", "bpf"),
        ("kernel-instrument", "perf_event_open"),
        ("kernel-instrument", "userfaultfd"),
        ("kernel-module", "init_module"),
        ("kernel-module", "kexec_load"),
        ("process-injection", "pidfd_getfd"),
        ("process-injection", "process_vm_writev"),
        ("mount", "open_tree"),
        ("mount", "fsmount"),
        ("mount", "move_mount"),
    ] {
        let told = violations(&ran, rule).any(|one| one["syscall"] == call);
        ran.expect(told, call);
    }
}

#[test]
fn m15_the_newer_ways_to_open_and_run_are_judged_like_the_old() {
    let attack = Attack {
        jail: &|| {
            let exec = rule("echo", "exec", "kill", "path = \"/usr/bin/echo\"");
            let run = Run::new().file("secret", "hidden\n");
            run.profile(&(guard("/workspace/secret") + &exec))
        },
        program: &["python3", "-c", OPENAT2],
        mark: "hidden",
        rule: "guard",
        paths: &["/workspace/secret"],
    };
    attack.is_survived();
    let attack = Attack {
        program: &["python3", "-c", EXECVEAT],
        rule: "echo",
        paths: &["/usr/bin/echo"],
        ..attack
    };
    attack.is_survived();
}

const OPENAT2: &str = "import ctypes, os
how = (ctypes.c_uint64 * 3)(0, 0, 0)
print(os.read(ctypes.CDLL(None).syscall(437, -100, b'/workspace/secret', how, 24), 99))";

const EXECVEAT: &str = "import ctypes
arguments = (ctypes.c_char_p * 3)(b'echo', b'hidden', None)
ctypes.CDLL(None).syscall(322, -100, b'/usr/bin/echo', arguments, None, 0)";

/// Changes the attributes of a file by its descriptor, which an empty path means.
#[test]
fn an_empty_path_is_the_descriptor_that_it_means() {
    for (call, on) in [
        ("452, file, b'', 0o666, 0x1000", "chmod"),
        ("260, file, b'', -1, -1, 0x1000", "chmod"),
        ("280, file, b'', None, 0x1000", "attribute"),
    ] {
        let program = format!(
            "import ctypes, os
file = os.open('secret', os.O_PATH)
print('changed' if ctypes.CDLL(None).syscall({call}) == 0 else 'refused')"
        );
        let guarded = rule("guarded", on, "kill", "path = \"/workspace/secret\"");
        let attack = Attack {
            jail: &|| Run::new().file("secret", "hidden\n").profile(&guarded),
            program: &["python3", "-c", &program],
            mark: "changed",
            rule: "guarded",
            paths: &["/workspace/secret"],
        };
        attack.is_survived();
    }
}

#[test]
fn m15_calls_that_nobody_knows_yet_do_not_exist() {
    let program = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in (480, 499, 511, 512, 600, 9999):
    print(libc.syscall(number, 0, 0, 0), ctypes.get_errno())";
    let ran = Run::new().python(program);
    ran.expect(
        ran.stdout == format!("-1 {}\n", libc::ENOSYS).repeat(6),
        "ENOSYS",
    );
}

#[test]
fn m28_refused_calls_are_counted_one_by_one() {
    let program = "import ctypes
libc = ctypes.CDLL(None)
for _ in range(1000): libc.ptrace(0, 0, 0, 0)";
    let ran = Run::new().option("--mode observe").python(program);
    let counted = violations(&ran, "process-injection").map(|one| one["count"].as_u64());
    ran.expect(counted.eq([Some(1000)]), "each of them");
}

#[test]
fn m03_the_program_cannot_slow_its_calls_down() {
    let control = outside(FILTER, &[]);
    assert_eq!(
        control, "installed\ninstalled\n",
        "the control: outside it can"
    );
    let ran = inside(FILTER).run(&["./attack"]);
    ran.expect(
        ran.stdout == "refused 1\nrefused 1\n",
        "no filter of its own",
    );
    let told = refused(&ran);
    ran.expect(
        told.contains("seccomp") && told.contains("prctl"),
        "and both ways are told",
    );
}

/// Urgent data by each way to send on a connected socket, where no address tells of it, and a filter by each option
/// that takes one without privileges.
const CORNERS: &str = "import ctypes, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
one, other = socket.socketpair()
word = ctypes.create_string_buffer(b'x')
piece = (ctypes.c_uint64 * 2)(ctypes.addressof(word), 1)
message = (ctypes.c_uint64 * 8)(0, 0, ctypes.addressof(piece), 1)
def sendmmsg():
    if libc.sendmmsg(one.fileno(), message, 1, socket.MSG_OOB) < 0: raise OSError(ctypes.get_errno(), '')
code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0xffff))
program = struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))
shared = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
for act in (lambda: one.send(b'x', socket.MSG_OOB), lambda: one.sendmsg([b'x'], [], socket.MSG_OOB), sendmmsg,
            lambda: one.setsockopt(socket.SOL_SOCKET, 26, program), lambda: shared.setsockopt(socket.SOL_SOCKET, 51, program)):
    try: act()
    except OSError as error: print(error.errno)
    else: print('done')
print(one.send(b'ordinary'))";

#[test]
fn m28_corners_of_sockets_are_closed_and_the_attempts_told() {
    let (_, control) = as_nobody("python3", &["-c", CORNERS]);
    assert_eq!(control, "done\n".repeat(5) + "8\n", "the control");
    let ran = Run::new().python(CORNERS);
    ran.expect(
        ran.stdout == "1\n".repeat(5) + "8\n",
        "EPERM, for these alone",
    );
    let told = ran.list("/refused_calls");
    let told = told.iter().filter(|row| row["for_arguments"] == true);
    let told: BTreeSet<_> = told.filter_map(|row| row["syscall"].as_str()).collect();
    let wanted = ["sendmmsg", "sendmsg", "sendto", "setsockopt"];
    ran.expect(
        wanted.iter().all(|call| told.contains(call)),
        "and the filter is said to have refused each",
    );
}
