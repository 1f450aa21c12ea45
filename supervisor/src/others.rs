//! Other turnkeys that watch the same processes: those whose groups are above the own one or are the same, and those below.
//!
//! Each watches by its own programs and rules, whatever the others do; here they are only told of. Who is above, the kernel knows
//! ([`turnkey_monitor::watching`]), and so does everybody below. Who comes and goes below tells those above: by a connection to the
//! socket that they have for their followers, from a socket whose name has the message, so that nothing has to be waited for.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use turnkey_jailer::OwnGroup;
use turnkey_monitor::{WatchingProgram, watching};
use turnkey_report::{OtherWatcher, WatcherPlace, escape};

use crate::live::{Announcement, NamedRun, Visitor, announce, runs_that_watch};

/// Rows of a report at most.
const MOST: usize = 100;

/// A control group, by its directory.
#[derive(Clone, Debug)]
struct WatchedGroup {
    directory: PathBuf,
    id: u64,
}

/// The own group, those above it, and who else watches them.
pub struct OtherWatchers {
    run: String,
    own: WatchedGroup,
    /// From the nearest up, without the root.
    above: Vec<WatchedGroup>,
    /// The directory of the hierarchy's root.
    root: PathBuf,
    /// The number of the own program.
    program: u32,
    /// The programs of others, each with the group that calls it.
    found: Vec<(WatchedGroup, WatchingProgram)>,
    /// The runs that are known.
    known: BTreeSet<String>,
    rows: Vec<OtherWatcher>,
    unlisted: u64,
}

impl OtherWatchers {
    /// Of the run that is called `run`, which watches the group in `directory` by the program of this number. `None` where the group
    /// is not to be found.
    pub fn list(run: &str, directory: &Path, program: u32) -> Option<OtherWatchers> {
        let (own, above, root) = place_of(directory)?;
        Some(OtherWatchers {
            run: run.to_owned(),
            own,
            above,
            root,
            program,
            found: Vec::new(),
            known: BTreeSet::new(),
            rows: Vec::new(),
            unlisted: 0,
        })
    }

    /// The kernel's id of the own group.
    pub fn group(&self) -> u64 {
        self.own.id
    }

    /// Looks for those that are there already, below as well.
    pub fn look_first(&mut self) {
        for run in runs_that_watch() {
            let directory = turnkey_monitor::group_path(run.group);
            let is_below = |directory: &PathBuf| {
                run.group != self.own.id && directory.starts_with(&self.own.directory)
            };
            if let Some(directory) = directory.filter(is_below) {
                self.take(run.run, WatcherPlace::Below, self.name(&directory));
            }
        }
        self.look();
    }

    /// Looks for those above, and for others of the same group, and tells each that is new of this run.
    pub fn look(&mut self) {
        let before = self.found.len();
        let groups = self.above.iter().chain([&self.own]).cloned();
        for group in groups.collect::<Vec<_>>() {
            for program in programs_at(&group, Some(self.program)) {
                let is_known = self
                    .found
                    .iter()
                    .any(|(at, known)| (at.id, known.number()) == (group.id, program.number()));
                if !is_known {
                    self.found.push((group.clone(), program));
                }
            }
        }
        let is_unnamed = |row: &OtherWatcher| row.run.is_none();
        if self.found.len() > before || self.rows.iter().any(is_unnamed) {
            self.name_those_above();
        }
        self.note_kills();
    }

    /// Finds the runs whose programs were found, as far as they can be reached, and tells them of this one.
    fn name_those_above(&mut self) {
        self.rows.retain(|row| row.run.is_some());
        let mut runs = runs_that_watch();
        runs.retain(|run| run.run != self.run);
        let mut groups: Vec<_> = self.found.iter().map(|(group, _)| group.clone()).collect();
        groups.dedup_by_key(|group| group.id);
        for group in groups {
            self.name_those_of(&group, runs.iter().filter(|run| run.group == group.id));
        }
    }

