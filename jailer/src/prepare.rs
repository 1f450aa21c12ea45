//! The making of all parts of a jail that need no process: groups, keeper, detached mounts,
//! filters, strings.
//!
//! Runs as: the supervisor, outside the jail, with its full privileges.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::stat::Mode;
use turnkey_policy::{Layer, NetworkMode, RootMode, SyscallPolicy};

use crate::c_string::c_string;
use crate::error::JailError;
use crate::filter::{self, FilterError, SeccompFilters};
use crate::groups::hierarchy::{Controller, ControllerHome};
use crate::groups::limits::GroupLimit;
use crate::groups::sweep::PREFIX;
use crate::groups::{GroupNames, JailCgroups};
use crate::ids::NamespaceIds;
use crate::ids::container;
use crate::ids::idmap::HostId;
use crate::ids::userns::NamespaceSwitches;
use crate::kernel_file;
use crate::landlock::{self, HandledAccess};
use crate::plan::io::DiskLimits;
use crate::plan::network;
use crate::plan::{Plan, RootfsStep};
use crate::process::child::{ChildSpec, PreparedRule};
use crate::process::keeper::Keeper;
use crate::process::namespaces::{self, NamespaceTiming};
use crate::process::netlink::NetlinkRequest;
use crate::process::privileges;
use crate::process::program::ExecSpec;
use crate::process::proof::RouteProbes;
use crate::process::proof::{self, ProofExpectation};
use crate::process::rlimits;
use crate::process::second_clock::SecondClock;
use crate::process::start_memory::StartMemory;
use crate::process::terminal::StandardStreams;
use crate::process::wire::ChildFact;
use crate::rootfs::{self, OverlaySides, WritableTree, WrittenPlace};
use crate::shifted_clock::ShiftedClock;
use crate::sys;
use crate::tally::sample;
use crate::tally::{KeptGroups, UsageTally};
use turnkey_facts::LayerReport;

/// The layers that a control group holds.
const GROUP_LAYERS: [(Layer, Controller); 4] = [
    (Layer::Memory, Controller::Memory),
    (Layer::Pids, Controller::Pids),
    (Layer::Cpu, Controller::Cpu),
    (Layer::Io, Controller::Io),
];
const NO_LANDLOCK: &str = "this kernel has no Landlock, or it is not in `lsm=`";

fn not_delegated() -> String {
    let fix = container::how_to_have_groups();
    format!("no control group is delegated to this caller; {fix}")
}

/// A jail that is ready, before there is a process.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) orders: ChildSpec,
    // The pointers of `orders.exec` lead into these.
    pub(crate) _strings: Vec<std::ffi::CString>,
    pub(crate) tally: UsageTally,
    pub(crate) id: HostId,
    pub(crate) namespaces: i32,
    pub(crate) overlay: Option<OverlaySides>,
    /// Takes the content of the file that is known late.
    pub(crate) late: Option<OwnedFd>,
    pub(crate) places: Vec<WrittenPlace>,
    pub(crate) reports: Vec<LayerReport>,
    pub(crate) group_limits: Vec<GroupLimit>,
    pub(crate) expectation: ProofExpectation,
    pub(crate) program: String,
    pub(crate) candidates: Vec<PathBuf>,
    pub(crate) shifted: Option<ShiftedClock>,
    /// True when somebody outside has sockets of its own in the jail's network.
    pub(crate) is_entered: bool,
}

impl Plan {
    /// Makes everything ready. `streams` become the program's standard input, output and error: three descriptors, or
    /// a terminal of the jail's own.
    ///
    /// # Errors
    /// Any layer the policy requires and this host cannot give, and whatever the kernel refuses.
    pub fn prepare(&self, streams: impl Into<StandardStreams>) -> Result<Prepared, JailError> {
        self.prepare_with(streams.into(), SeccompFilters::build, |_| ())
    }

    /// The same with filters that `filters` has of its own: what [`SeccompFilters::build`] made of the same
    /// [`SyscallPolicy`] before. As soon as the jail's groups are there, still empty, `shown` sees them: whoever is to
    /// watch them can try that it does while the rest is made ready. `None` where this caller can have no group.
    ///
    /// # Errors
    /// Those of [`Plan::prepare`], and of `filters`.
    pub fn prepare_with(
        &self,
        streams: StandardStreams,
        filters: impl FnOnce(&SyscallPolicy) -> Result<SeccompFilters, FilterError>,
        shown: impl FnOnce(Option<&JailCgroups>),
    ) -> Result<Prepared, JailError> {
        let missing = privileges::missing();
        if !missing.is_empty() {
            return Err(JailError::Privileges(missing));
        }
        // A dozen files tell of what hardly any host has switched off. They are asked when something has failed.
        self.make_ready(streams, filters, shown).map_err(|error| {
            match NamespaceSwitches::read().certain() {
                Some(refusal) => JailError::Namespaces {
                    refusal,
                    source: None,
                },
                None => error,
            }
        })
    }

