//! Every system call that a step of the plan stands on is made to fail, one per run: the run ends
//! with 125 and names the step, the program never runs, and nothing is left.

use std::collections::BTreeSet;
use std::ffi::c_long;
use std::fs::File;

use nix::errno::Errno;
use turnkey_expectations::expected;
use turnkey_tests::{Run, eventually, traces};

use crate::tracer::{Call, Calls, Fault, Role, trace};

expected!(
    not_on[ORDINARY_6_12],
    "hundreds of runs under ptrace, of how the command handles errors"
);

/// What stands on stdout when the program ran.
pub const MARK: &str = "the program ran";

/// A call that must not fail unseen.
struct Expected {
    call: Call,
    errno: Errno,
    /// turnkey's status.
    code: i32,
    /// One of these is said. Names of steps, as jailer/src/process/wire.rs has them.
    says: &'static [&'static str],
}

const fn expect(number: c_long, says: &'static [&'static str]) -> Expected {
    expect_which(number, 0, says)
}

/// For a call whose EPERM is what is hoped for.
const fn without_eperm(number: c_long, says: &'static [&'static str]) -> Expected {
    Expected {
        errno: Errno::EIO,
        ..expect(number, says)
    }
}

const fn expect_which(number: c_long, which: i32, says: &'static [&'static str]) -> Expected {
    Expected {
        call: Call {
            number,
            which: which.cast_unsigned() as u64,
        },
        errno: Errno::EPERM,
        code: 125,
        says,
    }
}

const LIFE: &str = "tie the jail's life to the supervisor's";
const GROUPS: &str = "enter its control groups";
const START: &str = "start the first process";
const CGROUP: &str = "make the cgroup namespace";
const HOSTNAME: &str = "set the host name";
const LOOPBACK: &str = "bring the loopback interface up";
const ROUTES: &str = "make the allowed addresses local";
const LISTENERS: &str = "open the sockets that wait there";
const NETWORK_PROOF: &str = "the layer network-namespace was set up but did not hold";
const IDENTITY: &str = "become the jail's user";
const ROOT: &str = "make the new root";
const TREE: &str = "build the jail's tree";
const PIVOT: &str = "change the root";
const RULES: &str = "add the Landlock rules";
const CAPABILITIES: &str = "drop the capabilities";
const PRIVILEGES: &str = "set no_new_privs";
const LANDLOCK: &str = "enforce the Landlock rules";
const LANDLOCK_PROOF: &str = "the layer landlock was set up but did not hold";
const ROOT_PROOF: &str = "the layer root was set up but did not hold";
const DESCRIPTORS: &str = "arrange the descriptors";
const RLIMITS: &str = "set the resource limits";
const SECCOMP: &str = "install the syscall filter";
const FORK: &str = "fork the program's process";
const SESSION: &str = "start a session";
const DIRECTORY: &str = "enter the working directory";
const PROOF: &str = "prove the layers from inside";
const OWNER: &str = "could not act as the jail's user, who is to own its namespaces";
const TERMINAL: &str = "make the program's terminal";
const CEILINGS: &str = "bound what it takes of its caller's";
const RELEASE: &str = "wait for the release";

