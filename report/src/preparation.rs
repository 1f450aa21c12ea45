//! Acts that change nothing of what a rule guards, and give it another name: a symlink to it, or one that is moved to where nobody knows
//! what it leads to. What follows it by a call that tells no more than the symlink's name is an act on what it leads to.

use super::act::accesses;
use super::unknown::of_rules;
use turnkey_facts::symlinks::{Symlinks, follows, makes_symlink};
use turnkey_facts::{Decision, Event, Kind, NamingCall};
use turnkey_policy::{
    Attempt, AttemptKind, OpenAccess, Rule, RuleAction, Severity, decide, syscalls,
};

/// The weight of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// As the rule says.
    Whole,
    /// The file that the rule guards is as it was.
    Preparation,
    /// No act on a file of the rule was done or prepared.
    Nothing,
}

/// The weight of a decision on an event; `is_whole`: every event so far is known.
pub fn weight(rules: &[Rule], symlinks: &Symlinks, event: &Event, is_whole: bool) -> Weight {
    let (
        Kind::Change {
            on,
            object,
            new,
            call,
            errno,
            ..
        },
        Some(decision),
    ) = (&event.kind, event.decision)
    else {
        return Weight::Whole;
    };
    if decision.action != RuleAction::Log {
        return Weight::Whole;
    }
    if makes_symlink(*call) {
        let is_prepared = !decision.file_unknown
            && decides(
                rules,
                AttemptKind::Symlink,
                (&object.path(), &[OpenAccess::Write]),
            )
            .is_none()
            && new
                .as_deref()
                .is_some_and(|aim| leads_to(rules, decision, &object.path(), aim));
        return if is_prepared {
            Weight::Preparation
        } else {
            Weight::Whole
        };
    }
    if !decision.file_unknown || !matches!(on, AttemptKind::Rename | AttemptKind::Link) {
        return Weight::Whole;
    }
    let is_free = |name: &[u8]| decides(rules, *on, (name, &[OpenAccess::Write])).is_none();
    let mut names = [Some(object.path()), new.clone()].into_iter().flatten();
    if !is_whole || !symlinks.knows_names(event) || !names.all(|name| is_free(&name)) {
        return Weight::Whole;
    }
    match symlinks.moves_none(event) {
        true => Weight::Nothing,
        // No profile lets a link follow a symlink. What would have been linked may be one from before the run.
        false if follows(*call) && *errno == 0 => Weight::Whole,
        false => Weight::Preparation,
    }
}

/// True when a decision on a new symlink is about where it leads.
fn leads_to(rules: &[Rule], decision: Decision, own: &[u8], aim: &[u8]) -> bool {
    let above = own
        .iter()
        .rposition(|byte| *byte == b'/')
        .unwrap_or_default();
    let aim = match aim.first() {
        Some(b'/') => aim.to_vec(),
        _ => [&own[..above], b"/", aim].concat(),
    };
    let aim = turnkey_facts::symlinks::plain(&aim);
    let rule = rules.get(decision.rule);
    rule.is_some_and(|rule| {
        rule.path
            .iter()
            .any(|pattern| pattern.may_match_below(&aim))
    })
}

/// The rule, other than one that allows, that decides on a kind of act on a path.
fn decides(
    rules: &[Rule],
    on: AttemptKind,
    (path, access): (&[u8], &[OpenAccess]),
) -> Option<usize> {
    let attempt = Attempt {
        path: Some(path),
        access,
        ..Attempt::new(on)
    };
    decide(rules, &attempt).filter(|rule| rules[*rule].action != RuleAction::Allow)
}

