//! The acts allowed: by the rules, the tree and the filter of a profile, or because they were done before.

use std::collections::BTreeSet;
use std::path::Path;

use turnkey_policy::{
    ActorPaths, Attempt, AttemptKind, Glob, NetworkMode, OpenAccess, Policy, RootMode, Rule,
    RuleAction, ToolchainMode, WORKSPACE, WorkdirMode, decide, endpoint,
};

use super::doings::{CHANGES, ReportedUse, RunUses};
use crate::cmd::learn::places::{self, FoldBreadth};
use crate::cmd::learn::seen::FileWant;
use crate::cmd::learn::varied::VariedNames;
use turnkey_report::unescape;

/// Places that every jail has of its own.
const OWN: &[&str] = &[
    "/dev",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/proc",
    "/sys",
];

/// The acts that one side allows.
pub struct SideAllowances<'a> {
    /// In the order of the profile.
    pub rules: Vec<Rule>,
    /// The same for a file that is not there: rules about what is present say nothing of it.
    absent: Vec<Rule>,
    /// The files of which a run changed names or attributes, and what is like them.
    changes: Vec<(AttemptKind, Vec<Glob>)>,
    /// The profile with tree, filter and network; `None` for a report.
    policy: Option<&'a Policy>,
    /// The uses of a run, where there is a report.
    done: Option<&'a RunUses>,
}

impl<'a> SideAllowances<'a> {
    /// The allowances of a profile.
    pub fn of_profile(policy: &'a Policy) -> Self {
        let mut absent = policy.clone();
        absent.settle_home(&policy.homes(None), &|_| false);
        Self {
            rules: policy.rules.clone(),
            absent: absent.rules,
            changes: Vec::new(),
            policy: Some(policy),
            done: None,
        }
    }

    /// The allowances of a run: what it did, and what is like it. Random names and versions are not told apart.
    pub fn of_report(done: &'a RunUses) -> Self {
        // A report does not say which places were the jail's own memory; these are in every shipped profile or nowhere.
        let scratch = ["/dev/shm", "/tmp", "/var/tmp"].map(|place| place.as_bytes().to_vec());
        let fold = FoldBreadth {
            level: 0,
            scratch: &scratch,
            mounts: &[],
            varied: &VariedNames::new(),
            installations: &[],
        };
        let like = |want: FileWant, paths: &mut dyn Iterator<Item = &Vec<u8>>| {
            let patterns = paths.flat_map(|path| places::patterns(fold, want, path, false));
            let unique: BTreeSet<String> = patterns.collect();
            let globs = unique.iter().filter_map(|text| Glob::parse(text).ok());
            globs.collect::<Vec<_>>()
        };
        let mut rules = Vec::new();
        let mut add = |on, access: Option<OpenAccess>, like: Vec<Glob>| {
            let rule = |action, path| Rule {
                path,
                access: access.into_iter().collect(),
                ..Rule::new("not-done-before", [on], action)
            };
            if !like.is_empty() {
                rules.push(rule(RuleAction::Allow, like));
            }
            rules.push(rule(RuleAction::Deny, Vec::new()));
        };
        for (want, on, access) in [
            (FileWant::Read, AttemptKind::Open, Some(OpenAccess::Read)),
            (FileWant::Write, AttemptKind::Open, Some(OpenAccess::Write)),
            (FileWant::Run, AttemptKind::Exec, None),
        ] {
            let mut uses = done.files.keys().filter(|(of, _)| *of == want);
            let like = like(want, &mut uses.by_ref().map(|(_, path)| path));
            add(on, access, like);
        }
        let changes = CHANGES.map(|(on, _)| {
            let changes = done.acts.changes.keys().filter(|(of, _)| *of == on);
            let like = like(FileWant::Write, &mut changes.map(|(_, path)| path));
            (on, like)
        });
        Self {
            rules,
            absent: Vec::new(),
            changes: changes.into(),
            policy: None,
            done: Some(done),
        }
    }

    /// True for the allowances of a profile.
    pub fn is_profile(&self) -> bool {
        self.policy.is_some()
    }

    /// The reason why a use of a file is not allowed to who acts, if it is not. Of `None` the strictest answer counts.
    pub fn file(
        &self,
        want: FileWant,
        path: &[u8],
        used: &ReportedUse,
        actor: Option<ActorPaths<'_>>,
    ) -> Option<String> {
        let (on, access) = want.attempt();
        let attempt = Attempt {
            path: Some(path),
            access: &[access],
            actor,
            ..Attempt::new(on)
        };
        let rules = if used.is_there || self.done.is_some() {
            &self.rules
        } else {
            &self.absent
        };
        if let Some(why) = self.against(rules, &attempt) {
            return Some(why);
        }
        let policy = self.policy?;
        // What failed anyway needs no place.
        let missing = used.succeeded && !holds(policy, want, path);
        missing.then(|| match want {
            FileWant::Write => "nothing can be written there".to_owned(),
            _ => "its tree does not hold it".to_owned(),
        })
    }