    fn make_ready(
        &self,
        streams: StandardStreams,
        filters: impl FnOnce(&SyscallPolicy) -> Result<SeccompFilters, FilterError>,
        shown: impl FnOnce(Option<&JailCgroups>),
    ) -> Result<Prepared, JailError> {
        if let Some((layer, reason)) = self.missing().into_iter().next() {
            return Err(JailError::Layer { layer, reason });
        }
        let tally = UsageTally::new(
            self.grouped()?,
            self.host.hierarchies.ungrouped(),
            &self.policy.limits,
        );
        shown(tally.groups());
        let mut reports = self.group_reports(&tally)?;
        let landlock = self.landlock(&mut reports)?;
        let id = self.user(&tally)?;
        let whose = (id, self.served);
        let tree = rootfs::open(&self.rootfs, &self.grants, whose, self.layer.as_deref())?;
        let filters = filters(&self.policy.syscalls)?;
        let (exec, strings) = self.exec(matches!(streams, StandardStreams::Terminal));
        let expectation = ProofExpectation {
            own_namespaces: own_namespaces()?,
            landlock: self.landlock.map(|handled| {
                let rules = self.landlock_rules().count();
                format!("{}; {rules} rules", landlock::describe(handled))
            }),
            shares_network: self.policy.network.mode == NetworkMode::Host,
            handled: self.landlock,
            syscalls: filters.allowed,
            filters_around: filters_around().saturating_add(u32::from(self.clock.is_some())),
            masks: self.masks().map(Path::to_owned).collect(),
            route_probes: self.route_probes(),
            listeners: self.reach.listeners.len(),
            user: id.in_words(),
            inside_id: self.policy.identity.id(),
            is_writable: tree.tree.is_some(),
            kept_supplementary_gids: self.bound_groups().len(),
            rlimits: self
                .rlimits
                .iter()
                .map(|limit| (limit.name, limit.value))
                .collect(),
        };
        let doors = tally
            .groups()
            .map(JailCgroups::legacy_task_files)
            .transpose()?;
        let doors = doors.unwrap_or_default();
        let orders = ChildSpec {
            start_memory: own_start_memory()?,
            hostname: c_string(self.policy.identity.hostname.as_ref()),
            loopback: self.has_loopback(),
            routes: self
                .reach
                .routes
                .iter()
                .map(|route| NetlinkRequest::route(*route))
                .collect(),
            listeners: self.reach.listeners.clone(),
            route_probes: self.route_probes(),
            ceilings: self.host.ceilings.clone(),
            inside_id: self.policy.identity.id(),
            drops_supplementary_gids: self.host.ids.can_drop_supplementary_gids(),
            root_options: root_options(),
            rootfs: tree.steps,
            uncovered: uncovered(tree.tree.as_ref())?,
            tree: tree.tree,
            rules: self.landlock_rules().map(rule).collect(),
            input_access: streams.input_access(self.landlock),
            landlock,
            umask: self.served.map(|user| Mode::from_bits_truncate(user.umask)),
            rlimits: self.rlimits.clone(),
            unshare: namespaces::flags(&self.namespaces, NamespaceTiming::OnceInItsGroups),
            last_capability: self.host.last_capability,
            filters,
            clock_filter: self.clock.map(|_| filter::clock::program()).transpose()?,
            streams,
            clock: second_clock(self.policy.limits.wall)?,
            cgroup_tasks: doors,
            exec,
        };
        Ok(Prepared {
            orders,
            _strings: strings,
            tally,
            id,
            namespaces: namespaces::flags(&self.namespaces, NamespaceTiming::AtBirth),
            overlay: tree.overlay,
            late: tree.late,
            places: tree.places,
            reports,
            group_limits: self.group_limits.clone(),
            expectation,
            program: self.arguments[0].to_string_lossy().into_owned(),
            candidates: self.candidates.clone(),
            shifted: self.clock,
            is_entered: self.policy.network.mode == NetworkMode::Sinkhole
                || !self.policy.network.publish.is_empty(),
        })
    }

