//! Everything of a jail that can be made without a process: groups, keeper, detached mounts,
//! filters, strings.
//!
//! Runs as: the supervisor, outside the jail, with its full privileges.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use turnkey_policy::Layer;

use crate::child::{Orders, Rule};
use crate::error::JailError;
use crate::filter::Filters;
use crate::groups::{GroupNames, Groups};
use crate::hierarchy::Controller;
use crate::identity::INSIDE_ID;
use crate::idmap::HostId;
use crate::keeper::Keeper;
use crate::landlock;
use crate::namespaces::{self, Made};
use crate::outcome::LayerReport;
use crate::plan::{Plan, c_string};
use crate::privileges;
use crate::program::Exec;
use crate::proof::Expectation;
use crate::start_memory::StartMemory;
use crate::tree::{self, OverlaySides};
use crate::userns::Switches;
use crate::wire::Fact;

/// Everything that can be made ready before there is a process.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) orders: Orders,
    // The pointers of `orders.exec` lead into these.
    pub(crate) _strings: Vec<std::ffi::CString>,
    pub(crate) groups: Groups,
    // After the groups: the keeper looks after them until they are gone.
    pub(crate) keeper: Keeper,
    pub(crate) id: HostId,
    pub(crate) namespaces: i32,
    pub(crate) overlay: Option<OverlaySides>,
    pub(crate) reports: Vec<LayerReport>,
    pub(crate) expectation: Expectation,
    pub(crate) program: String,
    pub(crate) candidates: Vec<PathBuf>,
}

impl Plan {
    /// Makes everything ready. `streams` become the program's standard input, output and error.
    ///
    /// # Errors
    /// Any layer the policy requires and this host cannot give, and whatever the kernel refuses.
    pub fn prepare(&self, streams: [OwnedFd; 3]) -> Result<Prepared, JailError> {
        let missing = privileges::missing();
        if !missing.is_empty() {
            return Err(JailError::Privileges(missing));
        }
        if let Some(refusal) = Switches::read().certain() {
            return Err(JailError::Namespaces {
                refusal,
                source: None,
            });
        }
        let names = GroupNames::new(&self.host.hierarchies, &unique_name());
        let keeper = Keeper::start(&names).map_err(JailError::Keeper)?;
        let groups = Groups::create(names)?;
        groups.limit(&self.group_limits)?;
        let mut reports = self.group_reports(&groups)?;
        let landlock = self.landlock(&mut reports)?;
        let id = HostId::for_group(groups.id());
        let tree = tree::open(&self.tree, id)?;
        let filters = Filters::build(&self.policy.syscalls)?;
        let (exec, strings) = self.exec();
        let expectation = Expectation {
            own_namespaces: own_namespaces()?,
            landlock: self.landlock.map(landlock::describe),
            syscalls: filters.allowed,
            masks: self.masks().map(Path::to_owned).collect(),
            rlimits: self
                .rlimits
                .iter()
                .map(|limit| (limit.name, limit.value))
                .collect(),
        };
        let orders = Orders {
            start_memory: own_start_memory()?,
            hostname: c_string(self.policy.identity.hostname.as_ref()),
            loopback: self.has_loopback(),
            inside_id: INSIDE_ID,
            root_options: root_options(),
            tree: tree.steps,
            rules: self.landlock_rules().map(rule).collect(),
            landlock,
            rlimits: self.rlimits.clone(),
            unshare: namespaces::flags(&self.namespaces, Made::OnceInItsGroups),
            last_capability: self.host.last_capability,
            filters,
            streams,
            exec,
        };
        Ok(Prepared {
            orders,
            _strings: strings,
            groups,
            keeper,
            id,
            namespaces: namespaces::flags(&self.namespaces, Made::AtBirth),
            overlay: tree.overlay,
            reports,
            expectation,
            program: self.arguments[0].to_string_lossy().into_owned(),
            candidates: self.candidates.clone(),
        })
    }

    /// What the groups hold, per layer, or why the run cannot be.
    fn group_reports(&self, groups: &Groups) -> Result<Vec<LayerReport>, JailError> {
        let limits = &self.policy.limits;
        let layers = [
            (
                Layer::Memory,
                Controller::Memory,
                format!("{} bytes, swap {}", limits.memory, limits.swap),
            ),
            (
                Layer::Pids,
                Controller::Pids,
                format!("{} tasks", limits.pids),
            ),
            (
                Layer::Cpu,
                Controller::Cpu,
                format!("{} % of a processor", limits.cpu_percent),
            ),
        ];
        let mut reports = Vec::new();
        for (layer, controller, requested) in layers {
            let name = controller.name();
            if groups.missing().contains(&controller) {
                let reason = format!("the controller `{name}` is in no hierarchy of this host");
                reports.push(self.without(layer, &requested, reason)?);
                continue;
            }
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
            let effective = requested.clone();
            let proof = Some(proof.join("; "));
            reports.push(LayerReport {
                layer,
                requested,
                effective,
                proof,
                degraded: None,
            });
        }
        Ok(reports)
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

    fn landlock(&self, reports: &mut Vec<LayerReport>) -> Result<Option<OwnedFd>, JailError> {
        if let Some(handled) = self.landlock {
            return Ok(Some(landlock::ruleset(handled)?));
        }
        let reason = "this kernel has no Landlock, or it is not in `lsm=`".to_owned();
        reports.push(self.without(Layer::Landlock, "file system", reason)?);
        Ok(None)
    }

    fn exec(&self) -> (Exec, Vec<std::ffi::CString>) {
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
        let exec = Exec {
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
        };
        (exec, arguments.into_iter().chain(environment).collect())
    }
}

fn rule(planned: landlock::Rule) -> Rule {
    Rule {
        path: c_string(planned.path.as_os_str()),
        access: planned.access,
    }
}

/// A name that no living group of this host has: the process, and a count within it, and the time
/// for other pid namespaces.
fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |elapsed| elapsed.subsec_nanos());
    format!("turnkey-{}-{count}-{nanoseconds:08x}", std::process::id())
}

/// Small: it holds empty directories, symlinks and a few short files.
fn root_options() -> Vec<(std::ffi::CString, std::ffi::CString)> {
    let options = [(c"size", c"1M"), (c"mode", c"0755")];
    options
        .iter()
        .map(|(name, value)| (name.to_owned().into(), value.to_owned().into()))
        .collect()
}

fn own_start_memory() -> Result<StartMemory, JailError> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let act = "find this process's own arguments in /proc/self/stat";
    StartMemory::parse(&stat).ok_or(JailError::System {
        act,
        source: Errno::ENOTSUP,
    })
}

fn own_namespaces() -> Result<BTreeMap<Fact, u64>, JailError> {
    let inode =
        |(fact, path): (Fact, &std::ffi::CStr)| Ok((fact, nix::sys::stat::stat(path)?.st_ino));
    let seen: Result<_, Errno> = Fact::NAMESPACES.into_iter().map(inode).collect();
    seen.map_err(|source| JailError::System {
        act: "look at the namespaces in /proc/self/ns",
        source,
    })
}