    /// The reason why a change of a file's names or attributes is not allowed to who acts, if it is not. One of names counts as writing.
    pub fn change(
        &self,
        on: AttemptKind,
        path: &[u8],
        used: &ReportedUse,
        actor: Option<ActorPaths<'_>>,
    ) -> Option<String> {
        if self.done.is_some() {
            let mut known = self.changes.iter().filter(|(of, _)| *of == on);
            let is_known = known.any(|(_, like)| like.iter().any(|glob| glob.matches(path)));
            return (!is_known).then(|| "not done before".to_owned());
        }
        let attempt = Attempt {
            path: Some(path),
            actor,
            ..Attempt::new(on)
        };
        let against = self.against(&self.rules, &attempt);
        against.or_else(|| {
            let missing = used.succeeded && !holds(self.policy?, FileWant::Write, path);
            missing.then(|| "nothing can be written there".to_owned())
        })
    }

    /// The reason why an act that rules forbid as a whole, or by another object, is not allowed to who acts, if it is not.
    pub fn other(
        &self,
        on: AttemptKind,
        object: &str,
        actor: Option<ActorPaths<'_>>,
    ) -> Option<String> {
        if let Some(done) = self.done {
            let known = done.acts.others.contains_key(&(on, object.to_owned()));
            return (!known).then(|| "not done before".to_owned());
        }
        let path = unescape(object);
        let attempt = Attempt {
            path: (on.has_path() && !path.is_empty()).then_some(&path[..]),
            actor,
            ..Attempt::new(on)
        };
        self.against(&self.rules, &attempt)
    }

    /// The reason why an attempt is not allowed by such rules, if it is not.
    fn against(&self, rules: &[Rule], attempt: &Attempt<'_>) -> Option<String> {
        let rule = decide(rules, attempt).map(|rule| &rules[rule]);
        let rule = rule.filter(|rule| rule.action >= RuleAction::Deny)?;
        Some(match self.done {
            Some(_) => "not done before".to_owned(),
            None => format!("rule `{}` would {} it", rule.id, rule.action),
        })
    }

    /// The reason why an act on an address is not allowed to who acts, if it is not.
    pub fn address(
        &self,
        act: &str,
        address: &str,
        actor: Option<ActorPaths<'_>>,
    ) -> Option<String> {
        if let Some(done) = self.done {
            let known = done
                .addresses
                .contains_key(&(act.to_owned(), address.to_owned()));
            return (!known).then(|| "not done before".to_owned());
        }
        let address: std::net::SocketAddr = address.parse().ok()?;
        let policy = self.policy?;
        match policy.network.mode {
            NetworkMode::Loopback | NetworkMode::Sinkhole | NetworkMode::Allow
                if address.ip().to_canonical().is_loopback() =>
            {
                None
            }
            // Names have no addresses here: what one leads to is known in a run alone.
            NetworkMode::Allow => {
                let (host, port) = (address.ip(), address.port());
                let allowed =
                    act != "send" && endpoint::allows(&policy.network.allow, &[], host, port);
                (!allowed).then(|| "it is none of the hosts that are allowed".to_owned())
            }
            NetworkMode::Sinkhole | NetworkMode::Host => {
                let on = match act {
                    "connect" => AttemptKind::Connect,
                    "send" => AttemptKind::Send,
                    _ => AttemptKind::Bind,
                };
                let mut rules = policy.rules.clone();
                rules.extend(match policy.network.mode {
                    NetworkMode::Sinkhole => endpoint::rules_of_sinkhole(&policy.rules),
                    _ => endpoint::rules_of_host(&policy.rules),
                });
                let attempt = Attempt {
                    address: Some(address),
                    actor,
                    ..Attempt::new(on)
                };
                let rule = decide(&rules, &attempt).map(|rule| &rules[rule]);
                let rule = rule.filter(|rule| rule.action >= RuleAction::Deny)?;
                Some(format!("rule `{}` would {} it", rule.id, rule.action))
            }
            NetworkMode::Loopback => Some("only the jail's own loopback can be reached".to_owned()),
            NetworkMode::None => Some("it has no network".to_owned()),
        }
    }

    /// The reason why a system call is not allowed, if it is not.
    pub fn call(&self, name: &str) -> Option<String> {
        if let Some(done) = self.done {
            let known = done.calls.as_ref().is_none_or(|calls| calls.contains(name));
            return (!known).then(|| "not made before".to_owned());
        }
        let allowed = self.policy?.syscalls.allow.contains(name);
        (!allowed).then(|| "its filter refuses it".to_owned())
    }
}

/// True when a jail of this policy has a place for such a use of the path.
fn holds(policy: &Policy, want: FileWant, path: &[u8]) -> bool {
    let filesystem = &policy.filesystem;
    let path = Path::new(std::str::from_utf8(path).unwrap_or_default());
    let mut writable = filesystem.write.iter().map(|given| given.place().as_path());
    let mut scratch = filesystem.scratch.iter().map(|given| given.path.as_path());
    if !path.is_absolute()
        || OWN.iter().any(|own| path.starts_with(own))
        || writable.any(|given| path.starts_with(given))
        || scratch.any(|given| path.starts_with(given))
    {
        return true;
    }
    if want == FileWant::Write && filesystem.root_mode == RootMode::Overlay {
        return true;
    }
    if path.starts_with(WORKSPACE) {
        return want != FileWant::Write || filesystem.workdir.mode != WorkdirMode::ReadOnly;
    }
    let mut given = filesystem.read.iter().map(|given| given.place().as_path());
    want != FileWant::Write
        // Which installation a command brings along, only the host knows.
        && (filesystem.root.is_some()
            || filesystem.toolchain != ToolchainMode::None
            || given.any(|given| path.starts_with(given) || given.starts_with(path)))
}
