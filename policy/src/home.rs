//! Absent settings of the program's home: the paths about which rules on what is present have nothing to say.
//!
//! Programs look for settings of their own whenever they start, and some of these hold secrets: `docker`, `kubectl`, whatever
//! reads `~/.netrc`. In a home that has none there is no secret to guard, and what comes there later is the program's own:
//! nobody brings a file of another place to such a name without being asked about the other one. Memory of the jail's own begins
//! without anything, and no file gets there but by being made there: neither a link nor a rename leads from one mount to another.
//!
//! A rule on writing alone is about what would run later. In the home somebody would run it, whether it was there before or not; memory of
//! the jail's own is gone with the jail. Below the directories of a workspace that has nobody's home in it, nobody runs it either.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::WORKSPACE;
use crate::glob::Glob;
use crate::model::WorkdirPlace;
use crate::policy::Policy;
use crate::tables::{FilesystemPolicy, HostPath, LackingPlace, Rule};

/// Files that a pattern asks about: those whose path begins so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning<'a> {
    /// The bytes, behind which anything may follow when it `is_open`.
    pub bytes: &'a [u8],
    /// False when this is the whole path.
    pub is_open: bool,
}

impl Policy {
    /// Settles of the rules on what is present, what the program's homes lack, and the memory of the jail's own in which nothing is.
    /// `holds` says whether anything in the jail has a path that begins so when the run begins; a decoy does, without being asked
    /// about.
    pub fn settle_home(&mut self, homes: &[PathBuf], holds: &dyn Fn(Beginning<'_>) -> bool) {
        let places = self.filesystem.empty_places(holds);
        let decoys = &self.filesystem.decoys;
        for rule in self.rules.iter_mut().filter(|rule| rule.present) {
            rule.silent = match rule.is_on_writing_alone() {
                true => None,
                false => lacking(rule, homes, decoys, holds),
            };
            rule.lacking.clone_from(&places);
        }
    }

    /// True when a rule on what is present speaks of this path, but for one on writing alone.
    #[must_use]
    pub fn guards(&self, path: &[u8]) -> bool {
        let rules = self.rules.iter().filter(|rule| speaks_of_homes(rule));
        let mut patterns = rules.flat_map(|rule| &rule.path);
        patterns.any(|pattern| pattern.may_match(path) && pattern.matches(path))
    }

    /// True when a rule on writing alone, of what is present, speaks of this path elsewhere than in these homes.
    #[must_use]
    pub fn is_run_later(&self, path: &[u8], homes: &[PathBuf]) -> bool {
        let mut rules = self.rules.iter().filter(|rule| speaks_of_later(rule));
        rules.any(|rule| {
            let mut patterns = rule.path.iter();
            patterns.any(|pattern| pattern.may_match(path) && pattern.matches(path))
                && !at_homes(rule, homes).any(|own| own.matches(path))
        })
    }

    /// Settles that nothing in the workspace is what [`Self::guards`] is true of. `linked`: symlinks are in it. To be
    /// called after [`Self::settle_home`].
    pub fn settle_lacking_workspace(&mut self, linked: bool) {
        if let Some(place) = self.lacking_workspace(linked) {
            let rules = self.rules.iter_mut().filter(|rule| speaks_of_homes(rule));
            rules.for_each(|rule| rule.lacking.push(place.clone()));
        }
    }

    /// Settles that the home of nobody is below the workspace, and nothing in it is what [`Self::is_run_later`] is true of. To be called
    /// after [`Self::settle_home`].
    pub fn settle_workspace_of_no_home(&mut self, linked: bool, homes: &[PathBuf]) {
        if let Some(place) = self.lacking_workspace(linked) {
            for rule in self.rules.iter_mut().filter(|rule| speaks_of_later(rule)) {
                let own: Vec<Glob> = at_homes(rule, homes).collect();
                rule.at_home = (!own.is_empty()).then(|| Glob::any_of(own));
                rule.lacking.push(place.clone());
            }
        }
    }

    /// The workspace as a place that lacks something, unless others are mounted or planted there.
    fn lacking_workspace(&self, linked: bool) -> Option<LackingPlace> {
        let path = PathBuf::from(WORKSPACE);
        let filesystem = &self.filesystem;
        let given = filesystem.read.iter().chain(&filesystem.write);
        let scratch = filesystem.scratch.iter().map(|one| &one.path);
        let names = filesystem.names.iter().chain(&filesystem.decoys);
        let mut others = given.map(HostPath::place).chain(scratch).chain(names);
        let is_alone = filesystem.workdir.at == WorkdirPlace::Workspace
            && !others.any(|place| place.starts_with(&path));
        is_alone.then_some(LackingPlace { path, linked })
    }

    /// The directories in which the program looks for settings of its own: the home of its user, and that of its environment. `passed` is the
    /// caller's `HOME`.
    #[must_use]
    pub fn homes(&self, passed: Option<&Path>) -> Vec<PathBuf> {
        let environment = &self.environment;
        let set = environment.set.get("HOME").map(Path::new);
        let passes = environment.pass.iter().any(|name| name == "HOME");
        let named = set.or(passed.filter(|_| passes));
        let is_plain = |path: &&Path| {
            let mut parts = path.components();
            path.is_absolute()
                && path.parent().is_some()
                && !parts.any(|part| part == Component::ParentDir)
        };
        // Without doubled slashes and `.`.
        let named = named
            .filter(is_plain)
            .map(|path| path.components().collect());
        let mut homes = vec![PathBuf::from(WORKSPACE)];
        homes.extend(named.filter(|path: &PathBuf| path != Path::new(WORKSPACE)));
        homes
    }
}

impl FilesystemPolicy {
    /// The mounts of memory in which nothing else is mounted, and no symlink planted. Decoys stand elsewhere.
    fn empty_places(&self, holds: &dyn Fn(Beginning<'_>) -> bool) -> Vec<LackingPlace> {
        let scratch = self.scratch.iter().map(|one| &one.path);
        let is_empty = |place: &&PathBuf| {
            let beside = self.scratch.iter().map(|one| &one.path);
            let mut planted = self.names.iter().chain(beside);
            let below = [place.as_os_str().as_bytes(), b"/"].concat();
            let asked = Beginning {
                bytes: &below,
                is_open: true,
            };
            !planted.any(|path| path != *place && path.starts_with(place)) && !holds(asked)
        };
        let lacking = |path: &PathBuf| LackingPlace {
            path: path.clone(),
            linked: false,
        };
        scratch.filter(is_empty).map(lacking).collect()
    }
}

/// True for a rule on what is present in the home, too.
fn speaks_of_homes(rule: &Rule) -> bool {
    rule.present && !rule.is_on_writing_alone()
}

/// True for a rule on what is present, about what would run later.
fn speaks_of_later(rule: &Rule) -> bool {
    rule.present && rule.is_on_writing_alone()
}

/// The patterns of what the rule speaks of in these homes themselves.
fn at_homes<'r>(rule: &'r Rule, homes: &'r [PathBuf]) -> impl Iterator<Item = Glob> + 'r {
    let of_home = |home: &'r PathBuf| {
        let patterns = rule.path.iter();
        patterns.filter_map(|glob| glob.restricted_to(home.as_os_str().as_bytes()))
    };
    homes.iter().flat_map(of_home)
}

/// The pattern of all that the rule speaks of in these homes, where none of it is there.
fn lacking(
    rule: &Rule,
    homes: &[PathBuf],
    decoys: &[PathBuf],
    holds: &dyn Fn(Beginning<'_>) -> bool,
) -> Option<Glob> {
    let mut own: Vec<Glob> = at_homes(rule, homes).collect();
    own.retain(|glob| {
        let mut heads = glob.heads().into_iter();
        !heads.any(|head| {
            let mut decoys = decoys.iter().map(|decoy| decoy.as_os_str().as_bytes());
            decoys.any(|decoy| head.may_be_below(decoy)) || holds(head.beginning())
        })
    });
    (!own.is_empty()).then(|| Glob::any_of(own))
}
