//! Everything of a jail that can be made without a process: groups, keeper, detached mounts,
//! filters, strings.
//!
//! Runs as: the supervisor, outside the jail, with its full privileges.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::resource::Resource;
use turnkey_policy::{Layer, Limits};

use crate::child::{Orders, Rule};
use crate::error::JailError;
use crate::filter::Filters;
use crate::groups::{GroupNames, Groups};
use crate::hierarchy::Controller;
use crate::identity::INSIDE_ID;
use crate::idmap::HostId;
use crate::keeper::Keeper;
use crate::landlock;
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
        let limits = &self.policy.limits;
        groups.limit(limits)?;
        let mut reports = self.group_reports(&groups)?;
        let landlock = self.landlock(&mut reports)?;
        let id = HostId::for_group(groups.id());
        let tree = tree::open(&self.tree, id)?;
        let filters = Filters::build(&self.policy.syscalls)?;
        let (exec, strings) = self.exec();
        let expectation = Expectation {
            own_namespaces: own_namespaces()?,
            landlock: landlock
                .is_some()
                .then(|| landlock::describe(self.host.landlock_abi)),
            syscalls: filters.allowed,
            rlimits: RLIMIT_NAMES
                .into_iter()
                .zip(rlimits(limits))
                .map(|(name, (_, value))| (name, value))
                .collect(),
        };
        let orders = Orders {
            start_memory: own_start_memory()?,
            hostname: c_string(self.policy.identity.hostname.as_ref()),
            loopback: self.has_loopback(),
            inside_id: INSIDE_ID,
            root_options: root_options(),
            tree: tree.steps,
            rules: if landlock.is_some() {
                self.rules()
            } else {
                Vec::new()
            },
            landlock,
            rlimits: rlimits(limits).to_vec(),
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
            let read_back = groups.limits_in_force(limits, controller);
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
        if self.host.landlock_abi > 0 {
            return Ok(Some(landlock::ruleset(self.host.landlock_abi)?));
        }
        let reason = "this kernel has no Landlock, or it is not in `lsm=`".to_owned();
        reports.push(self.without(Layer::Landlock, "file system", reason)?);
        Ok(None)
    }

    fn rules(&self) -> Vec<Rule> {
        let rule = |grant: &crate::plan::Grant| Rule {
            path: c_string(grant.path.as_os_str()),
            access: landlock::grant(grant.place, self.host.landlock_abi, grant.directory),
        };
        self.grants.iter().map(rule).collect()
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
        };
        (exec, arguments.into_iter().chain(environment).collect())
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

const RLIMIT_NAMES: [&str; 3] = ["Max open files", "Max file size", "Max core file size"];

/// A core size of 1 byte is the kernel's sign for "not even through a pipe", do_coredump() in
/// fs/coredump.c: a limit of 0 would still start the host's crash handler.
fn rlimits(limits: &Limits) -> [(Resource, u64); 3] {
    [
        (Resource::RLIMIT_NOFILE, u64::from(limits.open_files)),
        (Resource::RLIMIT_FSIZE, limits.file_size),
        (Resource::RLIMIT_CORE, 1),
    ]
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
