//! The tests that guests leave out, or that some of them only have, each with the reason.
//! tests/machines/src/expected.rs says which machine goes by which list.

use super::expected::LeftOut;

/// The tests of what the monitor does otherwise on the tracepoint tier, and of what its programs cost there.
pub const BY_TIER: &[&str] = &[
    "live::actors::m09_",
    "live::actors::a_script",
    "live::cost::",
    "live::open::",
    "live::objects::",
    "live::tree::",
    "live::look::",
    "live::map::",
    "live::network::a_listen",
    "live::shared::a_program_that_is_called_twice",
];

/// The reason why the others are not run.
pub const NOT_BY_TIER: &str = "an emulated processor takes some seconds for each; these are the programs that differ between \
    tiers and cost the verifier most. On 6.12 with BPF LSM and on the host all of them run";

/// Left out of the monitor's own tests.
pub const NOT_LIVE_IN_THE_GUEST: &[LeftOut] = &[
    LeftOut {
        prefix: "live::actors::by_perf",
        why: "loads the programs once more, which takes an emulated processor long; on the newest kernel perf calls them \
              for every test",
    },
    LeftOut {
        prefix: "live::actors::of_a_fork",
        why: "loads an object of its own, which takes an emulated processor half a minute; what the kernel has to do with \
              it is in the other tests of who acts",
    },
    LeftOut {
        prefix: "live::shared::a_group_that_somebody_else",
        why: "loads the programs four times, which takes an emulated processor minutes; groups are made and taken away \
              alike on every kernel",
    },
    LeftOut {
        prefix: "live::evidence::m21",
        why: "1500 processes of an interpreter take an emulated processor longer than a test may; \
              `monitor::evidence::m21` has smaller ones",
    },
];

/// Left out of the machine that has the programs for them.
pub const NOT_AMONG_PROGRAMS: &[LeftOut] = &[
    LeftOut {
        prefix: "profiles::go::",
        why: "Go takes an emulated processor long: on this host",
    },
    LeftOut {
        prefix: "profiles::java::",
        why: "a virtual machine of Java takes an emulated processor long: on this host",
    },
    LeftOut {
        prefix: "profiles::rust::six_programs",
        why: "six programs take an emulated processor long to compile; one is",
    },
    LeftOut {
        prefix: "report::browser::",
        why: "a browser would take an emulated processor longer than a test may, and shows what is rendered without a jail",
    },
];

