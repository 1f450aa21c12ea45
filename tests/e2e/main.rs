//! End-to-end tests: the real command, the real kernel, real attacks inside a jail.

mod exits;
mod export;
mod filesystem;
mod leftovers;
mod limits;
mod monitoring;
mod network;
mod privileges;
mod procfs;
mod rootless;
mod syscalls;
mod usage;
