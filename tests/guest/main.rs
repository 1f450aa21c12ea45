//! Tests for machines that lack something, which `cargo xtask vm` makes. Nobody else runs them: on
//! an ordinary host what they look for cannot happen.

mod lsm;
mod systemd;
mod too_old;
mod without_landlock;
