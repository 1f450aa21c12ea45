//! The checks of a gate, in the order of the config.

mod jail;
mod scan;

use std::cell::OnceCell;
use std::path::PathBuf;

use super::commits::Changes;
use super::config::{CommandConfig, GateConfig};
use super::own_directory::OwnDirectory;
use super::repository::Repository;
use super::result::GateCheck;

/// The place where checks are made.
pub struct Workshop<'w> {
    own: &'w OwnDirectory,
    repository: &'w Repository<'w>,
    base: &'w str,
    head: &'w str,
    checkouts: [OnceCell<PathBuf>; 2],
}

impl<'w> Workshop<'w> {
    /// For the changes between two commits.
    pub fn new(
        own: &'w OwnDirectory,
        repository: &'w Repository<'w>,
        (base, head): (&'w str, &'w str),
    ) -> Workshop<'w> {
        Workshop {
            own,
            repository,
            base,
            head,
            checkouts: [OnceCell::new(), OnceCell::new()],
        }
    }

    fn base(&self) -> anyhow::Result<&PathBuf> {
        self.checkout(&self.checkouts[0], self.base, "base")
    }

    fn head(&self) -> anyhow::Result<&PathBuf> {
        self.checkout(&self.checkouts[1], self.head, "head")
    }

    fn checkout<'c>(
        &self,
        made: &'c OnceCell<PathBuf>,
        commit: &str,
        name: &str,
    ) -> anyhow::Result<&'c PathBuf> {
        if let Some(path) = made.get() {
            return Ok(path);
        }
        let path = self.repository.checkout(commit, name, None)?;
        Ok(made.get_or_init(|| path))
    }
}

/// Makes every check. One that cannot be made is inconclusive, and the others are made all the same.
pub fn all(
    config: &GateConfig,
    changes: &Changes,
    workshop: &Workshop<'_>,
    notes: &mut Vec<String>,
) -> Vec<GateCheck> {
    let mut checks = Vec::new();
    if let Some(scan) = &config.scan {
        checks.push(made("scan", changes.any(), || {
            scan::check(scan, changes, workshop, notes)
        }));
    }
    for (kind, list) in [("tests", &config.tests), ("behaviour", &config.behaviour)] {
        for check in list {
            let CommandConfig { name, always, .. } = check;
            let name = format!("{kind}:{}", turnkey_report::escape(name.as_bytes()));
            checks.push(made(&name, *always || changes.any(), || match kind {
                "tests" => jail::tests(&name, check, workshop),
                _ => jail::behaviour(&name, check, workshop),
            }));
        }
    }
    checks
}

fn made(name: &str, wanted: bool, make: impl FnOnce() -> anyhow::Result<GateCheck>) -> GateCheck {
    if !wanted {
        return GateCheck::skipped(name);
    }
    let inconclusive = |error: anyhow::Error| {
        let why = turnkey_report::visible(&format!("{error:#}"));
        GateCheck::inconclusive(name, why)
    };
    make().unwrap_or_else(inconclusive)
}
