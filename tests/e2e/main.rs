//! End-to-end tests: the real command, the real kernel, real attacks inside a jail.

mod bombs;
mod crowd;
mod doctor;
mod exits;
mod explain;
mod export;
mod faults;
mod files;
mod filesystem;
mod kernel_objects;
mod landlock;
mod leftovers;
mod lifetime;
mod limits;
mod monitoring;
mod network;
mod privileges;
mod procfs;
mod programs;
mod root;
mod rootless;
mod syscalls;
mod terminal;
mod toolchain;
mod tracer;
mod usage;
