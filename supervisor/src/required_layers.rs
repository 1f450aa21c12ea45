//! The layers that the caller does without, and those that a caller without privileges would have to.
//!
//! Nothing is given up silently: a layer that the policy requires and the caller cannot have ends
//! the run before it begins, all of them named at once, unless `--best-effort` or `--unmonitored` accepts it.

use turnkey_jailer::{NamespaceIds, Plan};
use turnkey_policy::{Layer, Policy};
use turnkey_report::by_reason;

/// The part of what the policy requires that must be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// All that the policy requires.
    #[default]
    Whole,
    /// The jail itself, and of the rest what this host gives this caller.
    BestEffort,
    /// The same without the monitor, which is not even tried; of the rest that of no layer which everybody can have.
    Unmonitored,
}

/// Refuses a caller whose runs nobody can watch, for a command that goes by what the monitor sees.
///
/// # Errors
/// When the caller has no privileges on the whole host.
pub fn require_watcher(command: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        NamespaceIds::probe() == NamespaceIds::All,
        "{command} goes by what the monitor sees, and that needs privileges on the whole host; fix: run turnkey as root"
    );
    Ok(())
}

/// The layers that no caller can have without privileges, unless some were delegated.
const PRIVILEGED: [Layer; 6] = [
    Layer::Monitor,
    Layer::Memory,
    Layer::Pids,
    Layer::Cpu,
    Layer::Io,
    Layer::Capabilities,
];

/// Layers that the policy requires and this caller cannot have.
#[derive(Debug, thiserror::Error)]
#[error(
    "this caller has no privileges, and cannot have what the profile requires:{}\n  \
     fix: run turnkey as root{}, or do without them and have the report say so: --best-effort",
    list(.0), by_service()
)]
pub struct UnavailableLayers(Vec<(Layer, String)>);

#[cfg(test)]
impl UnavailableLayers {
    /// For tests of how it is told.
    pub fn from_layers(layers: Vec<(Layer, String)>) -> UnavailableLayers {
        UnavailableLayers(layers)
    }
}

/// The other way to all of them, where this caller may use a service.
fn by_service() -> &'static str {
    use nix::unistd::{AccessFlags, access};

    use crate::service::{SOCKET, socket_directory};
    match access(&socket_directory().join(SOCKET), AccessFlags::W_OK) {
        Ok(()) => ", or have the service make the run: --service",
        Err(_) => "",
    }
}

fn list(layers: &[(Layer, String)]) -> String {
    let named = layers
        .iter()
        .map(|(layer, reason)| (layer.name(), reason.as_str()));
    let lines = by_reason(named).into_iter();
    lines
        .map(|(names, reason)| format!("\n  {names}: {reason}"))
        .collect()
}

/// Takes out of a policy what need not be there. Where it can be had, it is there all the same.
pub fn leave_out(policy: &mut Policy, strictness: Strictness) {
    let required = &mut policy.enforcement.required;
    match strictness {
        Strictness::Whole => {}
        Strictness::BestEffort => required.clear(),
        Strictness::Unmonitored => required.retain(|layer| !PRIVILEGED.contains(layer)),
    }
}

/// True when somebody watches such a run, if it starts at all: who does with less goes on without the monitor where no
/// privileges on the whole host load it.
pub fn can_be_watched(strictness: Strictness, ids: &NamespaceIds) -> bool {
    match strictness {
        Strictness::Whole => true,
        Strictness::BestEffort => *ids == NamespaceIds::All,
        Strictness::Unmonitored => false,
    }
}

/// Refuses a run that would end at the first missing layer, and names them all.
pub fn require(plan: &Plan) -> Result<(), UnavailableLayers> {
    if plan.host.ids == NamespaceIds::All {
        // What root misses is an error of its own, with a fix of its own.
        return Ok(());
    }
    let mut missing = plan.missing();
    if plan.policy.enforcement.required.contains(&Layer::Monitor) {
        let reason = "only privileges on the whole host let eBPF programs be loaded".to_owned();
        missing.push((Layer::Monitor, reason));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(UnavailableLayers(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_need_not_be_there_is_not_required() {
        let no_files = |path: &str| Err(format!("{path} is no shipped profile"));
        let overrides = turnkey_policy::Overrides::default();
        let policy = turnkey_policy::load("untrusted", &no_files, &overrides).unwrap();
        let required = |strictness| {
            let mut policy = policy.clone();
            leave_out(&mut policy, strictness);
            policy.enforcement.required
        };
        let whole = required(Strictness::Whole);
        assert_eq!(whole, policy.enforcement.required);
        assert!(required(Strictness::BestEffort).is_empty());
        let unmonitored = required(Strictness::Unmonitored);
        let given_up = whole.iter().filter(|layer| !unmonitored.contains(layer));
        assert!(given_up.clone().count() > 0);
        assert!(given_up.into_iter().all(|layer| PRIVILEGED.contains(layer)));
        assert!(unmonitored.contains(&Layer::Seccomp));
    }

    #[test]
    fn layers_with_one_reason_are_one_line() {
        let layer = |layer, reason: &str| (layer, reason.to_owned());
        let missing = UnavailableLayers(vec![
            layer(Layer::Memory, "no group"),
            layer(Layer::Monitor, "no privileges"),
            layer(Layer::Pids, "no group"),
        ]);
        let text = missing.to_string();
        assert!(text.contains("\n  memory, pids: no group\n"), "{text}");
        assert!(text.contains("\n  monitor: no privileges\n"), "{text}");
        // As a terminal shows it.
        assert_eq!(crate::advice::explain(&missing.into()), text);
    }
}
