//! Every system call that the monitor stands on is made to fail, one per run: nothing runs unwatched
//! where the profile wants a watch, and no program stays in the kernel.

use std::collections::BTreeSet;
use std::ffi::c_long;

use nix::errno::Errno;
use turnkey_expectations::expected;
use turnkey_tests::{Mount, Run, eventually, measured, nothing_is_loaded, scratch};

use crate::faults::{MARK, attempt, nothing_is_left, undisturbed};
use crate::tracer::{BORN_IN_A_GROUP, Call, Fault, HEADS, Role};

expected!(
    not_on[ORDINARY_6_12],
    "hundreds of runs under ptrace, of how the command handles errors"
);

/// As the profile has it: the monitor is required.
const WATCHED: &str = "--network none --leave-nothing";

/// Commands of bpf(2).
mod command {
    pub const MAP_CREATE: u64 = 0;
    pub const MAP_UPDATE: u64 = 2;
    pub const MAP_DELETE: u64 = 3;
    pub const PROG_LOAD: u64 = 5;
    pub const TRACEPOINT_OPEN: u64 = 17;
    pub const BTF_LOAD: u64 = 18;
    pub const MAP_FREEZE: u64 = 22;
    pub const LINK_CREATE: u64 = 28;
}

/// Whose and which calls fail (counted from the end when negative), and what is said.
struct Expected {
    role: Role,
    call: Call,
    nths: &'static [i64],
    says: &'static [&'static str],
}

const fn call(
    number: c_long,
    which: u64,
    nths: &'static [i64],
    says: &'static [&'static str],
) -> Expected {
    Expected {
        role: Role::Supervisor,
        call: Call { number, which },
        nths,
        says,
    }
}

const fn opener(expected: Expected) -> Expected {
    Expected {
        role: Role::Opener,
        ..expected
    }
}