    /// By which addresses the routes are proved.
    fn route_probes(&self) -> RouteProbes {
        let open = self.reach.routes.iter().find(|route| route.open);
        RouteProbes {
            denied_probe: self.reach.denied_probe,
            allowed_probe: open.map(|route| network::within(route.net)),
        }
    }

    /// The jail's groups with their limits, where this caller can have any. The keeper is there
    /// before they are.
    fn grouped(&self) -> Result<Option<KeptGroups>, JailError> {
        if self.host.hierarchies.closed {
            return Ok(None);
        }
        let names = GroupNames::new(&self.host.hierarchies, &unique_name());
        let outlived = self.outlived.as_deref().map(AsFd::as_fd);
        let keeper = Keeper::start(&names, outlived).map_err(JailError::Keeper)?;
        let groups = JailCgroups::create(names)?;
        groups.limit(&self.group_limits)?;
        Ok(Some(KeptGroups::new(groups, keeper)))
    }

    /// The layers that the policy requires and this caller cannot have on this host, with the
    /// reason and the fix, as far as that shows before anything is made.
    pub fn missing(&self) -> Vec<(Layer, String)> {
        let mut missing = Vec::new();
        for (layer, controller) in self.group_layers() {
            if *self.host.hierarchies.home(controller) == ControllerHome::Missing {
                missing.push((layer, self.no_controller(controller)));
            }
        }
        if let Some(reason) = self.io.as_ref().and_then(DiskLimits::unreached) {
            missing.push((Layer::Io, reason));
        }
        if self.host.landlock_abi == 0 {
            missing.push((Layer::Landlock, NO_LANDLOCK.to_owned()));
        }
        let bound = self.bound_groups().len();
        if bound > 0 {
            missing.push((Layer::Capabilities, proof::kept_supplementary_gids(bound)));
        }
        missing.retain(|(layer, _)| self.policy.enforcement.required.contains(layer));
        missing
    }

    /// The layers that a control group holds in this run.
    fn group_layers(&self) -> impl Iterator<Item = (Layer, Controller)> {
        let io = self.io.is_some();
        let layers = GROUP_LAYERS.into_iter();
        layers.filter(move |(layer, _)| io || *layer != Layer::Io)
    }

    fn no_controller(&self, controller: Controller) -> String {
        let name = controller.name();
        // The layer names the controller, and those with the same reason are told in one line.
        let lacks = self.host.hierarchies.lacks.clone();
        match self.host.ids {
            NamespaceIds::All if self.host.hierarchies.closed || lacks.is_some() => {
                lacks.unwrap_or_else(not_delegated)
            }
            NamespaceIds::All if controller == Controller::Io => {
                "the controller `io` (`blkio` on v1) is in no hierarchy of this host; boot a kernel built with CONFIG_BLK_DEV_THROTTLING=y".to_owned()
            }
            NamespaceIds::All => format!("the controller `{name}` is in no hierarchy of this host"),
            NamespaceIds::Own(_) if self.host.hierarchies.closed => not_delegated(),
            NamespaceIds::Own(_) => format!(
                "the control group delegated to this caller has no use of the controller `{name}`: it lacks it, or cannot pass it on because processes are in the group itself; \
                 run turnkey as root, or in a child of the delegated group"
            ),
        }
    }

    fn bound_groups(&self) -> &[u32] {
        match &self.host.ids {
            NamespaceIds::All => &[],
            NamespaceIds::Own(own) => &own.kept_supplementary_gids,
        }
    }

    /// The jail's user outside. In a caller's own namespace it is the caller when files of
    /// the caller's must belong to it, because they cannot be translated there.
    fn user(&self, tally: &UsageTally) -> Result<HostId, JailError> {
        let own = match (&self.host.ids, tally.groups()) {
            (NamespaceIds::Own(own), _) => own,
            (NamespaceIds::All, Some(groups)) => return Ok(HostId::for_group(groups.id())),
            (NamespaceIds::All, None) => return Self::nobody(),
        };
        match own.spare.filter(|_| !self.gives_files()) {
            Some(spare) => {
                let number = std::process::id().wrapping_add(next_number());
                Ok(HostId::of_spare(spare.pick(number)))
            }
            None if own.root_outside => Err(JailError::RootOutside),
            None => Ok(HostId::of_caller(own)),
        }
    }