    fn name_those_of<'r>(
        &mut self,
        group: &WatchedGroup,
        runs: impl Iterator<Item = &'r NamedRun>,
    ) {
        let (place, name) = (self.place(group), self.name(&group.directory));
        for run in runs {
            if self.known.contains(&run.run) || self.tell(run, group) {
                self.take(run.run.clone(), place, name.clone());
            }
        }
        let programs = self.found.iter().filter(|(other, _)| other.id == group.id);
        let is_told = |row: &&OtherWatcher| row.place == place && row.group == name;
        let is_unnamed = programs.count() > self.rows.iter().filter(is_told).count();
        if is_unnamed && self.rows.len() < MOST {
            // It cannot be reached: in a network of its own, or not ready yet.
            self.add(OtherWatcher {
                run: None,
                place,
                group: name,
                killed: false,
            });
        }
    }

    fn tell(&self, run: &NamedRun, group: &WatchedGroup) -> bool {
        let below = self.own.directory.strip_prefix(&group.directory);
        announce(
            run,
            &Announcement {
                run: self.run.clone(),
                group: self.own.id,
                name: below
                    .unwrap_or(&self.own.directory)
                    .as_os_str()
                    .as_bytes()
                    .to_vec(),
                kills: false,
            },
        )
    }

    /// Takes a connection that is an announcement; gives back one that is not.
    pub fn hear(&mut self, stream: Visitor) -> Option<Visitor> {
        let name = stream.peer_addr().ok();
        let name = name.as_ref().and_then(|name| name.as_abstract_name());
        let Some(told) = name.and_then(Announcement::of) else {
            return Some(stream);
        };
        if told.is_of(&stream) && told.kills {
            self.note_killer(&told.run);
        } else if told.is_of(&stream) {
            let place = match told.group == self.own.id {
                true => WatcherPlace::Same,
                false => WatcherPlace::Below,
            };
            let there = turnkey_monitor::group_path(told.group);
            let directory = there.unwrap_or_else(|| self.own.directory.join(told.path()));
            self.take(told.run, place, self.name(&directory));
        }
        None
    }

    /// Tells those below, and others of the same group, that all of it is killed now. Before the kill: they end with it.
    pub fn tell_of_kill(&self) {
        if self.known.is_empty() {
            return;
        }
        let told = Announcement {
            run: self.run.clone(),
            group: self.own.id,
            name: Vec::new(),
            kills: true,
        };
        let is_above = |run: &str| {
            let mut rows = self.rows.iter();
            let at = |row: &OtherWatcher| row.place == WatcherPlace::Above;
            rows.any(|row| at(row) && row.run.as_deref() == Some(run))
        };
        let runs = runs_that_watch().into_iter();
        for run in runs.filter(|run| self.known.contains(&run.run) && !is_above(&run.run)) {
            announce(&run, &told);
        }
    }

    /// Notes one above, or of the same group, that has said that it kills.
    fn note_killer(&mut self, run: &str) {
        let others = self
            .rows
            .iter_mut()
            .filter(|row| row.place != WatcherPlace::Below);
        let others = others.filter(|row| row.run.as_deref() == Some(run));
        others.for_each(|row| row.killed = true);
    }

    fn take(&mut self, run: String, place: WatcherPlace, group: String) {
        if self.known.insert(run.clone()) {
            self.add(OtherWatcher {
                run: Some(run),
                place,
                group,
                killed: false,
            });
        }
    }

    fn add(&mut self, row: OtherWatcher) {
        match self.rows.len() < MOST {
            true => self.rows.push(row),
            false => self.unlisted += 1,
        }
    }

    fn place(&self, group: &WatchedGroup) -> WatcherPlace {
        match group.id == self.own.id {
            true => WatcherPlace::Same,
            false => WatcherPlace::Above,
        }
    }

    /// The group as cgroups(7) writes it.
    fn name(&self, directory: &Path) -> String {
        let below = directory.strip_prefix(&self.root).unwrap_or(directory);
        escape(Path::new("/").join(below).as_os_str().as_bytes())
    }

    /// Notes which of those above has killed: when they are gone, nobody knows.
    fn note_kills(&mut self) {
        for (group, program) in &self.found {
            if program.has_condemned(group.id) {
                let name = self.name(&group.directory);
                let above = self
                    .rows
                    .iter_mut()
                    .filter(|row| row.place != WatcherPlace::Below);
                above
                    .filter(|row| row.group == name)
                    .for_each(|row| row.killed = true);
            }
        }
    }

    /// All that were met, and the number of those for whom there was no row.
    pub fn finish(mut self) -> (Vec<OtherWatcher>, u64) {
        self.look();
        (self.rows, self.unlisted)
    }
}