/// The calls of the jail's first process, all of them.
const INIT: &[Expected] = &[
    expect_which(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, &[LIFE]),
    expect_which(libc::SYS_prctl, libc::PR_SET_NAME, &[START]),
    // For the id maps.
    expect(libc::SYS_read, &[START]),
    expect(libc::SYS_unshare, &[CGROUP]),
    expect(libc::SYS_sethostname, &[HOSTNAME]),
    expect(libc::SYS_setgroups, &[IDENTITY]),
    expect(libc::SYS_setresgid, &[IDENTITY]),
    expect(libc::SYS_setresuid, &[IDENTITY]),
    expect_which(libc::SYS_prctl, libc::PR_SET_DUMPABLE, &[IDENTITY]),
    expect(libc::SYS_openat, &[ROOT, PIVOT, RULES, LANDLOCK_PROOF]),
    expect(libc::SYS_mount_setattr, &[ROOT, PIVOT]),
    expect(libc::SYS_fsopen, &[ROOT, TREE]),
    expect(libc::SYS_fsconfig, &[ROOT, TREE]),
    expect(libc::SYS_fsmount, &[ROOT, TREE]),
    expect(libc::SYS_move_mount, &[ROOT, TREE]),
    expect(libc::SYS_fchdir, &[ROOT]),
    expect(libc::SYS_mkdirat, &[TREE]),
    expect(libc::SYS_open_tree, &[TREE]),
    expect(libc::SYS_openat2, &[TREE]),
    expect(libc::SYS_symlinkat, &[TREE]),
    expect(libc::SYS_unlinkat, &[TREE]),
    expect(libc::SYS_write, &[GROUPS, LISTENERS, TREE, LANDLOCK]),
    expect(libc::SYS_pivot_root, &[PIVOT]),
    expect(libc::SYS_umount2, &[TREE, PIVOT]),
    expect(libc::SYS_chdir, &[PIVOT]),
    expect(libc::SYS_landlock_add_rule, &[RULES]),
    expect_which(libc::SYS_prctl, libc::PR_CAPBSET_DROP, &[CAPABILITIES]),
    expect_which(libc::SYS_prctl, libc::PR_CAP_AMBIENT, &[CAPABILITIES]),
    expect_which(libc::SYS_prctl, libc::PR_SET_SECUREBITS, &[CAPABILITIES]),
    expect(libc::SYS_capset, &[CAPABILITIES]),
    expect_which(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, &[PRIVILEGES]),
    // The acts that Landlock must refuse, before it does and after. Afterwards EPERM is what is
    // hoped for, so these get another errno.
    without_eperm(libc::SYS_socket, &[NETWORK_PROOF, LANDLOCK, LANDLOCK_PROOF]),
    without_eperm(libc::SYS_bind, &[LANDLOCK, LANDLOCK_PROOF]),
    expect(libc::SYS_listen, &[LANDLOCK]),
    expect(libc::SYS_getsockname, &[LANDLOCK]),
    without_eperm(libc::SYS_connect, &[NETWORK_PROOF, LANDLOCK_PROOF]),
    expect(libc::SYS_landlock_restrict_self, &[LANDLOCK]),
    expect_which(libc::SYS_fcntl, libc::F_DUPFD_CLOEXEC, &[DESCRIPTORS]),
    expect(libc::SYS_dup3, &[DESCRIPTORS]),
    expect(libc::SYS_close_range, &[DESCRIPTORS]),
    expect(libc::SYS_rt_sigaction, &[DESCRIPTORS]),
    expect(libc::SYS_rt_sigprocmask, &[DESCRIPTORS]),
    expect(libc::SYS_signalfd4, &[DESCRIPTORS]),
    expect(libc::SYS_prlimit64, &[RLIMITS]),
    expect(libc::SYS_seccomp, &[SECCOMP]),
    expect(libc::SYS_clone, &[FORK]),
];

/// Those of its calls that only a run makes which may talk to somebody.
const NETWORK: &[Expected] = &[
    expect(libc::SYS_sendto, &[ROUTES]),
    expect(libc::SYS_recvfrom, &[ROUTES]),
    expect(libc::SYS_setsockopt, &[LISTENERS]),
    expect(libc::SYS_sendmsg, &[LISTENERS]),
    without_eperm(
        libc::SYS_socket,
        &[
            LOOPBACK,
            ROUTES,
            LISTENERS,
            NETWORK_PROOF,
            LANDLOCK,
            LANDLOCK_PROOF,
        ],
    ),
    without_eperm(libc::SYS_bind, &[LISTENERS, LANDLOCK]),
    expect(libc::SYS_listen, &[LISTENERS, LANDLOCK]),
    without_eperm(libc::SYS_connect, &[NETWORK_PROOF, LANDLOCK_PROOF]),
];