    /// A user that no other jail has, where no group gives a number.
    fn nobody() -> Result<HostId, JailError> {
        let failed = |source| JailError::System {
            act: "make a pipe, whose number becomes that of the jail's user",
            source,
        };
        let (pipe, _) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(failed)?;
        let pipe = nix::sys::stat::fstat(&pipe).map_err(failed)?;
        Ok(HostId::without_group(pipe.st_ino))
    }

    /// True when files of the host belong to the jail's user inside.
    fn gives_files(&self) -> bool {
        let gives = |step: &RootfsStep| {
            matches!(
                step,
                RootfsStep::Overlay { .. } | RootfsStep::Bind { owned: true, .. }
            )
        };
        self.rootfs.iter().any(gives)
    }

    /// The report of the groups, per layer, or the reason why the run cannot be.
    fn group_reports(&self, tally: &UsageTally) -> Result<Vec<LayerReport>, JailError> {
        let mut reports = Vec::new();
        for (layer, controller) in self.group_layers() {
            let requested = self.requested(controller);
            let groups = tally.groups();
            let Some(groups) = groups.filter(|groups| !groups.missing().contains(&controller))
            else {
                let reason = self.no_controller(controller);
                let report = self.without(layer, &requested, reason)?;
                let effective = self.instead(controller);
                reports.push(LayerReport {
                    effective,
                    ..report
                });
                continue;
            };
            if layer == Layer::Memory && !groups.swap_is_bounded() {
                let reason = "this kernel does not account swap: boot with `swapaccount=1`, or turn swap off";
                reports.push(self.without(layer, &requested, reason.to_owned())?);
                continue;
            }
            let read_back = groups.limits_in_force(&self.group_limits, controller);
            let proof: Vec<String> = read_back
                .iter()
                .map(|(file, value)| format!("{file} is {value}"))
                .collect();
            let io = self.io.as_ref().filter(|_| layer == Layer::Io);
            reports.push(LayerReport {
                layer,
                effective: io.map_or(requested.clone(), DiskLimits::effective),
                requested,
                proof: (!proof.is_empty()).then(|| proof.join("; ")),
                degraded: io
                    .and_then(DiskLimits::degraded)
                    .or_else(|| self.uncounted_sockets(layer, groups)),
            });
        }
        Ok(reports)
    }

    /// The memory that the limit does not hold on this host.
    fn uncounted_sockets(&self, layer: Layer, groups: &JailCgroups) -> Option<String> {
        let fills_sockets = layer == Layer::Memory && self.policy.network.mode != NetworkMode::None;
        (fills_sockets && !groups.sockets_are_counted()).then(|| {
            "what sockets hold is not counted: this kernel's cgroup v1 has no memory.kmem.tcp.limit_in_bytes; \
             boot with cgroup v2 alone (systemd.unified_cgroup_hierarchy=1)"
                .to_owned()
        })
    }

    fn requested(&self, controller: Controller) -> String {
        let limits = &self.policy.limits;
        match controller {
            Controller::Memory => format!("{} bytes, swap {}", limits.memory, limits.swap),
            Controller::Pids => format!("{} tasks", limits.pids),
            Controller::Cpu => format!("{} % of a CPU", limits.cpu),
            Controller::Io => self
                .io
                .as_ref()
                .map(DiskLimits::requested)
                .unwrap_or_default(),
        }
    }

    /// The fallback where no control group holds a limit.
    fn instead(&self, controller: Controller) -> String {
        let limits = &self.policy.limits;
        match controller {
            Controller::Memory => format!(
                "{}; {} bytes of data for each process",
                if sample::is_possible() {
                    "the tree is looked at and killed when over"
                } else {
                    "nothing for the tree: this kernel does not tell of children"
                },
                rlimits::data(limits)
            ),
            Controller::Pids => format!(
                "{} tasks of the jail's user namespace, setrlimit(2)",
                rlimits::tasks(limits)
            ),
            Controller::Cpu | Controller::Io => "nothing".into(),
        }
    }

    /// The report of a layer that cannot be had: an error, unless the policy does without.
    fn without(
        &self,
        layer: Layer,
        requested: &str,
        reason: String,
    ) -> Result<LayerReport, JailError> {
        if self.policy.enforcement.required.contains(&layer) {
            return Err(JailError::Layer { layer, reason });
        }
        let requested = requested.to_owned();
        Ok(LayerReport {
            layer,
            requested,
            effective: "nothing".into(),
            proof: None,
            degraded: Some(reason),
        })
    }

