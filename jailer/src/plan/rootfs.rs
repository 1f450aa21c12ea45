//! Fills the empty root: collects the steps, and knows which places the root already has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use turnkey_policy::{
    FilesystemPolicy, HostPath, JailLimits, Policy, ProcView, RootMode, WORKSPACE, WorkdirMode,
    is_reserved, masks,
};

use super::given;
use super::network::NetworkReach;
use super::places::is_no_workdir;
use super::{AUTHORITY, EMPTY, LandlockGrant, PROBE, PlanError, RootfsStep};
use crate::host::{Host, NameResolution, PathFact};
use crate::ids::NamespaceIds;
use crate::ids::identity::{NAME_SERVICES, account_files};
use crate::landlock::PathUse;

/// The memory that /dev/shm may hold, bytes.
const SHARED_MEMORY: u64 = 64 << 20;
/// The size that thrown-away writes to the workspace may have. Where no group counts them as memory, they
/// are bounded as such by themselves.
pub(super) fn workspace_size(limits: &JailLimits, host: &Host) -> u64 {
    if host.hierarchies.ungrouped().memory {
        limits.disk.min(limits.memory)
    } else {
        limits.disk
    }
}

/// The files in which distributions keep the authorities that programs trust: Debian's and Alpine's, Fedora's, SUSE's.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Directories of the host that can be written: each is an overlay of its own.
pub(super) const MOST_WRITABLE: usize = 16;

/// Collects steps; knows which places the root already has.
#[derive(Default)]
pub(super) struct RootfsBuilder {
    pub(super) steps: Vec<RootfsStep>,
    pub(super) grants: Vec<LandlockGrant>,
    made: BTreeSet<PathBuf>,
    /// The directories that are mounted with all they contain, and whose they are.
    pub(super) mounted: HashMap<PathBuf, MountOrigin>,
    /// The directories of the host that can still be made writable; `None` where none is.
    writable: Option<usize>,
    /// The files that the profile's own root has at the places of mounts.
    pub(super) places: BTreeMap<PathBuf, PathFact>,
}

/// The origin of a mounted directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountOrigin {
    /// The host's own path.
    Host,
    /// Another path of the host.
    Elsewhere,
    /// The profile's own root.
    Root,
    /// The workspace, at its path on the host: an overlay, in which nothing of what is mounted on the host shows.
    Workspace,
}

impl RootfsBuilder {
    /// Before anything else, a root that takes at most `most` bytes of writes, where the profile wants one.
    pub(super) fn root_mode(
        &mut self,
        filesystem: &FilesystemPolicy,
        host: &Host,
        most: u64,
    ) -> Result<(), PlanError> {
        if filesystem.root_mode == RootMode::ReadOnly {
            return Ok(());
        }
        if filesystem.root.is_some() {
            return Err(PlanError::WritableRoot);
        }
        if host.ids != NamespaceIds::All {
            return Err(PlanError::WritableNeedsRoot);
        }
        self.writable = Some(MOST_WRITABLE);
        self.steps.push(RootfsStep::WritableRoot { size: most });
        Ok(())
    }

    /// Puts what a writable root is made of before it: an overlay must not change below. Names on mounts stay behind those.
    pub(super) fn order(&mut self) {
        if self.writable.is_none() {
            return;
        }
        let mounts: Vec<PathBuf> = self
            .steps
            .iter()
            .filter(|step| step.attributes() != 0)
            .filter_map(|step| step.place().map(Path::to_owned))
            .collect();
        let is_of_the_root = |step: &RootfsStep| match step {
            RootfsStep::Directory(path)
            | RootfsStep::Unlisted(path)
            | RootfsStep::Symlink { path, .. }
            | RootfsStep::File { path, .. }
            | RootfsStep::Late(path) => {
                let mut above = path.ancestors().skip(1);
                !above.any(|above| mounts.iter().any(|mount| mount == above))
            }
            _ => false,
        };
        self.steps.sort_by_key(|step| !is_of_the_root(step));
    }