/// The calls of the process that becomes the program, until it does. What the kernel refuses with
/// EPERM anyway, because a layer holds, gets another errno.
const PROGRAM: &[Expected] = &[
    expect(libc::SYS_setsid, &[SESSION]),
    expect(libc::SYS_rt_sigprocmask, &[SESSION]),
    expect(libc::SYS_newfstatat, &[PROOF, ROOT_PROOF]),
    expect(libc::SYS_openat, &[PROOF, ROOT_PROOF]),
    expect(libc::SYS_read, &[PROOF, RELEASE]),
    expect(libc::SYS_write, &[PROOF]),
    expect(9999, &["the layer seccomp was set up but did not hold"]),
    without_eperm(
        libc::SYS_unshare,
        &["the layer seccomp was set up but did not hold"],
    ),
    expect(libc::SYS_chdir, &[DIRECTORY]),
    Expected {
        code: 126,
        ..expect(libc::SYS_access, &["found in the jail, but not executable"])
    },
    Expected {
        code: 126,
        ..expect(libc::SYS_execve, &["could not execute"])
    },
];

/// The supervisor's own half of the plan. It says what it could not do, and on what.
const SUPERVISOR: &[Expected] = &[
    expect(
        libc::SYS_landlock_create_ruleset,
        &["the layer landlock", "Landlock ruleset"],
    ),
    expect(
        libc::SYS_openat2,
        &[
            "could not open",
            "could not map the jail's user",
            "the working directory",
        ],
    ),
    expect(libc::SYS_open_tree, &["could not take a view of"]),
    expect(
        libc::SYS_mount_setattr,
        &[
            "could not restrict the view of",
            "could not translate the owner of",
        ],
    ),
    expect(libc::SYS_fsopen, &["could not make the writable side of"]),
    expect(libc::SYS_fsconfig, &["could not make the writable side of"]),
    expect(libc::SYS_fsmount, &["could not make the writable side of"]),
    expect(libc::SYS_mkdirat, &["could not make the writable side of"]),
    expect(libc::SYS_fchmodat, &["could not make the writable side of"]),
    expect(libc::SYS_fchownat, &["could not make the writable side of"]),
    expect(libc::SYS_mkdir, &["could not make the control group"]),
    expect(libc::SYS_flock, &["could not claim the control group"]),
    expect(
        libc::SYS_clone,
        &[
            "could not start the keeper",
            "could not translate the owner of",
        ],
    ),
    expect(
        libc::SYS_clone3,
        &["could not make the namespaces", "not permitted"],
    ),
    expect(
        libc::SYS_ioctl,
        &["the layer user-namespace was set up but did not hold"],
    ),
    expect(libc::SYS_capget, &[OWNER, "missing privileges"]),
    expect(libc::SYS_capset, &[OWNER]),
    expect(libc::SYS_setresuid, &[OWNER]),
    expect_which(libc::SYS_prctl, libc::PR_GET_PDEATHSIG, &[OWNER]),
    expect_which(libc::SYS_prctl, libc::PR_GET_DUMPABLE, &[OWNER]),
    expect_which(libc::SYS_prctl, libc::PR_SET_DUMPABLE, &[OWNER]),
    expect(
        libc::SYS_pipe2,
        &[
            "could not start the keeper",
            "could not translate the owner of",
            "Operation not permitted",
        ],
    ),
    // The third is tokio's own, which panics.
    expect(
        libc::SYS_socketpair,
        &["could not make the control socket", "not permitted"],
    ),
    expect(
        libc::SYS_fstatfs,
        &[
            "could not translate the owner of",
            "could not map the jail's user",
        ],
    ),
    expect(libc::SYS_memfd_create, &["the filter from libseccomp"]),
    expect(
        libc::SYS_sendto,
        &["could not talk to the jail's first process"],
    ),
    expect(
        libc::SYS_poll,
        &["could not wait for the jail's first process"],
    ),
];