/// The programs of turnkeys that a group calls; none where the kernel does not tell this process.
#[expect(clippy::disallowed_methods, reason = "of control groups")]
fn programs_at(group: &WatchedGroup, own: Option<u32>) -> Vec<WatchingProgram> {
    let directory = File::open(&group.directory);
    let programs = directory.map(|directory| watching(directory.as_fd(), own));
    programs.ok().and_then(Result::ok).unwrap_or_default()
}

/// The group in a directory, those above it but for the root, and the root's directory.
fn place_of(directory: &Path) -> Option<(WatchedGroup, Vec<WatchedGroup>, PathBuf)> {
    let group = |directory: &Path| {
        Some(WatchedGroup {
            directory: directory.to_owned(),
            id: std::fs::metadata(directory).ok()?.ino(),
        })
    };
    // The root alone has no type, cgroups(7).
    let is_group = |directory: &&Path| directory.join("cgroup.type").exists();
    let mut groups = directory.ancestors().take_while(is_group).filter_map(group);
    let own = groups.next()?;
    let above: Vec<_> = groups.collect();
    let highest = above.last().unwrap_or(&own);
    let parent = highest.directory.parent()?.to_owned();
    // In a control group namespace the group at the mount point is none of the host's root.
    let mounted = turnkey_monitor::hierarchy().filter(|root| highest.directory.starts_with(root));
    let root = mounted.unwrap_or(parent);
    Some((own, above, root))
}

/// True when another turnkey watches a group that this process is in, as far as the kernel tells.
pub fn is_watched_here() -> bool {
    watched_here().is_some_and(|(watched, _)| !watched.is_empty())
}

/// The groups that this process is in and others watch, and the hierarchy's root.
fn watched_here() -> Option<(Vec<WatchedGroup>, PathBuf)> {
    let own = OwnGroup::find()?;
    let (group, above, root) = place_of(own.directory())?;
    let groups = [group].into_iter().chain(above);
    let watched = groups.filter(|group| !programs_at(group, None).is_empty());
    Some((watched.collect(), root))
}

/// Refuses to make a jail outside of a watched group that this process is in: the jail would be out of its watcher's sight.
///
/// # Errors
/// When that is so; with the fix. Where the kernel does not tell who watches, as to a caller without privileges, nothing is refused.
pub fn require_inside(parent: &Path) -> anyhow::Result<()> {
    let Some((watched, root)) = watched_here() else {
        return Ok(());
    };
    let left = watched
        .into_iter()
        .find(|group| !parent.starts_with(&group.directory));
    let name = |directory: &Path| {
        let below = directory.strip_prefix(&root).unwrap_or(directory);
        Path::new("/").join(below).display().to_string()
    };
    let Some(left) = left else {
        return Ok(());
    };
    let above = match parent == root {
        true => String::new(),
        false => format!(
            "; or watch the group above instead, by `turnkey attach --cgroup {}`",
            name(parent)
        ),
    };
    ensure!(
        false,
        "turnkey was started in {group}, which another turnkey watches, and the jail would be made in {parent}, out of its sight: \
         start it outside of {group}, or in a group below that has no processes of its own but in groups below, and hands memory, \
         pids and cpu down to them (cgroup.subtree_control){above}",
        group = name(&left.directory),
        parent = name(parent),
    );
    Ok(())
}