    /// The files that every jail has on its root, before anything of the host.
    pub(super) fn reserved_files(
        &mut self,
        policy: &Policy,
        reach: &NetworkReach,
        names: &NameResolution,
    ) -> Result<(), PlanError> {
        // A right on the root is one on all that lies in it, also on what is not to be listed.
        if self.writable.is_some() {
            self.grant("/", PathUse::Full, true);
        } else if policy.filesystem.read.iter().all(|named| named.list) {
            self.grant("/", PathUse::List, true);
        }
        self.directory(Path::new("/etc"));
        self.grant("/etc", PathUse::Read, true);
        let filesystem = &policy.filesystem;
        let is_given = |path: &str| {
            let mut given = filesystem.read.iter();
            let names = |named: &HostPath| named.place() == Path::new(path);
            path == NAME_SERVICES && (filesystem.root.is_some() || given.any(names))
        };
        let own = account_files(&policy.identity, &reach.hosts, names.services.as_deref());
        for (path, content) in own.into_iter().filter(|(path, _)| !is_given(path)) {
            self.file(Path::new(path), content);
        }
        for path in [PROBE, EMPTY] {
            self.file(Path::new(path), Vec::new());
        }
        let step = RootfsStep::Proc {
            path: "/proc".into(),
            shows: policy.filesystem.proc,
        };
        self.mount(step, "/proc", PathUse::Read)?;
        if policy.filesystem.proc == ProcView::Common {
            self.steps.extend(mask_steps());
        }
        Ok(())
    }

    /// The authority of the mode `sinkhole`, over each file in which programs look for authorities.
    pub(super) fn cover_authorities(&mut self) {
        self.steps.push(RootfsStep::Late(AUTHORITY.into()));
        self.grant(AUTHORITY, PathUse::Read, false);
        for path in AUTHORITIES {
            self.steps.push(RootfsStep::Cover {
                file: AUTHORITY.into(),
                path: path.into(),
            });
        }
    }

    /// The host's files for name resolution, in a jail that has its network, unless the profile gives others.
    pub(super) fn resolver(&mut self, policy: &Policy, names: &NameResolution) {
        let path = Path::new("/etc/resolv.conf");
        let filesystem = &policy.filesystem;
        let is_given = filesystem.read.iter().any(|named| named.place() == path);
        if let Some(content) = &names.resolver
            && !is_given
            && filesystem.root.is_none()
        {
            self.file(path, content.clone());
        }
    }

    pub(super) fn host_path(
        &mut self,
        host: &Host,
        named: &HostPath,
        writable: bool,
    ) -> Result<(), PlanError> {
        let path = &named.path;
        if let Some(own) = [path, named.place()]
            .into_iter()
            .find(|path| is_reserved(path))
        {
            return Err(PlanError::Reserved(own.clone()));
        }
        match host.fact(path) {
            PathFact::Missing if named.optional => Ok(()),
            PathFact::Missing => Err(given::missing(named, writable)),
            PathFact::Foreign => Err(PlanError::Foreign(path.clone())),
            PathFact::Reserved(real) => Err(PlanError::Reserved(real.clone())),
            PathFact::Special => Err(PlanError::Special(path.clone())),
            kind @ (PathFact::Directory | PathFact::File) => {
                self.bind(named, *kind == PathFact::Directory, writable)
            }
            PathFact::Symlink { text, leads_to } => {
                if named.at.is_none() {
                    self.host_symlink(path, text)?;
                }
                let Some(target) = leads_to else {
                    return match named.at {
                        Some(_) if !named.optional => Err(PlanError::Missing(path.clone())),
                        _ => Ok(()),
                    };
                };
                // Where a path leads in the end is no symlink, unless somebody made it one since.
                if matches!(host.fact(target), PathFact::Symlink { .. }) {
                    return Err(PlanError::Changed(path.clone()));
                }
                let target = HostPath {
                    path: target.clone(),
                    ..named.clone()
                };
                self.host_path(host, &target, writable)
            }
        }
    }

