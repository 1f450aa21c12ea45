//! The resolved policy: what a run enforces, after profiles are merged and overrides applied.
//!
//! Everything here is plain data. The jailer reads `filesystem`, `limits`, `identity`,
//! `environment`, `syscalls` and `network`; the monitor reads `rules` and `network`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::behaviour::{Behaviour, BehaviourResponse};
use crate::keys::{KeyValue, ProfileKey};
use crate::model::EnforcementMode;
use crate::tables::{
    AcceptedFinding, EnforcementPolicy, FilesystemPolicy, JailEnvironment, JailIdentity,
    JailLimits, NetworkPolicy, Rule, ScanPolicy, SyscallPolicy,
};

/// A whole policy, ready to be planned and compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The profile's `name`.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// SHA-256, in hex, of the texts of all merged profiles and of the overrides, in order.
    pub sha256: String,
    /// The files it was read from; shipped profiles are none.
    pub files: Vec<PathBuf>,
    /// The contents of the jail's file system.
    pub filesystem: FilesystemPolicy,
    /// The network that the jail may reach.
    pub network: NetworkPolicy,
    /// The limits of the whole process tree.
    pub limits: JailLimits,
    /// The identity of the program inside.
    pub identity: JailIdentity,
    /// The program's environment.
    pub environment: JailEnvironment,
    /// The syscalls the filter allows.
    pub syscalls: SyscallPolicy,
    /// The layers that a run needs to start, and the meaning of lost evidence.
    pub enforcement: EnforcementPolicy,
    /// The look at a script before it runs.
    pub scan: ScanPolicy,
    /// Rules on attempts, in the order of the files. Which one decides: see [`mod@crate::decide`].
    pub rules: Vec<Rule>,
    /// The response to each behaviour; one that is not here is logged.
    pub behaviours: BTreeMap<Behaviour, BehaviourResponse>,
    /// Findings that are known and no reason for suspicion, at most one of each id.
    pub accepted: Vec<AcceptedFinding>,
}

impl Policy {
    /// The same policy with its rules in another mode.
    #[must_use]
    pub fn with_mode(mut self, mode: EnforcementMode) -> Self {
        self.enforcement.mode = mode;
        self
    }

    /// The policy as its profiles have it, without rules of turnkey's own that are advice.
    #[must_use]
    pub fn without_advice(&self) -> Self {
        let mut policy = self.clone();
        policy.rules.retain(|rule| !rule.advice);
        policy
    }

    /// True for a profile of processes that others started, as `turnkey attach` watches them: it allows no system call, so no
    /// jail starts under it. A profile may say so that requires the monitor alone.
    #[must_use]
    pub fn makes_no_jail(&self) -> bool {
        self.syscalls.allow.is_empty()
    }

    /// Every key of one value with that, but for those of lists' entries and of rules.
    pub fn values(&self) -> impl Iterator<Item = (&'static ProfileKey, KeyValue)> {
        let behaviours = Behaviour::ALL.iter().map(|one| self.said(*one));
        let behaviours = behaviours.map(|said| KeyValue::from(&said));
        let files = self.filesystem.values();
        files
            .chain(self.filesystem.workdir.values())
            .chain(self.network.values())
            .chain(self.limits.values())
            .chain(self.identity.values())
            .chain(self.enforcement.values())
            .chain(crate::behaviour::KEYS.iter().zip(behaviours))
    }

    fn said(&self, behaviour: Behaviour) -> BehaviourResponse {
        let said = self.behaviours.get(&behaviour);
        said.copied().unwrap_or(BehaviourResponse::Log)
    }

    /// The response to a behaviour, after the mode was applied.
    #[must_use]
    pub fn response(&self, behaviour: Behaviour) -> BehaviourResponse {
        let said = self.said(behaviour);
        match self.enforcement.mode {
            EnforcementMode::Enforce => said,
            EnforcementMode::Observe => said.min(BehaviourResponse::Log),
        }
    }
}