const fn bpf(command: u64, nths: &'static [i64], says: &'static [&'static str]) -> Expected {
    call(libc::SYS_bpf, command, nths, says)
}

const FIRST_AND_LAST: &[i64] = &[1, -1];
const OBJECT: &str = "the eBPF object cannot be loaded";
const ROOM: &str = "the kernel makes no room for the jail's rules and events";
const PROGRAM: &str = "the kernel does not accept the program";
const HOOKS: &str = "cannot be attached to the jail's cgroup";

/// Of open, of the canaries, and of the adoption.
const MONITOR: &[Expected] = &[
    opener(call(
        libc::SYS_openat,
        HEADS[0],
        // The others are the library's own questions.
        &[1],
        &["/sys/kernel/btf/vmlinux cannot be read"],
    )),
    opener(bpf(command::BTF_LOAD, &[1], &[OBJECT])),
    opener(bpf(command::MAP_CREATE, FIRST_AND_LAST, &[OBJECT, ROOM])),
    opener(bpf(command::MAP_FREEZE, FIRST_AND_LAST, &[OBJECT])),
    opener(bpf(command::PROG_LOAD, FIRST_AND_LAST, &[OBJECT, PROGRAM])),
    opener(bpf(command::TRACEPOINT_OPEN, FIRST_AND_LAST, &[PROGRAM])),
    // The constants of the object.
    opener(bpf(command::MAP_UPDATE, &[1], &[OBJECT])),
    // The rings and the room.
    opener(call(
        libc::SYS_mmap,
        1,
        FIRST_AND_LAST,
        &["the memory for rules and events cannot be mapped"],
    )),
    // The canaries' group; the jail.
    opener(bpf(
        command::MAP_UPDATE,
        &[-1],
        &["the canary could not be prepared: watching its cgroup"],
    )),
    bpf(
        command::MAP_UPDATE,
        FIRST_AND_LAST,
        &["the kernel does not take the jail"],
    ),
    // The programs of the group, for the canaries and for the jail.
    opener(bpf(command::LINK_CREATE, &[-7, -1], &[HOOKS])),
    bpf(command::LINK_CREATE, FIRST_AND_LAST, &[HOOKS]),
    opener(call(
        libc::SYS_clone3,
        BORN_IN_A_GROUP,
        FIRST_AND_LAST,
        &["the canary could not be prepared: making a process in its cgroup"],
    )),
    opener(call(
        libc::SYS_wait4,
        0,
        &[-1],
        &["the canary could not be prepared: waiting for it"],
    )),
    opener(bpf(
        command::MAP_DELETE,
        FIRST_AND_LAST,
        &["the canary could not be prepared: forgetting its cgroup"],
    )),
];

/// The programs of the kernel that these are among.
fn still_loaded(programs: &BTreeSet<u32>) -> Vec<u32> {
    let all = aya::programs::loaded_programs()
        .flatten()
        .map(|program| program.id());
    all.filter(|id| programs.contains(id)).collect()
}

expected!(
    a_failure_of_the_monitor_is_named_and_leaves_no_program: at_night,
    "a run for each call of the monitor that can fail; `faults::` has those of the jail"
);
#[test]
fn a_failure_of_the_monitor_is_named_and_leaves_no_program() {
    nothing_is_loaded();
    // Where there is one CPU, one thread has all programs verified, in their order.
    let mut first = nix::sched::CpuSet::new();
    first.set(0).expect("a number of a CPU");
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &first).expect("it is there");
    let (calls, init) = undisturbed(WATCHED);
    let mut most = 0;
    for expected in MONITOR {
        let count = calls.get(&(expected.role, expected.call)).copied();
        let count = count.unwrap_or_else(|| panic!("{:?} is not made", expected.call));
        let nth = |place: &i64| match u32::try_from(*place) {
            Ok(place) => place,
            Err(_) => count + 1 - u32::try_from(-place).expect("few"),
        };
        for nth in expected.nths.iter().map(nth).collect::<BTreeSet<_>>() {
            let fault = Fault {
                role: expected.role,
                call: expected.call,
                nth,
                lasting: true,
                errno: Errno::EIO,
            };
            let tried = attempt(WATCHED, init, Some(fault));
            let story = format!("{fault:?}\ncode {}\n{}", tried.traced.code, tried.error);
            assert!(tried.traced.hit, "the fault was reached: {story}");
            assert_eq!(tried.traced.code, 125, "{story}");
            assert!(!tried.output.contains(MARK), "nothing ran: {story}");
            let words = expected
                .says
                .iter()
                .find(|words| tried.error.contains(**words));
            assert!(words.is_some(), "says one of {:?}: {story}", expected.says);
            nothing_is_left(&tried, &story);
            eventually(&format!("no program is left: {story}"), || {
                still_loaded(&tried.traced.programs).is_empty()
            });
            most = most.max(tried.traced.programs.len());
        }
    }
    measured(&format!(
        "{most} programs were seen to be loaded, and are gone"
    ));
    assert!(most >= 13, "the control: they were there");
}

/// The control of the look: a program that is in the kernel is found.
#[test]
fn a_program_in_the_kernel_is_found() {
    nothing_is_loaded();
    let run = turnkey_tests::Run::new().option("--quiet --leave-nothing");
    let mut command = run.command(&["sleep", "60"]);
    let mut turnkey = command.spawn().expect("turnkey can be started");
    let pid = turnkey.id();
    let programs = || -> BTreeSet<u32> {
        let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter();
        let texts = infos
            .flatten()
            .flatten()
            .filter_map(|info| std::fs::read_to_string(info.path()).ok());
        let id = |text: String| {
            text.lines()
                .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
        };
        texts.filter_map(id).collect()
    };
    eventually("the programs are loaded", || programs().len() >= 12);
    let seen = programs();
    let found = still_loaded(&seen).len();
    turnkey.kill().expect("it can be killed");
    turnkey.wait().expect("it can be waited for");
    assert_eq!(found, seen.len(), "the control");
    eventually("and gone with it", || still_loaded(&seen).is_empty());
}

/// The monitor is loaded while the jail is made, and then proves itself in the group of a jail that could not be.
#[test]
fn a_jail_that_cannot_be_made_is_told_before_the_monitor_that_has_none() {
    nothing_is_loaded();
    let place = scratch();
    // No kernel translates the owners of its files.
    let _ramfs = Mount::new(&["-t", "ramfs", "none"], place.path());
    let run = Run::new().option(&format!("--workdir {}", place.path().display()));
    let ran = run.run(&["echo", MARK]);
    ran.expect_code(125);
    ran.expect(ran.stdout.is_empty(), "nothing ran");
    ran.expect(
        ran.stderr.contains("cannot be id-mapped by this kernel"),
        "the cause is the directory",
    );
}
