//! The programs in the running kernel, against real processes in a real cgroup.
//!
//! These tests need root, cgroup v2 and a kernel of the tracepoint tier. Where that is missing
//! they fail: a monitor that was not tested is not known to work.

use turnkey_expectations::expected;

expected!(on WHOLE_MONITOR);

expected!(
    not_on BY_TIER,
    "an emulated CPU takes some seconds for each; these are the programs that differ \
     between tiers and cost the verifier most. On 6.12 with BPF LSM and on the host all of them \
     run"
);

expected!(as_root, "load the monitor's programs into the kernel");

mod random;

mod live {
    pub mod harness;

    mod actors;
    mod addresses;
    mod change;
    mod cost;
    mod evidence;
    mod exec;
    mod faults;
    mod identity;
    mod look;
    mod map;
    mod network;
    mod objects;
    mod open;
    mod perf;
    mod policies;
    mod process;
    mod refused;
    mod shared;
    mod tree;
}