    fn landlock(
        &self,
        reports: &mut Vec<LayerReport>,
    ) -> Result<Option<(OwnedFd, HandledAccess)>, JailError> {
        if let Some(handled) = self.landlock {
            return Ok(Some((landlock::ruleset(handled)?, handled)));
        }
        let reason = NO_LANDLOCK.to_owned();
        reports.push(self.without(Layer::Landlock, "file system", reason)?);
        Ok(None)
    }

    fn exec(&self, has_terminal: bool) -> (ExecSpec, Vec<std::ffi::CString>) {
        let arguments: Vec<_> = self
            .arguments
            .iter()
            .map(|argument| c_string(argument))
            .collect();
        let environment: Vec<_> = self
            .environment
            .iter()
            .map(|variable| c_string(variable))
            .collect();
        let pointers = |strings: &[std::ffi::CString]| {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        let exec = ExecSpec {
            candidates: self
                .candidates
                .iter()
                .map(|path| c_string(path.as_os_str()))
                .collect(),
            arguments: pointers(&arguments),
            environment: pointers(&environment),
            directory: c_string(self.directory.as_os_str()),
            masks: self
                .masks()
                .map(|path| c_string(path.as_os_str()))
                .collect(),
            has_terminal,
            is_followed: self.clock.is_some(),
            has_writable_root: self.policy.filesystem.root_mode == RootMode::Overlay,
        };
        (exec, arguments.into_iter().chain(environment).collect())
    }
}

fn rule(planned: landlock::LandlockRule) -> PreparedRule {
    PreparedRule {
        path: c_string(planned.path.as_os_str()),
        access: planned.access,
    }
}

/// Counts what this process makes.
fn next_number() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// A name that no living group of this host has: the process, and a count within it, and the time
/// for other pid namespaces.
fn unique_name() -> String {
    let count = next_number();
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |elapsed| elapsed.subsec_nanos());
    let process = std::process::id();
    format!("{PREFIX}{process}-{count}-{nanoseconds:08x}")
}

/// Small: it holds empty directories, symlinks and a few short files.
fn root_options() -> Vec<(std::ffi::CString, std::ffi::CString)> {
    let options = [(c"size", c"1M"), (c"mode", c"0755")];
    options
        .iter()
        .map(|(name, value)| (name.to_owned().into(), value.to_owned().into()))
        .collect()
}

/// A root that can be written is granted whole, and so is all that is below it. The file that proves Landlock is elsewhere then.
fn uncovered(tree: Option<&WritableTree>) -> Result<Option<OwnedFd>, JailError> {
    let made = tree.map(|_| {
        let apart = rootfs::memory(1 << 20)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let probe = sys::open_beneath(apart.as_fd(), c".turnkey-probe", flags, 0o444)?;
        // The caller's umask may withhold that.
        nix::sys::stat::fchmod(&probe, Mode::from_bits_truncate(0o444))?;
        Ok(apart)
    });
    made.transpose().map_err(|source| JailError::System {
        act: "make the file by which Landlock is proved",
        source,
    })
}

fn second_clock(wall: Duration) -> Result<SecondClock, JailError> {
    SecondClock::new(wall).map_err(|source| JailError::System {
        act: "make the clock of the jail's first process",
        source,
    })
}

fn own_start_memory() -> Result<StartMemory, JailError> {
    let stat = kernel_file::read("/proc/self/stat").unwrap_or_default();
    let act = "find this process's own arguments in /proc/self/stat";
    StartMemory::parse(&stat).ok_or(JailError::System {
        act,
        source: Errno::ENOTSUP,
    })
}

/// Of this thread, from which the jail's first process inherits them.
fn filters_around() -> u32 {
    let status = kernel_file::read("/proc/thread-self/status").unwrap_or_default();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

fn own_namespaces() -> Result<BTreeMap<ChildFact, u64>, JailError> {
    let inode =
        |(fact, path): (ChildFact, &std::ffi::CStr)| Ok((fact, nix::sys::stat::stat(path)?.st_ino));
    let seen: Result<_, Errno> = ChildFact::NAMESPACES.into_iter().map(inode).collect();
    seen.map_err(|source| JailError::System {
        act: "look at the namespaces in /proc/self/ns",
        source,
    })
}
