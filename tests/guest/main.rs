//! Tests for machines that lack something, which `cargo xtask vm` makes. Nobody else runs them: on
//! an ordinary host what they look for cannot happen.

mod alone;
mod apparmor;
mod ci_runner;
mod containers;
mod crowd;
mod lsm;
mod oldest;
mod packaged;
mod pids;
mod podman;
mod preempt;
mod systemd;
mod tier;
mod without_landlock;
