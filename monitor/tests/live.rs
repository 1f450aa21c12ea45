//! The programs in the running kernel, against real processes in a real cgroup.
//!
//! These tests need root, cgroup v2 and a kernel of the tracepoint tier. Where that is missing
//! they fail: a monitor that was not tested is not known to work.

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
    mod open;
    mod perf;
    mod policies;
    mod process;
    mod refused;
    mod shared;
    mod tree;
}
