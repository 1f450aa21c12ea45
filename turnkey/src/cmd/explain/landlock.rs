//! Landlock's rules in words.

use serde::Serialize;
use turnkey_jailer::{Plan, landlock};

use super::view::shown;

/// The ruleset.
#[derive(Debug, Serialize)]
pub struct LandlockView {
    pub abi: u32,
    /// Refused everywhere unless a rule grants it.
    pub handled: Vec<&'static str>,
    /// The parts of the world outside that cannot be reached.
    pub scopes: Vec<&'static str>,
    pub rules: Vec<LandlockGrant>,
}

/// The rights that are granted at a path and beneath it.
#[derive(Debug, Serialize)]
pub struct LandlockGrant {
    pub path: String,
    pub rights: Vec<&'static str>,
}

impl LandlockView {
    /// Reads the plan; `None` on a host without Landlock.
    pub fn new(plan: &Plan) -> Option<LandlockView> {
        let handled = plan.landlock?;
        let rule = |rule: landlock::LandlockRule| LandlockGrant {
            path: shown(&rule.path),
            rights: landlock::rights_in_words(rule.access),
        };
        Some(LandlockView {
            abi: handled.abi,
            handled: landlock::rights_in_words(handled.access),
            scopes: landlock::scopes_in_words(handled.scopes)
                .into_iter()
                .chain(handled.tcp.then_some("TCP"))
                .collect(),
            rules: plan.landlock_rules().map(rule).collect(),
        })
    }
}
