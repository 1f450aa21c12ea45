//! Hosts that a program may talk to.

use super::{Finding, Lint};
use crate::endpoint::{Allowed, Special, is_one};
use crate::error::{Located, Problem};
use crate::model::Network;
use crate::profile::Profile;

/// Those that nobody explains, and those that hand out credentials.
pub(super) fn allowed(profile: &Profile) -> Vec<Finding> {
    let mode = profile.network.as_ref().map(|mode| mode.value);
    if mode != Some(Network::Allow) {
        return Vec::new();
    }
    let unexplained = |entry: &&Located<Allowed>| entry.value.why.trim().is_empty();
    let entries = profile.allow.iter().filter(unexplained);
    entries.map(finding).collect()
}

fn finding(entry: &Located<Allowed>) -> Finding {
    let to = &entry.value.to;
    let metadata = entry
        .value
        .nets()
        .find(|net| is_one(*net) && Special::of(net.network()) == Some(Special::Metadata));
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
    Finding {
        lint,
        why: why.to_owned(),
        problem: Problem::new(message)
            .help("add `why = \"…\"` with the reason that a reviewer would ask for, or remove it")
            .at(&entry.at, "without `why`"),
    }
}
