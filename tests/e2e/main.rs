//! End-to-end tests: the real command, the real kernel, real attacks inside a jail.

use turnkey_expectations::expected;

expected!(on[ORDINARY_6_12]);

expected!(
    as_root,
    "run the command, most of them watched, in places that root has made"
);

mod again;
mod allowed;
mod attach;
mod attest;
mod audit;
mod behaviours;
mod bombs;
mod check;
mod containers;
mod counted;
mod crowd;
mod decoys;
mod doctor;
mod exits;
mod explain;
mod export;
mod faults;
mod faults_of_the_monitor;
mod files;
mod filesystem;
mod gate;
mod guide;
mod host_network;
mod hostile;
mod identity;
mod interactive;
mod interfaces;
mod kernel_objects;
mod landlock;
mod layers;
mod learn;
mod left_loaded;
mod leftovers;
mod lifetime;
mod limits;
mod live;
mod machines;
mod mission;
mod monitor;
mod monitoring;
mod mounts;
mod network;
mod outputs;
mod own_path;
mod own_settings;
mod privileges;
mod procfs;
mod profiles;
mod programs;
mod progress;
mod publish;
mod readme;
mod replaced;
mod report;
mod root;
mod rootless;
mod scan;
mod service;
mod shared;
mod shares;
mod sinkhole;
mod sinks;
mod streams;
mod syscalls;
mod terminal;
mod toolchain;
mod top;
mod tracer;
mod usage;
mod worlds;
mod writable_tree;