/// Calls that no step stands on: a failure changes nothing that is promised.
const HARMLESS: &[(c_long, &str)] = &[
    (
        libc::SYS_close,
        "on Linux the descriptor is closed even then",
    ),
    (
        libc::SYS_fcntl,
        "F_GETFD: a check of the standard library's debug build",
    ),
    (libc::SYS_exit_group, "cannot fail"),
    (libc::SYS_umask, "cannot fail"),
    (
        libc::SYS_poll,
        "without it the init ends, and everything with it",
    ),
];

/// Options of a run as the profile has it.
pub const PLAIN: &str = "--unmonitored --network none";

/// A run that says on stdout that its program ran.
fn a_run(options: &str) -> (Run, std::process::Command) {
    let run = Run::new().option("--quiet").option(options);
    let command = run.command(&["/bin/echo", MARK]);
    (run, command)
}

pub struct Attempt {
    run: Run,
    pub traced: crate::tracer::Traced,
    pub output: String,
    pub error: String,
}

pub fn attempt(options: &str, init: Option<usize>, fault: Option<Fault>) -> Attempt {
    let (run, command) = a_run(options);
    let streams = turnkey_tests::scratch();
    let path = |name| streams.path().join(name);
    let file = |name| File::create(path(name)).expect("a test can make a file");
    let traced = trace(&command, [file("output"), file("error")], init, fault);
    let text = |name| std::fs::read_to_string(path(name)).unwrap_or_default();
    Attempt {
        run,
        traced,
        output: text("output"),
        error: text("error"),
    }
}

/// The calls of a run that is left alone, and which child is its first process.
pub fn undisturbed(options: &str) -> (Calls, Option<usize>) {
    let whole = attempt(options, None, None);
    assert_eq!(whole.traced.code, 0, "{}", whole.error);
    assert_eq!(whole.output.trim(), MARK, "the control: the program runs");
    assert!(whole.traced.init.is_some(), "the first process was seen");
    (whole.traced.calls, whole.traced.init)
}

/// Which of `count` occurrences are tried: the first, the last, and some between them.
fn sample(count: u32, most: u32) -> BTreeSet<u32> {
    if count <= most {
        return (1..=count).collect();
    }
    let between = |step| 1 + step * (count - 1) / (most - 1);
    (0..most).map(between).collect()
}

/// Makes each of the expected calls fail, at most `most` times each, and answers what was said.
fn fail_each(role: Role, expected: &[Expected], most: u32) -> BTreeSet<&'static str> {
    fail_each_with(PLAIN, role, expected, most)
}

fn fail_each_with(
    options: &str,
    role: Role,
    expected: &[Expected],
    most: u32,
) -> BTreeSet<&'static str> {
    let (calls, init) = undisturbed(options);
    let mut said = BTreeSet::new();
    for expected in expected {
        let count = calls.get(&(role, expected.call)).copied().unwrap_or(0);
        for nth in sample(count, most) {
            let fault = Fault {
                role,
                call: expected.call,
                nth,
                lasting: false,
                errno: expected.errno,
            };
            said.extend(judge(&attempt(options, init, Some(fault)), fault, expected));
        }
    }
    said
}

fn judge(attempt: &Attempt, fault: Fault, expected: &Expected) -> Option<&'static str> {
    let story = format!("{fault:?}\ncode {}\n{}", attempt.traced.code, attempt.error);
    assert!(attempt.traced.hit, "the fault was reached: {story}");
    assert_eq!(attempt.traced.code, expected.code, "{story}");
    assert!(!attempt.output.contains(MARK), "nothing ran: {story}");
    let words = expected
        .says
        .iter()
        .find(|words| attempt.error.contains(**words));
    assert!(words.is_some(), "says one of {:?}: {story}", expected.says);
    nothing_is_left(attempt, &story);
    words.copied()
}

