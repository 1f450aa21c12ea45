//! Layers that a run would do without.

use super::{Lint, LintFinding};
use crate::error::Problem;
use crate::model::Layer;
use crate::policy::Policy;
use crate::profile::ParsedProfile;

pub(super) fn layers(profile: &ParsedProfile, policy: &Policy) -> Option<LintFinding> {
    let required = profile.enforcement.required.as_ref()?;
    if policy.makes_no_jail() {
        return None;
    }
    let left_out = Layer::ALL.iter().copied().filter(|layer| {
        let needed = *layer != Layer::Io || policy.limits.limit_io();
        needed && !required.value.contains(layer)
    });
    let left_out: Vec<Layer> = left_out.collect();
    if left_out.is_empty() {
        return None;
    }
    let names: Vec<&str> = left_out.iter().map(|layer| layer.name()).collect();
    let losses: Vec<&str> = left_out.iter().map(|layer| purpose(*layer)).collect();
    let message = format!(
        "runs start without {} where it cannot be had",
        names.join(", ")
    );
    Some(LintFinding {
        lint: Lint::LayerNotRequired,
        why: format!("nothing else holds {}", losses.join("; ")),
        problem: Problem::new(message)
            .help("write `required = \"all\"`; `run --unmonitored` does without the monitor for one run, and says so")
            .with_label(&required.at, "does not name them all"),
    })
}

/// The purpose of a layer: what it alone is there for.
fn purpose(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNamespace => "capabilities inside from being those of the host",
        Layer::MountNamespace => "the host's mounts out of reach",
        Layer::PidNamespace => {
            "the host's processes out of sight, and the jail's from outliving it"
        }
        Layer::NetworkNamespace => "the program off the host's network",
        Layer::IpcNamespace => "the host's shared memory and queues out of reach",
        Layer::UtsNamespace => "the host's name to itself",
        Layer::CgroupNamespace => "the host's control groups out of sight",
        Layer::TimeNamespace => "the host's time since its start to itself",
        Layer::Root => "the host's files out of reach",
        Layer::Capabilities => "the program from privileged calls",
        Layer::NoNewPrivileges => "set-user-id programs from giving rights",
        Layer::Seccomp => "system calls back",
        Layer::Landlock => "files and signals back when the tree fails to",
        Layer::Memory => "memory back",
        Layer::Pids => "the number of processes back",
        Layer::Cpu => "CPU time back",
        Layer::Io => "what it reads and writes in a second back",
        Layer::Rlimits => "file sizes and descriptors back",
        Layer::Monitor => "the program to any rule, or sees what it tries",
    }
}
