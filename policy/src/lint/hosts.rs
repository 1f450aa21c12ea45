//! Hosts that a program may talk to.

use super::{Lint, LintFinding};
use crate::endpoint::{SpecialAddress, is_one};
use crate::error::{Located, Problem};
use crate::model::NetworkMode;
use crate::profile::ParsedProfile;
use crate::tables::AllowedHost;

/// The host's own network, where nobody explains it.
pub(super) fn shared(profile: &ParsedProfile) -> Option<LintFinding> {
    let mode = profile.network.mode.as_ref();
    let mode = mode.filter(|mode| mode.value == NetworkMode::Host)?;
    let why = profile.network.why.as_ref();
    if why.is_some_and(|why| !why.value.trim().is_empty()) {
        return None;
    }
    let message = "the program has the host's network, and nothing says why";
    Some(LintFinding {
        lint: Lint::AllowWithoutReason,
        why: "it reaches everybody that the host reaches, the host's own services included, and listens at its ports"
            .to_owned(),
        problem: Problem::new(message)
            .help("name whom it may talk to, with the mode \"allow\", or add `why = \"…\"` with the reason that a reviewer would ask for")
            .with_label(&mode.at, "without `why`"),
    })
}

/// Finds allowed hosts without a reason, and those that hand out credentials.
pub(super) fn allowed(profile: &ParsedProfile) -> Vec<LintFinding> {
    let mode = profile.network.mode.as_ref().map(|mode| mode.value);
    if mode != Some(NetworkMode::Allow) {
        return Vec::new();
    }
    let unexplained = |entry: &&Located<AllowedHost>| entry.value.why.trim().is_empty();
    let entries = profile.network.allow.iter().filter(unexplained);
    entries.map(finding).collect()
}

fn finding(entry: &Located<AllowedHost>) -> LintFinding {
    let to = &entry.value.to;
    let metadata = entry.value.nets().find(|net| {
        is_one(*net)
            && SpecialAddress::from_address(net.network()) == Some(SpecialAddress::Metadata)
    });
    let (lint, why) = match metadata {
        Some(_) => (
            Lint::MetadataAllowed,
            "there a cloud hands out the machine's credentials to whoever asks from it",
        ),
        None => (
            Lint::AllowWithoutReason,
            "whatever the program reads can be sent there",
        ),
    };
    let message = format!("the program may talk to {to}, and nothing says why");
    LintFinding {
        lint,
        why: why.to_owned(),
        problem: Problem::new(message)
            .help("add `why = \"…\"` with the reason that a reviewer would ask for, or remove it")
            .with_label(&entry.at, "without `why`"),
    }
}
