//! The files that rules are about, and a layer: a run that may have taken one by another name, or in a copy, adds nothing.
//!
//! Rules go by names. In a layer the file would have a name of which the next run's rules know nothing.

use turnkey_facts::{Event, Kind, Raw};
use turnkey_policy::{
    Attempt, AttemptKind, EnforcementMode, Policy, Rule, RuleAction, WORKSPACE, decide,
};
use turnkey_report::{Evidence, escape};

use crate::directory::RunDirectory;
use crate::home;

/// The first file that a run has got hold of although a rule is about it, or will be in the next run.
#[derive(Debug)]
pub(crate) struct GuardedFiles {
    rules: Vec<Rule>,
    names_actors: bool,
    first: Option<String>,
}

impl GuardedFiles {
    pub fn from_policy(policy: &Policy) -> GuardedFiles {
        GuardedFiles {
            rules: policy.rules.clone(),
            names_actors: policy.rules.iter().any(Rule::names_actors),
            first: None,
        }
    }

    /// Takes an event. A name is enough, whatever the rule says of it; an open, where the rule would have ended the run.
    pub fn note_event(&mut self, event: &Event) {
        if self.first.is_some() {
            return;
        }
        let taken = match &event.kind {
            Kind::Change {
                on: AttemptKind::Link | AttemptKind::Rename,
                errno: 0,
                ..
            } => self
                .named(event)
                .map(|(path, rule)| ("gave another name to", path, rule)),
            Kind::Open {
                file: Some(file),
                flags,
                errno: 0,
                ..
            } if reads(*flags) => {
                let rule = self.read(event, &file.path);
                rule.map(|rule| ("read", file.path.clone(), rule))
            }
            _ => None,
        };
        self.first = taken.map(|(did, path, rule)| {
            let path = escape(&path);
            format!("{did} {path}, which rule `{}` is about", rule.id)
        });
    }

    /// A file that lost its name, and the rule about that name.
    fn named(&self, event: &Event) -> Option<(Vec<u8>, &Rule)> {
        let Kind::Change {
            on,
            object,
            new,
            resolved,
            call,
            ..
        } = &event.kind
        else {
            return None;
        };
        let old = object.path();
        if let Some(decision) = event.decision.filter(|one| one.action == RuleAction::Log) {
            return Some((old, self.rules.get(decision.rule)?));
        }
        let (new, is_known) = new_name(new.as_deref().unwrap_or_default(), *resolved, object);
        // Two names that are exchanged are both old ones; the flag is in no event.
        let is_exchange = i64::from(call.nr) == nix::libc::SYS_renameat2;
        let mut taken = vec![(&old, is_known.then_some(&new))];
        if is_exchange {
            taken.push((&new, Some(&old)));
        }
        taken.into_iter().find_map(|(name, other)| {
            let silent = self.silent_on(name);
            let rule = silent.or_else(|| self.spares(*on, name, other));
            rule.map(|rule| (name.clone(), rule))
        })
    }

    /// The rule about a file that was read where only the mode let it, or where nobody expected it.
    fn read(&self, event: &Event, path: &[u8]) -> Option<&Rule> {
        match event.decision {
            Some(decision) => {
                let rule = self.rules.get(decision.rule)?;
                let is_let_pass = decision.action == RuleAction::Log;
                (is_let_pass && rule.action > RuleAction::Log).then_some(rule)
            }
            None => self.silent_on(path),
        }
    }

    /// The rule that says nothing of this path because nothing was there when the run began: in the next run something is.
    fn silent_on(&self, path: &[u8]) -> Option<&Rule> {
        let is_silent = |rule: &&Rule| rule.silent.as_ref().is_some_and(|glob| glob.matches(path));
        let mut silent = self.rules.iter().filter(|rule| rule.present);
        silent.find(is_silent)
    }

    /// The rule that lets some programs give the file another name, and would not let others; unless it is the same for the new
    /// name.
    fn spares(&self, on: AttemptKind, old: &[u8], new: Option<&Vec<u8>>) -> Option<&Rule> {
        if !self.names_actors {
            return None;
        }
        let strictest = |path| {
            let attempt = Attempt {
                path: Some(path),
                ..Attempt::new(on)
            };
            let rule = self.rules.get(decide(&self.rules, &attempt)?)?;
            (rule.action > RuleAction::Allow).then_some(rule)
        };
        let rule = strictest(old)?;
        let is_same = new.is_some_and(|new| strictest(new) == Some(rule));
        (!is_same).then_some(rule)
    }
}

/// The new name as a whole path, and whether it is known: a relative one begins where the old name does, or where the program was
/// started, as far as anybody has seen.
fn new_name(bytes: &[u8], resolved: bool, object: &Raw) -> (Vec<u8>, bool) {
    let is_known = resolved || bytes.starts_with(b"/");
    let start = || object.base.clone().unwrap_or(WORKSPACE.into());
    let new = Raw {
        base: (!is_known).then(start),
        bytes: bytes.to_vec(),
        truncated: false,
        unreadable: false,
    };
    (new.path(), is_known)
}

/// True when what the file held before can be read: not of a file that is new or emptied by the open itself.
fn reads(flags: u32) -> bool {
    let has = |flag: i32| flags & flag.cast_unsigned() == flag.cast_unsigned();
    let is_new = has(nix::libc::O_CREAT | nix::libc::O_EXCL) || has(nix::libc::O_TRUNC);
    flags & nix::libc::O_ACCMODE.cast_unsigned() != nix::libc::O_WRONLY.cast_unsigned() && !is_new
}

/// The reason why what a run has written is worth nothing to the next one, if there is one.
pub(crate) fn spoilt(
    guarded: &GuardedFiles,
    evidence: &Evidence,
    (was_killed, policy): (bool, &Policy),
    directory: &RunDirectory,
) -> Option<String> {
    if was_killed {
        return Some("the run was killed by policy".to_owned());
    }
    if let Some(did) = &guarded.first {
        return Some(format!("the run {did}, and nothing stopped it"));
    }
    if let Some(rule) = appeared(policy, directory) {
        return Some(format!(
            "a file that rule `{}` is about has come while the run lasted, and nothing stopped the run from taking it",
            rule.id
        ));
    }
    let is_only_told = policy.enforcement.mode == EnforcementMode::Observe
        || policy
            .rules
            .iter()
            .any(|rule| tells_of_names(rule) || rule.names_actors());
    // The kernel decides without a reader: of what is lost, only what it had no look at can have been forbidden.
    let matters = |what: &str| is_only_told || ["missed", "faults", "unaccounted"].contains(&what);
    let lost = evidence.lost.keys().any(|what| matters(what));
    lost.then(|| "not all of the run was seen".to_owned())
}

/// The rule on what is present that has something to speak of by now, and had not when the run began.
fn appeared<'p>(policy: &'p Policy, directory: &RunDirectory) -> Option<&'p Rule> {
    let mut now = policy.clone();
    home::settle(&mut now, directory);
    let both = policy.rules.iter().zip(&now.rules);
    let mut changed = both.filter(|(before, now)| before.present && before.silent != now.silent);
    changed.next().map(|(rule, _)| rule)
}

fn tells_of_names(rule: &Rule) -> bool {
    let of_names = |on: &AttemptKind| matches!(on, AttemptKind::Link | AttemptKind::Rename);
    rule.action == RuleAction::Log && rule.on.iter().any(of_names)
}
