//! The outcome of an attempt, in words: only what the kernel is known to have done is said to have had its effect.

use std::borrow::Cow;
use std::path::Path;

use turnkey_policy::{AttemptKind, RuleAction, Severity, masks};

use super::model::{Result, Violation};
use super::peers;
use super::stopper::Stopper;

/// The words behind "stopped by", of an attempt that a rule speaks of. `whole` is what a kill takes: [`Report::whole`].
///
/// [`Report::whole`]: super::model::Report::whole
pub fn words(violation: &Violation, whole: &str) -> Cow<'static, str> {
    let address = violation.address.as_deref().unwrap_or_default();
    match (violation.stopped_by, violation.result) {
        (Some(Stopper::Monitor), Result::Allowed) => {
            format!("the monitor, after the act, which had its effect: it killed {whole}").into()
        }
        (Some(Stopper::Monitor), _) if violation.action == RuleAction::Kill => {
            format!("the monitor: it killed {whole}").into()
        }
        (Some(stopper), _) => peers::words(stopper, address).into(),
        (None, Result::Allowed) => of_success(violation).into(),
        (None, Result::Failed) => match violation.errno.as_deref() {
            Some("ENOENT") => "nothing: it failed, as there is no such file (ENOENT)".into(),
            Some(errno) => format!("nothing: it failed by itself ({errno})").into(),
            None => "nothing: it failed by itself".into(),
        },
        (None, Result::Denied | Result::Unknown) => {
            "nothing that is known: its end was not seen".into()
        }
    }
}

/// The words for what the kernel has done, or, to an internet address, has let begin.
fn of_success(violation: &Violation) -> &'static str {
    let path = violation.path.as_deref().map(Path::new);
    let looks = matches!(violation.on, AttemptKind::Open | AttemptKind::Stat);
    let is_internet = violation.address.as_deref().is_some_and(|address| {
        let peer: std::result::Result<std::net::SocketAddr, _> = address.parse();
        peer.is_ok()
    });
    match path {
        Some(path) if looks && masks::hide(path) => {
            "nothing, but what stands there is empty: the host's own is covered"
        }
        _ if looks && violation.own_directory => {
            "nothing, but nothing of the host's was listed: the directory is the jail's own"
        }
        _ if leads_elsewhere(violation) => {
            "nothing: it was done, and what a symlink leads to is as it was"
        }
        _ if is_internet && violation.on == AttemptKind::Bind => {
            "nothing: it was let; in a network of the jail's own nobody else comes there"
        }
        _ if is_internet => "nothing: it was let through; whether somebody answered is not known",
        _ => "nothing: it had its effect",
    }
}

/// True for a new symlink that a rule speaks of for where it leads, and for one that was moved: nothing else that is made has another
/// name, and all that weighs more was done to a file of the rule's.
fn leads_elsewhere(violation: &Violation) -> bool {
    let is_move = matches!(violation.on, AttemptKind::Rename | AttemptKind::Link);
    let is_made = violation.on == AttemptKind::Open && violation.to.is_some();
    violation.severity <= Severity::Low && (is_made || is_move && violation.file_unknown)
}

#[cfg(test)]
mod tests;