/// The act on what a symlink leads to, of a call that told no more than its name, with the decision of the rules: none was asked in time.
pub fn followed(rules: &[Rule], symlinks: &Symlinks, event: &Event) -> Option<Event> {
    let mut followed = symlinks.followed(event)?;
    let rule = match &followed.kind {
        Kind::Change {
            on, object, call, ..
        } => decides(
            rules,
            own_kind(*on, *call),
            (&object.path(), &[OpenAccess::Write]),
        ),
        Kind::Open { raw, flags, .. } => {
            let access: Vec<OpenAccess> = accesses(*flags).iter().filter_map(of_rules).collect();
            decides(rules, AttemptKind::Open, (&raw.path(), &access))
        }
        _ => None,
    }?;
    followed.decision = Some(Decision {
        rule,
        action: RuleAction::Log,
        actor_unknown: false,
        file_unknown: false,
    });
    Some(followed)
}

/// The kind by which a rule speaks of an attempt: that of its call, the one that this counts as, or another that counts as it.
pub fn kind_of(rule: &Rule, on: AttemptKind, event: &Event) -> AttemptKind {
    let of_call = match &event.kind {
        Kind::Change { call, .. } => own_kind(on, *call),
        _ => on,
    };
    let named = [of_call, on]
        .into_iter()
        .find(|kind| rule.on.contains(kind));
    let wide = || rule.on.iter().copied().find(|own| own.counts_as() == on);
    named.or_else(wide).unwrap_or(on)
}

/// The kind that a call has by itself.
fn own_kind(on: AttemptKind, call: NamingCall) -> AttemptKind {
    match syscalls::name(call.nr) {
        Some("truncate" | "ftruncate") => AttemptKind::Truncate,
        Some("symlink" | "symlinkat") => AttemptKind::Symlink,
        Some("mkdir" | "mkdirat") => AttemptKind::Mkdir,
        Some("mknod" | "mknodat") => AttemptKind::Mknod,
        Some("rmdir") => AttemptKind::Rmdir,
        Some("chown" | "lchown" | "fchown" | "fchownat") => AttemptKind::Chown,
        Some("utime" | "utimes" | "futimesat" | "utimensat") => AttemptKind::Utimens,
        Some(
            "setxattr" | "lsetxattr" | "fsetxattr" | "setxattrat" | "removexattr" | "lremovexattr"
            | "fremovexattr" | "removexattrat",
        ) => AttemptKind::Xattr,
        _ => on,
    }
}

/// The severity of a violation: one that only gives what a rule guards another name is low at most.
pub fn severity(rule: &Rule, is_prepared: bool) -> Severity {
    match is_prepared {
        true => rule.severity.min(Severity::Low),
        false => rule.severity,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{CREDENTIALS, Story, policy, raw};
    use super::*;

    #[test]
    fn of_several_parts_of_a_kind_a_rule_speaks_of_the_one_that_was_called() {
        use AttemptKind::{
            Attribute, Chmod, Chown, Mkdir, Open, Symlink, Truncate, Utimens, Xattr,
        };
        let named = |parts: &[AttemptKind], on, call: &str| {
            let rule = Rule {
                on: parts.iter().copied().collect(),
                ..policy().rules[CREDENTIALS].clone()
            };
            let nr = syscalls::number(call).unwrap();
            let kind = Kind::Change {
                on,
                object: raw("/srv/f"),
                new: None,
                resolved: false,
                call: NamingCall {
                    nr,
                    ..NamingCall::default()
                },
                errno: 0,
            };
            let mut story = Story::command(&["sh"]);
            story.decided(2, kind, CREDENTIALS, RuleAction::Kill);
            kind_of(&rule, on, story.events.last().unwrap())
        };
        assert_eq!(named(&[Truncate, Mkdir], Open, "truncate"), Truncate);
        assert_eq!(named(&[Truncate, Mkdir], Open, "mkdirat"), Mkdir);
        assert_eq!(named(&[Mkdir, Symlink], Open, "symlink"), Symlink);
        assert_eq!(named(&[Xattr, Utimens], Attribute, "fsetxattr"), Xattr);
        assert_eq!(named(&[Chown, Chmod], Chmod, "fchownat"), Chown);
        assert_eq!(named(&[Chmod], Chmod, "fchownat"), Chmod);
        assert_eq!(named(&[Chown], Chmod, "fchownat"), Chown);
    }
}