/// Left out because the kernel has little part in them: an emulated processor takes some seconds for
/// each run, and the rest is to stay within minutes.
pub const NOT_IN_THE_GUEST: &[LeftOut] = &[
    LeftOut {
        prefix: "bombs::",
        why: "the limits of memory, tasks and time are those of `limits::`, met by more programs",
    },
    LeftOut {
        prefix: "containers::a_runtime_that_executes_itself",
        why: "strace holds the runtime up, which the guest does not have",
    },
    LeftOut {
        prefix: "crowd::",
        why: "two hundred jails at once take an emulated processor too long",
    },
    LeftOut {
        prefix: "decoys::",
        why: "planted like other mounts and watched like other files: `filesystem::`, `monitoring::`",
    },
    LeftOut {
        prefix: "exits::",
        why: "statuses and output are handled by the command alone; every other test uses them",
    },
    LeftOut {
        prefix: "explain::",
        why: "a plan is made without asking the kernel",
    },
    LeftOut {
        prefix: "export::",
        why: "files are brought out by the command, after the jail is gone",
    },
    LeftOut {
        prefix: "faults",
        why: "hundreds of runs under ptrace, of how the command handles errors",
    },
    LeftOut {
        prefix: "files::",
        why: "what is planted and collected is looked at by the command",
    },
    LeftOut {
        prefix: "progress::",
        why: "what is shown on a terminal meanwhile is the command's alone, and takes seconds to appear: on 6.12 programs",
    },
    LeftOut {
        prefix: "report::",
        why: "a stored report is rendered by the command alone, without a jail; the runs that fill it are ordinary ones: on 6.12 programs",
    },
    LeftOut {
        prefix: "interactive::",
        why: "editors and interpreters at a terminal wait for each key, which takes an emulated processor long; both ends are passed on outside of the jail",
    },
    LeftOut {
        prefix: "guide::",
        why: "pages show what a run of Python tells; this guest's has no compiled modules, and tells besides that it tries to write them: on 6.12 programs",
    },
    LeftOut {
        prefix: "learn::",
        why: "each learns from one run of an interpreter and enforces it in others, which takes minutes: on 6.12 programs",
    },
    LeftOut {
        prefix: "layers::packages::",
        why: "the tools of packages are programs as others; the tree that they write to has its own tests",
    },
    LeftOut {
        prefix: "monitor::evidence::m20",
        why: "floods, which take an emulated processor long; `live::evidence::` has them there",
    },
    LeftOut {
        prefix: "monitor::exec::m12",
        why: "a run for each route to an interpreter; the hook is the one of the other `monitor::exec::`",
    },
    LeftOut {
        prefix: "monitor::kills::m25",
        why: "a run for each way to be a descendant; a jail is known by its group on every kernel",
    },
    LeftOut {
        prefix: "monitor::paths::m04",
        why: "a run for each spelling; `lsm::a_denied_file_is_opened_by_no_way` has them in one",
    },
    LeftOut {
        prefix: "hostile::",
        why: "what is escaped is printed by the command alone",
    },
    LeftOut {
        prefix: "monitor::wide",
        why: "a compiler, and a run for each way to hold a number; every program reads registers by the same few functions",
    },
    LeftOut {
        prefix: "outputs::",
        why: "outputs are found and published by the command, outside of the jail",
    },
    LeftOut {
        prefix: "privileges::",
        why: "proved from inside in every run: `monitoring::every_layer_is_proved_in_the_report`",
    },
    LeftOut {
        prefix: "procfs::what_ordinary_programs_read",
        why: "what is not covered is the same on every kernel; what is covered differs, so that runs",
    },
    LeftOut {
        prefix: "profiles::compile::a_build_script_of_cargo",
        why: "this guest has no compiler of Rust: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::compile::cargo",
        why: "this guest has no compiler of Rust: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::go::",
        why: "Go takes an emulated processor long: on this host",
    },
    LeftOut {
        prefix: "profiles::java::",
        why: "a virtual machine of Java takes an emulated processor long: on this host",
    },
    LeftOut {
        prefix: "profiles::judge::programs_in_rust",
        why: "this guest has no compiler of Rust: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::node::",
        why: "Node alone would double this guest's disk, and takes an emulated processor long to start: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::python::an_environment_of_the_workspace_with_pips",
        why: "pip takes an emulated processor long; an environment without it is made here: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::python::numbers",
        why: "the libraries would double this guest's disk: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::python::pip",
        why: "pip takes an emulated processor long; an environment without it is made here: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::python::what_numpy",
        why: "the libraries would double this guest's disk: on 6.12 programs",
    },
    LeftOut {
        prefix: "profiles::rust::",
        why: "this guest has no compiler of Rust: on this host",
    },
    LeftOut {
        prefix: "profiles::shell::git",
        why: "this guest has no git: on 6.12 programs",
    },
    LeftOut {
        prefix: "programs::",
        why: "which program ran is seen by the hooks of `monitoring::`",
    },
    LeftOut {
        prefix: "root::",
        why: "a tree is looked at by the command before it becomes a root",
    },
    LeftOut {
        prefix: "rootless::again::",
        why: "the same tests run here as root; what is different without is the rest of `rootless::`",
    },
    LeftOut {
        prefix: "sinks::https::",
        why: "TLS is curl's, which the guest does not have, and nothing of it is a kernel's",
    },
    LeftOut {
        prefix: "streams::",
        why: "standard input is handed over by the command, before the jail begins",
    },
    LeftOut {
        prefix: "syscalls::",
        why: "thousands of calls and a compiler, for a filter that is the same on every kernel",
    },
    LeftOut {
        prefix: "terminal::",
        why: "refused by the filter, which is the same on every kernel",
    },
    LeftOut {
        prefix: "toolchain::",
        why: "what a program belongs to is found out by the command",
    },
    LeftOut {
        prefix: "usage::",
        why: "bad command lines and profiles are refused before the kernel is asked",
    },
];