    fn bind(&mut self, named: &HostPath, directory: bool, writable: bool) -> Result<(), PlanError> {
        let path = named.place();
        let place = match (writable, named.list) {
            (true, _) => PathUse::Full,
            (false, true) => PathUse::ReadExecute,
            (false, false) => PathUse::ByName,
        };
        // What a directory that is already there contains is there with it.
        let is_elsewhere = *path != named.path;
        if !writable && !is_elsewhere && self.covering(path) == Some(MountOrigin::Host) {
            if !self.is_granted(path, place) {
                self.grant(path, place, directory);
            }
            return Ok(());
        }
        let around = self.covering(path);
        if is_elsewhere && matches!(around, Some(MountOrigin::Host | MountOrigin::Workspace)) {
            return Err(self.covered(path));
        }
        self.place(path, directory)?;
        let origin = match is_elsewhere {
            true => MountOrigin::Elsewhere,
            false => MountOrigin::Host,
        };
        self.mounted.insert(path.clone(), origin);
        self.grant(path, place, directory);
        let (source, path) = (named.path.clone(), path.clone());
        let is_setting = !directory && !is_elsewhere && path.parent() == Some(Path::new("/etc"));
        if self.writable.is_some() && is_setting && !writable {
            self.steps.push(RootfsStep::Setting { source, path });
            return Ok(());
        }
        if let Some(left) = &mut self.writable
            && directory
            && !writable
        {
            *left = left.checked_sub(1).ok_or(PlanError::TooManyWritable)?;
            self.steps
                .push(RootfsStep::WritableDirectory { source, path });
            return Ok(());
        }
        self.steps.push(RootfsStep::Bind {
            source,
            path,
            directory,
            writable,
            owned: writable,
        });
        Ok(())
    }

    /// A place to mount on, unless a mounted directory has it already. The host's has: it is the
    /// host's path. The profile's own root may have anything there.
    fn place(&mut self, path: &Path, directory: bool) -> Result<(), PlanError> {
        match self.covering(path) {
            Some(MountOrigin::Host | MountOrigin::Workspace) => return Ok(()),
            Some(MountOrigin::Root) => return self.require_place(path, directory),
            Some(MountOrigin::Elsewhere) => return Err(self.covered(path)),
            None => {}
        }
        if directory {
            self.directory(path);
        } else {
            self.file(path, Vec::new());
        }
        Ok(())
    }

    /// A path inside a directory of the host, which has no place for it.
    fn covered(&self, path: &Path) -> PlanError {
        let above = path
            .ancestors()
            .find(|above| self.mounted.contains_key(*above));
        PlanError::Covered {
            path: path.to_owned(),
            above: above.unwrap_or(path).to_owned(),
        }
    }

    fn require_place(&self, path: &Path, directory: bool) -> Result<(), PlanError> {
        let (wanted, kind) = if directory {
            (PathFact::Directory, "directory")
        } else {
            (PathFact::File, "file")
        };
        if self.places.get(path) == Some(&wanted) {
            return Ok(());
        }
        let path = path.to_owned();
        Err(PlanError::NoPlace { path, kind })
    }

    pub(super) fn directory(&mut self, path: &Path) {
        let mut missing: Vec<_> = path
            .ancestors()
            .take_while(|path| path.parent().is_some())
            .collect();
        missing.reverse();
        for path in missing {
            if self.made.insert(path.to_owned()) {
                self.steps.push(RootfsStep::Directory(path.to_owned()));
            }
        }
    }

    /// A directory in which names are found and none is listed.
    pub(super) fn unlisted(&mut self, path: &Path) {
        if self.made.insert(path.to_owned()) {
            self.steps.push(RootfsStep::Unlisted(path.to_owned()));
        }
    }

