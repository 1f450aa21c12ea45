//! What the caller does without, and what a caller without privileges would have to.
//!
//! Nothing is given up silently: a layer that the policy requires and the caller cannot have ends
//! the run before it begins, all of them named at once, unless `--unmonitored` accepts it.

use std::borrow::Cow;

use turnkey_jailer::{Host, Ids, Plan};
use turnkey_policy::{Layer, Policy};

/// What no caller can have without privileges, unless some were delegated.
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
     fix: run turnkey as root, or do without them and have the report say so: --unmonitored",
    list(.0)
)]
pub struct Unavailable(Vec<(Layer, String)>);

fn list(layers: &[(Layer, String)]) -> String {
    let named = layers
        .iter()
        .map(|(layer, reason)| (layer.name(), reason.as_str()));
    let lines = by_reason(named).into_iter();
    lines
        .map(|(names, reason)| format!("\n  {names}: {reason}"))
        .collect()
}

/// Layers that share a reason are told together: the names, and the reason.
pub fn by_reason<'a>(layers: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, &'a str)> {
    let mut told: Vec<(String, &str)> = Vec::new();
    for (name, reason) in layers {
        match told.iter_mut().find(|(_, known)| *known == reason) {
            Some((names, _)) => *names = format!("{names}, {name}"),
            None => told.push((name.to_owned(), reason)),
        }
    }
    told
}

/// The policy without what `--unmonitored` gives up: the monitor, and of the other layers those
/// that a caller without privileges may be unable to have. Whoever has privileges keeps them.
pub fn without<'p>(policy: &'p Policy, host: &Host, unmonitored: bool) -> Cow<'p, Policy> {
    let mut policy = Cow::Borrowed(policy);
    if unmonitored {
        let required = &mut policy.to_mut().enforcement.required;
        required.remove(&Layer::Monitor);
        if host.ids != Ids::All {
            PRIVILEGED.iter().for_each(|layer| {
                required.remove(layer);
            });
        }
    }
    policy
}

/// Refuses a run that would end at the first missing layer, and names them all.
pub fn require(plan: &Plan) -> Result<(), Unavailable> {
    if plan.host.ids == Ids::All {
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
        Err(Unavailable(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_with_one_reason_are_one_line() {
        let layer = |layer, reason: &str| (layer, reason.to_owned());
        let missing = Unavailable(vec![
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