/// Every process has been followed to its end already.
pub fn nothing_is_left(attempt: &Attempt, story: &str) {
    let mark = format!("turnkey-{}-", attempt.traced.pid);
    eventually(&format!("every group is gone: {story}"), || {
        !traces().iter().any(|trace| trace.contains(&mark))
    });
    let files = std::fs::read_dir(attempt.run.path()).expect("the directory is there");
    assert_eq!(files.count(), 0, "no file is left: {story}");
}

#[track_caller]
fn expect_steps(said: &BTreeSet<&'static str>, steps: &[&str]) {
    for step in steps {
        assert!(said.contains(step), "no fault was told as {step}: {said:?}");
    }
}

#[test]
fn a_failure_before_the_tree_is_named() {
    let said = fail_each(Role::Init, &INIT[..10], 2);
    expect_steps(&said, &[LIFE, START, CGROUP, HOSTNAME, IDENTITY, ROOT]);
}

#[test]
fn j10_a_failure_of_the_tree_is_named() {
    let said = fail_each(Role::Init, &INIT[10..22], 2);
    expect_steps(&said, &[ROOT, TREE, PIVOT]);
}

#[test]
fn a_failure_of_the_locks_is_named() {
    let said = fail_each(Role::Init, &INIT[22..], 2);
    let steps = [PIVOT, RULES, CAPABILITIES, PRIVILEGES, LANDLOCK];
    expect_steps(&said, &steps);
    expect_steps(&said, &[DESCRIPTORS, RLIMITS, SECCOMP, FORK]);
}

#[test]
fn a_failure_of_the_loopback_is_named() {
    let up = [expect(libc::SYS_ioctl, &[LOOPBACK])];
    let said = fail_each_with("--unmonitored --network loopback", Role::Init, &up, 2);
    expect_steps(&said, &[LOOPBACK]);
}

#[test]
fn a_failure_of_the_network_is_named() {
    let options = "--unmonitored --allow 192.0.2.7:443 --allow 198.51.100.0/24:80";
    let said = fail_each_with(options, Role::Init, NETWORK, 2);
    expect_steps(&said, &[ROUTES, LISTENERS, NETWORK_PROOF]);
}

#[test]
fn a_failure_of_the_programs_process_is_named() {
    let said = fail_each(Role::Program, PROGRAM, 2);
    expect_steps(&said, &[SESSION, PROOF, DIRECTORY, RELEASE]);
}

#[test]
fn a_failure_of_the_supervisor_is_named() {
    fail_each(Role::Supervisor, SUPERVISOR, 2);
}

#[test]
fn every_call_of_the_jails_processes_is_judged() {
    let (calls, _) = undisturbed(PLAIN);
    let judged = |role: Role, call: Call| {
        let expected = match role {
            Role::Init => INIT,
            Role::Program => PROGRAM,
            Role::Supervisor | Role::Opener | Role::Other => return true,
        };
        expected.iter().any(|expected| expected.call == call)
            || HARMLESS.iter().any(|(number, _)| *number == call.number)
    };
    let missing: Vec<_> = calls
        .keys()
        .filter(|(role, call)| !judged(*role, *call))
        .collect();
    assert!(missing.is_empty(), "no table holds {missing:?}");
}

#[test]
fn every_step_of_the_child_has_its_fault() {
    let source = include_str!("../../jailer/src/process/wire.rs");
    let described = |line: &'static str| {
        let (step, words) = line.trim().split_once(" => \"")?;
        step.starts_with("ChildStep::")
            .then(|| words.trim_end_matches("\","))
    };
    let steps: Vec<_> = source.lines().filter_map(described).collect();
    assert!(steps.len() > 20, "the table was found: {steps:?}");
    let tables = INIT.iter().chain(PROGRAM);
    let mut said: BTreeSet<_> = tables.flat_map(|expected| expected.says).collect();
    // Only callers without privileges have ceilings, and the tracer is root; its runs have no terminal.
    said.extend([&LOOPBACK, &ROUTES, &CEILINGS, &TERMINAL]);
    let missing: Vec<_> = steps.iter().filter(|step| !said.contains(step)).collect();
    assert!(missing.is_empty(), "no fault is told as {missing:?}");
}