    pub(super) fn file(&mut self, path: &Path, content: Vec<u8>) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        if self.made.insert(path.to_owned()) {
            self.steps.push(RootfsStep::File {
                path: path.to_owned(),
                content,
            });
        }
    }

    pub(super) fn decoy(&mut self, path: &Path, content: Vec<u8>) -> Result<(), PlanError> {
        if self.covering(path).is_some() {
            return Err(PlanError::CoveredDecoy(path.to_owned()));
        }
        self.file(path, content);
        self.grant(path, PathUse::Read, false);
        Ok(())
    }

    pub(super) fn decoy_in_workspace(&mut self, path: &Path, workspace: &Path, content: Vec<u8>) {
        let below = path.strip_prefix(WORKSPACE).unwrap_or(path);
        self.steps.push(RootfsStep::Decoy {
            workspace: workspace.to_owned(),
            path: workspace.join(below),
            content,
        });
    }

    /// Leads from another path of the workspace to it, unless the jail has something else there.
    pub(super) fn own_path(&mut self, path: &Path, workspace: &Path) {
        let is_taken = self.made.contains(path) || self.covering(path).is_some();
        if !is_taken && !is_reserved(path) {
            self.symlink(path, workspace);
        }
    }

    /// The workspace at its path on the host, and `/workspace` leads there.
    pub(super) fn workdir_at_host(
        &mut self,
        mode: WorkdirMode,
        source: &Path,
        most: u64,
    ) -> Result<(), PlanError> {
        let is_covered = matches!(
            self.covering(source),
            Some(MountOrigin::Elsewhere | MountOrigin::Root)
        );
        if mode == WorkdirMode::None || is_covered || is_reserved(source) && !is_no_workdir(source)
        {
            return Err(PlanError::HostPlace(source.to_owned()));
        }
        self.workdir(mode, source, source, most)?;
        self.mounted
            .insert(source.to_owned(), MountOrigin::Workspace);
        self.symlink(Path::new(WORKSPACE), source);
        Ok(())
    }

    /// The origin of the innermost mounted directory that `path` lies in, if any.
    fn covering(&self, path: &Path) -> Option<MountOrigin> {
        let mut outwards = path.ancestors();
        outwards.find_map(|above| self.mounted.get(above)).copied()
    }

    /// True when a directory that `path` lies in may be used for as much: what is given whole is given with
    /// all that is in it.
    fn is_granted(&self, path: &Path, place: PathUse) -> bool {
        let as_much = |grant: &LandlockGrant| match grant.place {
            PathUse::ReadExecute | PathUse::Full => true,
            PathUse::ByName => place == PathUse::ByName,
            PathUse::List | PathUse::Read | PathUse::Device => false,
        };
        let mut above = self.grants.iter();
        above.any(|grant| path.starts_with(&grant.path) && as_much(grant))
    }

    /// Refuses a path that is not to be listed within one that is.
    pub(super) fn check_lists(&self) -> Result<(), PlanError> {
        let by_name = self
            .grants
            .iter()
            .filter(|one| one.place == PathUse::ByName);
        for LandlockGrant { path, .. } in by_name {
            let mut lists = self
                .grants
                .iter()
                .filter(|one| one.place != PathUse::ByName);
            if let Some(above) = lists.find(|one| path.starts_with(&one.path)) {
                let (path, above) = (path.clone(), above.path.clone());
                return Err(PlanError::Listed { path, above });
            }
        }
        Ok(())
    }

    /// A symlink of the host, which a mounted directory of the host has anyway.
    fn host_symlink(&mut self, path: &Path, text: &Path) -> Result<(), PlanError> {
        match self.covering(path) {
            Some(MountOrigin::Host | MountOrigin::Workspace) => {}
            Some(MountOrigin::Elsewhere) => return Err(self.covered(path)),
            Some(MountOrigin::Root) => {
                let (path, kind) = (path.to_owned(), "symlink");
                return Err(PlanError::NoPlace { path, kind });
            }
            None => self.symlink(path, text),
        }
        Ok(())
    }

    pub(super) fn symlink(&mut self, path: &Path, text: &Path) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        if self.made.insert(path.to_owned()) {
            self.steps.push(RootfsStep::Symlink {
                path: path.to_owned(),
                text: text.to_owned(),
            });
        }
    }

    pub(super) fn tmpfs(&mut self, path: &Path, size: u64) -> Result<(), PlanError> {
        let step = RootfsStep::Tmpfs {
            path: path.to_owned(),
            size,
        };
        self.mount(step, path, PathUse::Full)
    }

    fn mount(
        &mut self,
        step: RootfsStep,
        path: impl AsRef<Path>,
        place: PathUse,
    ) -> Result<(), PlanError> {
        let path = path.as_ref();
        self.place(path, true)?;
        self.steps.push(step);
        self.grant(path, place, true);
        Ok(())
    }

    pub(super) fn grant(&mut self, path: impl AsRef<Path>, place: PathUse, directory: bool) {
        self.grants.push(LandlockGrant {
            path: path.as_ref().to_owned(),
            place,
            directory,
        });
    }

    /// null(4), random(4), pts(4), and the links that programs expect.
    pub(super) fn devices(&mut self) -> Result<(), PlanError> {
        self.directory(Path::new("/dev"));
        self.grant("/dev", PathUse::Device, true);
        let devices = [
            ("null", (1, 3)),
            ("zero", (1, 5)),
            ("full", (1, 7)),
            ("random", (1, 8)),
            ("urandom", (1, 9)),
            // What it opens is the terminal of who opens it: nothing, where the jail has none.
            ("tty", (5, 0)),
        ];
        for (name, number) in devices {
            let path = Path::new("/dev").join(name);
            self.place(&path, false)?;
            self.steps.push(RootfsStep::Device { path, number });
        }
        let links = [
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
            ("/dev/ptmx", "pts/ptmx"),
        ];
        for (path, text) in links {
            self.symlink(Path::new(path), Path::new(text));
        }
        self.mount(
            RootfsStep::Terminals("/dev/pts".into()),
            "/dev/pts",
            PathUse::Device,
        )?;
        self.tmpfs(Path::new("/dev/shm"), SHARED_MEMORY)
    }

    /// `most` are the bytes of writes; [`workspace_size`] says how many.
    pub(super) fn workdir(
        &mut self,
        workdir: WorkdirMode,
        source: &Path,
        path: &Path,
        most: u64,
    ) -> Result<(), PlanError> {
        let path = path.to_owned();
        if workdir != WorkdirMode::None && is_no_workdir(source) {
            return Err(PlanError::SystemWorkdir(source.to_owned()));
        }
        let source = source.to_owned();
        match workdir {
            WorkdirMode::Overlay => {
                let step = RootfsStep::Overlay {
                    source,
                    path: path.clone(),
                    size: most,
                };
                self.mount(step, path, PathUse::Full)
            }
            WorkdirMode::ReadOnly => {
                let (directory, writable, owned) = (true, false, true);
                let step = RootfsStep::Bind {
                    source,
                    path: path.clone(),
                    directory,
                    writable,
                    owned,
                };
                self.mount(step, path, PathUse::ReadExecute)
            }
            WorkdirMode::None => self.tmpfs(&path, most),
        }
    }
}

/// One step for each part of /proc that is covered.
fn mask_steps() -> impl Iterator<Item = RootfsStep> {
    let of = |masks: &'static [(&str, &str)], directory| {
        masks.iter().map(move |(path, _)| RootfsStep::Mask {
            path: Path::new(path).to_owned(),
            directory,
        })
    };
    of(masks::FILES, false).chain(of(masks::DIRECTORIES, true))
}
