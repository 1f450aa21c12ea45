//! DNS tunnel: below one domain, ten different names were asked for whose labels before the domain hold
//! 24 characters or more; or three of 100 and more.
//!
//! Many hosts of one domain have short names; a name of a content network is long, and there are few.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_policy::Behaviour;

use super::act::{ObservedAct, Operation};
use super::process_state::ProcessState;
use super::{Detector, Sighting, Step};

/// Characters before the domain that can carry data.
const CARRIES: usize = 24;
/// Different names that carry.
const MANY: usize = 10;
/// Characters before the domain that nothing but data has.
const FULL: usize = 100;
/// Different names that are full.
const FEW: usize = 3;
/// Domains that are remembered, and names of each.
const REMEMBERED: usize = 64;

/// The names that could carry data, by their domain.
#[derive(Debug, Default)]
pub struct Tunnel {
    domains: BTreeMap<String, BTreeSet<String>>,
    told: BTreeSet<String>,
}

impl Detector for Tunnel {
    fn observe(&mut self, act: &ObservedAct<'_>, _: &ProcessState, tell: &mut dyn FnMut(Sighting)) {
        let Operation::Asked(questions) = &act.what else {
            return;
        };
        for question in questions {
            let Some((before, domain)) = split(&question.name) else {
                continue;
            };
            if before.len() < CARRIES || self.told.contains(domain) {
                continue;
            }
            if self.domains.len() >= REMEMBERED && !self.domains.contains_key(domain) {
                continue;
            }
            let names = self.domains.entry(domain.to_owned()).or_default();
            if names.len() < REMEMBERED {
                names.insert(before.to_owned());
            }
            let full = names.iter().filter(|name| name.len() >= FULL).count();
            if names.len() >= MANY || full >= FEW {
                let what = format!(
                    "asked for {} long names below {domain}, the last {}",
                    names.len(),
                    question.name
                );
                let step = Step::from_event(act.event, &[what.as_bytes()]);
                self.told.insert(domain.to_owned());
                tell(Sighting::new(Behaviour::DnsTunnel, vec![step]));
            }
        }
    }
}

/// The labels before a domain, and the domain: its last two labels.
fn split(name: &str) -> Option<(&str, &str)> {
    let last = name.rfind('.')?;
    let second = name[..last].rfind('.')?;
    Some((&name[..second], &name[second + 1..]))
}
