//! Shown paths: those about which a profile's rules on hidden ones have nothing to say.
//!
//! A notice such as "a program looked into the home of somebody" must fall silent for a home that the
//! profile gives to the jail, whichever of the two is written more narrowly. So each such rule knows what
//! of its own paths is shown ([`Rule::silent`]), and no pattern of it matches there. One about addresses is a notice about a
//! network that the profile does not give, and is none where it gives one.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::glob::Glob;
use crate::model::NetworkMode;
use crate::policy::Policy;
use crate::tables::{FilesystemPolicy, Rule};

impl Policy {
    /// Settles what of the paths of rules on hidden ones is shown; those on addresses speak of nothing where the profile
    /// gives a network. To be called again when a place was added to [`Policy::filesystem`].
    pub fn settle_shown(&mut self) {
        let Self {
            rules,
            filesystem,
            network,
            ..
        } = self;
        if network.mode != NetworkMode::None {
            let notices = rules.iter_mut().filter(|rule| rule.hidden);
            notices
                .filter(|rule| !rule.address.is_empty())
                .for_each(|rule| rule.on.clear());
        }
        for rule in rules.iter_mut().filter(|rule| rule.hidden) {
            rule.silent = shown_of(rule, places(filesystem));
        }
    }

    /// Settles that one rule, which is added last, speaks of paths at which the host has something else than the jail, and of none
    /// in these places.
    pub fn settle_unlike_host(&mut self, rule: usize, own: &[&str]) {
        let Self {
            rules, filesystem, ..
        } = self;
        if let Some(rule) = rules.get_mut(rule) {
            rule.silent = shown_of(
                rule,
                of_the_host(filesystem).chain(own.iter().map(Path::new)),
            );
        }
    }
}

impl FilesystemPolicy {
    /// True for a path at or below one that the profile names for the jail.
    #[must_use]
    pub fn gives(&self, path: &Path) -> bool {
        places(self).any(|place| path.starts_with(place))
    }

    /// True for a path at or below one of which the jail shows what the host has.
    #[must_use]
    pub fn shows(&self, path: &Path) -> bool {
        of_the_host(self).any(|place| path.starts_with(place))
    }

    /// True for a path above one that the profile names for the jail: a directory, with nothing else in it.
    #[must_use]
    pub fn leads_to_given(&self, path: &Path) -> bool {
        places(self).any(|place| place.starts_with(path))
    }
}

/// The pattern of all that a profile shows and some pattern of the rule may speak of.
fn shown_of<'p>(rule: &Rule, places: impl Iterator<Item = &'p Path>) -> Option<Glob> {
    let heads: Vec<_> = rule.path.iter().flat_map(Glob::heads).collect();
    let mut shown: Vec<&Path> = places
        .filter(|place| {
            heads
                .iter()
                .any(|head| head.may_be_below(place.as_os_str().as_bytes()))
        })
        .collect();
    shown.sort_unstable();
    shown.dedup();
    let shown = shown.into_iter().map(|place| place.as_os_str().as_bytes());
    let shown: Vec<&[u8]> = shown.collect();
    (!shown.is_empty()).then(|| Glob::at_or_below(&shown))
}

/// The places that a profile names.
fn places(filesystem: &FilesystemPolicy) -> impl Iterator<Item = &Path> {
    let scratch = filesystem.scratch.iter().map(|one| one.path.as_path());
    of_the_host(filesystem).chain(scratch)
}

/// The places of which the jail shows what the host has. A tree of the profile's own shows all that is in it.
fn of_the_host(filesystem: &FilesystemPolicy) -> impl Iterator<Item = &Path> {
    let given = filesystem.read.iter().chain(&filesystem.write);
    let given = given.map(|given| given.place().as_path());
    let whole = filesystem.root.iter().map(|_| Path::new("/"));
    let workspace = filesystem.names.iter().map(PathBuf::as_path);
    given.chain(whole).chain(workspace)
}
