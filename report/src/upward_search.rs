//! A search upwards: git, cargo, npm, pytest and linters look for the settings of a project by one name in the working directory,
//! then in each directory above, which a jail does not have. Who finds nothing there has asked for nothing of the host's.

use std::collections::{BTreeMap, BTreeSet};

use turnkey_facts::{Event, Kind};
use turnkey_policy::{AttemptKind, Rule, RuleAction, WORKSPACE};

/// `ENOENT`
const ABSENT: i32 = 2;
/// Processes that are remembered.
const PROCESSES: usize = 1024;
/// Names that are remembered of each.
const NAMES: usize = 1024;

/// The names that each process has asked for in the working directory.
#[derive(Debug, Default)]
pub struct UpwardSearch {
    by: BTreeMap<(u32, u64), BTreeSet<Vec<u8>>>,
}

impl UpwardSearch {
    /// Takes in an event; true when it is a look above the working directory, for a name that the process has looked for in it, that found
    /// nothing and that a rule on what the profile does not show has logged.
    pub fn explains(&mut self, rules: &[Rule], event: &Event) -> bool {
        let who = (event.task.pid, event.task.start_ns);
        let (path, errno) = match &event.kind {
            Kind::Open { raw, errno, .. } => (raw.path(), *errno),
            Kind::Change {
                on: AttemptKind::Stat,
                object,
                errno,
                ..
            } => (object.path(), *errno),
            Kind::Exit { .. } => {
                self.by.remove(&who);
                return false;
            }
            _ => return false,
        };
        let Some(at) = path.iter().rposition(|byte| *byte == b'/') else {
            return false;
        };
        let (directory, name) = (&path[..at], &path[at + 1..]);
        if is_in_workspace(&path) {
            self.note(who, name);
            return false;
        }
        let rule = event.decision.and_then(|decision| rules.get(decision.rule));
        let is_logged = rule.is_some_and(|rule| rule.hidden && rule.action == RuleAction::Log);
        errno == ABSENT && is_logged && is_above(directory) && self.has_asked(who, name)
    }

    fn note(&mut self, who: (u32, u64), name: &[u8]) {
        if self.by.len() >= PROCESSES && !self.by.contains_key(&who) {
            return;
        }
        let names = self.by.entry(who).or_default();
        if names.len() < NAMES {
            names.insert(name.to_vec());
        }
    }

    fn has_asked(&self, who: (u32, u64), name: &[u8]) -> bool {
        self.by.get(&who).is_some_and(|names| names.contains(name))
    }
}

fn is_in_workspace(path: &[u8]) -> bool {
    let rest = path.strip_prefix(WORKSPACE.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// True for a directory above the workspace, without the slash at its end.
fn is_above(directory: &[u8]) -> bool {
    let below = [directory, b"/"].concat();
    WORKSPACE.as_bytes().starts_with(&below)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Story, open_failed};
    use super::*;

    /// Whether the last of these looks is explained, each by a process and with the rule that logs it.
    fn is_explained(rule: &Rule, looks: &[(u32, &str, i32)]) -> bool {
        let mut story = Story::command(&["pytest"]);
        for (pid, path, errno) in looks {
            story.decided(*pid, open_failed(path, 0, *errno), 0, rule.action);
        }
        let mut search = UpwardSearch::default();
        let rules = std::slice::from_ref(rule);
        let events = story.events.iter();
        events.fold(false, |_, event| search.explains(rules, event))
    }

    #[test]
    fn a_name_looked_for_in_the_workspace_is_looked_for_above_it() {
        let shipped_alone = |path: &str| Err(format!("{path} was asked for"));
        let overrides = turnkey_policy::Overrides::default();
        let policy = turnkey_policy::load("sealed", &shipped_alone, &overrides);
        let policy = policy.expect("a shipped profile");
        let hidden = |rule: &&Rule| rule.hidden && rule.action == RuleAction::Log;
        let rule = policy.rules.iter().find(hidden).expect("such a rule");
        let in_it = (2, "/workspace/tests/tox.ini", ABSENT);
        let above = (2, "/tox.ini", ABSENT);
        assert!(is_explained(rule, &[in_it, above]));
        assert!(!is_explained(rule, &[above]), "looked for there alone");
        assert!(
            !is_explained(rule, &[(3, in_it.1, ABSENT), above]),
            "by another"
        );
        assert!(
            !is_explained(rule, &[in_it, (2, "/tox.ini", 0)]),
            "it is there"
        );
        assert!(
            !is_explained(rule, &[in_it, (2, "/etc/tox.ini", ABSENT)]),
            "aside"
        );
        let kills = Rule {
            action: RuleAction::Kill,
            ..rule.clone()
        };
        assert!(!is_explained(&kills, &[in_it, above]));
    }
}
